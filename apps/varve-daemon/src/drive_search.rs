//! Finds the drives of a pool by their superblocks, wherever they are now: names of devices change at reboots, and
//! people rename files.
//!
//! SEARCH-1. A path is a hint, the superblock decides. Nothing is locked or written while drives are looked for.
//! SEARCH-2. A copy of a drive has its superblock, and may be older than the pool: what was not named is taken for a
//!     drive only where it is the same file under another name, or the only block device of that identity. Others are
//!     told, for somebody to name them.
//! SEARCH-3. No drive that hangs keeps the others from being found.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use varve_client::{Failure, Result};
use varve_media::{DriveIdentity, Error};
use varve_media_redundancy::{DriveId, most_named};
use varve_types::PoolId;

use crate::drives::{DriveEntry, is_block_device};
use crate::file_mark::FileMark;

/// Entries looked at in one directory.
const ENTRIES_MAX: usize = 4096;

/// Files below that size, in bytes, are no drives.
const FILE_BYTES_MIN: u64 = 1 << 20;

/// How long a drive is waited for that is looked at.
const READ_MAX: Duration = Duration::from_secs(5);

/// Drives that are looked at together.
const READS_AT_ONCE: usize = 64;

/// Where the kernel lists block devices.
const BLOCK_DEVICES: &str = "/sys/class/block";

/// All drives of a pool, in their order in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct FoundPool {
    pub(super) pool: PoolId,
    pub(super) drives: Vec<(PathBuf, DriveIdentity)>,
}

impl FoundPool {
    /// What is known of the drive at a path.
    pub(super) fn at(&self, path: &Path) -> Option<&DriveIdentity> {
        self.drives.iter().find(|(found, _)| found == path).map(|(_, identity)| identity)
    }
}

/// Which of a pool's drives one is, and how many there are.
struct DrivePlace {
    index: u16,
    count: usize,
}

/// The pool whose drives are at these paths, all of them; `None` where none of them holds a drive of a pool, or not all
/// do yet.
///
/// # Errors
/// When some hold drives of a pool and others do not, or not all of its drives are there.
pub(super) fn pool_at(paths: &[PathBuf]) -> Result<Option<FoundPool>> {
    let read = read_all(paths); // SEARCH-1
    let Some((first, of_pool)) = first_of_most(paths, &read) else {
        return Ok(None);
    };
    if of_pool.redundant.is_some() {
        return redundant_pool_at(first, &of_pool, paths.iter().zip(read));
    }
    let identities: Vec<Option<DriveIdentity>> = read.into_iter().map(|read| read.ok()).collect();
    let (pool, count) = (of_pool.pool, of_pool.count);
    let first =
        format!("{} is drive {} of {count} of pool {pool}", first.display(), of_pool.index + 1);
    let mut drives = BTreeMap::new();
    for (path, identity) in paths.iter().zip(identities) {
        match identity {
            Some(identity) if identity.pool == pool => {
                drives.insert(identity.index, (path.clone(), identity));
            }
            Some(other) => {
                let what = format!("{first}, and {} of pool {}", path.display(), other.pool);
                return Err(Failure::misuse(what).hint("name the drives of one pool"));
            }
            // Creating the pool may have been cut off: whoever creates it finds out.
            None if usize::from(count) == paths.len() => return Ok(None),
            None => {
                let what = format!("{first}, and {} of no pool", path.display());
                return Err(Failure::misuse(what)
                    .hint("name the drives of the pool alone: none can be added to it yet"));
            }
        }
    }
    if drives.len() < usize::from(count) {
        let what =
            format!("{first}, and {} of its drives are missing", usize::from(count) - drives.len());
        return Err(Failure::misuse(what)
            .hint("name all of them with --drive: a pool needs each of its drives"));
    }
    Ok(Some(FoundPool { pool, drives: drives.into_values().collect() }))
}

/// The first drive of the pool that most of these paths hold drives of.
fn first_of_most<'a>(
    paths: &'a [PathBuf],
    read: &[varve_media::Result<DriveIdentity>],
) -> Option<(&'a Path, DriveIdentity)> {
    let found = || paths.iter().zip(read).filter_map(|(path, it)| Some((path, it.as_ref().ok()?)));
    let pool = most_named(&found().map(|(_, identity)| identity.pool).collect::<Vec<_>>())?;
    let (path, identity) = found().find(|(_, identity)| identity.pool == pool)?;
    Some((path, identity.clone()))
}

/// A pool with redundancy, of which some of these paths hold drives. Others may be missing, or cannot be read, or hold
/// something else, if less than half does: whether it opens without them it says itself, and nothing is written there.
fn redundant_pool_at<'a>(
    first: &Path,
    of_pool: &DriveIdentity,
    read: impl Iterator<Item = (&'a PathBuf, varve_media::Result<DriveIdentity>)>,
) -> Result<Option<FoundPool>> {
    let (pool, mut drives) = (of_pool.pool, Vec::new());
    let read: Vec<_> = read.collect();
    let of_pool_too = read.iter().filter_map(|(_, found)| found.as_ref().ok());
    let was_opened = of_pool_too
        .filter(|it| it.pool == pool)
        .any(|it| it.redundant.is_some_and(|it| it.was_opened));
    let first = format!("{} is drive {} of pool {pool}", first.display(), of_pool.index);
    let of = |pool: PoolId| {
        read.iter().filter(|(_, found)| found.as_ref().is_ok_and(|it| it.pool == pool)).count()
    };
    for (path, identity) in &read {
        match identity {
            Ok(identity) if identity.pool == pool => {
                drives.push((path.to_path_buf(), identity.clone()));
            }
            Ok(other) if of(other.pool) < of(pool) => {
                let (path, other) = (path.display(), other.pool);
                tracing::warn!(%path, "{path} is a drive of another pool, {other}, and not used");
            }
            Ok(other) => {
                let what = format!("{first}, and {} of pool {}", path.display(), other.pool);
                return Err(Failure::misuse(what).hint("name the drives of one pool"));
            }
            // Creating the pool was cut off: whoever creates it finds out.
            Err(Error::Unfinished { .. }) if !was_opened => return Ok(None),
            Err(Error::Unfinished { .. }) => {
                tracing::warn!(path = %path.display(), "the drive was about to join the pool, and is not used");
            }
            Err(error @ Error::FormerDrive { .. }) => tracing::warn!("{error}"),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "a drive that was named cannot be used");
            }
        }
    }
    Ok(Some(FoundPool { pool, drives }))
}

/// What a drive of a pool with redundancy is known by.
pub(super) fn id_of(identity: &DriveIdentity) -> Option<String> {
    identity.redundant.map(|it| DriveId(it.drive_id).to_string())
}

/// The drives of a pool with redundancy that are there: at the paths that are given, where they were seen last as
/// `known`, or, where that is certain, elsewhere (SEARCH-2).
pub(super) fn locate_redundant(
    pool: PoolId,
    known: &[DriveEntry],
    given: &[PathBuf],
) -> Vec<(PathBuf, DriveIdentity)> {
    let of_pool = |paths: &[PathBuf]| {
        let read = paths.iter().cloned().zip(read_all(paths));
        let read = read.filter_map(|(path, identity)| Some((path, identity.ok()?)));
        let is_it = |(_, it): &(_, DriveIdentity)| it.pool == pool && it.redundant.is_some();
        read.filter(is_it).collect::<Vec<_>>()
    };
    let mut paths: Vec<PathBuf> = given.to_vec();
    for drive in known {
        if !paths.contains(&drive.path) {
            paths.push(drive.path.clone());
        }
    }
    let mut found: Vec<(PathBuf, DriveIdentity)> = Vec::new();
    for (path, identity) in of_pool(&paths) {
        if !found.iter().any(|(_, other)| id_of(other) == id_of(&identity)) {
            found.push((path, identity));
        }
    }
    let is_found = |found: &[(PathBuf, DriveIdentity)], drive: &DriveEntry| {
        found.iter().any(|(_, identity)| id_of(identity) == drive.id)
    };
    if known.iter().all(|drive| is_found(&found, drive)) {
        return found;
    }
    let elsewhere = candidates(&paths).into_iter().filter(|path| !paths.contains(path));
    let elsewhere = of_pool(&elsewhere.collect::<Vec<_>>());
    for drive in known {
        if is_found(&found, drive) {
            continue;
        }
        let alike = elsewhere.iter().filter(|(_, identity)| id_of(identity) == drive.id);
        let alike: Vec<_> = alike.cloned().collect();
        let Some((path, identity)) = certain(drive, &alike) else { continue };
        tracing::warn!(drive = identity.index, path = %path.display(), "a drive of the pool has moved");
        found.push((path, identity));
    }
    found
}

/// Where the drives of a pool are now that were seen last as `known`; `None` where each is where it was, or cannot be
/// read for another reason than that it is not there.
///
/// # Errors
/// When one is not found.
pub(super) fn locate(pool: Option<PoolId>, known: &[DriveEntry]) -> Result<Option<FoundPool>> {
    let paths: Vec<PathBuf> = known.iter().map(|drive| drive.path.clone()).collect();
    let looked: Vec<_> = paths.iter().map(|path| (path, read(path))).collect();
    if !looked
        .iter()
        .any(|(path, identity)| identity.as_ref().is_err_and(|error| is_gone(path, error)))
    {
        return Ok(None);
    }
    let here =
        looked.into_iter().filter_map(|(path, identity)| Some((path.clone(), identity.ok()?)));
    let here: Vec<(PathBuf, DriveIdentity)> = here.collect();
    let elsewhere: Vec<(PathBuf, DriveIdentity)> = candidates(&paths)
        .into_iter()
        .filter(|path| !paths.contains(path))
        .filter_map(|path| read(&path).ok().map(|identity| (path, identity)))
        .collect();
    let Some(pool) = pool.or_else(|| here.first().map(|(_, identity)| identity.pool)) else {
        return match elsewhere.as_slice() {
            [] => Ok(None), // Opening the pool tells.
            found => Err(unknown(&paths, found)),
        };
    };
    let of_pool = |(_, identity): &(PathBuf, DriveIdentity)| identity.pool == pool;
    let mut drives: BTreeMap<u16, _> =
        here.into_iter().filter(of_pool).map(|found| (found.1.index, found)).collect();
    let elsewhere: Vec<_> = elsewhere.into_iter().filter(of_pool).collect();
    for (index, drive) in (0..).zip(known) {
        if !drives.contains_key(&index)
            && let Some(found) = moved(drive, index, &elsewhere)
        {
            let (path, number) = (found.0.display(), index + 1);
            tracing::warn!(drive = number, %path, "a drive of the pool has moved");
            drives.insert(index, found);
        }
    }
    let count = drives.values().next().map_or(paths.len(), |(_, first)| usize::from(first.count));
    let missing = (0..).zip(&paths).find(|(index, _)| !drives.contains_key(index));
    match missing {
        Some((index, path)) if drives.len() < count => {
            Err(absent(pool, DrivePlace { index, count }, path, &elsewhere))
        }
        _ => Ok(Some(FoundPool { pool, drives: drives.into_values().collect() })),
    }
}

/// Where a drive is now, if that is certain (SEARCH-2).
fn moved(
    drive: &DriveEntry,
    index: u16,
    elsewhere: &[(PathBuf, DriveIdentity)],
) -> Option<(PathBuf, DriveIdentity)> {
    let alike = elsewhere.iter().filter(|(_, identity)| identity.index == index);
    certain(drive, &alike.cloned().collect::<Vec<_>>())
}

/// The one of several places of the same identity where the drive is, if that is certain (SEARCH-2).
fn certain(
    drive: &DriveEntry,
    alike: &[(PathBuf, DriveIdentity)],
) -> Option<(PathBuf, DriveIdentity)> {
    if drive.file.is_some() {
        return alike.iter().find(|(path, _)| FileMark::read(path) == drive.file).cloned();
    }
    let mut devices = alike.iter().filter(|(path, _)| is_block_device(path));
    devices.next().filter(|_| devices.next().is_none()).cloned()
}

fn absent(
    pool: PoolId,
    place: DrivePlace,
    path: &Path,
    elsewhere: &[(PathBuf, DriveIdentity)],
) -> Failure {
    let DrivePlace { index, count } = place;
    let what =
        format!("drive {} of {count} of pool {pool} is not at {}", index + 1, path.display());
    let copies = elsewhere.iter().filter(|(_, identity)| identity.index == index);
    let copies: Vec<String> = copies.map(|(path, _)| path.display().to_string()).collect();
    if copies.is_empty() {
        return Failure::new(format!("{what} any more, nor found elsewhere")).hint(
            "connect it, or name where it is now: --drive for each drive of the pool, which needs all of them",
        );
    }
    Failure::new(format!("{what} any more; found, and perhaps an older copy: {}", copies.join(", ")))
        .hint("bring the drive back, or name the copy if it is the newest: --drive for each drive of the pool")
}

/// Whether nothing of a pool is at a path, rather than something that cannot be read.
fn is_gone(path: &Path, error: &Error) -> bool {
    let is_absent =
        || matches!(fs::metadata(path), Err(error) if error.kind() == io::ErrorKind::NotFound);
    matches!(error, Error::NoPool { .. }) || is_absent()
}

fn unknown(paths: &[PathBuf], found: &[(PathBuf, DriveIdentity)]) -> Failure {
    let gone: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    let found: Vec<String> = found
        .iter()
        .map(|(path, identity)| format!("{} (pool {})", path.display(), identity.pool))
        .collect();
    Failure::new(format!("no pool at {}", gone.join(", "))).hint(format!(
        "name its drives with --drive where they are now; found: {}",
        found.join(", ")
    ))
}

/// What a drive at a path says of itself. A device that does not answer is given up, and so is the thread that waits
/// for it (SEARCH-3).
pub(super) fn read(path: &Path) -> varve_media::Result<DriveIdentity> {
    Reading::begin(path).end(Instant::now() + READ_MAX)
}

/// The same of several drives, which are waited for together.
fn read_all(paths: &[PathBuf]) -> Vec<varve_media::Result<DriveIdentity>> {
    let some = |paths: &[PathBuf]| {
        let begun: Vec<_> = paths.iter().map(|path| Reading::begin(path)).collect();
        let until = Instant::now() + READ_MAX;
        begun.into_iter().map(|reading| reading.end(until)).collect::<Vec<_>>()
    };
    paths.chunks(READS_AT_ONCE).flat_map(some).collect()
}

/// A look at a drive that is under way.
struct Reading {
    path: PathBuf,
    answer: io::Result<mpsc::Receiver<varve_media::Result<DriveIdentity>>>,
}

impl Reading {
    fn begin(path: &Path) -> Self {
        let (sender, answer) = mpsc::channel();
        let owned = path.to_owned();
        // Whoever waits may have given it up.
        let look = move || drop(sender.send(DriveIdentity::read(&owned)));
        let started = thread::Builder::new().name("drive-search".to_owned()).spawn(look);
        Self { path: path.to_owned(), answer: started.map(|_| answer) }
    }

    fn end(self, until: Instant) -> varve_media::Result<DriveIdentity> {
        let path = self.path.display().to_string();
        let failed = |reason: String| Error::Open { path, reason };
        let answer = match self.answer {
            Ok(answer) => answer.recv_timeout(until.saturating_duration_since(Instant::now())),
            Err(error) => return Err(failed(error.to_string())),
        };
        let silent = || failed(format!("no answer for {} s", READ_MAX.as_secs()));
        answer.unwrap_or_else(|_| Err(silent()))
    }
}

/// What may be a drive: what lies beside where they were, and block devices.
fn candidates(paths: &[PathBuf]) -> Vec<PathBuf> {
    let directories: BTreeSet<&Path> = paths.iter().filter_map(|path| path.parent()).collect();
    let mut found = Vec::new();
    for directory in directories {
        found.extend(entries(directory).into_iter().filter(|path| is_large(path)));
    }
    let devices = entries(Path::new(BLOCK_DEVICES));
    found.extend(devices.iter().filter_map(|path| Some(Path::new("/dev").join(path.file_name()?))));
    found
}

fn is_large(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| !found.is_file() || found.len() >= FILE_BYTES_MIN)
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let entries = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut paths: Vec<PathBuf> = entries.take(ENTRIES_MAX).collect();
    paths.sort_unstable();
    paths
}
