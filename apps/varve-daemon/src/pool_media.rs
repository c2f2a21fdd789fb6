//! The media of a pool: drives of this machine, with or without redundancy, or pools of RADOS.

use std::rc::Rc;
use std::sync::Arc;

use varve_engine::ZoneLayout;
use varve_media::{CachedSegments, DiskStats, Media, PoolFiles, SegmentGeometry};
use varve_media_redundancy::{DriveHandles, PoolSizes, RedundantThread, ThreadFiles};
use varve_reactor::Reactor;
use varve_register::Register;
use varve_types::{CellId, PoolId, ShardId};

use crate::rados::RadosMedia;
use crate::redundant_pool::RedundantPool;

/// An open pool's media. Clones share them.
#[derive(Clone)]
pub(crate) enum PoolMedia {
    /// Drives of this machine.
    Files(Arc<PoolFiles>),
    /// Drives of this machine, of which some may be lost.
    Redundant(Arc<RedundantPool>),
    /// Pools of RADOS.
    Rados(Arc<RadosMedia>),
}

/// What the thread of a shard works with.
pub(crate) struct ShardMedia {
    pub(crate) media: Media,
    /// Where names of the pool are entered, if it has several cells.
    pub(crate) register: Option<Register>,
    /// What its disks do, if it has any.
    pub(crate) disks: Option<Rc<DiskStats>>,
    /// Its read cache, if it has one.
    pub(crate) cache: Option<Rc<CachedSegments>>,
    /// What it has of a pool with redundancy over drives, if this is one.
    pub(crate) redundant: Option<RedundantThread>,
}

impl ShardMedia {
    /// The drives that it has redundancy over, if it has.
    pub(crate) fn drives(&self) -> Option<Rc<DriveHandles>> {
        self.redundant.as_ref().map(|thread| Rc::clone(thread.handles()))
    }
}

impl PoolMedia {
    /// Identity of the pool.
    pub(crate) fn pool(&self) -> PoolId {
        match self {
            Self::Files(files) => files.pool(),
            Self::Redundant(pool) => pool.files().pool(),
            Self::Rados(rados) => rados.spec().pool,
        }
    }

    /// Which cell of the pool this is.
    pub(crate) fn cell(&self) -> CellId {
        match self {
            Self::Files(_) | Self::Redundant(_) => CellId::FIRST,
            Self::Rados(rados) => rados.spec().cell.cell,
        }
    }

    /// Cells of the pool.
    pub(crate) fn cells(&self) -> u16 {
        match self {
            Self::Files(_) | Self::Redundant(_) => 1,
            Self::Rados(rados) => rados.spec().cell.cells,
        }
    }

    /// Wall clock of the pool's making, in ms since 1970.
    pub(crate) fn created_unix_ms(&self) -> u64 {
        match self {
            Self::Files(files) => files.created_unix_ms(),
            Self::Redundant(pool) => pool.files().created_unix_ms(),
            Self::Rados(rados) => rados.spec().created_unix_ms,
        }
    }

    /// Lanes of the pool: shards it can have.
    pub(crate) fn lane_count(&self) -> u16 {
        match self {
            Self::Files(files) => files.lane_count(),
            Self::Redundant(pool) => pool.files().lane_count(),
            Self::Rados(rados) => rados.spec().lane_count,
        }
    }

    /// Sizes of its segment store.
    pub(crate) fn geometry(&self) -> varve_media::Result<SegmentGeometry> {
        match self {
            Self::Files(files) => files.geometry(),
            Self::Redundant(pool) => Ok(pool.files().geometry()),
            Self::Rados(rados) => Ok(rados.geometry()),
        }
    }

    /// How zones of a new pool lie on its drives; `None` where that follows from its segments.
    pub(crate) fn zones(&self) -> Option<ZoneLayout> {
        match self {
            Self::Files(_) | Self::Rados(_) => None,
            Self::Redundant(pool) => {
                let PoolSizes { zones, zone_segments, .. } = pool.files().sizes();
                Some(ZoneLayout { zone_segments, zones })
            }
        }
    }

    /// Segments that shards can get. Where zones are withdrawn there are fewer than slots.
    pub(crate) fn usable_segments(&self) -> varve_media::Result<u32> {
        match self {
            Self::Files(_) | Self::Rados(_) => Ok(self.geometry()?.segment_count),
            Self::Redundant(pool) => {
                let PoolSizes { zones, zone_segments, .. } = pool.files().sizes();
                Ok(zones.saturating_mul(zone_segments))
            }
        }
    }

    /// What the thread of `shard` works with; on RADOS the shard is taken over from whoever has it.
    pub(crate) async fn media(
        &self,
        reactor: &Reactor,
        shard: ShardId,
    ) -> varve_media::Result<ShardMedia> {
        match self {
            Self::Files(files) => {
                let drive = files.drive(reactor)?;
                let (media, disks) = (drive.media(shard)?, drive.stats().cloned());
                Ok(ShardMedia { media, register: None, disks, cache: None, redundant: None })
            }
            Self::Redundant(pool) => {
                let ThreadFiles { thread, stats, .. } = pool.files().thread(reactor)?;
                Ok(ShardMedia {
                    media: thread.media(shard)?,
                    register: None,
                    disks: Some(stats),
                    cache: None,
                    redundant: Some(thread),
                })
            }
            Self::Rados(rados) => rados.media(reactor, shard).await,
        }
    }
}
