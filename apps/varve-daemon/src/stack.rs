//! The seam between the daemon's threads and what they serve: one stack of layers, from media to datasets, a shard
//! thread.

use std::future::Future;
use std::time::Duration;

use varve_access_admin::v1::{ChangeVolume, CreateVolume, DeleteVolume, ShardStatus, Volume};
use varve_access_admin::{self as admin, MetricKind};
use varve_access_block::Exports;
use varve_client::{Failure, Result};
use varve_dataset::{Datasets, StoredSpace};
use varve_dispatch::{Placement, PoolLinks};
use varve_media::DiskErrors;
use varve_media_redundancy::DriveNumber;
use varve_reactor::Reactor;
use varve_types::ShardId;

use crate::room::ShardRoom;

/// Everything below the front-ends on one shard thread.
pub(crate) trait ShardStack: Sized + 'static {
    /// What every thread opens its stack from.
    type Source: Clone + Send + 'static;
    /// How other threads reach this one's stack.
    type Door: Clone + Send + 'static;
    /// Where what they send arrives.
    type Inbox: 'static;
    /// The volumes as NBD serves them.
    type Exports: Exports + 'static;

    /// Makes the way to this thread's stack, before any stack opens.
    fn doors(reactor: &Reactor) -> (Self::Door, Self::Inbox);

    /// Opens the shard through recovery.
    fn open(seat: ThreadContext<Self>) -> impl Future<Output = Result<Self>>;

    /// Every shard is open now: what a crash interrupted is completed, and what works in the background may start.
    fn begin(&self, reactor: &Reactor) -> impl Future<Output = Result<()>>;

    /// Why the shard does not serve, when it is damaged or cannot be read: others serve meanwhile.
    fn refusal(&self) -> Option<Failure> {
        None
    }

    /// The volumes of all shards, for connections of this thread.
    fn exports(&self) -> Self::Exports;

    /// What all shards hold, by volume and in sum.
    fn space(&self) -> impl Future<Output = admin::Result<StoredSpace>>;

    /// Every volume.
    fn volumes(&self) -> impl Future<Output = admin::Result<Vec<Volume>>>;

    /// One volume.
    fn volume(&self, name: &str) -> impl Future<Output = admin::Result<Volume>>;

    /// Creates a volume; durable on return.
    fn create_volume(&self, spec: CreateVolume) -> impl Future<Output = admin::Result<Volume>>;

    /// Changes a volume's size, then its reduction; durable on return.
    fn change_volume(
        &self,
        name: &str,
        change: ChangeVolume,
    ) -> impl Future<Output = admin::Result<Volume>>;

    /// Deletes a volume, with its snapshots if asked to; durable on return.
    fn delete_volume(
        &self,
        name: &str,
        how: DeleteVolume,
    ) -> impl Future<Output = admin::Result<()>>;

    /// The datasets themselves, for what only they do; `None` in a stack without.
    fn datasets(&self) -> Option<Datasets> {
        None
    }

    /// The way to the pool for objects, whose callers are other threads; `None` in a stack without.
    fn object_links(&self, doors: Vec<Self::Door>) -> Option<(PoolLinks, Placement)> {
        drop(doors);
        None
    }

    /// What this shard does and holds now.
    fn report(&self) -> ShardReport;

    /// The oldest work under way, and failed operations on media.
    fn health(&self) -> ShardHealth {
        ShardHealth::default()
    }

    /// Returns once another process has the shard.
    fn lost(&self) -> impl Future<Output = ()> {
        std::future::pending()
    }

    /// Writes everything out and leaves the shard clean. No request is under way on any thread by then.
    fn close(&self) -> impl Future<Output = Result<()>>;

    /// Lets another process take the shard without waiting for this one. All shards have closed by then.
    fn give_back(&self) -> impl Future<Output = Result<()>>;
}

/// A thread's place among the pool's threads.
pub(crate) struct ThreadContext<S: ShardStack> {
    /// The thread's loop.
    pub(crate) reactor: Reactor,
    /// The shard that the thread owns.
    pub(crate) shard: ShardId,
    /// What to open the shard from.
    pub(crate) source: S::Source,
    /// Ways to every thread, this one's included, by shard.
    pub(crate) peers: Vec<S::Door>,
    /// What the threads send to this one.
    pub(crate) inbox: S::Inbox,
}

/// What a shard does and holds at one moment.
#[derive(Clone, Debug)]
pub(crate) struct ShardReport {
    /// State, undrained bytes and lane.
    pub(crate) status: ShardStatus,
    /// Bytes that caches and buffers of the thread hold.
    pub(crate) memory_used_bytes: u64,
    /// Bytes of the segments that the shard uses, or used when it served last; nothing when it has not served since the
    /// start.
    pub(crate) space_used_bytes: Option<u64>,
    /// What it could still take; nothing while it does not serve.
    pub(crate) room: Option<ShardRoom>,
    /// Segments that hold something, or did when they were given up and no checkpoint says so yet.
    pub(crate) used_segments: u64,
    /// What drives did, where the pool has redundancy over them.
    pub(crate) drives: Vec<DriveFigures>,
    /// Where a replay of its journal would begin at the latest.
    pub(crate) journal_tail: u64,
    /// Segments that the pool's shards have or can get, where they may become more or fewer; told by one thread.
    pub(crate) pool_segments: Option<u64>,
    /// Counters and gauges.
    pub(crate) metrics: Vec<ShardMetric>,
    /// The oldest work under way, and failed operations on media.
    pub(crate) health: ShardHealth,
}

/// The oldest work under way on a shard's thread, failed operations on its media, and what keeps names from changing.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShardHealth {
    /// The oldest operation on media.
    pub(crate) media: Option<PendingWork>,
    /// The oldest request of an NBD client.
    pub(crate) nbd: Option<PendingWork>,
    /// The oldest request of the S3 front-end to the shard.
    pub(crate) s3: Option<PendingWork>,
    /// Failed operations, by file or device.
    pub(crate) errors: Vec<(String, DiskErrors)>,
    /// Reads of clients that met damaged data, since the shard opened.
    pub(crate) damaged_reads: u64,
    /// Why names of volumes and snapshots cannot be changed, while they cannot; told by one thread.
    pub(crate) unsettled: Option<String>,
}

/// Work that is under way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PendingWork {
    /// A noun phrase: `a write to volume vm1`.
    pub(crate) what: String,
    /// Identity among the work of its kind on the thread.
    pub(crate) number: u64,
    /// Time since it began.
    pub(crate) age: Duration,
}

/// What a drive did for a shard's thread: operations that failed, and how long the last ones took.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DriveFigures {
    /// Which.
    pub(crate) drive: DriveNumber,
    /// Reads that failed.
    pub(crate) reads: u64,
    /// Writes and flushes that failed.
    pub(crate) writes: u64,
    /// Strips and labels that were not what they should have been.
    pub(crate) checksums: u64,
    /// Operations that were not answered in time.
    pub(crate) timeouts: u64,
    /// p99 of the last 4096 reads, in µs; 0 before the first one.
    pub(crate) read_p99_us: u64,
    /// The same of writes and flushes.
    pub(crate) write_p99_us: u64,
}

/// One counter or gauge of a shard.
#[derive(Clone, Debug)]
pub(crate) struct ShardMetric {
    /// `varve_<layer>_<noun>_<unit>`.
    pub(crate) name: &'static str,
    /// One sentence for people.
    pub(crate) help: &'static str,
    /// Counter or gauge.
    pub(crate) kind: MetricKind,
    /// Value now.
    pub(crate) value: u64,
}
