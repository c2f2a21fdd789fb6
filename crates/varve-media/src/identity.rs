//! Which drive of which pool lies at a path, as its superblock says. Nothing is locked or written.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use varve_types::PoolId;

use crate::blocking::{BlockingDisk, finish};
use crate::format::UNIT_BYTES;
use crate::making::was_opened;
use crate::pool_files::META_FILE;
use crate::redundant_superblock::RedundantSuperblock;
use crate::superblock_copies::read_any_superblock;
use crate::uring::open_error;
use crate::{Error, Result};

/// A drive as its superblock describes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DriveIdentity {
    /// Its pool.
    pub pool: PoolId,
    /// Which of the pool's drives it is, from 0; the number of a drive of a redundant pool.
    pub index: u16,
    /// Drives of the pool; 0 of a redundant one, whose tables say that.
    pub count: u16,
    /// Bytes of a segment's slot.
    pub segment_bytes: u32,
    /// Slots on the drive; 0 on one of a redundant pool, which has units.
    pub segment_count: u32,
    /// What a drive of a redundant pool says beside; `None` of another one.
    pub redundant: Option<RedundantIdentity>,
}

/// What tells a drive of a redundant pool from all others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RedundantIdentity {
    /// Random; never used again.
    pub drive_id: [u8; 16],
    /// Units of 64 KiB on it.
    pub units: u32,
    /// Whether its pool was opened once, or may have been: then it is none whose making was cut off (MAKING-3).
    pub was_opened: bool,
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
        let disk = BlockingDisk::open_read_only(&meta)?;
        let superblock = finish(read_any_superblock(&disk))?;
        let identity = |it: RedundantSuperblock| RedundantIdentity {
            drive_id: it.drive_id,
            units: it.units,
            was_opened: finish(was_opened(&disk, &it)).unwrap_or(true),
        };
        Ok(Self {
            pool: superblock.pool,
            index: superblock.drive_index,
            count: superblock.drive_count,
            segment_bytes: superblock.segment_bytes,
            segment_count: superblock.segment_count,
            redundant: RedundantSuperblock::of_stored(&superblock).map(identity),
        })
    }

    /// Bytes of its segments, or units.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        let (each, count) = self.room();
        each * count
    }

    /// Whether a drive that was made with `size_bytes` has as many segments, or units.
    #[must_use]
    pub fn has_size(&self, size_bytes: u64) -> bool {
        let (each, count) = self.room();
        size_bytes / each == count
    }

    /// What its room is divided into: bytes of each part, and how many there are.
    fn room(&self) -> (u64, u64) {
        match self.redundant {
            Some(redundant) => (UNIT_BYTES, u64::from(redundant.units)),
            None => (u64::from(self.segment_bytes), u64::from(self.segment_count)),
        }
    }
}

fn no_pool(path: &Path) -> Error {
    Error::NoPool { path: path.display().to_string() }
}
