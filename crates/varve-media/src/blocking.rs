//! A file or block device as a disk whose operations block the caller: for making and inspecting pools without a loop.

use std::fs::File;
use std::future::ready;
use std::os::unix::fs::FileExt;
use std::path::Path;

use futures_util::FutureExt;
use varve_stdx::{AlignedBuf, BufSlice};

use crate::contract::IoFuture;
use crate::disk::{Disk, Persist, assert_range};
use crate::uring::{FileAccess, open_direct, size_of_file};
use crate::{Error, Result};

/// A file or block device. Every future it returns is complete.
pub(crate) struct BlockingDisk {
    path: String,
    file: File,
    size: u64,
}

/// The result of a future that only waits for [`BlockingDisk`]s.
pub(crate) fn finish<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("operations of a blocking disk are complete when they return")
}

impl BlockingDisk {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        Self::over(path, open_direct(path, FileAccess::ReadWrite)?)
    }

    /// Opens it for reading: writes fail.
    pub(crate) fn open_read_only(path: &Path) -> Result<Self> {
        Self::over(path, open_direct(path, FileAccess::ReadOnly)?)
    }

    fn over(path: &Path, file: File) -> Result<Self> {
        let size = size_of_file(&file, path)? / 4096 * 4096;
        Ok(Self { path: path.display().to_string(), file, size })
    }

    fn result<T>(
        &self,
        operation: &'static str,
        offset: u64,
        len: usize,
        result: std::io::Result<T>,
    ) -> IoFuture<'_, T>
    where
        T: 'static,
    {
        let result = result.map_err(|error| Error::Io {
            operation,
            path: self.path.clone(),
            offset,
            len: len as u64,
            reason: error.to_string(),
        });
        Box::pin(ready(result))
    }
}

impl Disk for BlockingDisk {
    fn path(&self) -> &str {
        &self.path
    }

    fn size(&self) -> u64 {
        self.size
    }

    fn read(&self, offset: u64, len: usize) -> IoFuture<'_, AlignedBuf> {
        assert_range(self.size, offset, len as u64);
        let mut buf = AlignedBuf::zeroed(len);
        let read = self.file.read_exact_at(&mut buf, offset).map(|()| buf);
        self.result("read", offset, len, read)
    }

    fn write(&self, offset: u64, bytes: BufSlice, persist: Persist) -> IoFuture<'_, ()> {
        assert_range(self.size, offset, bytes.len() as u64);
        let mut written = self.file.write_all_at(&bytes, offset);
        if persist == Persist::Durable && written.is_ok() {
            written = self.file.sync_data();
        }
        self.result("write", offset, bytes.len(), written)
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        self.result("flush", 0, 0, self.file.sync_data())
    }

    fn discard(&self, _: u64, _: u64) -> IoFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }
}
