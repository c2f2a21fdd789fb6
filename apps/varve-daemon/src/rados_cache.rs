//! The local read cache of a pool on RADOS: a file on this machine's flash that holds copies only.
//!
//! RADOS-CACHE-1. A file that is there and was not made for this is never overwritten.
//! RADOS-CACHE-2. Whoever has it locks it: two daemons would read each other's copies.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use varve_client::{Failure, Result};
use varve_media::{Disk, Section, UringDisk};
use varve_reactor::Reactor;

use crate::config::Settings;
use crate::lock::take_lock;

/// Name of the file in the data directory.
const FILE: &str = "read-cache";

/// What it begins with (RADOS-CACHE-1); the rest of the first part is left alone.
const MARK: &[u8; 16] = b"varve read cache";
const HEAD_BYTES: u64 = 1 << 20;

/// Each shard's part of it is a multiple of this.
const PART_BYTES: u64 = 1 << 20;

/// See the module. Shared by threads.
pub(crate) struct RadosCache {
    path: PathBuf,
    _lock: File,
    shard_bytes: u64,
}

impl RadosCache {
    /// Makes the file, empty; `None` where the settings want no cache. Blocks.
    pub(crate) fn make(settings: &Settings, shards: u32) -> Result<Option<Self>> {
        let shard_bytes = settings.rados.read_cache.0 / u64::from(shards.max(1));
        let shard_bytes = shard_bytes / PART_BYTES * PART_BYTES;
        if shard_bytes == 0 {
            return Ok(None);
        }
        let path = settings.rados.read_cache_path.clone();
        let path = path.unwrap_or_else(|| settings.data.join(FILE));
        let file = open(&path)?;
        let size = HEAD_BYTES + shard_bytes * u64::from(shards);
        // The mark first: a file without it is nobody's (RADOS-CACHE-1).
        let marked = file.set_len(0).and_then(|()| file.write_all_at(MARK, 0));
        let marked = marked.and_then(|()| file.sync_data());
        let made = marked.and_then(|()| file.set_len(size));
        made.map_err(|error| failed(&path, &error))?;
        Ok(Some(Self { path, _lock: file, shard_bytes }))
    }

    /// A shard's part, by its number among those of all cells, for the loop of its thread.
    pub(crate) fn disk(&self, reactor: &Reactor, number: u32) -> varve_media::Result<Rc<dyn Disk>> {
        let start = HEAD_BYTES + u64::from(number) * self.shard_bytes;
        let file = Rc::new(UringDisk::open(reactor, &self.path)?);
        Ok(Rc::new(Section::new(file, start, self.shard_bytes)?))
    }
}

/// Opens and locks the file (RADOS-CACHE-1, RADOS-CACHE-2).
fn open(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    let opened = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path);
    let mut file = opened.map_err(|error| failed(path, &error))?;
    let held = |error: &TryLockError| matches!(error, TryLockError::WouldBlock);
    take_lock(|| file.try_lock(), held).map_err(|error| {
        Failure::new(format!("read cache {}: {error}", path.display()))
            .hint("another daemon has it: choose another rados.read_cache_path")
    })?;
    let metadata = file.metadata().map_err(|error| failed(path, &error))?;
    let mut mark = [0; MARK.len()];
    let is_ours = metadata.is_file()
        && (metadata.len() == 0 || file.read_exact(&mut mark).is_ok() && mark == *MARK);
    if !is_ours {
        return Err(Failure::misuse(format!("{} is not a read cache", path.display())).hint(
            "it would be overwritten: name a file that is not there yet in rados.read_cache_path",
        ));
    }
    Ok(file)
}

fn failed(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("read cache {}: {error}", path.display()))
        .hint("see rados.read_cache and rados.read_cache_path")
}

#[cfg(test)]
mod tests {
    use varve_types::ByteCount;

    use super::*;

    fn settings(data: &Path, size: u64) -> Settings {
        let mut settings = Settings { data: data.to_owned(), ..Settings::default() };
        settings.rados.read_cache = ByteCount(size);
        settings
    }

    #[test]
    fn a_cache_belongs_to_one_process_and_overwrites_nothing() {
        let dir = tempfile::tempdir().unwrap();
        assert!(RadosCache::make(&settings(dir.path(), 1 << 20), 2).unwrap().is_none());
        let mut wanted = settings(dir.path(), 5 << 20);
        let cache = RadosCache::make(&wanted, 2).unwrap().unwrap();
        assert_eq!(cache.shard_bytes, 2 << 20);
        assert_eq!(std::fs::metadata(&cache.path).unwrap().len(), 5 << 20);
        assert_eq!(RadosCache::make(&wanted, 2).err().unwrap().exit_code(), 1, "it is locked");
        drop(cache);
        RadosCache::make(&wanted, 2).unwrap().unwrap();
        let other = dir.path().join("letters");
        std::fs::write(&other, "what nobody may overwrite").unwrap();
        wanted.rados.read_cache_path = Some(other.clone());
        assert_eq!(RadosCache::make(&wanted, 2).err().unwrap().exit_code(), 2);
        assert_eq!(std::fs::read(&other).unwrap(), b"what nobody may overwrite");
    }
}
