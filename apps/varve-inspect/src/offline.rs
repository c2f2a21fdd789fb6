//! A pool that no daemon serves, opened for reading: what `varve check` and `varve dump` share.
//!
//! OFFLINE-1. Nothing is written to what the pool lies on: shards are opened, and recover, over an overlay in memory.
//!     Pages are not mended there: what that writes would fill the memory, and be gone with it.
//! OFFLINE-2. Shards are opened with the memory that the daemon's settings give them, so that what the daemon can open
//!     opens here.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use clap::Args;
use futures_util::future::LocalBoxFuture;
use varve_client::{Failure, Result};
use varve_daemon::config::{Settings, read_data};
use varve_daemon::{ProbedRados, RadosLocation, RadosProbe, drives, event_loop};
use varve_engine::{
    OpenPool, Peers, PoolZones, Shard, ShardConfig, ShardParts, Zone, ZoneCounts, ZoneSource,
};
use varve_media::{
    Drive, DriveIdentity, Media, MediaPlace, OverlayMemory, PoolFigures, PoolInspection, RootKey,
    RootSide, SuperblockCopy,
};
use varve_media_redundancy::{RedundantInspection, RedundantProbe, StoredRoot, SurveyedPool};
use varve_reactor::Reactor;
use varve_types::{CellId, SegmentNumber, ShardId};

/// Least memory of a shard, as the daemon has it.
const SHARD_MEMORY_MIN: u64 = 64 << 20;

/// Which pool.
#[derive(Args, Clone, Debug)]
pub struct PoolSource {
    /// Drive of the pool: block device, file or directory, repeatable [default: those the data directory remembers]
    #[arg(long, value_name = "PATH")]
    pub(crate) drive: Vec<PathBuf>,

    /// RADOS pools only: assert that no daemon serves the pool, although the last one did not release it (after a
    /// crash)
    #[arg(long, conflicts_with = "drive")]
    pub(crate) unserved: bool,

    /// RADOS pools of several cells only: the cell to read
    #[arg(long, value_name = "N", conflicts_with = "drive")]
    pub(crate) cell: Option<u16>,
}

/// See the module.
pub struct OfflinePool {
    /// What it lies on.
    pub place: OfflinePlace,
    settings: Settings,
}

/// What the pool lies on.
pub enum OfflinePlace {
    /// Drives of this machine.
    Drives(PoolInspection),
    /// Drives of this machine of which some may be lost.
    Redundant(Box<RedundantPlace>),
    /// A pool, or a cell of one.
    Rados(Box<RadosProbe>),
}

/// A redundant pool, and what its drives say together.
pub struct RedundantPlace {
    pub(crate) inspection: Rc<RedundantInspection>,
    pub(crate) surveyed: varve_media::Result<SurveyedPool>,
}

impl RedundantPlace {
    fn open(paths: &[PathBuf]) -> Result<Self> {
        let inspection = Rc::new(RedundantInspection::open(paths).map_err(unopened)?);
        let mut event_loop = event_loop::start()?;
        let (reactor, drives) = (event_loop.handle(), Rc::clone(&inspection));
        let surveyed = event_loop.run(async move { drives.survey(&reactor).await });
        Ok(Self { inspection, surveyed })
    }

    fn figures(&self) -> varve_media::Result<PoolFigures> {
        let surveyed = self.surveyed.as_ref().map_err(Clone::clone)?;
        let table = surveyed.view.drives();
        let superblock = self.inspection.superblocks().next();
        let none = || varve_media::Error::NoPool { path: "an empty list of drives".into() };
        let superblock = superblock.ok_or_else(none)?;
        Ok(PoolFigures {
            pool: table.pool,
            lane_count: superblock.lanes_of_pool,
            lane_bytes: superblock.lane_bytes,
            segment_bytes: table.segment_bytes,
            segment_count: u64::from(table.zones_max) * u64::from(table.zone_segments),
        })
    }
}

impl OfflinePool {
    /// Opens the pool of a data directory, or the cell that is named, if no daemon serves it. Drives cannot be served
    /// meanwhile.
    pub fn open(data: &Path, source: &PoolSource) -> Result<Self> {
        let mut opened = Self::open_cells(data, source)?;
        let Some(pool) = opened.pop().filter(|_| opened.is_empty()) else {
            let what = format!("the pool has {} cells", opened.len() + 1);
            return Err(Failure::misuse(what).hint("name the one to look at with --cell"));
        };
        Ok(pool)
    }

    /// Opens all cells of the pool, or the one that is named, if no daemon serves it. What has no cells is one.
    pub fn open_cells(data: &Path, source: &PoolSource) -> Result<Vec<Self>> {
        let settings = read_data(data)?;
        let home = match source.drive.as_slice() {
            [] => RadosLocation::load(&settings.data)?,
            _ => None,
        };
        let only = source.cell.map(CellId);
        let places = match home {
            Some(home) => {
                let looks = RadosProbe::open(&home, only, source.unserved);
                let looks = looks.map_err(Failure::before_anything)?.into_iter();
                looks.map(|look| OfflinePlace::Rados(Box::new(look))).collect()
            }
            None if only.is_some_and(|only| only != CellId::FIRST) => {
                return Err(Failure::misuse("a pool on drives has one cell"));
            }
            None => vec![inspect(source, &settings)?],
        };
        let pool = |place| Self { place, settings: settings.clone() };
        Ok(places.into_iter().map(pool).collect())
    }

    /// Which cell of several it is.
    pub(crate) fn cell(&self) -> Option<CellId> {
        match &self.place {
            OfflinePlace::Drives(_) | OfflinePlace::Redundant(_) => None,
            OfflinePlace::Rados(look) => look.cell(),
        }
    }

    /// What the pool's superblocks agree on, or its record says.
    pub fn figures(&self) -> varve_media::Result<PoolFigures> {
        match &self.place {
            OfflinePlace::Drives(inspection) => inspection.figures(),
            OfflinePlace::Redundant(place) => place.figures(),
            OfflinePlace::Rados(look) => Ok(look.figures()),
        }
    }

    /// Every copy of every drive's superblock; `None` of a pool that has none.
    #[must_use]
    pub fn superblock_copies(&self) -> Option<Vec<&SuperblockCopy>> {
        match &self.place {
            OfflinePlace::Drives(inspection) => Some(inspection.superblock_copies().collect()),
            OfflinePlace::Redundant(place) => Some(place.inspection.superblock_copies().collect()),
            OfflinePlace::Rados(_) => None,
        }
    }

    /// What the drives of a redundant pool say together.
    ///
    /// # Errors
    /// Misuse, of another pool; else why they do not agree.
    pub fn redundant(&self) -> Result<&SurveyedPool> {
        match &self.place {
            OfflinePlace::Redundant(place) => {
                place.surveyed.as_ref().map_err(|error| Failure::new(error.to_string()))
            }
            OfflinePlace::Drives(_) | OfflinePlace::Rados(_) => {
                Err(Failure::misuse("the pool has no redundancy over drives")
                    .hint("`varve dump superblock` and `varve dump pool` show what it has"))
            }
        }
    }

    /// Slots that may hold a segment, and of which shard; shard 0 where they are the same ones for all. Blocks.
    pub fn slots(&self) -> Result<Vec<(ShardId, u32)>> {
        match &self.place {
            OfflinePlace::Drives(inspection) => {
                let figures =
                    inspection.figures().map_err(|error| Failure::new(error.to_string()))?;
                let count = u32::try_from(figures.segment_count).unwrap_or(u32::MAX);
                Ok((0..count).map(|number| (ShardId(0), number)).collect())
            }
            OfflinePlace::Redundant(_) => {
                Ok(self.redundant()?.slots().map(|slot| (ShardId(0), slot.0)).collect())
            }
            OfflinePlace::Rados(look) => {
                let of_shards = look.list()?.segments.into_iter();
                Ok(of_shards
                    .flat_map(|(shard, slots)| slots.into_iter().map(move |slot| (shard, slot.0)))
                    .collect())
            }
        }
    }

    /// What a shard is told when it is opened (OFFLINE-1, OFFLINE-2).
    pub(crate) fn shard_config(&self, figures: &PoolFigures, shard: ShardId) -> ShardConfig {
        let share = self.settings.shard_memory(figures.lane_count.into());
        ShardConfig {
            checkpoint_entries: self.settings.checkpoint_entries,
            free_target_percent: 0,
            mends_pages: false,
            ..ShardConfig::with_memory(figures.pool, shard, share.max(SHARD_MEMORY_MIN))
        }
    }

    /// Runs `work` on a loop of its own, with the pool under an overlay of at most `overlay_bytes_max` (OFFLINE-1).
    /// What `work` leaves behind ends with the loop.
    pub fn on_loop<T: 'static>(
        &self,
        overlay_bytes_max: u64,
        work: impl FnOnce(Reactor, ProbedPool) -> LocalBoxFuture<'static, T>,
    ) -> Result<T> {
        let mut event_loop = event_loop::start()?;
        let reactor = event_loop.handle();
        let memory = OverlayMemory::new(overlay_bytes_max);
        let looked = match &self.place {
            OfflinePlace::Drives(inspection) => {
                let drive = inspection.drive(&reactor, &memory).map_err(|error| {
                    Failure::new(format!("open the drives: {error}"))
                        .hint("name all drives of the pool with --drive")
                })?;
                ProbedPool::Drives(drive)
            }
            OfflinePlace::Redundant(place) => {
                let (drives, reactor) = (Rc::clone(&place.inspection), reactor.clone());
                let probed = event_loop.run(async move { drives.probe(&reactor, &memory).await });
                let failed = |error| Failure::new(format!("open the drives: {error}"));
                ProbedPool::Redundant(Rc::new(probed.map_err(failed)?))
            }
            OfflinePlace::Rados(look) => {
                let looked = event_loop.run(look.look(&reactor, &memory));
                let failed = |error| Failure::new(format!("open the pool on RADOS: {error}"));
                ProbedPool::Rados(Rc::new(looked.map_err(failed)?))
            }
        };
        Ok(event_loop.run(work(reactor, looked)))
    }
}

/// A pool under an overlay, on one thread.
#[derive(Clone)]
pub enum ProbedPool {
    /// On drives.
    Drives(Drive),
    /// On drives of which some may be lost.
    Redundant(Rc<RedundantProbe>),
    /// On RADOS.
    Rados(Rc<ProbedRados>),
}

impl ProbedPool {
    /// What a shard is read with.
    pub(crate) fn media(&self, shard: ShardId) -> varve_media::Result<Media> {
        match self {
            Self::Drives(drive) => drive.media(shard),
            Self::Redundant(probe) => probe.media(shard),
            Self::Rados(looked) => looked.media(shard),
        }
    }

    /// A root of the pool, all sides of it, as they are.
    pub(crate) async fn root_sides(&self, key: RootKey) -> varve_media::Result<Vec<RootSide>> {
        match self {
            Self::Drives(drive) => Ok(drive.root_sides(key).await?.into()),
            Self::Redundant(probe) => {
                let sides = probe.drives().sides(StoredRoot::Root(key)).await;
                Ok(sides.into_iter().map(|it| it.side).collect())
            }
            Self::Rados(looked) => Ok(vec![looked.root_side(key).await?]),
        }
    }

    /// Where a segment of a shard begins; `None` when the pool has no such segment.
    pub(crate) fn segment_place(
        &self,
        shard: ShardId,
        number: SegmentNumber,
    ) -> Option<MediaPlace> {
        match self {
            Self::Drives(drive) => drive.segment_place(number),
            Self::Redundant(probe) => probe.drives().segment_place(number),
            Self::Rados(looked) => Some(looked.segment_place(shard, number)),
        }
    }
}

fn inspect(source: &PoolSource, settings: &Settings) -> Result<OfflinePlace> {
    let paths = match source.drive.as_slice() {
        [] => remembered(settings)?,
        drives => drives.to_vec(),
    };
    let is_redundant = |path: &PathBuf| {
        DriveIdentity::read(path).is_ok_and(|identity| identity.redundant.is_some())
    };
    if paths.iter().any(is_redundant) {
        return Ok(OfflinePlace::Redundant(Box::new(RedundantPlace::open(&paths)?)));
    }
    PoolInspection::open(&paths).map(OfflinePlace::Drives).map_err(unopened)
}

fn unopened(error: varve_media::Error) -> Failure {
    match error {
        varve_media::Error::InUse { path } => {
            Failure::misuse(format!("{path} is in use: a daemon has the pool open"))
                .hint("`varve check --online`, or end the daemon first (SIGTERM): this command needs the pool to itself")
        }
        error => Failure::misuse(error.to_string())
            .hint("name the pool by its data directory with --data, or by --drive"),
    }
}

fn remembered(settings: &Settings) -> Result<Vec<PathBuf>> {
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

/// Opens a shard over the overlay: recovers it as the daemon would. What it names of other shards can be read if it has
/// a way to them.
pub(crate) async fn open_shard(
    reactor: &Reactor,
    media: Media,
    pool: &Rc<OpenPool>,
    config: ShardConfig,
    peers: Option<Rc<dyn Peers>>,
) -> varve_engine::Result<Rc<Shard>> {
    let shard = config.shard;
    let quiet = Rc::new(Cell::new(false));
    let zones = PoolZones::new(Rc::clone(pool), shard);
    let zones = Rc::new(QuietZones { zones, quiet: Rc::clone(&quiet) });
    let owned = pool.zones_of(shard).await?;
    let parts = ShardParts { reactor: reactor.clone(), media, config, zones, owned, peers };
    let opened = Shard::open(parts).await;
    quiet.set(true);
    opened
}

/// Zones that never seem to run short once the shard is open, so that reclaim moves nothing while somebody looks.
/// Recovery may need it.
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

    fn lendable_segments(&self) -> u64 {
        self.zones.lendable_segments().max(u64::from(self.quiet.get()))
    }

    fn share_segments(&self) -> u64 {
        u64::MAX
    }

    fn counts(&self) -> &ZoneCounts {
        self.zones.counts()
    }
}
