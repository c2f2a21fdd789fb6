//! Tables and roots on several drives at once. Called by the opening, the keeper, and whoever reads roots.

use std::fmt;
use std::rc::Rc;

use futures_util::future::join_all;
use varve_media::{Error, Result, RootKey, RootVersion, SidedRoot, write_empty_roots};
use varve_types::ShardId;

use crate::handles::DriveHandle;
use crate::ids::DriveNumber;

/// Version and contents of a root.
pub(crate) type RootContents = (RootVersion, Vec<u8>);

/// Something that is stored as a root is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum StoredRoot {
    /// The drive table.
    DriveTable,
    /// The journal record of a shard.
    Journal(ShardId),
    /// A layout page.
    Page(u32),
    /// A root of the pool or of a shard.
    Root(RootKey),
}

impl fmt::Display for StoredRoot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DriveTable => f.write_str("drive table"),
            Self::Journal(shard) => write!(f, "journal record of shard {shard}"),
            Self::Page(page) => write!(f, "layout page {page}"),
            Self::Root(key) => write!(f, "root {key}"),
        }
    }
}

impl StoredRoot {
    pub(crate) fn on(self, drive: &DriveHandle) -> Result<SidedRoot> {
        let superblock = drive.superblock();
        match self {
            Self::DriveTable => Ok(superblock.drive_table()),
            Self::Journal(shard) => superblock.journal_record(shard),
            Self::Page(page) => Ok(superblock.layout_page(page)),
            Self::Root(key) => superblock.root(key),
        }
    }
}

/// A drive that failed to do something.
pub(crate) struct DriveFailure {
    pub(crate) drive: DriveNumber,
    pub(crate) error: Error,
}

/// What several drives hold of a root.
pub(crate) struct RootCensus {
    /// The newest contents; `None` when no drive has any that can be read.
    pub(crate) newest: Option<RootContents>,
    /// Drives of which a side holds something else, or cannot be read.
    pub(crate) laggards: Vec<DriveNumber>,
    /// Drives that could not be read.
    pub(crate) failures: Vec<DriveFailure>,
}

/// Looks at both sides of a root on a drive; nothing is written.
pub(crate) async fn look(
    which: StoredRoot,
    drive: &DriveHandle,
) -> Result<[Option<RootContents>; 2]> {
    which.on(drive)?.look(drive.meta(), drive.superblock().pool).await
}

/// What some drives hold, by both sides of each. Nothing is written.
///
/// # Errors
/// [`Error::Fenced`].
pub(crate) async fn census(which: StoredRoot, drives: &[Rc<DriveHandle>]) -> Result<RootCensus> {
    let looks = join_all(drives.iter().map(|drive| look(which, drive))).await;
    let (mut sides, mut failures) = (Vec::new(), Vec::new());
    for (drive, look) in drives.iter().zip(looks) {
        match look {
            Ok(found) => sides.push((drive.number(), found)),
            Err(error) => failures.push(failure(drive, error)?),
        }
    }
    let all = sides.iter().flat_map(|(_, found)| found.iter().flatten());
    let mut newest: Option<&RootContents> = None;
    for contents in all {
        if newest.is_none_or(|best| best.0 < contents.0) {
            newest = Some(contents);
        }
    }
    let newest = newest.cloned();
    let is_behind = |side: &Option<RootContents>| side.is_none() || *side != newest;
    let lags = |found: &[Option<RootContents>; 2]| found.iter().any(is_behind);
    let laggards = sides.iter().filter(|(_, found)| lags(found)).map(|(drive, _)| *drive);
    let laggards = laggards.collect();
    Ok(RootCensus { newest, laggards, failures })
}

/// Replaces a root on some drives, side by side. Durable on those that are not returned.
///
/// # Errors
/// [`Error::Fenced`].
pub(crate) async fn write_all(
    which: StoredRoot,
    drives: &[Rc<DriveHandle>],
    contents: &RootContents,
) -> Result<Vec<DriveFailure>> {
    let writes = drives.iter().map(|drive| write_one(which, drive, contents));
    collect(drives, join_all(writes).await)
}

/// Replaces a root on a drive. Durable on return.
///
/// # Errors
/// The disk's.
pub(crate) async fn write_one(
    which: StoredRoot,
    drive: &DriveHandle,
    contents: &RootContents,
) -> Result<()> {
    let (version, bytes) = contents;
    let root = which.on(drive)?;
    root.write(drive.meta(), drive.superblock().pool, *version, bytes).await
}

/// As [`write_all`], with a version above what each drive has: for what has a number of its own within.
pub(crate) async fn write_next(
    which: StoredRoot,
    drives: &[Rc<DriveHandle>],
    bytes: &[u8],
) -> Result<Vec<DriveFailure>> {
    let writes = drives.iter().map(|drive| async move {
        let sides = look(which, drive).await?;
        let newest = sides.iter().flatten().map(|(version, _)| version.0).max();
        let version = RootVersion(newest.unwrap_or(0) + 1);
        let root = which.on(drive)?;
        root.write(drive.meta(), drive.superblock().pool, version, bytes).await
    });
    collect(drives, join_all(writes).await)
}

fn collect(drives: &[Rc<DriveHandle>], results: Vec<Result<()>>) -> Result<Vec<DriveFailure>> {
    let mut failures = Vec::new();
    for (drive, result) in drives.iter().zip(results) {
        if let Err(error) = result {
            failures.push(failure(drive, error)?);
        }
    }
    Ok(failures)
}

/// Whoever lost the pool to somebody else must not call the drives failed.
fn failure(drive: &DriveHandle, error: Error) -> Result<DriveFailure> {
    match error {
        Error::Fenced => Err(Error::Fenced),
        error => Ok(DriveFailure { drive: drive.number(), error }),
    }
}

/// Everything on a drive that counts as never written: what a drive held before must not be newer than what it gets.
pub(crate) struct EmptyRoots {
    /// Whether the drive table is among them.
    pub(crate) has_table: bool,
}

impl EmptyRoots {
    /// Writes them. Durable on return.
    ///
    /// # Errors
    /// The disk's.
    pub(crate) async fn write(&self, drive: &DriveHandle) -> Result<()> {
        let superblock = drive.superblock();
        let lanes = || (0..superblock.lanes_of_pool).map(ShardId);
        let mut all = Vec::new();
        if self.has_table {
            all.push(StoredRoot::DriveTable);
        }
        all.extend(lanes().map(StoredRoot::Journal));
        all.extend((0..superblock.layout_pages).map(StoredRoot::Page));
        all.extend(root_keys(superblock.lanes_of_pool).map(StoredRoot::Root));
        let roots: Result<Vec<_>> = all.into_iter().map(|which| which.on(drive)).collect();
        write_empty_roots(drive.meta(), superblock.pool, &roots?).await
    }
}

/// All roots of a pool of so many lanes.
pub(crate) fn root_keys(lanes: u16) -> impl Iterator<Item = RootKey> {
    std::iter::once(RootKey::Pool).chain((0..lanes).map(|shard| RootKey::Shard(ShardId(shard))))
}
