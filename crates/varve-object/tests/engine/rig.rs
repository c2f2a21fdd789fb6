//! A pool that outlives its loops, and the store on it.

use std::rc::Rc;

use bytes::Bytes;
use futures_util::StreamExt;
use varve_dispatch::{
    Dispatch, HostConfig, JobSender, Placement, PoolLinks, PoolRoot, ShardHost, serve_jobs,
};
use varve_engine::{Pool, PoolSpec, ShardConfig};
use varve_media::{Disk, Drive, DriveDisks, DriveOptions, DriveSpec, MemDisk};
use varve_object::shelf::{audit_bucket, buckets_of};
use varve_object::{Body, EngineOptions, EngineStore, Settings};
use varve_reactor::{Reactor, SimLoop};
use varve_types::{PoolId, ShardId, StreamId};

const SHARDS: u16 = 2;
const POOL: PoolId = PoolId([7; 16]);
const SEGMENT_BYTES: u32 = 256 << 10;
const SEGMENTS: u64 = 600;

/// A pool.
pub(crate) struct Rig {
    disk: MemDisk,
    lane_bytes: u64,
    lives: u64,
}

/// One life of it.
pub(crate) struct Life {
    pub(crate) reactor: Reactor,
    pub(crate) store: EngineStore,
    dispatch: Dispatch,
}

fn disks(disk: &MemDisk) -> Vec<DriveDisks> {
    vec![DriveDisks::One(Rc::new(disk.clone()) as Rc<dyn Disk>)]
}

impl Rig {
    pub(crate) fn new(lane_bytes: u64) -> Self {
        let bytes =
            SEGMENTS * u64::from(SEGMENT_BYTES) + u64::from(SHARDS) * lane_bytes + (8 << 20);
        let mut rig = Self { disk: MemDisk::new("memory", bytes), lane_bytes, lives: 0 };
        let disk = rig.disk.clone();
        rig.run(async move |_| {
            let spec = DriveSpec {
                segment_bytes: SEGMENT_BYTES,
                lane_bytes,
                ..DriveSpec::new(POOL, SHARDS)
            };
            Drive::format(&disks(&disk), &spec).await.expect("works");
            let drive =
                Drive::open(disks(&disk), DriveOptions { discard: false }).await.expect("works");
            let media: Vec<_> =
                (0..SHARDS).map(|shard| drive.media(ShardId(shard)).expect("works")).collect();
            let spec = PoolSpec { pool: POOL, created_unix_ms: 0, shard_count: SHARDS };
            Pool::format(&media, &spec).await.expect("works");
        });
        assert_eq!(rig.lane_bytes, lane_bytes);
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
        let disk = self.disk.clone();
        self.run(async move |reactor| work(open(reactor, &disk).await).await)
    }
}

async fn open(reactor: Reactor, disk: &MemDisk) -> Life {
    let drive = Drive::open(disks(disk), DriveOptions { discard: false }).await.expect("works");
    let media: Vec<_> =
        (0..SHARDS).map(|shard| drive.media(ShardId(shard)).expect("works")).collect();
    let pool = Pool::open(&media[0]).await.expect("works");
    let placement = Placement::new(pool.placements());
    let (senders, inboxes): (Vec<_>, Vec<_>) =
        (0..SHARDS).map(|_| JobSender::new(&reactor)).unzip();
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
    let options = EngineOptions { reduction: Settings::reduction_in, bodies_bytes_max: 6 << 20 };
    let store = EngineStore::open(links, placement, options).await.expect("works");
    Life { reactor, store, dispatch: first.expect("works") }
}

impl Life {
    /// Blocks of a bucket's stream that hold something, once everything that is acknowledged is applied, and keys of the bucket.
    pub(crate) async fn left(&self, bucket: u64) -> (u64, usize) {
        let (mut blocks, mut keys) = (0, 0);
        for shard in self.dispatch.placement().shards() {
            let look = self.dispatch.on_shard(shard, move |shard| {
                Box::pin(async move {
                    shard.apply_acknowledged().await?;
                    let audit = shard.audit().await?;
                    assert_eq!(audit.differences, Vec::<String>::new());
                    let buckets = buckets_of(&shard).await.expect("accounts");
                    for bucket in buckets {
                        let audit = audit_bucket(&shard, bucket).await.expect("audit of a bucket");
                        assert_eq!(audit.differences, Vec::<String>::new());
                    }
                    let mut keys = 0;
                    for letter in b"oupx" {
                        let prefix = [&[*letter][..], &bucket.to_be_bytes()].concat();
                        keys += shard.key_scan(&prefix, None, usize::MAX).await?.len();
                    }
                    Ok((shard.count_blocks(StreamId::new(bucket)).await?, keys))
                })
            });
            let (some_blocks, some_keys) = look.await.expect("works");
            blocks += some_blocks;
            keys += some_keys;
        }
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
