//! Pools on drives of this machine made by a command, while no daemon serves the data directory. `varve serve` makes
//! them in the same way at a first start.

use varve_client::{Failure, Result};
use varve_types::ByteCount;

use crate::config::Settings;
use crate::drives::{DriveEntry, Drives};
use crate::files;
use crate::home::PoolLocation;
use crate::lock::DataLock;
use crate::rados::RadosLocation;

/// A pool that could be made.
#[derive(Clone, Debug)]
pub struct PlannedPool {
    /// How it keeps data: `none`, `mirror:N` or `ec:K+M`.
    pub protect: String,
    /// How many drives may be lost at once, whichever they are.
    pub survives: u8,
    /// Its drives.
    pub drives: Vec<DriveEntry>,
    /// Bytes of segments that it will hold.
    pub usable: ByteCount,
    /// Bytes of its drives.
    pub raw: ByteCount,
}

/// A pool that was made.
#[derive(Clone, Debug)]
pub struct NewLocalPool {
    /// What was planned.
    pub plan: PlannedPool,
    /// Its identity.
    pub id: String,
    /// Its shards.
    pub shards: u16,
    /// Bytes of a segment.
    pub segment_size_bytes: u64,
}

/// Makes a pool on the drives of the settings, once `consents` has seen what it will be, and lets the data directory
/// remember it. Blocks. Durable on return.
pub fn create(
    settings: &Settings,
    consents: impl FnOnce(&PlannedPool) -> Result<()>,
) -> Result<NewLocalPool> {
    let _lock = DataLock::take(&settings.data)?;
    if RadosLocation::load(&settings.data)?.is_some() {
        return Err(taken(settings));
    }
    let drives = Drives::choose(settings)?;
    if drives.remembered {
        return Err(taken(settings));
    }
    if drives.has_pool {
        let path = drives.entries.first().map(|drive| drive.path.display().to_string());
        let what = format!("{} holds a pool already", path.unwrap_or_default());
        return Err(Failure::misuse(what)
            .hint("`varve serve --drive …` serves it; name other drives for another pool"));
    }
    let plan = plan(settings, &drives)?;
    consents(&plan)?;
    let home = PoolLocation::Drives(drives);
    let media = home.open(settings)?;
    home.remember(settings, media.pool())?;
    let geometry = media.geometry().map_err(|error| files::explain(&error, settings))?;
    Ok(NewLocalPool {
        plan,
        id: media.pool().to_string(),
        shards: media.lane_count(),
        segment_size_bytes: geometry.segment_bytes.into(),
    })
}

/// What the pool will be. Touches nothing.
fn plan(settings: &Settings, drives: &Drives) -> Result<PlannedPool> {
    let (usable, raw) = if drives.is_redundant {
        let sizes = files::new_redundant(settings, drives)?.sizes();
        let sizes = sizes.map_err(|error| files::explain(&error, settings))?;
        (sizes.usable_bytes, sizes.raw_bytes)
    } else {
        let sizes = drives.entries.iter().map(DriveEntry::room);
        let all = sizes.collect::<Result<Vec<u64>>>()?.into_iter().fold(0, u64::saturating_add);
        (all, all)
    };
    Ok(PlannedPool {
        protect: drives.protect.to_string(),
        survives: drives.protect.shape().parity(),
        drives: drives.entries.clone(),
        usable: ByteCount(usable),
        raw: ByteCount(raw),
    })
}

fn taken(settings: &Settings) -> Failure {
    Failure::misuse(format!("data directory {} has a pool already", settings.data.display()))
        .hint("`varve serve` serves it; choose another --data for another pool")
}
