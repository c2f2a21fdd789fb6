//! Which drive of which pool lies at a path, as its superblock says. Nothing is locked or written.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use varve_types::PoolId;

use crate::blocking::{BlockingDisk, finish};
use crate::pool_files::META_FILE;
use crate::superblock_copies::read_superblock;
use crate::uring::open_error;
use crate::{Error, Result};

/// A drive as its superblock describes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DriveIdentity {
    /// Its pool.
    pub pool: PoolId,
    /// Which of the pool's drives it is, from 0.
    pub index: u16,
    /// Drives of the pool.
    pub count: u16,
    /// Bytes of a segment's slot.
    pub segment_bytes: u32,
    /// Slots on the drive.
    pub segment_count: u32,
}

impl DriveIdentity {
    /// Reads the superblock of a block device, file or directory.
    ///
    /// # Errors
    /// [`Error::NoPool`] for whatever else there is, [`Error::Corrupt`], [`Error::Unsupported`], or the system's.
    pub fn read(path: &Path) -> Result<Self> {
        let metadata = fs::metadata(path).map_err(|error| open_error(path, &error))?;
        let meta = if metadata.is_dir() { path.join(META_FILE) } else { path.to_owned() };
        let kind = match fs::metadata(&meta) {
            Ok(metadata) => metadata.file_type(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(no_pool(path));
            }
            Err(error) => return Err(open_error(&meta, &error)),
        };
        if !kind.is_file() && !kind.is_block_device() {
            return Err(no_pool(path)); // Opening others may wait for somebody.
        }
        let superblock = finish(read_superblock(&BlockingDisk::open_read_only(&meta)?))?;
        Ok(Self {
            pool: superblock.pool,
            index: superblock.drive_index,
            count: superblock.drive_count,
            segment_bytes: superblock.segment_bytes,
            segment_count: superblock.segment_count,
        })
    }

    /// Bytes of its segments.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        u64::from(self.segment_bytes) * u64::from(self.segment_count)
    }

    /// Whether a drive that was made with `size_bytes` has as many segments.
    #[must_use]
    pub fn has_size(&self, size_bytes: u64) -> bool {
        size_bytes / u64::from(self.segment_bytes) == u64::from(self.segment_count)
    }
}

fn no_pool(path: &Path) -> Error {
    Error::NoPool { path: path.display().to_string() }
}
