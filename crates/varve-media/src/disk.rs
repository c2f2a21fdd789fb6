//! Bytes at offsets: what drives are made of. Called by `Drive`; implemented by files, memory and the simulator.
//!
//! DISK-1. Offsets and lengths are multiples of [`MEDIA_ALIGN`]; anything else panics, as it is a fault of the caller.
//! DISK-2. A [`Persist::Durable`] write survives power loss once it returned; a cached one after the next flush
//!     returned.
//! DISK-3. An operation starts when it is called, not when its future is polled, and dropping the future does not stop
//!     it.
//! DISK-4. Writes under way at once may land in any order; a write cut off by power loss leaves any mixture of sectors.

use std::rc::Rc;

use varve_stdx::{AlignedBuf, BufSlice};
use varve_types::limits::MEDIA_ALIGN;

use crate::contract::IoFuture;
use crate::{Error, Result};

/// When a write survives power loss (DISK-2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Persist {
    /// When a later flush returns.
    Cached,
    /// When the write returns.
    Durable,
}

/// What operations a disk has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskOperation {
    /// Reads.
    Read,
    /// Writes that return before they are durable.
    WriteCached,
    /// Writes that return when they are durable.
    WriteDurable,
    /// Flushes.
    Flush,
    /// Discards.
    Discard,
}

impl DiskOperation {
    /// All of them, in the order in which statistics list them.
    pub const ALL: [Self; 5] =
        [Self::Read, Self::WriteCached, Self::WriteDurable, Self::Flush, Self::Discard];

    /// The write of that kind.
    #[must_use]
    pub const fn write(persist: Persist) -> Self {
        match persist {
            Persist::Cached => Self::WriteCached,
            Persist::Durable => Self::WriteDurable,
        }
    }
}

/// A byte-addressable medium. It may become longer while it is open.
pub trait Disk {
    /// What messages call it: its file, device or simulated name.
    fn path(&self) -> &str;

    /// Size in bytes.
    fn size(&self) -> u64;

    /// Reads `len` bytes at `offset`.
    fn read(&self, offset: u64, len: usize) -> IoFuture<'_, AlignedBuf>;

    /// Writes `bytes` at `offset`.
    fn write(&self, offset: u64, bytes: BufSlice, persist: Persist) -> IoFuture<'_, ()>;

    /// As [`Self::write`], of parts one after the other, each aligned (DISK-1). The default joins them, which copies
    /// all but a single one.
    fn write_gathered(
        &self,
        offset: u64,
        parts: Vec<BufSlice>,
        persist: Persist,
    ) -> IoFuture<'_, ()> {
        self.write(offset, join_parts(parts), persist)
    }

    /// Makes every write durable that returned before this call.
    fn flush(&self) -> IoFuture<'_, ()>;

    /// Takes room for a range, so that writing it later takes none; `NoSpace` when there is not enough. Fixed media
    /// have it.
    fn allocate(&self, offset: u64, len: u64) -> IoFuture<'_, ()> {
        let _ = (offset, len);
        Box::pin(std::future::ready(Ok(())))
    }

    /// Says that `len` bytes at `offset` are not needed; they read as anything from now on. A hint.
    fn discard(&self, offset: u64, len: u64) -> IoFuture<'_, ()>;

    /// Fails with `Fenced` when another owner has taken the medium over.
    ///
    /// # Errors
    /// [`Error::Fenced`].
    fn check_fence(&self) -> Result<()> {
        Ok(())
    }
}

/// Asserts DISK-1 and that the range lies inside a medium of `size` bytes.
pub(crate) fn assert_range(size: u64, offset: u64, len: u64) {
    assert!(offset.is_multiple_of(MEDIA_ALIGN as u64), "unaligned offset {offset}"); // DISK-1
    assert!(len.is_multiple_of(MEDIA_ALIGN as u64), "unaligned length {len}"); // DISK-1
    let end = offset.checked_add(len).expect("the end of a transfer fits 64 bits");
    assert!(end <= size, "{len} bytes at {offset} lie outside {size} bytes");
}

/// Bytes of all parts together.
pub(crate) fn bytes_of(parts: &[BufSlice]) -> u64 {
    parts.iter().map(|part| part.len() as u64).sum()
}

/// Parts as one; a single one is not copied.
pub(crate) fn join_parts(mut parts: Vec<BufSlice>) -> BufSlice {
    if parts.len() == 1 {
        return parts.swap_remove(0);
    }
    let mut joined = AlignedBuf::scratch(parts.iter().map(|part| part.len()).sum());
    let mut at = 0;
    for part in &parts {
        joined[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    joined.freeze()
}

/// A part of a disk, addressed from 0.
pub struct Section {
    disk: Rc<dyn Disk>,
    start: u64,
    /// `None` of one that ends where the disk does, also once that is longer.
    size: Option<u64>,
}

impl Section {
    /// `size` bytes of `disk` from `start`.
    ///
    /// # Errors
    /// [`Error::TooSmall`] when the disk ends before the section does.
    ///
    /// # Panics
    /// When the section is not aligned (DISK-1).
    pub fn new(disk: Rc<dyn Disk>, start: u64, size: u64) -> Result<Self> {
        assert!(start.is_multiple_of(MEDIA_ALIGN as u64), "unaligned section at {start}");
        assert!(size.is_multiple_of(MEDIA_ALIGN as u64), "unaligned section of {size}");
        let need = start.saturating_add(size);
        if need > disk.size() {
            return Err(Error::TooSmall { path: disk.path().into(), have: disk.size(), need });
        }
        Ok(Self { disk, start, size: Some(size) })
    }

    /// All of `disk` from `start`, at least `size` bytes now, and more once the disk has them.
    ///
    /// # Errors
    /// [`Error::TooSmall`] when the disk ends before that.
    ///
    /// # Panics
    /// As [`Self::new`].
    pub fn to_the_end(disk: Rc<dyn Disk>, start: u64, size: u64) -> Result<Self> {
        Ok(Self { size: None, ..Self::new(disk, start, size)? })
    }

    /// Without a size of its own the disk says what is outside.
    fn check(&self, offset: u64, len: u64) {
        if let Some(size) = self.size {
            assert_range(size, offset, len);
        }
    }
}

impl Disk for Section {
    fn path(&self) -> &str {
        self.disk.path()
    }

    fn size(&self) -> u64 {
        self.size.unwrap_or_else(|| self.disk.size().saturating_sub(self.start))
    }

    fn read(&self, offset: u64, len: usize) -> IoFuture<'_, AlignedBuf> {
        self.check(offset, len as u64);
        self.disk.read(self.start + offset, len)
    }

    fn write(&self, offset: u64, bytes: BufSlice, persist: Persist) -> IoFuture<'_, ()> {
        self.check(offset, bytes.len() as u64);
        self.disk.write(self.start + offset, bytes, persist)
    }

    fn write_gathered(
        &self,
        offset: u64,
        parts: Vec<BufSlice>,
        persist: Persist,
    ) -> IoFuture<'_, ()> {
        self.check(offset, bytes_of(&parts));
        self.disk.write_gathered(self.start + offset, parts, persist)
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        self.disk.flush()
    }

    fn allocate(&self, offset: u64, len: u64) -> IoFuture<'_, ()> {
        self.check(offset, len);
        self.disk.allocate(self.start + offset, len)
    }

    fn discard(&self, offset: u64, len: u64) -> IoFuture<'_, ()> {
        self.check(offset, len);
        self.disk.discard(self.start + offset, len)
    }

    fn check_fence(&self) -> Result<()> {
        self.disk.check_fence()
    }
}
