//! Files that are overwritten in place, also where the file system copies on write.
//!
//! IN-PLACE-1. Roots, superblocks and lanes are overwritten on a full host too. btrfs writes each change to a new
//!     place, for which a full host has no room: the whole pool would stop. So files are made there with the attribute
//!     that keeps them in place (`chattr +C`), which it takes for empty files only.

use std::fs::File;
use std::path::Path;

use rustix::fs::{IFlags, fstatfs, ioctl_getflags, ioctl_setflags};

use crate::{Error, Result};

/// What `statfs` calls btrfs.
const BTRFS_MAGIC: u32 = 0x9123_683E;

/// Whether changes to this file go elsewhere.
pub(crate) fn is_copied_on_write(file: &File) -> bool {
    let is_btrfs = fstatfs(file).is_ok_and(|stat| u32::try_from(stat.f_type) == Ok(BTRFS_MAGIC));
    is_btrfs && !ioctl_getflags(file).is_ok_and(|flags| flags.contains(IFlags::NOCOW))
}

/// Has a file overwritten in place from now on (IN-PLACE-1); it is emptied for that where it has to be.
///
/// # Errors
/// [`Error::CopiedOnWrite`], [`Error::Open`].
pub(crate) fn overwrite_in_place(file: &File, path: &Path) -> Result<()> {
    if !is_copied_on_write(file) {
        return Ok(());
    }
    file.set_len(0).map_err(|error| crate::uring::open_error(path, &error))?;
    let flags = ioctl_getflags(file).unwrap_or(IFlags::empty());
    let set = ioctl_setflags(file, flags | IFlags::NOCOW);
    if set.is_err() || is_copied_on_write(file) {
        return Err(Error::CopiedOnWrite { path: path.display().to_string() });
    }
    Ok(())
}
