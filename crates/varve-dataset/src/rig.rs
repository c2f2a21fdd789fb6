//! For tests: a pool of two shards on a memory disk, each shard behind a dispatcher of its own as if it had a thread,
//! in the simulated loop. Dropping the loop is a crash; the disk stays.

use std::cell::Cell;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use futures_util::FutureExt;
use varve_dispatch::{
    Dispatch, HostConfig, JobSender, Placement, PoolLinks, PoolRoot, ReadPart, ShardHost,
    serve_jobs,
};
use varve_engine::{OpenPool, PoolSpec, ShardConfig};
use varve_media::{
    Disk, Drive, DriveDisks, DriveOptions, DriveSpec, FaultDisk, FaultPlan, Fence, IoFuture,
    MemDisk, Persist,
};
use varve_reactor::{Notify, Reactor, SimLoop};
use varve_stdx::AlignedBuf;
use varve_types::{ByteOffset, PoolId, ShardId, StreamId};

use crate::{Datasets, SharedDatasets, Volume, VolumeSpec};

pub(crate) const MIB: u64 = 1 << 20;

/// Bytes of a volume: four regions, two on each shard.
pub(crate) const VOLUME_BYTES: u64 = 256 * MIB;

const SHARDS: u16 = 2;
const POOL: PoolId = PoolId([7; 16]);
const SEGMENT_BYTES: u32 = 256 << 10;
const SEGMENTS: u64 = 400;
const LANE_BYTES: u64 = 4 * MIB;
const MEMORY_BYTES: u64 = 64 * MIB;

/// A pool that outlives its loops.
pub(crate) struct Rig {
    disk: MemDisk,
    lives: u64,
    /// Shards are told to accept the loss of their journals.
    accepts_loss: bool,
}

/// One life of the pool.
#[derive(Clone)]
pub(crate) struct Life {
    /// The datasets of each thread.
    pub(crate) threads: Vec<Datasets>,
    /// What each shard could be lost by.
    pub(crate) fences: Vec<Rc<Takeover>>,
}

/// A fence behind which another process may take the shard over, and which may be late to say that none did.
pub(crate) struct Takeover {
    reactor: Reactor,
    is_taken: Cell<bool>,
    was_taken: Notify,
    late_in: Cell<Option<u32>>,
    /// Whether the shard was given back.
    pub(crate) is_released: Cell<bool>,
}

impl Takeover {
    fn new(reactor: &Reactor) -> Self {
        Self {
            reactor: reactor.clone(),
            is_taken: Cell::new(false),
            was_taken: Notify::new(),
            late_in: Cell::new(None),
            is_released: Cell::new(false),
        }
    }

    /// Lets so many requests pass, and the next one wait for a second; `None` lets all pass. Those behind it do not
    /// wait.
    pub(crate) fn be_late_in(&self, requests: Option<u32>) {
        self.late_in.set(requests);
    }

    /// Another process has it from now on.
    pub(crate) fn take(&self) {
        self.is_taken.set(true);
        self.was_taken.notify_all();
    }
}

impl Fence for Takeover {
    fn check(&self) -> varve_media::Result<()> {
        if self.is_taken.get() { Err(varve_media::Error::Fenced) } else { Ok(()) }
    }

    fn is_confirmed(&self) -> bool {
        let late_in = self.late_in.get();
        self.late_in.set(late_in.map(|requests| requests.saturating_sub(1)));
        late_in != Some(0)
    }

    fn confirm(&self) -> IoFuture<'_, ()> {
        let is_late = self.late_in.replace(None) == Some(0);
        Box::pin(async move {
            if is_late {
                self.reactor.sleep(1_000_000_000).await;
            }
            self.check()
        })
    }

    fn release(&self) -> IoFuture<'_, ()> {
        self.is_released.set(true);
        Box::pin(async { Ok(()) })
    }

    fn lost(&self) -> Pin<Box<dyn Future<Output = ()> + '_>> {
        Box::pin(async {
            loop {
                let taken = self.was_taken.notified();
                if self.is_taken.get() {
                    return;
                }
                taken.await;
            }
        })
    }
}

fn disks(disk: &Rc<dyn Disk>) -> Vec<DriveDisks> {
    vec![DriveDisks::One(Rc::clone(disk))]
}

impl Rig {
    /// An empty pool.
    pub(crate) fn new() -> Self {
        let bytes = SEGMENTS * u64::from(SEGMENT_BYTES) + u64::from(SHARDS) * LANE_BYTES + 8 * MIB;
        let disk = MemDisk::new("memory", bytes);
        let mut rig = Self { disk, lives: 0, accepts_loss: false };
        let disk: Rc<dyn Disk> = Rc::new(rig.disk());
        rig.run(async move |_| {
            let spec = DriveSpec {
                segment_bytes: SEGMENT_BYTES,
                lane_bytes: LANE_BYTES,
                ..DriveSpec::new(POOL, SHARDS)
            };
            Drive::format(&disks(&disk), &spec).await.unwrap();
            let drive = Drive::open(disks(&disk), DriveOptions { discard: false }).await.unwrap();
            let media: Vec<_> =
                (0..SHARDS).map(|shard| drive.media(ShardId(shard)).unwrap()).collect();
            let spec =
                PoolSpec { pool: POOL, created_unix_ms: 0, shard_count: SHARDS, zones: None };
            OpenPool::format(&media, &spec).await.unwrap();
        });
        rig
    }

    fn run(&mut self, work: impl AsyncFnOnce(Reactor) + 'static) {
        self.lives += 1;
        let mut sim = SimLoop::new(self.lives);
        let reactor = sim.handle();
        let done = sim.try_run_until(async move { work(reactor).await }, u64::MAX);
        assert!(done.is_some(), "the test waits for ever");
    }

    /// Opens the pool as the daemon does, works, and crashes.
    pub(crate) fn live(&mut self, work: impl AsyncFnOnce(Life) + 'static) {
        self.live_unsettled(async move |life| {
            life.threads[0].settle().await.unwrap();
            work(life).await;
        });
    }

    /// The same without completing what an earlier life left.
    pub(crate) fn live_unsettled(&mut self, work: impl AsyncFnOnce(Life) + 'static) {
        let disk: Rc<dyn Disk> = Rc::new(self.disk());
        let accepts_loss = self.accepts_loss;
        self.run(async move |reactor| work(open(&reactor, &disk, accepts_loss).await).await);
    }

    /// The same on a disk that fails as planned.
    pub(crate) fn live_failing(
        &mut self,
        plan: Rc<FaultPlan>,
        work: impl AsyncFnOnce(Life) + 'static,
    ) {
        let (disk, accepts_loss) = (Rc::new(self.disk()), self.accepts_loss);
        self.run(async move |reactor| {
            let disk: Rc<dyn Disk> = Rc::new(FaultDisk::new(disk, &reactor, plan));
            work(open(&reactor, &disk, accepts_loss).await).await;
        });
    }

    /// Zeroes the lane of a shard; lives from then on accept the loss.
    pub(crate) fn lose_lane(&mut self, shard: ShardId) {
        let (begin, zeros) = (lane(shard).start, AlignedBuf::zeroed(4 << 20).freeze());
        assert_eq!(zeros.len() as u64, LANE_BYTES);
        self.disk.write(begin, zeros, Persist::Durable).now_or_never().unwrap().unwrap();
        self.accepts_loss = true;
    }

    /// The disk, which outlives all lives.
    pub(crate) fn disk(&self) -> MemDisk {
        self.disk.clone()
    }
}

/// Where the lane of a shard lies: behind the superblocks and the roots of this pool.
pub(crate) fn lane(shard: ShardId) -> Range<u64> {
    let begin = 6 * MIB + u64::from(shard.0) * LANE_BYTES;
    begin..begin + LANE_BYTES
}

/// Inverts a bit in both sides of a shard's root, as decay would. Done twice, all is as before.
pub(crate) fn flip_root(disk: &MemDisk, shard: ShardId) {
    let number = u32::from(shard.0) + 1;
    let mut flipped = 0;
    for offset in (0..disk.size()).step_by(4096) {
        let block = disk.read(offset, 4096).now_or_never().unwrap().unwrap();
        if block.starts_with(b"VARVROOT") && block[12..16] == number.to_le_bytes() {
            disk.flip_bit(offset + 20, 0);
            flipped += 1;
        }
    }
    assert_eq!(flipped, 2, "a root has two sides");
}

async fn open(reactor: &Reactor, disk: &Rc<dyn Disk>, accepts_loss: bool) -> Life {
    let drive = Drive::open(disks(disk), DriveOptions { discard: false }).await.unwrap();
    let media: Vec<_> = (0..SHARDS).map(|shard| drive.media(ShardId(shard)).unwrap()).collect();
    let pool = OpenPool::open(&media[0]).await.unwrap();
    let placement = Placement::new(pool.placements());
    let (senders, inboxes): (Vec<_>, Vec<_>) = (0..SHARDS).map(|_| JobSender::new(reactor)).unzip();
    let links = PoolLinks { threads: senders };
    let shared = Arc::new(SharedDatasets::default());
    let (mut threads, mut fences) = (Vec::new(), Vec::new());
    for ((shard, mut media), inbox) in (0..).map(ShardId).zip(media).zip(inboxes) {
        let root = (shard == ShardId(0)).then(|| Rc::clone(&pool));
        let dispatch = Dispatch::new(reactor.clone(), placement.clone(), links.clone(), root);
        reactor.spawn(serve_jobs(dispatch.clone(), inbox));
        let fence = Rc::new(Takeover::new(reactor));
        media.fence = fence.clone();
        fences.push(fence);
        let config = HostConfig {
            reactor: reactor.clone(),
            media,
            shard: ShardConfig {
                accept_lost_journal: accepts_loss,
                ..ShardConfig::with_memory(POOL, shard, MEMORY_BYTES)
            },
            root: PoolRoot::Here(Rc::clone(&pool)),
        };
        let host = ShardHost::open(config, &dispatch).await.unwrap();
        dispatch.add_host(shard, host);
        threads.push(Datasets::new(dispatch, Arc::clone(&shared), None));
    }
    Life { threads, fences }
}

/// A volume of [`VOLUME_BYTES`] with everything else as it is by default.
pub(crate) fn volume_spec(name: &str) -> VolumeSpec {
    VolumeSpec {
        name: name.to_owned(),
        size_bytes: VOLUME_BYTES,
        block_size_bytes: 4096,
        dedup: None,
        compression: None,
        quota_bytes: None,
        reserved: false,
        exclusive: false,
        receiving: None,
        moves: None,
    }
}

impl Life {
    /// The datasets of thread 0.
    pub(crate) fn datasets(&self) -> &Datasets {
        &self.threads[0]
    }

    /// Makes a volume.
    pub(crate) async fn create(&self, name: &str) {
        self.datasets().create_volume(volume_spec(name)).await.unwrap();
    }

    /// Takes one snapshot.
    pub(crate) async fn snapshot(&self, name: &str) {
        self.datasets().create_snapshots(&[name.to_owned()]).await.unwrap();
    }

    /// Writes a block that says `value` at the beginning of each region.
    pub(crate) async fn fill(&self, name: &str, value: u8) {
        let volume = self.datasets().open(name).await.unwrap();
        for at in region_starts() {
            volume
                .write(ByteOffset(at), AlignedBuf::from_slice(&[value; 4096]).freeze())
                .await
                .unwrap();
        }
    }

    /// The values of these blocks.
    pub(crate) async fn values(&self, name: &str) -> Vec<u8> {
        let volume = self.datasets().open(name).await.unwrap();
        let mut values = Vec::new();
        for at in region_starts() {
            values.push(first_byte(&volume, at).await);
        }
        values
    }

    /// Streams that hold something on any shard.
    pub(crate) async fn streams(&self) -> Vec<u64> {
        let mut all = Vec::new();
        for shard in self.datasets().dispatch().placement().shards() {
            let streams = self.datasets().dispatch().on_shard(shard, |shard| {
                Box::pin(async move {
                    shard.apply_acknowledged().await?;
                    shard.streams().await
                })
            });
            all.extend(streams.await.unwrap().into_iter().map(StreamId::get));
        }
        all.sort_unstable();
        all.dedup();
        all
    }
}

fn region_starts() -> impl Iterator<Item = u64> {
    (0..VOLUME_BYTES).step_by(64 << 20)
}

/// The first byte of a block.
pub(crate) async fn first_byte(volume: &Volume, at: u64) -> u8 {
    let parts = volume.read(ByteOffset(at), 4096).await.unwrap();
    match parts.first().unwrap() {
        ReadPart::Zero(_) => 0,
        ReadPart::Data(data) => data[0],
    }
}
