//! A target that answers at once and keeps nothing: what remains is the cost of the load itself.

use std::future::ready;

use varve_media::{Disk, IoFuture, Persist};
use varve_stdx::{AlignedBuf, BufSlice};

/// Answers at once. Reads find any bytes.
pub(crate) struct NullDisk {
    size_bytes: u64,
}

impl NullDisk {
    pub(crate) fn new(size_bytes: u64) -> Self {
        Self { size_bytes }
    }
}

impl Disk for NullDisk {
    fn path(&self) -> &'static str {
        "null"
    }

    fn size(&self) -> u64 {
        self.size_bytes
    }

    fn read(&self, _: u64, len: usize) -> IoFuture<'_, AlignedBuf> {
        Box::pin(ready(Ok(AlignedBuf::scratch(len))))
    }

    fn write(&self, _: u64, _: BufSlice, _: Persist) -> IoFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }

    fn discard(&self, _: u64, _: u64) -> IoFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }
}
