//! Which drives belong to a data directory: chosen at the first start, remembered, and found again at later ones.
//!
//! Drives of a pool with redundancy are known by their identities too: one that is missing stays in the list, and
//! whether the pool opens without it its own tables say.
//!
//! DRIVES-1: once remembered, the pool is the one of `drives.json`: a start with drives of another is refused instead
//! of making a new pool beside the old one. Its drives are known by their superblocks; paths are where they were seen
//! last.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use varve_client::{Failure, Result};
use varve_media::{DriveIdentity, Error};
use varve_media_redundancy::{DriveId, Protection};
use varve_types::{ByteCount, PoolId};

use crate::config::Settings;
use crate::drive_search::{self, FoundPool};
use crate::file_mark::FileMark;
use crate::remembered;

const LIST_FILE: &str = "drives.json";
/// Name of the drive in a data directory that names no other.
pub const EMBEDDED_DRIVE: &str = "drive";

/// Largest embedded drive when nobody says: enough for a first volume on a laptop, not all of its disk.
const EMBEDDED_BYTES_MAX: u64 = 64 << 30;

/// A drive of the pool: absolute path and the bytes that the pool may use.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct DriveEntry {
    /// Block device, file or directory.
    pub path: PathBuf,
    /// `None` for all of a block device.
    pub size_bytes: Option<u64>,
    /// Which file or directory it was (SEARCH-2); `None` of block devices, and in what earlier versions wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) file: Option<FileMark>,
    /// Identity of a drive of a pool with redundancy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<String>,
}

impl DriveEntry {
    /// Bytes that a pool may use of it.
    pub(crate) fn room(&self) -> Result<u64> {
        let failed =
            |error: io::Error| Failure::new(format!("size of {}: {error}", self.path.display()));
        let end = || fs::File::open(&self.path)?.seek(SeekFrom::End(0));
        self.size_bytes.map_or_else(|| end().map_err(failed), Ok)
    }

    /// As it is to be remembered: with what lies there now, where that is the drive.
    fn marked(&self) -> Self {
        let found = drive_search::read(&self.path).ok().and_then(|it| it.redundant);
        let id = found.map(|it| DriveId(it.drive_id).to_string());
        let is_there = id.is_some() || self.id.is_none();
        if !is_there || self.id.is_some() && self.id != id {
            return self.clone();
        }
        Self { file: FileMark::read(&self.path), id, ..self.clone() }
    }

    /// Whether another file lies there than the one that is remembered.
    fn is_other_file(&self) -> bool {
        FileMark::read(&self.path).is_some_and(|mark| self.file != Some(mark))
    }
}

/// The drives of the pool, and whether the pool was made before.
#[derive(Clone, Debug)]
pub(crate) struct Drives {
    /// In the order in which they were given.
    pub(crate) entries: Vec<DriveEntry>,
    /// Whether the data directory remembers a pool on them.
    pub(crate) remembered: bool,
    /// Whether a pool is on them already.
    pub(crate) has_pool: bool,
    /// How a pool that is to be made keeps data.
    pub(crate) protect: Protection,
    /// Whether the pool that is on them, or is to be made, has redundancy.
    pub(crate) is_redundant: bool,
    /// Which pool is on them, where that is known.
    pub(crate) pool: Option<PoolId>,
    /// Whether what is remembered has to be written: it is the first time, or a drive has moved.
    is_list_new: bool,
}

#[derive(Serialize, Deserialize)]
struct ListFile {
    /// Identity of the pool; absent in what earlier versions wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pool: Option<String>,
    /// Whether the pool has redundancy over its drives, so that some may be missing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    redundant: bool,
    drives: Vec<DriveEntry>,
}

impl ListFile {
    fn pool(&self) -> Option<PoolId> {
        self.pool.as_ref()?.parse().ok()
    }

    fn paths(&self) -> Vec<PathBuf> {
        self.drives.iter().map(|drive| drive.path.clone()).collect()
    }
}

impl Drives {
    /// The remembered drives, wherever they are now, or for a first start those of the settings, or the embedded one.
    pub(crate) fn choose(settings: &Settings) -> Result<Self> {
        let given = settings.drives.iter().map(|drive| absolute(&drive.path));
        let given = given.collect::<Result<Vec<_>>>()?;
        match load_list(&settings.data)? {
            Some(list) => Self::known(settings, &list, &given),
            None => Self::first(settings, given),
        }
    }

    /// The drives of a pool that the directory remembers (DRIVES-1).
    fn known(settings: &Settings, list: &ListFile, given: &[PathBuf]) -> Result<Self> {
        if let Some(pool) = list.pool().filter(|_| list.redundant) {
            return Self::known_redundant(settings, list, pool, given);
        }
        let paths = list.paths();
        let found = match given.is_empty() || paths == given {
            true => {
                check_sizes(settings, given, &list.drives)?;
                drive_search::locate(list.pool(), &list.drives)?
            }
            false => {
                let found = drive_search::pool_at(given)?.filter(|found| is_same(list, found));
                let found = found.ok_or_else(|| other_drives(settings, &list.drives))?;
                check_found_sizes(settings, given, &found)?;
                Some(found)
            }
        };
        let moved = found.is_some() || list.pool.is_none();
        let entries: Vec<DriveEntry> = match found {
            None => list.drives.clone(),
            Some(found) => (0..)
                .zip(found.drives)
                .map(|(index, (path, _)): (usize, _)| DriveEntry {
                    path,
                    size_bytes: list.drives.get(index).and_then(|drive| drive.size_bytes),
                    file: list.drives.get(index).and_then(|drive| drive.file),
                    id: None,
                })
                .collect(),
        };
        let is_list_new = moved || entries.iter().any(DriveEntry::is_other_file);
        Ok(Self {
            entries,
            remembered: true,
            has_pool: true,
            protect: Protection::NONE,
            is_redundant: false,
            pool: list.pool(),
            is_list_new,
        })
    }

    /// Those of a pool with redundancy: wherever they are now, or else where they were.
    fn known_redundant(
        settings: &Settings,
        list: &ListFile,
        pool: PoolId,
        given: &[PathBuf],
    ) -> Result<Self> {
        // A name of a device that is another one now is a drive that is not there; other names say what was meant.
        let is_known = |path: &PathBuf| list.drives.iter().any(|drive| drive.path == *path);
        for path in given.iter().filter(|path| !is_known(path)) {
            match drive_search::read(path) {
                Ok(identity) if identity.pool == pool => {}
                Ok(_) => return Err(other_drives(settings, &list.drives)),
                Err(Error::NoPool { .. } | Error::Unfinished { .. }) => {
                    return Err(no_drive_of(path, pool));
                }
                Err(error @ Error::FormerDrive { .. }) => {
                    return Err(Failure::misuse(error.to_string()).hint(ONLY_OWN_DRIVES));
                }
                Err(error) => {
                    let path = path.display();
                    tracing::warn!(%path, %error, "a drive that was named cannot be read");
                }
            }
        }
        let found = drive_search::locate_redundant(pool, &list.drives, given);
        // A drive of an earlier format has more units than it was given bytes: it keeps the size that is remembered.
        let is_remembered = |path: &Path, size: u64| {
            list.drives.iter().any(|drive| drive.path == path && drive.size_bytes == Some(size))
        };
        let pool_found = FoundPool { pool, drives: found.clone() };
        check_found_sizes_but(settings, given, &pool_found, is_remembered)?;
        let mut entries = list.drives.clone();
        place(&mut entries, found);
        let is_list_new = entries != list.drives || entries.iter().any(|it| it.marked() != *it);
        Ok(Self {
            entries,
            remembered: true,
            has_pool: true,
            protect: Protection::NONE,
            is_redundant: true,
            pool: Some(pool),
            is_list_new,
        })
    }

    /// The drives for a directory that remembers none: a pool may be on them, whose directory was lost or whose first
    /// start was cut off.
    fn first(settings: &Settings, mut paths: Vec<PathBuf>) -> Result<Self> {
        if paths.is_empty() {
            paths.push(absolute(&settings.data.join(EMBEDDED_DRIVE))?);
        }
        check_given_once(&paths)?;
        if let Some(found) = drive_search::pool_at(&paths)? {
            check_found_sizes(settings, &paths, &found)?;
            let is_redundant = found.drives.iter().any(|(_, it)| it.redundant.is_some());
            let mut entries: Vec<DriveEntry> =
                found.drives.iter().map(|(path, it)| found_drive(path.clone(), it)).collect();
            // Whether a pool with redundancy opens without them it says itself.
            let missing = paths.into_iter().filter(|path| {
                let is_missing = is_redundant && found.at(path).is_none();
                let found = drive_search::read(path);
                let is_none =
                    matches!(found, Err(Error::Unfinished { .. } | Error::FormerDrive { .. }));
                is_missing && !is_none
            });
            entries.extend(missing.map(|path| DriveEntry { path, ..DriveEntry::default() }));
            return Ok(Self {
                entries,
                remembered: false,
                has_pool: true,
                protect: Protection::NONE,
                is_redundant,
                pool: Some(found.pool),
                is_list_new: true,
            });
        }
        let protect = protection(settings, paths.len())?;
        let sizes = settings.drives.iter().map(|drive| drive.size).chain([None]);
        let entries =
            paths.into_iter().zip(sizes).map(|(path, size)| new_drive(settings, path, size));
        let entries = entries.collect::<Result<_>>()?;
        Ok(Self {
            entries,
            remembered: false,
            has_pool: false,
            protect,
            is_redundant: protect.is_redundant(),
            pool: None,
            is_list_new: true,
        })
    }

    /// Where the drives of a pool with redundancy are now, or else where they were. Looks at them; a drive that appears
    /// late may have another name than the last time.
    pub(crate) fn located(&self) -> Vec<PathBuf> {
        let mut entries = self.entries.clone();
        if let Some(pool) = self.pool {
            place(&mut entries, drive_search::locate_redundant(pool, &self.entries, &[]));
        }
        entries.into_iter().map(|entry| entry.path).collect()
    }

    /// The same drives once their pool can have redundancy over them.
    pub(crate) fn upgraded(self, pool: PoolId) -> Self {
        Self { is_redundant: true, pool: Some(pool), is_list_new: true, ..self }
    }

    /// Remembers the drives, if that is news. Durable on return; called once the pool on them is.
    pub(crate) fn remember(&self, data: &Path, pool: PoolId) -> Result<()> {
        if !self.is_list_new {
            return Ok(());
        }
        let drives = self.entries.iter().map(DriveEntry::marked).collect();
        let list = ListFile { pool: Some(pool.to_string()), redundant: self.is_redundant, drives };
        remembered::remember(&data.join(LIST_FILE), &list)
    }
}

/// Notes where drives were found.
fn place(entries: &mut Vec<DriveEntry>, found: Vec<(PathBuf, DriveIdentity)>) {
    for (path, identity) in found {
        let id = drive_search::id_of(&identity);
        let is_it =
            |entry: &&mut DriveEntry| entry.id == id || entry.id.is_none() && entry.path == path;
        match entries.iter_mut().find(is_it) {
            Some(entry) => (entry.path, entry.id) = (path, id),
            None => entries.push(found_drive(path, &identity)),
        }
    }
}

/// What to do where something else was named than drives of the pool.
const ONLY_OWN_DRIVES: &str =
    "name the drives of the pool alone, or leave out --drive: they are remembered";

/// Refuses a place that was named, and holds no drive of the pool (DRIVES-1).
fn no_drive_of(path: &Path, pool: PoolId) -> Failure {
    Failure::misuse(format!("{} holds no drive of pool {pool}", path.display()))
        .hint(ONLY_OWN_DRIVES)
}

/// Refuses a drive that is named twice, by whatever path.
fn check_given_once(paths: &[PathBuf]) -> Result<()> {
    let mut seen = BTreeSet::new();
    let of = |path: &PathBuf| fs::canonicalize(path).unwrap_or_else(|_| path.clone());
    match paths.iter().find(|path| !seen.insert(of(path))) {
        None => Ok(()),
        Some(path) => Err(Failure::misuse(format!("{} is given twice", path.display()))
            .hint("name each drive once with --drive")),
    }
}

/// The path made absolute, so that a start from elsewhere finds it.
fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path)
        .map_err(|error| Failure::new(format!("drive {}: {error}", path.display())))
}

/// How a new pool on so many drives keeps data.
fn protection(settings: &Settings, drives: usize) -> Result<Protection> {
    let protect = settings.redundancy.protect.unwrap_or_else(|| Protection::for_drives(drives));
    let needed = protect.drives_min();
    if drives >= needed {
        return Ok(protect);
    }
    let are = if drives == 1 { "1 is" } else { &format!("{drives} are") };
    Err(Failure::misuse(format!("{protect} needs {needed} drives, and {are} given"))
        .hint("name more with --drive, or choose another --protect"))
}

/// A drive of a pool that is there.
fn found_drive(path: PathBuf, identity: &DriveIdentity) -> DriveEntry {
    let size_bytes = (!is_block_device(&path)).then(|| identity.size_bytes());
    DriveEntry { path, size_bytes, file: None, id: drive_search::id_of(identity) }
}

/// A drive that is to be made, with a size for what has none of its own.
fn new_drive(settings: &Settings, path: PathBuf, size: Option<ByteCount>) -> Result<DriveEntry> {
    let size_bytes = match size {
        Some(size) => {
            if !is_block_device(&path) {
                warn_of_host(&path, size);
            }
            Some(size.0)
        }
        None if is_block_device(&path) => None,
        None => match file_bytes(&path) {
            Some(bytes) => Some(bytes),
            None => Some(embedded_bytes(&settings.data)?),
        },
    };
    Ok(DriveEntry { path, size_bytes, file: None, id: None })
}

/// Warns of a file that its file system cannot hold now. Drives are sparse, so that is allowed; writes wait for room
/// once it is full.
fn warn_of_host(path: &Path, size: ByteCount) {
    let there = path.ancestors().find(|ancestor| ancestor.exists()).unwrap_or(path);
    let Ok(stat) = rustix::fs::statvfs(there) else { return };
    let free = ByteCount(stat.f_bavail.saturating_mul(stat.f_frsize));
    if size > free {
        tracing::warn!(
            path = %path.display(), %size, %free,
            "the drive is larger than what its file system has free: give it a smaller size, or watch the file system"
        );
    }
}

pub(super) fn is_block_device(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_block_device())
}

/// The size of a file that has one already.
fn file_bytes(path: &Path) -> Option<u64> {
    let metadata = fs::metadata(path).ok()?;
    Some(metadata.len()).filter(|bytes| metadata.is_file() && *bytes > 0)
}

/// Half of what the file system has free in whole GiB, at most 64 GiB.
fn embedded_bytes(data: &Path) -> Result<u64> {
    let stat = rustix::fs::statvfs(data).map_err(|error| {
        Failure::new(format!("size of the file system of {}: {error}", data.display()))
    })?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    let bytes = (free / 2).min(EMBEDDED_BYTES_MAX) >> 30 << 30;
    if bytes == 0 {
        return Err(Failure::new(format!(
            "the file system of {} has only {} free",
            data.display(),
            ByteCount(free)
        ))
        .hint("choose another data directory with --data, or a drive with --drive"));
    }
    Ok(bytes)
}

/// The remembered drives, wherever they are now; `None` before the first start has ended.
pub fn load(data: &Path) -> Result<Option<Vec<DriveEntry>>> {
    let settings = Settings { data: data.to_owned(), ..Settings::default() };
    let list = load_list(data)?;
    list.map(|list| Ok(Drives::known(&settings, &list, &[])?.entries)).transpose()
}

fn load_list(data: &Path) -> Result<Option<ListFile>> {
    let mend =
        "remove it, and name the drives of the pool with --drive: they say which pool they are of";
    remembered::load::<ListFile>(&data.join(LIST_FILE), mend)
}

/// Remembers one more drive of a pool with redundancy. Durable on return.
pub(crate) fn add_to_list(data: &Path, drive: DriveEntry) -> Result<()> {
    change_list(data, |drives| drives.push(drive))
}

/// Forgets the drives of some identities. Durable on return.
pub(crate) fn remove_from_list(data: &Path, ids: &[String]) -> Result<()> {
    let is_meant = |drive: &DriveEntry| drive.id.as_ref().is_some_and(|id| ids.contains(id));
    change_list(data, |drives| drives.retain(|drive| !is_meant(drive)))
}

/// Writes nothing where nothing is changed.
fn change_list(data: &Path, change: impl FnOnce(&mut Vec<DriveEntry>)) -> Result<()> {
    let forgotten = || Failure::new(format!("{} remembers no drives", data.display()));
    let mut list = load_list(data)?.ok_or_else(forgotten)?;
    let before = list.drives.clone();
    change(&mut list.drives);
    if list.drives == before {
        return Ok(());
    }
    remembered::remember(&data.join(LIST_FILE), &list)
}

/// Whether a pool that was found is the one that the directory remembers. One that was remembered without its identity
/// is whatever is not at its place any more.
fn is_same(list: &ListFile, found: &FoundPool) -> bool {
    match list.pool() {
        Some(pool) => pool == found.pool,
        None => list.paths().iter().all(|path| {
            drive_search::read(path).map_or(true, |identity| identity.pool == found.pool)
        }),
    }
}

/// Refuses drives that are not the pool's (DRIVES-1).
fn other_drives(settings: &Settings, known: &[DriveEntry]) -> Failure {
    let list: Vec<String> = known.iter().map(describe).collect();
    Failure::misuse(format!(
        "the pool of {} lies on other drives: {}",
        settings.data.display(),
        list.join(", ")
    ))
    .hint("leave out --drive, or choose another --data for another pool")
}

/// Refuses sizes that the drives do not have. Without a size there is nothing to compare.
fn check_sizes(settings: &Settings, given: &[PathBuf], known: &[DriveEntry]) -> Result<()> {
    for ((path, drive), known) in given.iter().zip(&settings.drives).zip(known) {
        let is_same = |size: &ByteCount| known.size_bytes == Some(size.0) || has_size(path, *size);
        if let Some(size) = drive.size.filter(|size| !is_same(size)) {
            let has = known.size_bytes.map(ByteCount);
            return Err(other_size(path, has, size));
        }
    }
    Ok(())
}

fn check_found_sizes(settings: &Settings, given: &[PathBuf], found: &FoundPool) -> Result<()> {
    check_found_sizes_but(settings, given, found, |_, _| false)
}

/// The same, but for sizes that are right in any case.
fn check_found_sizes_but(
    settings: &Settings,
    given: &[PathBuf],
    found: &FoundPool,
    is_right: impl Fn(&Path, u64) -> bool,
) -> Result<()> {
    for (path, drive) in given.iter().zip(&settings.drives) {
        let Some((size, identity)) = drive.size.zip(found.at(path)) else { continue };
        if !identity.has_size(size.0) && !is_right(path, size.0) {
            return Err(other_size(path, Some(ByteCount(identity.size_bytes())), size));
        }
    }
    Ok(())
}

fn has_size(path: &Path, size: ByteCount) -> bool {
    drive_search::read(path).is_ok_and(|identity| identity.has_size(size.0))
}

fn other_size(path: &Path, has: Option<ByteCount>, size: ByteCount) -> Failure {
    let has = has.map_or_else(|| "the whole device".to_owned(), |has| has.to_string());
    Failure::misuse(format!("{} is a drive of {has}, and cannot become one of {size}", path.display()))
        .hint("leave out the size: drives keep the one with which the pool was created; `varve pool migrate` moves volumes to a larger pool")
}

fn describe(drive: &DriveEntry) -> String {
    match drive.size_bytes {
        Some(bytes) => format!("{}={}", drive.path.display(), ByteCount(bytes)),
        None => drive.path.display().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::DriveSetting;

    fn settings(data: &Path, drives: &[(&str, Option<u64>)]) -> Settings {
        let drive = |(path, size): &(&str, Option<u64>)| DriveSetting {
            path: PathBuf::from(path),
            size: size.map(ByteCount),
        };
        Settings {
            data: data.to_owned(),
            drives: drives.iter().map(drive).collect(),
            ..Settings::default()
        }
    }

    #[test]
    fn the_embedded_drive_is_the_default() {
        let dir = tempfile::tempdir().unwrap();
        let drives = Drives::choose(&settings(dir.path(), &[])).unwrap();
        assert_eq!(drives.entries[0].path, dir.path().join("drive"));
        assert!(drives.entries[0].size_bytes.unwrap() <= EMBEDDED_BYTES_MAX);
        assert!(!drives.remembered);
    }

    #[test]
    fn several_drives_are_protected_unless_somebody_says_otherwise() {
        let dir = tempfile::tempdir().unwrap();
        let size = Some(1 << 30);
        let all = ["/a", "/b", "/c", "/d", "/e", "/f"].map(|path| (path, size));
        let of = |drives: usize, protect: Option<&str>| {
            let mut settings = settings(dir.path(), &all[..drives]);
            settings.redundancy.protect = protect.map(|text| text.parse().unwrap());
            Drives::choose(&settings).map(|drives| {
                assert_eq!(drives.is_redundant, drives.protect.is_redundant());
                drives.protect.to_string()
            })
        };
        let defaults = (1..=6).map(|drives| of(drives, None).unwrap());
        let expected = ["none", "mirror:2", "mirror:2", "ec:2+1", "ec:3+1", "ec:4+2"];
        assert_eq!(defaults.collect::<Vec<_>>(), expected);
        assert_eq!(of(3, Some("none")).unwrap(), "none");
        assert_eq!(of(3, Some("mirror:3")).unwrap(), "mirror:3");
        let refused = of(3, Some("ec:4+2")).unwrap_err().to_string();
        assert!(refused.contains("ec:4+2 needs 6 drives, and 3 are given"), "{refused}");
        let refused = of(1, Some("mirror:2")).unwrap_err().to_string();
        assert!(refused.contains("mirror:2 needs 2 drives, and 1 is given"), "{refused}");
    }

    #[test]
    fn a_drive_larger_than_what_its_file_system_has_free_is_warned_of() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let lines = tracing_subscriber::fmt().with_ansi(false);
        let lines = lines.with_writer(fs::File::create(&log).unwrap()).finish();
        let [small, large] = [("small", 4096), ("large", 1 << 60)];
        tracing::subscriber::with_default(lines, || {
            for (name, size) in [small, large] {
                let path = dir.path().join(name);
                let entry = new_drive(&Settings::default(), path, Some(ByteCount(size))).unwrap();
                assert_eq!(entry.size_bytes, Some(size));
            }
        });
        let said = fs::read_to_string(&log).unwrap();
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.contains("larger than what its file system has free"), "{said}");
        assert!(said.contains("/large"), "{said}");
    }

    #[test]
    fn a_drive_is_given_once_and_a_file_keeps_its_size() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        fs::write(&file, [0; 8192]).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let new = dir.path().join("new");
        assert!(check_given_once(&[file.clone(), new.clone()]).is_ok());
        for twice in [[new.clone(), new.clone()], [file.clone(), link]] {
            assert!(check_given_once(&twice).unwrap_err().to_string().contains("is given twice"));
        }
        let entry = new_drive(&Settings::default(), file, None).unwrap();
        assert_eq!(entry.size_bytes, Some(8192));
    }

    #[test]
    fn remembered_drives_return_and_others_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let first = settings(dir.path(), &[("/a", Some(1 << 30)), ("/b", Some(2 << 30))]);
        let entry = |path: &str, bytes| DriveEntry {
            path: path.into(),
            size_bytes: Some(bytes),
            ..DriveEntry::default()
        };
        let entries = vec![entry("/a", 1 << 30), entry("/b", 2 << 30)];
        let drives = Drives {
            entries,
            remembered: false,
            has_pool: false,
            protect: Protection::NONE,
            is_redundant: false,
            pool: None,
            is_list_new: true,
        };
        drives.remember(dir.path(), PoolId([7; 16])).unwrap();
        let missing = |drives: &[(&str, Option<u64>)]| {
            Drives::choose(&settings(dir.path(), drives)).unwrap_err().to_string()
        };
        for again in [missing(&[]), missing(&[("/a", None), ("/b", None)])] {
            assert!(again.contains("drive 1 of 2 of pool 07070707"), "{again}");
        }
        let refused = missing(&[("/a", None)]);
        assert!(refused.contains("lies on other drives: /a=1 GiB, /b=2 GiB"), "{refused}");
        let refused = missing(&[("/a", None), ("/b", Some(3 << 30))]);
        assert!(
            refused.contains("/b is a drive of 2 GiB, and cannot become one of 3 GiB"),
            "{refused}"
        );
        assert!(Drives::choose(&first).is_err(), "they are not there");
    }

    #[test]
    fn a_damaged_or_foreign_list_is_never_taken_for_a_first_start() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(LIST_FILE), "{").unwrap();
        assert!(Drives::choose(&settings(dir.path(), &[])).is_err());
        fs::write(dir.path().join(LIST_FILE), "{\"version\": 2, \"drives\": []}").unwrap();
        let refused = Drives::choose(&settings(dir.path(), &[])).unwrap_err().to_string();
        assert!(refused.contains("has version 2"), "{refused}");
    }
}
