//! Files of this machine as bodies of puts.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use varve_stdx::checksum64;

/// Files below a directory, in an order by chance that is the same each time, until they have so many bytes together.
/// Links are left out.
pub(crate) fn pick(directory: &Path, bytes: u64) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                directories.push(entry.path());
            } else if kind.is_file() {
                files.push((entry.path(), entry.metadata()?.len()));
            }
        }
    }
    files.sort_by_cached_key(|(path, _)| checksum64(path.as_os_str().as_encoded_bytes()));
    let mut sum = 0;
    let picked = files.into_iter().take_while(|(_, len)| {
        let is_more = sum < bytes;
        sum += len;
        is_more
    });
    Ok(picked.map(|(path, _)| path).collect())
}
