//! What is said of a place for a drive that holds something.

use std::path::Path;

/// How a place that holds something is used anyway.
pub(crate) fn wiping(path: &str) -> String {
    if Path::new(path).is_dir() {
        return format!("give an empty directory, or empty {path} first");
    }
    let superblocks = format!("dd if=/dev/zero of={path} bs=1M count=4 conv=notrunc");
    format!("to use it anyway, wipe it: `blkdiscard -f {path}` for a device, or `{superblocks}`")
}
