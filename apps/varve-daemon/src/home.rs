//! Where the pool of a data directory is: on drives that it remembers or that are given, or on RADOS.

use std::sync::Arc;

use varve_access_admin::v1::{Drive, JournalStatus};
use varve_client::{Failure, Result};
use varve_types::PoolId;

use crate::config::Settings;
use crate::drives::{DriveEntry, Drives};
use crate::engine_stack::make_roots;
use crate::files;
use crate::pool_media::PoolMedia;
use crate::rados::{RadosLocation, RadosMedia};
use crate::rados_cache::RadosCache;

/// See the module.
#[derive(Clone)]
pub(super) enum PoolLocation {
    Drives(Drives),
    Rados(RadosLocation),
}

impl PoolLocation {
    /// What the data directory remembers, or for a first start the drives of the settings.
    pub(super) fn choose(settings: &Settings) -> Result<Self> {
        match RadosLocation::load(&settings.data)? {
            None => Ok(Self::Drives(Drives::choose(settings)?)),
            Some(home) if settings.drives.is_empty() => Ok(Self::Rados(home)),
            Some(home) => Err(Failure::misuse(format!(
                "the pool of {} is on RADOS, in {}",
                settings.data.display(),
                home.describe().join(" and ")
            ))
            .hint("leave out --drive, or choose another --data for another pool")),
        }
    }

    /// Whether a pool is there already.
    pub(super) fn is_remembered(&self) -> bool {
        match self {
            Self::Drives(drives) => drives.remembered,
            Self::Rados(_) => true,
        }
    }

    /// Whether nothing of the pool is on drives of this machine.
    pub(super) fn is_reached_from_everywhere(&self) -> bool {
        matches!(self, Self::Rados(home) if home.local_journal().is_none())
    }

    /// Opens the pool; on drives that the directory does not remember yet it is made first. Blocks.
    pub(super) fn open(&self, settings: &Settings) -> Result<PoolMedia> {
        match self {
            Self::Drives(drives) => {
                let media = files::open(settings, drives)?;
                if !drives.remembered {
                    make_roots(&media)?;
                }
                Ok(media)
            }
            Self::Rados(home) => {
                let media = RadosMedia::open(home.clone())?;
                let (shards, cells) = (media.spec().lane_count, media.spec().cell.cells);
                files::check_memory(settings, shards, settings.rados_cells_max(cells))?;
                let cache = RadosCache::make(settings, u32::from(shards) * u32::from(cells))?;
                Ok(PoolMedia::Rados(Arc::new(media.with_cache(cache.map(Arc::new)))))
            }
        }
    }

    /// Remembers a pool that was just made, or whose drives have moved. Durable on return.
    pub(super) fn remember(&self, settings: &Settings, pool: PoolId) -> Result<()> {
        match self {
            Self::Drives(drives) => drives.remember(&settings.data, pool),
            Self::Rados(_) => Ok(()),
        }
    }

    /// What the pool lies on.
    pub(super) fn drives(&self) -> Vec<Drive> {
        let of_drive = |entry: &DriveEntry| Drive {
            path: entry.path.display().to_string(),
            size_bytes: entry.size_bytes,
            id: entry.id.clone(),
            ..Drive::default()
        };
        match self {
            Self::Drives(drives) => drives.entries.iter().map(of_drive).collect(),
            Self::Rados(home) => {
                home.describe().into_iter().map(|path| Drive { path, ..Drive::default() }).collect()
            }
        }
    }

    /// Where the journal is, and what a write survives there.
    pub(super) fn journal(&self) -> JournalStatus {
        let (place, durability) = match self {
            Self::Drives(_) => ("drives".to_owned(), "one copy: survives crashes and power loss"),
            Self::Rados(home) if home.local_journal().is_some() => (
                home.journal(),
                "one copy on this machine: survives crashes and power loss; without its drive nobody can serve the pool, and what no segment holds yet is lost",
            ),
            Self::Rados(home) => {
                (home.journal(), "as many copies as the RADOS pool keeps: survives this machine")
            }
        };
        JournalStatus { place, durability: durability.to_owned() }
    }
}
