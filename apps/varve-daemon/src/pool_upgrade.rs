//! Makes the pool of a data directory redundant in form, while no daemon serves it: with the class `none`, that is, as
//! many copies as before. Drives can be added then, and `varve pool set --protect` converts it.
//!
//! POOL-UPGRADE-1. Whatever was written before it was cut off, it goes on where it is: on what the superblocks say, not
//!     on what the data directory remembers.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use varve_client::age::now_unix_ms;
use varve_client::{Failure, Result};
use varve_engine::UpgradedRoot;
use varve_media::{
    DiskLayers, DriveExtent, DriveFiles, DriveParts, Error, PlainDrive, RedundantSuperblock,
    RootKey, RootVersion,
};
use varve_media_redundancy::{
    DriveId, HistoryId, RedundantDisks, UpgradeDisks, UpgradeDrive, UpgradePlan, UpgradeZones,
    resume_upgrade,
};
use varve_reactor::Reactor;
use varve_types::PoolId;

use crate::config::Settings;
use crate::drives::Drives;
use crate::lock::DataLock;
use crate::rados::RadosLocation;
use crate::{event_loop, files, random};

/// A pool that was upgraded.
#[derive(Clone, Debug)]
pub struct UpgradedPool {
    /// Its identity.
    pub id: String,
    /// Its drives, in their order.
    pub drives: Vec<PathBuf>,
    /// Whether the upgrade was begun before, and went on.
    pub was_begun: bool,
}

/// Upgrades the pool of the data directory, once `consents` has seen its drives. Blocks. Durable on return; cut off, it
/// can be done again.
pub fn upgrade(
    settings: &Settings,
    consents: impl FnOnce(&[PathBuf]) -> Result<()>,
) -> Result<UpgradedPool> {
    let _lock = DataLock::take(&settings.data)?;
    if RadosLocation::load(&settings.data)?.is_some() {
        return Err(Failure::misuse("a pool on RADOS is kept by the rules of its pools there")
            .hint("`varve pool upgrade` is for pools on drives of this machine"));
    }
    let drives = Drives::choose(settings)?;
    if !drives.has_pool {
        let data = settings.data.display();
        return Err(Failure::misuse(format!("data directory {data} has no pool"))
            .hint("`varve pool create` makes one that can have redundancy over drives"));
    }
    if drives.is_redundant && drives.remembered {
        return Err(Failure::misuse("the pool can have redundancy over drives already").hint(
            "`varve drive add` and `varve pool set --protect` change it while it is served",
        ));
    }
    let paths: Vec<PathBuf> = drives.entries.iter().map(|drive| drive.path.clone()).collect();
    consents(&paths)?;
    let mut draws = Vec::new();
    for _ in &paths {
        draws.push(DriveId(random::random_bytes()?));
    }
    let history = HistoryId(random::random_bytes()?);
    let mut event_loop = event_loop::start()?;
    let (reactor, owned) = (event_loop.handle(), paths.clone());
    let work = async move { upgrade_drives(&reactor, &owned, &draws, history).await };
    let done = event_loop.run(work).map_err(|error| files::explain(&error, settings))?;
    drives.upgraded(done.pool).remember(&settings.data, done.pool)?;
    Ok(UpgradedPool { id: done.pool.to_string(), drives: paths, was_begun: done.was_begun })
}

/// What became of it.
struct UpgradeEnd {
    pool: PoolId,
    was_begun: bool,
}

/// What a drive says of itself.
enum FoundDrive {
    Plain { files: DriveFiles, drive: PlainDrive },
    Upgraded { files: DriveFiles, superblock: RedundantSuperblock },
}

async fn upgrade_drives(
    reactor: &Reactor,
    paths: &[PathBuf],
    ids: &[DriveId],
    history: HistoryId,
) -> varve_media::Result<UpgradeEnd> {
    let (mut plain, mut upgraded) = (Vec::new(), Vec::new());
    for path in paths {
        match look(reactor, path).await? {
            FoundDrive::Plain { files, drive } => plain.push((files, drive)),
            FoundDrive::Upgraded { files, superblock } => upgraded.push((files, superblock)),
        }
    }
    let was_begun = !upgraded.is_empty();
    let pool = match upgraded.first() {
        None => begin(reactor, plain, ids, history).await?,
        Some((files, superblock)) => {
            go_on(reactor, files, superblock, &plain).await?; // POOL-UPGRADE-1
            upgraded.iter().for_each(|(files, _)| files.remove_lanes());
            plain.iter().for_each(|(files, _)| files.remove_lanes());
            superblock.pool
        }
    };
    Ok(UpgradeEnd { pool, was_begun })
}

async fn look(reactor: &Reactor, path: &Path) -> varve_media::Result<FoundDrive> {
    let files = DriveFiles::open(path)?;
    let disk = files.first_disk(reactor)?;
    if let Some(superblock) = RedundantSuperblock::read(&*disk).await? {
        return Ok(FoundDrive::Upgraded { files, superblock });
    }
    let drive = PlainDrive::read(&*disk).await?;
    Ok(FoundDrive::Plain { files, drive })
}

/// From the beginning.
async fn begin(
    reactor: &Reactor,
    mut found: Vec<(DriveFiles, PlainDrive)>,
    ids: &[DriveId],
    history: HistoryId,
) -> varve_media::Result<PoolId> {
    found.sort_by_key(|(_, drive)| drive.index());
    check_set(&found)?;
    let Some((files, first)) = found.first() else {
        return Err(Error::NoPool { path: "an empty list of drives".to_owned() });
    };
    let (pool, path) = (first.pool(), files.path().display().to_string());
    let disk = files.first_disk(reactor)?;
    let (version, bytes) = first.root(RootKey::Pool)?.read(&*disk, pool).await?;
    if version == RootVersion(0) {
        return Err(Error::NoPool { path });
    }
    let corrupt = |reason: String| Error::Corrupt { what: "root", path: path.clone(), reason };
    let root = UpgradedRoot::decode(&bytes).map_err(|error| corrupt(error.to_string()))?;
    let zones = UpgradeZones { zone_segments: root.zone_segments(), leased: root.leased() };
    let (files, drives): (Vec<DriveFiles>, Vec<PlainDrive>) = found.into_iter().unzip();
    let drives = files.iter().zip(drives).zip(ids);
    let drives = drives.map(|((files, plain), id)| UpgradeDrive::new(files, plain, *id));
    let drives: Vec<UpgradeDrive> = drives.collect();
    let plan = UpgradePlan::new(&drives, &zones, history, now_unix_ms())?;
    let mut disks = Vec::new();
    for ((files, drive), extent) in files.iter().zip(&drives).zip(plan.extents()) {
        files.grow(extent)?;
        files.sync_entries()?;
        disks.push(disks_of(reactor, files, &drive.plain)?);
    }
    let root = root.encode(plan.withdrawn()).map_err(|error| corrupt(error.to_string()))?;
    plan.write(reactor, &drives, &disks, &root).await?;
    drop(disks);
    files.iter().for_each(DriveFiles::remove_lanes);
    Ok(pool)
}

fn disks_of(
    reactor: &Reactor,
    files: &DriveFiles,
    plain: &PlainDrive,
) -> varve_media::Result<UpgradeDisks> {
    let meta = files.first_disk(reactor)?;
    if !plain.is_directory() {
        return Ok(UpgradeDisks { meta, slots: None, lanes: Vec::new() });
    }
    let slots = Some(files.slots_disk(reactor)?);
    let lanes = (0..).zip(plain.shards()).map(|(lane, _)| files.lane_disk(reactor, lane));
    Ok(UpgradeDisks { meta, slots, lanes: lanes.collect::<varve_media::Result<_>>()? })
}

/// After it was cut off between the superblocks of two drives.
async fn go_on(
    reactor: &Reactor,
    files: &DriveFiles,
    superblock: &RedundantSuperblock,
    others: &[(DriveFiles, PlainDrive)],
) -> varve_media::Result<()> {
    let extent =
        DriveExtent { meta_bytes: superblock.space_offset, space_bytes: superblock.space_bytes() };
    let DriveParts { meta, space } = files.disks(reactor, extent, &DiskLayers::default())?;
    let mut plain = Vec::new();
    for (files, drive) in others {
        plain.push((drive.clone(), files.first_disk(reactor)?));
    }
    let disks = RedundantDisks { meta: Rc::clone(&meta), space };
    resume_upgrade(reactor, superblock, &disks, &plain).await
}

/// All drives of one pool, in their order.
fn check_set(found: &[(DriveFiles, PlainDrive)]) -> varve_media::Result<()> {
    let pool = found.first().map(|(_, drive)| drive.pool());
    for (index, (files, drive)) in found.iter().enumerate() {
        let is_complete = usize::from(drive.count()) == found.len();
        let is_in_place = usize::from(drive.index()) == index && Some(drive.pool()) == pool;
        if !is_complete || !is_in_place {
            return Err(Error::DriveSet {
                path: files.path().display().to_string(),
                index: drive.index(),
                count: drive.count(),
                pool: drive.pool(),
            });
        }
    }
    Ok(())
}
