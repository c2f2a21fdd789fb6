//! The shipped stack of a shard thread: media, engine, dispatch, datasets.
//!
//! ```text
//!  thread 0   media ─ pool root ─ dispatch ─ shard 0 ─┐
//!                        ▲ zones, placement           ├─ datasets ─ NBD exports, admin calls
//!  thread n   media ─────┴─────── dispatch ─ shard n ─┘
//! ```
//!
//! STACK-1: thread 0 owns the pool's root and answers for it before its own shard opens, as every shard opens with its
//!     help.
//! STACK-2: a pool that is open for reading only is left as it is: nothing is completed, marked, closed or given back.

mod advice;
mod exports;
mod metrics;
mod request_times;
mod sized_root;
mod source;
mod space;
mod volumes;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use varve_access_admin as admin;
use varve_access_admin::v1::{
    ChangeVolume, CreateVolume, DeleteVolume, ShardState, ShardStatus, Volume,
};
use varve_client::{Failure, Result};
use varve_dataset::{Datasets, SettleReport, StoredSpace};
use varve_dispatch::{
    Dispatch, HostConfig, Job, JobSender, OpenPool, Placement, PoolLinks, PoolRoot, ShardHost,
    serve_jobs,
};
use varve_media::{CachedSegments, DiskStats, Media, PendingOperation};
use varve_media_redundancy::{DriveHandle, DriveHandles, Mover, PoolSizer, UnownedZones};
use varve_reactor::Reactor;
use varve_reactor::port::PortReceiver;
use varve_types::{ByteCount, ShardId};

use crate::pool_media::ShardMedia;
use crate::room::ShardRoom;
use crate::stack::{
    DriveFigures, PendingWork, ShardHealth, ShardReport, ShardStack, ThreadContext,
};

use self::advice::{START_AGAIN, is_damage, open_failed};
pub(crate) use self::exports::ARRIVING;
use self::exports::VolumeExports;
use self::request_times::RequestTimes;
use self::sized_root::SizedRoot;
pub(crate) use self::source::{EngineSource, make_roots};
use self::space::SpaceCount;
pub(super) use self::volumes::{refused, volume};

/// The shard that lives with the pool's root.
const ROOT_SHARD: ShardId = ShardId(0);

/// The trouble of a shard that serves and cannot grow.
const MEDIA_FULL: &str = "the media are full: there is no room for more segments on the file system of a drive, and new data are refused \
    where no space is left in the segments there are";

/// Everything below the front-ends on one shard thread.
pub(crate) struct EngineStack {
    shard: ShardId,
    host: Rc<ShardHost>,
    datasets: Datasets,
    placement: Placement,
    space: SpaceCount,
    /// What the shard held when it was asked last while it served.
    used_bytes: Cell<Option<u64>>,
    /// Of the thread's disks, if it has any.
    disks: Option<Rc<DiskStats>>,
    /// The thread's read cache, if it has one.
    cache: Option<Rc<CachedSegments>>,
    /// The thread's drives, if the pool has redundancy over them.
    drives: Option<Rc<DriveHandles>>,
    /// The pool's root, on the thread that has it.
    pool: Option<Rc<OpenPool>>,
    /// Moves rows of zones that nobody has, where the pool's root is, until the shard is closed.
    mover: Cell<Option<Mover>>,
    /// Has the pool grow and shrink, there too.
    _sizer: Option<PoolSizer>,
    /// Of the thread's NBD clients.
    times: Rc<RequestTimes>,
    reactor: Reactor,
    dispatch: Dispatch,
    /// Holds the pool's lock.
    source: EngineSource,
}

impl ShardStack for EngineStack {
    type Source = EngineSource;
    type Door = JobSender;
    type Inbox = PortReceiver<Job>;
    type Exports = VolumeExports;

    fn doors(reactor: &Reactor) -> (JobSender, PortReceiver<Job>) {
        JobSender::new(reactor)
    }

    async fn open(seat: ThreadContext<Self>) -> Result<Self> {
        let ThreadContext { reactor, shard, source, peers, inbox } = seat;
        let failed =
            |error: &dyn std::fmt::Display| Failure::new(format!("open shard {shard}: {error}"));
        let opened = source.media.media(&reactor, shard).await;
        let opened = opened.map_err(|error| failed(&error))?;
        let drives = opened.drives();
        let ShardMedia { media, register, disks, cache, redundant } = opened;
        let (dispatch, root) =
            enter(&reactor, shard, &media, peers).await.map_err(|error| failed(&error))?;
        reactor.spawn(serve_jobs(dispatch.clone(), inbox)); // STACK-1
        let pool = match &root {
            PoolRoot::Here(pool) => Some(Rc::clone(pool)),
            PoolRoot::Elsewhere { .. } => None,
        };
        let (mover, sizer) = match (&pool, redundant) {
            (Some(pool), Some(thread)) => {
                let unowned = Rc::clone(pool);
                let zones = UnownedZones::new(move |first, count| unowned.is_unowned(first, count));
                let sized = Rc::new(SizedRoot(Rc::clone(pool)));
                (thread.move_unowned(zones), thread.size_pool(sized))
            }
            (Some(_) | None, _) => (None, None),
        };
        varve_stdx::limit_spare_memory(source.spare_bytes());
        let space = SpaceCount::new(reactor.clone());
        let config =
            HostConfig { reactor: reactor.clone(), media, shard: source.shard_config(shard), root };
        let opened = ShardHost::open(config, &dispatch).await;
        let host = opened.map_err(|error| open_failed(shard, &error))?;
        dispatch.add_host(shard, Rc::clone(&host));
        let placement = dispatch.placement().clone();
        let datasets = Datasets::new(dispatch.clone(), Arc::clone(&source.shared), register);
        let times = Rc::default();
        Ok(Self {
            shard,
            host,
            datasets,
            placement,
            space,
            used_bytes: Cell::new(None),
            disks,
            cache,
            drives,
            pool,
            mover: Cell::new(mover),
            _sizer: sizer,
            times,
            reactor,
            dispatch,
            source,
        })
    }

    fn refusal(&self) -> Option<Failure> {
        self.host.failure().map(|error| open_failed(self.shard, &error))
    }

    async fn begin(&self, reactor: &Reactor) -> Result<()> {
        if let Some(refusal) = self.refusal() {
            tracing::error!(
                shard = self.shard.0,
                advice = refusal.advice(),
                "a shard is not served, and the others are"
            );
        }
        if self.shard != ROOT_SHARD || self.source.is_read_only {
            return Ok(()); // STACK-2
        }
        let datasets = self.datasets.clone();
        reactor.spawn(async move { datasets.keep_marking().await });
        let datasets = self.datasets.clone();
        reactor.spawn(async move { datasets.keep_zones().await });
        match self.datasets.settle().await {
            Ok(SettleReport { groups: 0, reservations: 0 }) => {}
            Ok(SettleReport { groups, reservations }) => {
                tracing::info!(groups, reservations, "completed what a crash had interrupted");
            }
            Err(error) if is_damage(&error) => {
                tracing::error!(%error, "names cannot be changed, and data are served");
                let datasets = self.datasets.clone();
                reactor.spawn(async move { datasets.keep_settling().await });
            }
            Err(error) => {
                let what = format!("complete what an earlier start left: {error}");
                return Err(Failure::new(what).hint(START_AGAIN));
            }
        }
        Ok(())
    }

    fn exports(&self) -> VolumeExports {
        VolumeExports::new(self.datasets.clone(), Rc::clone(&self.times))
            .with_read_only(self.source.is_read_only)
    }

    async fn space(&self) -> admin::Result<StoredSpace> {
        self.space.now(&self.datasets).await.map_err(volumes::refused)
    }

    async fn volumes(&self) -> admin::Result<Vec<Volume>> {
        volumes::list(&self.datasets).await
    }

    async fn volume(&self, name: &str) -> admin::Result<Volume> {
        volumes::show(&self.datasets, name).await
    }

    async fn create_volume(&self, spec: CreateVolume) -> admin::Result<Volume> {
        volumes::create(&self.datasets, spec).await
    }

    async fn change_volume(&self, name: &str, change: ChangeVolume) -> admin::Result<Volume> {
        volumes::change(&self.datasets, name, &change).await
    }

    async fn delete_volume(&self, name: &str, how: DeleteVolume) -> admin::Result<()> {
        volumes::delete(&self.datasets, name, how).await
    }

    fn datasets(&self) -> Option<Datasets> {
        Some(self.datasets.clone())
    }

    fn object_links(&self, doors: Vec<JobSender>) -> Option<(PoolLinks, Placement)> {
        Some((PoolLinks { threads: doors }, self.placement.clone()))
    }

    fn report(&self) -> ShardReport {
        let serving = self.host.now().map(|shard| shard.stats());
        let room = serving.as_ref().map(|stats| ShardRoom {
            reach_bytes: stats.reach_bytes,
            spare_bytes: stats.spare_bytes,
            is_confined: stats.media_full,
        });
        if let Some(stats) = &serving {
            self.used_bytes.set(Some(stats.space.live_bytes));
        }
        let stats = serving.unwrap_or_default();
        let trouble = self.host.trouble();
        let state = match &trouble {
            None => ShardState::Serving,
            Some(_) if self.host.damage().is_some() => ShardState::Damaged,
            Some(_) => ShardState::Opening,
        };
        let trouble = trouble.or(stats.media_full.then(|| MEDIA_FULL.to_owned()));
        ShardReport {
            status: ShardStatus {
                shard: self.shard.0,
                cell: None,
                state,
                trouble,
                undrained_bytes: stats.buffer_bytes,
                lane_used_bytes: stats.lane.used_bytes,
                lane_size_bytes: stats.lane.capacity_bytes,
            },
            memory_used_bytes: stats.buffer_bytes
                + stats.page_cache_bytes
                + stats.deaths_bytes
                + stats.updates_bytes
                + stats.block_cache_bytes,
            space_used_bytes: self.used_bytes.get(),
            room,
            used_segments: stats.space.segments.saturating_sub(stats.space.free),
            drives: self.drives.iter().flat_map(|drives| figures_of(drives)).collect(),
            journal_tail: stats.lane.tail,
            pool_segments: self.pool.as_ref().filter(|pool| pool.can_shrink()).map(|pool| {
                let counts = pool.zone_counts();
                counts.zones() * counts.zone_segments()
            }),
            metrics: metrics::of(&stats)
                .into_iter()
                .chain(self.disks.iter().flat_map(|disks| metrics::of_media(disks)))
                .chain(self.drives.iter().flat_map(|it| metrics::of_redundancy(it)))
                .chain(self.times.metrics())
                .chain(self.cache.iter().flat_map(|cache| metrics::of_cache(&cache.stats())))
                .collect(),
            health: ShardHealth { damaged_reads: stats.checksum_errors, ..self.health() },
        }
    }

    fn health(&self) -> ShardHealth {
        let now = self.reactor.now();
        let media = self.disks.as_ref().and_then(|disks| disks.oldest());
        let s3 = varve_object::oldest_request(&self.dispatch);
        let errors = self.disks.iter().flat_map(|disks| disks.errors());
        ShardHealth {
            media: media.map(|(number, operation)| PendingWork {
                what: describe(&operation),
                number,
                age: Duration::from_nanos(now - operation.start),
            }),
            nbd: self.times.oldest(),
            s3: s3.map(|(number, age_ns)| PendingWork {
                what: "a request of the S3 server".to_owned(),
                number,
                age: Duration::from_nanos(age_ns),
            }),
            errors: errors.map(|(path, errors)| (path.to_string(), errors)).collect(),
            damaged_reads: 0, // Only reports have it: it costs the shard's figures.
            unsettled: (self.shard == ROOT_SHARD).then(|| self.datasets.unsettled()).flatten(),
        }
    }

    async fn lost(&self) {
        self.host.lost().await;
    }

    async fn close(&self) -> Result<()> {
        if self.source.is_read_only {
            return Ok(()); // STACK-2
        }
        if let Some(mover) = self.mover.take() {
            mover.ended().await; // MOVER-6: who opens the pool next may have the zones.
        }
        self.host.close().await.map_err(|error| {
            Failure::new(format!("close shard {}: {error}", self.shard))
                .hint("nothing acknowledged is lost; the next start recovers the shard")
        })
    }

    async fn give_back(&self) -> Result<()> {
        if self.source.is_read_only {
            return Ok(()); // STACK-2
        }
        self.host.give_back().await.map_err(|error| {
            Failure::new(format!("give back shard {}: {error}", self.shard))
                .hint("it is closed; the next start waits some seconds for it")
        })
    }
}

/// What the drives did for a thread.
fn figures_of(drives: &DriveHandles) -> Vec<DriveFigures> {
    let figures = |drive: Rc<DriveHandle>| {
        let counts = drive.counts();
        DriveFigures {
            drive: drive.number(),
            reads: counts.read_errors(),
            writes: counts.write_errors(),
            checksums: counts.checksum_errors(),
            timeouts: counts.timeouts(),
            read_p99_us: counts.read_latency_nanos(990).unwrap_or(0) / 1000,
            write_p99_us: counts.write_latency_nanos(990).unwrap_or(0) / 1000,
        }
    };
    drives.all().into_iter().map(figures).collect()
}

/// An operation on media as a noun phrase.
fn describe(operation: &PendingOperation) -> String {
    let PendingOperation { operation, path, offset, bytes, .. } = operation;
    if *bytes == 0 {
        return format!("a {operation} of {path}");
    }
    format!("a {operation} of {} at offset {offset} of {path}", ByteCount(*bytes))
}

/// The thread's dispatcher, and its way to the pool's root: the root itself on thread 0, thread 0 on the others
/// (STACK-1).
async fn enter(
    reactor: &Reactor,
    shard: ShardId,
    media: &Media,
    peers: Vec<JobSender>,
) -> varve_dispatch::Result<(Dispatch, PoolRoot)> {
    let home = peers[usize::from(ROOT_SHARD.0)].clone();
    let links = PoolLinks { threads: peers };
    if shard == ROOT_SHARD {
        let opened = OpenPool::open(media).await;
        let pool = opened.map_err(|error| varve_dispatch::Error::Shard { shard, error })?;
        let placement = Placement::new(pool.placements());
        let dispatch = Dispatch::new(reactor.clone(), placement, links, Some(Rc::clone(&pool)));
        return Ok((dispatch, PoolRoot::Here(pool)));
    }
    let asked = home.call(reactor, |dispatch| {
        let (placement, pool) = (dispatch.placement().clone(), dispatch.pool());
        let counts = pool.map(|pool| pool.zone_counts());
        Box::pin(async move { (placement, counts) })
    });
    let (placement, counts) = asked.await?;
    let counts = counts.ok_or(varve_dispatch::Error::ShuttingDown)?;
    let dispatch = Dispatch::new(reactor.clone(), placement, links, None);
    Ok((dispatch, PoolRoot::Elsewhere { home, counts }))
}
