//! Tells a file or directory from a copy of it.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

/// Which file or directory lies at a path: it stays the same when it is renamed, and a copy of it has another.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct FileMark {
    inode: u64,
    /// When it was created, where the file system tells: numbers of inodes are used again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    created_unix_ns: Option<u64>,
}

impl FileMark {
    /// That of what lies there now; none of a block device, or where nothing can be read.
    pub(super) fn read(path: &Path) -> Option<Self> {
        let found = fs::metadata(path).ok().filter(|found| !found.file_type().is_block_device())?;
        let created = found.created().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        let created_unix_ns = created.and_then(|since| u64::try_from(since.as_nanos()).ok());
        Some(Self { inode: found.ino(), created_unix_ns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_renamed_keeps_its_mark_and_a_copy_has_another() {
        let dir = tempfile::tempdir().unwrap();
        let [first, renamed, copy] = ["a", "b", "c"].map(|name| dir.path().join(name));
        fs::write(&first, "x").unwrap();
        let mark = FileMark::read(&first).unwrap();
        fs::rename(&first, &renamed).unwrap();
        fs::copy(&renamed, &copy).unwrap();
        assert_eq!(FileMark::read(&renamed), Some(mark));
        assert_ne!(FileMark::read(&copy), Some(mark));
        assert_eq!(FileMark::read(&first), None);
    }
}
