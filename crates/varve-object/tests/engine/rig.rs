//! A pool that outlives its loops, and the store on it.

use std::cell::Cell;
use std::rc::Rc;

use bytes::Bytes;
use futures_util::StreamExt;
use varve_dispatch::{
    Dispatch, HostConfig, JobSender, Placement, PoolLinks, PoolRoot, ShardHost, serve_jobs,
};
use varve_engine::{OpenPool, PoolSpec, ShardConfig};
use varve_media::{
    Disk, DiskOperation, Drive, DriveDisks, DriveOptions, DriveSpec, Fault, FaultDisk, FaultPlan,
    FaultRule, IoFuture, MemDisk, Persist,
};
use varve_object::shelf::{audit_bucket, buckets_of, compare_references};
use varve_object::{Body, BucketId, EngineOptions, EngineStore, Settings};
use varve_reactor::{Reactor, SimLoop};
use varve_stdx::{AlignedBuf, BufSlice};
use varve_types::{PoolId, ShardId, StreamId};

const SHARDS: u16 = 2;
const POOL: PoolId = PoolId([7; 16]);
const SEGMENT_BYTES: u32 = 256 << 10;
const SEGMENTS: u64 = 600;
const META_BYTES: u64 = 8 << 20;

/// Where the roots begin, behind the superblocks, and what each of their sides takes.
const ROOTS: u64 = 4 << 20;
const ROOT_SLOT_BYTES: u64 = (256 << 10) + 4096;

/// A byte of each side, an empty one too, that its checksum covers.
const ROOT_COVERED_BYTE: u64 = 44;

/// What outlives a crash.
#[derive(Clone)]
struct Disks {
    meta: MemDisk,
    lanes: Vec<Lane>,
    slots: MemDisk,
}

/// The disk of a lane, on which writes may stall: they do not end, and a crash undoes them.
#[derive(Clone)]
struct Lane {
    disk: MemDisk,
    is_stalled: Rc<Cell<bool>>,
}

impl Disk for Lane {
    fn path(&self) -> &str {
        self.disk.path()
    }

    fn size(&self) -> u64 {
        self.disk.size()
    }

    fn read(&self, offset: u64, len: usize) -> IoFuture<'_, AlignedBuf> {
        self.disk.read(offset, len)
    }

    fn write(&self, offset: u64, bytes: BufSlice, persist: Persist) -> IoFuture<'_, ()> {
        if self.is_stalled.get() {
            return Box::pin(std::future::pending());
        }
        self.disk.write(offset, bytes, persist)
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        if self.is_stalled.get() {
            return Box::pin(std::future::pending());
        }
        self.disk.flush()
    }

    fn discard(&self, offset: u64, len: u64) -> IoFuture<'_, ()> {
        self.disk.discard(offset, len)
    }
}

/// A pool.
pub(crate) struct Rig {
    disks: Disks,
    lives: u64,
}

/// One life of it.
pub(crate) struct Life {
    pub(crate) reactor: Reactor,
    pub(crate) store: EngineStore,
    dispatch: Dispatch,
    lanes: Vec<Lane>,
}

fn open_disks(disks: &Disks) -> Vec<DriveDisks> {
    disks_with(disks, Rc::new(disks.slots.clone()))
}

fn disks_with(disks: &Disks, slots: Rc<dyn Disk>) -> Vec<DriveDisks> {
    let lanes = disks.lanes.iter().map(|lane| Rc::new(lane.clone()) as Rc<dyn Disk>).collect();
    let meta = Rc::new(disks.meta.clone());
    vec![DriveDisks::Directory { meta, lanes, slots }]
}

/// The segments as a shard sees them that can be made to fail.
struct Failing {
    shard: ShardId,
    plan: Rc<FaultPlan>,
}

impl Rig {
    pub(crate) fn new(lane_bytes: u64) -> Self {
        let lane = |_| {
            let disk = MemDisk::new("lane", lane_bytes);
            Lane { disk, is_stalled: Rc::default() }
        };
        let disks = Disks {
            meta: MemDisk::new("meta", META_BYTES),
            lanes: (0..SHARDS).map(lane).collect(),
            slots: MemDisk::new("slots", SEGMENTS * u64::from(SEGMENT_BYTES)),
        };
        let mut rig = Self { disks: disks.clone(), lives: 0 };
        rig.run(async move |_| {
            let spec = DriveSpec {
                segment_bytes: SEGMENT_BYTES,
                lane_bytes,
                ..DriveSpec::new(POOL, SHARDS)
            };
            let formatted = Drive::format(&open_disks(&disks), &spec).await;
            formatted.expect("works");
            let options = DriveOptions { discard: false };
            let drive = Drive::open(open_disks(&disks), options).await.expect("works");
            let media: Vec<_> =
                (0..SHARDS).map(|shard| drive.media(ShardId(shard)).expect("works")).collect();
            let spec =
                PoolSpec { pool: POOL, created_unix_ms: 0, shard_count: SHARDS, zones: None };
            OpenPool::format(&media, &spec).await.expect("works");
        });
        rig
    }

    fn run<T: 'static>(&mut self, work: impl AsyncFnOnce(Reactor) -> T + 'static) -> T {
        self.lives += 1;
        let mut sim = SimLoop::new(self.lives);
        let reactor = sim.handle();
        let done = sim.try_run_until(async move { work(reactor).await }, u64::MAX);
        done.expect("the test waits for ever")
    }

    /// Opens the pool and the store, works, and crashes.
    pub(crate) fn live<T: 'static>(&mut self, work: impl AsyncFnOnce(Life) -> T + 'static) -> T {
        let disks = self.disks.clone();
        disks.lanes.iter().for_each(|lane| lane.is_stalled.set(false));
        self.run(async move |reactor| work(open(reactor, &disks, None).await).await)
    }

    /// The same, in which a shard opens and reads of its segments fail from then on, before the store is opened.
    pub(crate) fn live_unreadable<T: 'static>(
        &mut self,
        shard: ShardId,
        work: impl AsyncFnOnce(Life) -> T + 'static,
    ) -> T {
        let disks = self.disks.clone();
        self.run(async move |reactor| {
            let failing = Failing { shard, plan: FaultPlan::new() };
            work(open(reactor, &disks, Some(failing)).await).await
        })
    }

    /// Why the store does not open.
    pub(crate) fn refusal(&mut self) -> varve_object::Error {
        let disks = self.disks.clone();
        self.run(async move |reactor| {
            let (_dispatch, links, placement) = open_shards(&reactor, &disks, None).await;
            let opened = EngineStore::open(links, placement, options()).await;
            opened.err().expect("it opens")
        })
    }

    /// Turns a bit over in both sides of a shard's root, so that it does not open; done twice it is whole again.
    pub(crate) fn flip_root(&self, shard: ShardId) {
        let roots = 1 + u64::from(SHARDS); // That of the pool comes first.
        for side in 0..2 {
            let slot = side * roots + 1 + u64::from(shard.0);
            self.disks.meta.flip_bit(ROOTS + slot * ROOT_SLOT_BYTES + ROOT_COVERED_BYTE, 3);
        }
    }
}

/// Opens the shards: the first one's dispatcher, and the ways to all.
async fn open_shards(
    reactor: &Reactor,
    disks: &Disks,
    failing: Option<&Failing>,
) -> (Dispatch, PoolLinks, Placement) {
    let drive = Drive::open(open_disks(disks), DriveOptions { discard: false }).await;
    let drive = drive.expect("works");
    let mut media: Vec<_> =
        (0..SHARDS).map(|shard| drive.media(ShardId(shard)).expect("works")).collect();
    if let Some(Failing { shard, plan }) = failing {
        let slots = FaultDisk::new(Rc::new(disks.slots.clone()), reactor, Rc::clone(plan));
        let disks = disks_with(disks, Rc::new(slots));
        let drive = Drive::open(disks, DriveOptions { discard: false }).await.expect("works");
        media[usize::from(shard.0)] = drive.media(*shard).expect("works");
    }
    let pool = OpenPool::open(&media[0]).await.expect("works");
    let placement = Placement::new(pool.placements());
    let (senders, inboxes): (Vec<_>, Vec<_>) = (0..SHARDS).map(|_| JobSender::new(reactor)).unzip();
    let links = PoolLinks { threads: senders };
    let mut first = None;
    for ((shard, media), inbox) in (0..).map(ShardId).zip(media).zip(inboxes) {
        let root = (shard == ShardId(0)).then(|| Rc::clone(&pool));
        let dispatch = Dispatch::new(reactor.clone(), placement.clone(), links.clone(), root);
        reactor.spawn(serve_jobs(dispatch.clone(), inbox));
        let config = HostConfig {
            reactor: reactor.clone(),
            media,
            shard: ShardConfig::with_memory(POOL, shard, 64 << 20),
            root: PoolRoot::Here(Rc::clone(&pool)),
        };
        let host = ShardHost::open(config, &dispatch).await.expect("works");
        dispatch.add_host(shard, host);
        first.get_or_insert(dispatch);
    }
    (first.expect("works"), links, placement)
}

fn options() -> EngineOptions {
    EngineOptions {
        reduction: Settings::reduction_in,
        bodies_bytes_max: 6 << 20,
        is_read_only: false,
    }
}

async fn open(reactor: Reactor, disks: &Disks, failing: Option<Failing>) -> Life {
    let (dispatch, links, placement) = open_shards(&reactor, disks, failing.as_ref()).await;
    if let Some(Failing { plan, .. }) = failing {
        plan.add(FaultRule::always(DiskOperation::Read, Fault::Fail));
    }
    let store = EngineStore::open(links, placement, options()).await.expect("works");
    Life { reactor, store, dispatch, lanes: disks.lanes.clone() }
}

impl Life {
    /// Blocks of a bucket's stream that hold something, once everything that is acknowledged is applied, and keys of
    /// the bucket.
    pub(crate) async fn left(&self, bucket: u64) -> (u64, usize) {
        let (mut blocks, mut keys, mut audits) = (0, 0, Vec::new());
        for shard in self.dispatch.placement().shards() {
            let look = self.dispatch.on_shard(shard, move |shard| {
                Box::pin(async move {
                    shard.apply_acknowledged().await?;
                    let audit = shard.audit().await?;
                    assert_eq!(audit.differences, Vec::<String>::new());
                    let buckets = buckets_of(&shard).await.expect("accounts");
                    let mut of_bucket = None;
                    for id in buckets {
                        let audit = audit_bucket(&shard, id).await.expect("audit of a bucket");
                        assert_eq!(audit.content.differences, Vec::<String>::new());
                        if id.0 == bucket {
                            of_bucket = Some((shard.id(), audit));
                        }
                    }
                    let mut keys = 0;
                    for letter in b"oupxr" {
                        let prefix = [&[*letter][..], &bucket.to_be_bytes()].concat();
                        keys += shard.key_scan(&prefix, None, usize::MAX).await?.len();
                    }
                    Ok((shard.count_blocks(StreamId::new(bucket)).await?, keys, of_bucket))
                })
            });
            let (some_blocks, some_keys, audit) = look.await.expect("works");
            audits.extend(audit);
            blocks += some_blocks;
            keys += some_keys;
        }
        assert_eq!(compare_references(&audits), Vec::<String>::new());
        (blocks, keys)
    }

    /// Chunks of data on all shards, once everything that is acknowledged is applied, and the bytes that they take.
    pub(crate) async fn stored(&self) -> (u64, u64) {
        for shard in self.dispatch.placement().shards() {
            let applied = self
                .dispatch
                .on_shard(shard, |shard| Box::pin(async move { shard.apply_acknowledged().await }));
            applied.await.expect("works");
        }
        let shards = self.dispatch.stats().await.expect("works");
        shards.iter().fold((0, 0), |(chunks, bytes), shard| {
            (chunks + shard.data_chunks, bytes + shard.data_bytes)
        })
    }

    /// Blocks of a bucket's stream that hold something on a shard.
    pub(crate) async fn blocks_on(&self, shard: ShardId, bucket: u64) -> u64 {
        let look = self.dispatch.on_shard(shard, move |shard| {
            Box::pin(async move {
                shard.apply_acknowledged().await?;
                shard.count_blocks(StreamId::new(bucket)).await
            })
        });
        look.await.expect("works")
    }

    /// The shard of a key.
    pub(crate) fn home(&self, bucket: BucketId, key: &str) -> ShardId {
        let name = [&bucket.0.to_be_bytes(), key.as_bytes()].concat();
        self.dispatch.placement().home_of(&name)
    }

    /// Nothing that a shard writes from now on becomes durable.
    pub(crate) fn stall(&self, shard: ShardId) {
        self.lanes[usize::from(shard.0)].is_stalled.set(true);
    }

    /// Closes the shards in good order: all that they hold is in segments, and the next opening replays nothing.
    pub(crate) async fn close(&self) {
        for shard in self.dispatch.placement().shards() {
            let close =
                self.dispatch.on_shard(shard, |shard| Box::pin(async move { shard.close().await }));
            close.await.expect("works");
        }
    }

    /// Makes records of owners of buckets on a shard unreadable.
    pub(crate) async fn spoil_owners(&self, shard: ShardId) {
        let spoil = self.dispatch.on_shard(shard, |shard| {
            Box::pin(async move {
                for (key, _) in shard.key_scan(b"b", None, usize::MAX).await? {
                    shard.key_put(&key, b"spoilt").await?;
                }
                Ok(())
            })
        });
        spoil.await.expect("works");
    }

    /// Lets sweeps come to their end.
    pub(crate) async fn rest(&self) {
        self.reactor.sleep(2_000_000_000).await;
    }
}

/// All bytes of a body.
pub(crate) async fn bytes_of(body: &dyn Body) -> varve_object::Result<Bytes> {
    let (mut pieces, mut all) = (body.read(0..body.len()), Vec::new());
    while let Some(piece) = pieces.next().await {
        all.extend_from_slice(&piece?);
    }
    Ok(all.into())
}
