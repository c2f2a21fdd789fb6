//! Modes of a pool's files: their owner alone may open them, wherever they are and whatever the umask is. They hold
//! everything that is stored.
//!
//! Devices keep the modes that the system gives them.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// What group and others may do.
const OTHERS: u32 = 0o077;

/// To open a file for writing, which is created if it is absent.
pub(crate) fn create_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).mode(0o600);
    options
}

/// Creates a directory, unless it is there: then its mode stays, as it may be a mount point that others share.
pub(crate) fn create_directory(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Takes from group and others what they may do with a file. A file that is not there, or is another user's, is left to
/// whoever opens it.
pub(crate) fn tighten(path: &Path) {
    let Ok(metadata) = fs::metadata(path) else { return };
    let mode = metadata.permissions().mode();
    if !metadata.is_file() || mode & OTHERS == 0 {
        return;
    }
    let tightened = fs::set_permissions(path, Permissions::from_mode(mode & 0o7777 & !OTHERS));
    let (path, was) = (path.display(), format!("{:04o}", mode & 0o7777));
    match tightened {
        Ok(()) => {
            tracing::warn!(%path, was, "other users could open a file of the pool: its mode is 0600 now")
        }
        Err(error) => tracing::warn!(%path, was, %error, "other users can open a file of the pool"),
    }
}
