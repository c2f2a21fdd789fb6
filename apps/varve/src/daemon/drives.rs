//! Which drives belong to a data directory: chosen at the first start, remembered, and compared at later ones.
//!
//! D1: once remembered, the list only comes from `drives.json`: a start with other drives is refused instead of making a new
//! pool beside the old one.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use varve_types::ByteCount;

use crate::config::{DriveSetting, Settings};
use crate::daemon::remembered;
use crate::failure::{Failure, Result};

const LIST_FILE: &str = "drives.json";
pub(crate) const EMBEDDED_DRIVE: &str = "drive";

/// Largest embedded drive when nobody says: enough for a first volume on a laptop, not all of its disk.
const EMBEDDED_BYTES_MAX: u64 = 64 << 30;

/// A drive of the pool: absolute path and the bytes that the pool may use.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct DriveEntry {
    /// Block device, file or directory.
    pub(crate) path: PathBuf,
    /// `None` for all of a block device.
    pub(crate) size_bytes: Option<u64>,
}

/// The drives of the pool, and whether the pool was made before.
#[derive(Clone, Debug)]
pub(crate) struct Drives {
    /// In the order in which they were given.
    pub(crate) entries: Vec<DriveEntry>,
    /// Whether a pool lies on them already.
    pub(crate) remembered: bool,
}

#[derive(Serialize, Deserialize)]
struct ListFile {
    drives: Vec<DriveEntry>,
}

impl Drives {
    /// The remembered drives, or for a first start those of the settings, or the embedded one.
    pub(crate) fn choose(settings: &Settings) -> Result<Self> {
        let remembered = load(&settings.data)?;
        let wanted = settings.drives.iter().map(|drive| absolute(settings, drive));
        let wanted = wanted.collect::<Result<Vec<_>>>()?;
        match remembered {
            Some(entries) => {
                check_same(settings, &entries, &wanted)?;
                Ok(Self { entries, remembered: true })
            }
            None if wanted.is_empty() => {
                let drive = DriveSetting { path: settings.data.join(EMBEDDED_DRIVE), size: None };
                Ok(Self { entries: vec![absolute(settings, &drive)?], remembered: false })
            }
            None => Ok(Self { entries: wanted, remembered: false }),
        }
    }

    /// Remembers the drives. Durable on return; called once the pool on them is.
    pub(crate) fn remember(&self, data: &Path) -> Result<()> {
        let list = ListFile { drives: self.entries.clone() };
        remembered::remember(&data.join(LIST_FILE), &list)
    }
}

/// The path made absolute, so that a start from elsewhere finds it, and a size for what has none of its own.
fn absolute(settings: &Settings, drive: &DriveSetting) -> Result<DriveEntry> {
    let path = std::path::absolute(&drive.path)
        .map_err(|error| Failure::new(format!("drive {}: {error}", drive.path.display())))?;
    let size_bytes = match drive.size {
        Some(size) => Some(size.0),
        None if is_block_device(&path) => None,
        None => Some(embedded_bytes(&settings.data)?),
    };
    Ok(DriveEntry { path, size_bytes })
}

fn is_block_device(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_block_device())
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

/// The remembered drives; `None` before the first start has ended.
pub(crate) fn load(data: &Path) -> Result<Option<Vec<DriveEntry>>> {
    let mend = "restore it: an object with \"version\": 1 and the \"drives\", each with \"path\" and \"size_bytes\"";
    let list = remembered::load::<ListFile>(&data.join(LIST_FILE), mend)?;
    Ok(list.map(|list| list.drives))
}

/// Refuses drives that are not the pool's (D1). Without drives on the command line there is nothing to compare; sizes are
/// compared only where they were given, as the default follows the free space.
fn check_same(settings: &Settings, known: &[DriveEntry], wanted: &[DriveEntry]) -> Result<()> {
    let given = settings.drives.iter().map(|drive| drive.size.is_some());
    let same = wanted.is_empty()
        || known.len() == wanted.len()
            && known.iter().zip(wanted).zip(given).all(|((known, wanted), given)| {
                known.path == wanted.path && (!given || known.size_bytes == wanted.size_bytes)
            });
    if same {
        return Ok(());
    }
    let list: Vec<String> = known.iter().map(describe).collect();
    Err(Failure::misuse(format!(
        "the pool of {} lies on other drives: {}",
        settings.data.display(),
        list.join(", ")
    ))
    .hint("leave out --drive, or choose another --data for another pool"))
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
    fn remembered_drives_return_and_others_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let first = settings(dir.path(), &[("/a", Some(1 << 30)), ("/b", Some(2 << 30))]);
        let drives = Drives::choose(&first).unwrap();
        drives.remember(dir.path()).unwrap();
        let again = Drives::choose(&settings(dir.path(), &[])).unwrap();
        assert_eq!((&again.entries, again.remembered), (&drives.entries, true));
        assert!(Drives::choose(&first).unwrap().remembered);
        for other in [vec![("/a", None)], vec![("/a", None), ("/b", Some(3 << 30))]] {
            let refused = Drives::choose(&settings(dir.path(), &other)).unwrap_err().to_string();
            assert!(refused.contains("lies on other drives: /a=1 GiB, /b=2 GiB"), "{refused}");
        }
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
