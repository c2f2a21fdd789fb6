//! A pool that no daemon serves, opened for reading: what `varve check` and `varve dump` share.
//!
//! P1. Nothing is written to the drives: shards are opened, and recover, over an overlay in memory.
//! P2. Shards are opened with the memory that the daemon's settings give them, so that what the daemon can open opens here.

use std::cell::Cell;
use std::fs;
use std::path::PathBuf;
use std::rc::Rc;

use clap::Args;
use futures_util::future::LocalBoxFuture;
use varve_engine::{Pool, PoolZones, Shard, ShardConfig, ShardParts, Zone, ZoneSource};
use varve_media::{Drive, OverlayMemory, PoolFigures, PoolInspection};
use varve_reactor::{Loop, LoopConfig, Reactor};
use varve_types::ShardId;

use crate::cli::Global;
use crate::config::{Settings, read_data};
use crate::daemon::{RadosHome, drives};
use crate::failure::{Failure, Result};

/// Least memory of a shard, as the daemon has it.
const SHARD_MEMORY_MIN: u64 = 64 << 20;

/// Which pool.
#[derive(Args, Clone, Debug)]
pub(crate) struct Source {
    /// Drive of the pool: block device, file or directory, repeatable [default: those the data directory remembers]
    #[arg(long, value_name = "PATH")]
    pub(crate) drive: Vec<PathBuf>,
}

/// See the module.
pub(crate) struct OfflinePool {
    pub(crate) inspection: PoolInspection,
    settings: Settings,
}

impl OfflinePool {
    /// Opens the drives and keeps daemons from serving them meanwhile.
    pub(crate) fn open(global: &Global, source: &Source) -> Result<Self> {
        if global.addr.is_some() {
            return Err(Failure::misuse("`--addr` names a daemon, and this command needs none")
                .hint("name the pool by its data directory with --data, or by --drive"));
        }
        let settings = read_data(&global.data())?;
        let paths = match source.drive.as_slice() {
            [] => remembered(&settings)?,
            drives => drives.to_vec(),
        };
        let inspection = PoolInspection::open(&paths).map_err(|error| match error {
            varve_media::Error::InUse { path } => {
                Failure::misuse(format!("{path} is in use: a daemon has the pool open"))
                    .hint("end the daemon first (SIGTERM); this command needs the pool to itself")
            }
            error => Failure::misuse(error.to_string())
                .hint("name the pool by its data directory with --data, or by --drive"),
        })?;
        Ok(Self { inspection, settings })
    }

    /// What a shard is told when it is opened (P2).
    pub(crate) fn shard_config(&self, figures: &PoolFigures, shard: ShardId) -> ShardConfig {
        let share = self.settings.shard_memory(figures.lane_count);
        ShardConfig {
            checkpoint_entries: self.settings.checkpoint_entries,
            free_target_percent: 0,
            ..ShardConfig::with_memory(figures.pool, shard, share.max(SHARD_MEMORY_MIN))
        }
    }

    /// Runs `work` on a loop of its own, with the drives under an overlay of at most `overlay_bytes_max` (P1). What `work` leaves behind ends
    /// with the loop.
    pub(crate) fn on_loop<T: 'static>(
        &self,
        overlay_bytes_max: u64,
        work: impl FnOnce(Reactor, Drive) -> LocalBoxFuture<'static, T>,
    ) -> Result<T> {
        let mut event_loop = Loop::new(LoopConfig::default()).map_err(|error| {
            Failure::misuse(format!("start a loop: {error}"))
                .hint("io_uring may be switched off (sysctl kernel.io_uring_disabled) or short of memory (ulimit -l)")
        })?;
        let reactor = event_loop.handle();
        let memory = OverlayMemory::new(overlay_bytes_max);
        let drive = self.inspection.drive(&reactor, &memory).map_err(|error| {
            Failure::new(format!("open the drives: {error}"))
                .hint("name all drives of the pool with --drive")
        })?;
        Ok(event_loop.run(work(reactor, drive)))
    }
}

fn remembered(settings: &Settings) -> Result<Vec<PathBuf>> {
    if RadosHome::load(&settings.data)?.is_some() {
        return Err(Failure::misuse(format!(
            "the pool of {} is on RADOS, which this command cannot read yet",
            settings.data.display()
        ))
        .hint("check it while it is served: `varve check --online`"));
    }
    if let Some(entries) = drives::load(&settings.data)? {
        return Ok(entries.into_iter().map(|entry| entry.path).collect());
    }
    if !settings.drives.is_empty() {
        return Ok(settings.drives.iter().map(|drive| drive.path.clone()).collect());
    }
    let embedded = settings.data.join(drives::EMBEDDED_DRIVE);
    if fs::metadata(&embedded).is_ok() {
        return Ok(vec![embedded]);
    }
    let data = settings.data.display();
    Err(Failure::misuse(format!("no pool in {data}"))
        .hint("name the pool by its data directory with --data, or by --drive"))
}

/// Opens a shard over the overlay: recovers it as the daemon would.
pub(crate) async fn open_shard(
    reactor: &Reactor,
    drive: &Drive,
    pool: &Rc<Pool>,
    config: ShardConfig,
) -> varve_engine::Result<Rc<Shard>> {
    let shard = config.shard;
    let media = drive.media(shard).map_err(varve_logstore::Error::from)?;
    let quiet = Rc::new(Cell::new(false));
    let zones = PoolZones::new(Rc::clone(pool), shard);
    let zones = Rc::new(QuietZones { zones, quiet: Rc::clone(&quiet) });
    let owned = pool.zones_of(shard);
    // What a shard names of others is compared when all have been looked at.
    let peers = None;
    let parts = ShardParts { reactor: reactor.clone(), media, config, zones, owned, peers };
    let opened = Shard::open(parts).await;
    quiet.set(true);
    opened
}

/// Zones that never seem to run short once the shard is open, so that reclaim moves nothing while somebody looks. Recovery may need it.
struct QuietZones {
    zones: PoolZones,
    quiet: Rc<Cell<bool>>,
}

impl ZoneSource for QuietZones {
    fn lease(&self) -> LocalBoxFuture<'_, varve_engine::Result<Option<Zone>>> {
        self.zones.lease()
    }

    fn give_back(&self, zone: Zone) -> LocalBoxFuture<'_, varve_engine::Result<()>> {
        self.zones.give_back(zone)
    }

    fn unleased_segments(&self) -> u64 {
        self.zones.unleased_segments().max(u64::from(self.quiet.get()))
    }

    fn share_segments(&self) -> u64 {
        u64::MAX
    }
}
