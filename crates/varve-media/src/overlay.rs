//! A disk whose writes stay in memory: what is below is read and never changed. For looking at a pool with the code
//! that serves it, which writes while it recovers.
//!
//! OVERLAY-1. No write, flush or discard reaches the disk below.
//! OVERLAY-2. A page that was written reads as written; every other page reads as the disk below has it.
//! OVERLAY-3. Written pages of all overlays that share an [`OverlayMemory`] take no more than its bound; a write beyond
//!     it fails.

use std::cell::{Cell, RefCell};
use std::future::ready;
use std::rc::Rc;

use varve_stdx::{AlignedBuf, BufSlice};
use varve_types::limits::MEDIA_ALIGN;

use crate::contract::IoFuture;
use crate::disk::{Disk, Persist, assert_range};
use crate::mem::SparseBytes;
use crate::{Error, Result};

/// How much overlays may keep, and how much they do.
#[derive(Debug)]
pub struct OverlayMemory {
    bytes: Cell<u64>,
    bytes_max: u64,
}

impl OverlayMemory {
    /// Room for `bytes_max` bytes of written pages.
    #[must_use]
    pub fn new(bytes_max: u64) -> Rc<Self> {
        Rc::new(Self { bytes: Cell::new(0), bytes_max })
    }

    /// Bytes kept now.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.get()
    }

    pub(crate) fn take(&self, bytes: u64) -> Result<()> {
        if self.bytes.get() + bytes > self.bytes_max {
            return Err(Error::OverlayFull { bytes_max: self.bytes_max }); // OVERLAY-3
        }
        self.bytes.set(self.bytes.get() + bytes);
        Ok(())
    }

    pub(crate) fn give_back(&self, bytes: u64) {
        self.bytes.set(self.bytes.get() - bytes);
    }
}

/// The pages of something that were written.
pub(crate) struct OverlayPages {
    written: RefCell<SparseBytes>,
    memory: Rc<OverlayMemory>,
}

impl OverlayPages {
    pub(crate) fn new(memory: Rc<OverlayMemory>) -> Self {
        Self { written: RefCell::default(), memory }
    }

    pub(crate) fn keep(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut written = self.written.borrow_mut();
        let new = bytes.len() as u64 - written.present_bytes(offset, bytes.len() as u64);
        self.memory.take(new)?;
        written.write(offset, bytes);
        Ok(())
    }

    /// The bytes of a range all of whose pages were written.
    pub(crate) fn whole(&self, offset: u64, len: usize) -> Option<AlignedBuf> {
        let written = self.written.borrow();
        if written.present_bytes(offset, len as u64) < len as u64 {
            return None;
        }
        let mut buf = AlignedBuf::scratch(len);
        written.read(offset, &mut buf);
        Some(buf)
    }

    /// Replaces what `out` holds of written pages (OVERLAY-2).
    pub(crate) fn patch(&self, offset: u64, out: &mut [u8]) {
        self.written.borrow().patch(offset, out);
    }
}

impl Drop for OverlayPages {
    fn drop(&mut self) {
        self.memory.give_back(self.written.borrow().written_bytes());
    }
}

/// See the module.
pub struct OverlayDisk {
    below: Rc<dyn Disk>,
    pages: Rc<OverlayPages>,
}

impl OverlayDisk {
    /// An overlay that holds nothing yet.
    #[must_use]
    pub fn new(below: Rc<dyn Disk>, memory: Rc<OverlayMemory>) -> Self {
        Self { below, pages: Rc::new(OverlayPages::new(memory)) }
    }
}

impl Disk for OverlayDisk {
    fn path(&self) -> &str {
        self.below.path()
    }

    fn size(&self) -> u64 {
        self.below.size()
    }

    fn read(&self, offset: u64, len: usize) -> IoFuture<'_, AlignedBuf> {
        assert_range(self.size(), offset, len as u64);
        if let Some(buf) = self.pages.whole(offset, len) {
            // Nothing is asked of the disk below, which may be unable to read what was written since.
            return Box::pin(ready(Ok(buf)));
        }
        let below = self.below.read(offset, len);
        let pages = Rc::clone(&self.pages);
        Box::pin(async move {
            let mut buf = below.await?;
            pages.patch(offset, &mut buf); // OVERLAY-2
            Ok(buf)
        })
    }

    fn write(&self, offset: u64, bytes: BufSlice, _: Persist) -> IoFuture<'_, ()> {
        assert_range(self.size(), offset, bytes.len() as u64);
        Box::pin(ready(self.pages.keep(offset, &bytes))) // OVERLAY-1
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }

    fn discard(&self, offset: u64, len: u64) -> IoFuture<'_, ()> {
        assert_range(self.size(), offset, len);
        Box::pin(ready(Ok(())))
    }
}

const _: () = assert!(MEDIA_ALIGN == SparseBytes::PAGE_BYTES, "writes are whole pages");

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::MemDisk;

    fn now<T>(future: IoFuture<'_, T>) -> Result<T> {
        future.now_or_never().expect("memory answers at once")
    }

    #[test]
    fn writes_stay_above_and_show_through_reads() {
        let below = MemDisk::new("below", 64 << 10);
        let old = BufSlice::copy_from(&[1; 8192]);
        now(below.write(4096, old, Persist::Durable)).expect("write below");
        let memory = OverlayMemory::new(8192);
        let disk = OverlayDisk::new(Rc::new(below.clone()), Rc::clone(&memory));
        let new = BufSlice::copy_from(&[2; 4096]);
        now(disk.write(8192, new.clone(), Persist::Durable)).expect("write above");
        let seen = now(disk.read(0, 16384)).expect("read");
        assert!(seen[..4096].iter().all(|byte| *byte == 0));
        assert!(seen[4096..8192].iter().all(|byte| *byte == 1));
        assert!(seen[8192..12288].iter().all(|byte| *byte == 2));
        assert!(seen[12288..].iter().all(|byte| *byte == 0));
        assert!(now(below.read(8192, 4096)).expect("read below").iter().all(|byte| *byte == 1));
        assert_eq!(memory.bytes(), 4096);
        // The same page again takes nothing; two more are one too many.
        now(disk.write(8192, new, Persist::Cached)).expect("write again");
        let two = BufSlice::copy_from(&[3; 8192]);
        let refused = now(disk.write(20480, two, Persist::Cached)).expect_err("beyond the bound");
        assert!(matches!(refused, Error::OverlayFull { bytes_max: 8192 }), "{refused}");
        drop(disk);
        assert_eq!(memory.bytes(), 0);
    }
}
