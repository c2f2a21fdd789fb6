//! Media whose writes stay in memory, for those that are not made of disks: what is below is read and never changed.
//!
//! OVERLAY-MEDIA-1. No put, deletion, append or replacement reaches the media below, nor is their fence asked or given
//!     back.
//! OVERLAY-MEDIA-2. What was written reads as written; everything else reads as the media below have it.
//! OVERLAY-MEDIA-3. Segments and frames take no more than the bound of their [`OverlayMemory`]; roots, of which there
//!     are two, are not counted.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::ready;
use std::rc::Rc;

use varve_stdx::{AlignedBuf, BufSlice};
use varve_types::SegmentNumber;

use crate::contract::{
    Fence, IoFuture, JournalStore, Media, RootKey, RootStore, RootVersion, SegmentGeometry,
    SegmentId, SegmentStore, refused,
};
use crate::overlay::{OverlayMemory, OverlayPages};
use crate::{Error, Result};

/// Media over others. See the module (OVERLAY-MEDIA-1).
#[must_use]
pub fn overlay_media(below: Media, memory: &Rc<OverlayMemory>) -> Media {
    let Media { segments, journal, roots, .. } = below;
    Media {
        segments: Rc::new(OverlaySegments {
            below: segments,
            written: RefCell::default(),
            memory: Rc::clone(memory),
        }),
        journal: Rc::new(OverlayJournal {
            below: journal,
            pages: OverlayPages::new(Rc::clone(memory)),
            is_restarted: Cell::new(false),
        }),
        roots: Rc::new(OverlayRoots { below: roots, written: RefCell::default() }),
        fence: Rc::new(OverlayFence),
    }
}

struct OverlaySegments {
    below: Rc<dyn SegmentStore>,
    /// None where the segment was deleted.
    written: RefCell<BTreeMap<SegmentNumber, Option<BufSlice>>>,
    memory: Rc<OverlayMemory>,
}

impl OverlaySegments {
    fn check(&self, segment: SegmentNumber, offset: u64, len: u64) -> Result<()> {
        let SegmentGeometry { segment_bytes, segment_count } = self.geometry();
        let inside = segment.0 < segment_count
            && offset.checked_add(len).is_some_and(|end| end <= u64::from(segment_bytes));
        if inside { Ok(()) } else { Err(Error::OutOfRange { segment, offset, len }) }
    }

    fn keep(&self, number: SegmentNumber, bytes: Option<BufSlice>) -> Result<()> {
        let mut written = self.written.borrow_mut();
        let size = |bytes: &Option<BufSlice>| bytes.as_ref().map_or(0, |bytes| bytes.len() as u64);
        let (before, now) = (written.get(&number).map_or(0, size), size(&bytes));
        self.memory.take(now.saturating_sub(before))?; // OVERLAY-MEDIA-3
        self.memory.give_back(before.saturating_sub(now));
        written.insert(number, bytes);
        Ok(())
    }
}

impl Drop for OverlaySegments {
    fn drop(&mut self) {
        let written = self.written.borrow();
        self.memory.give_back(written.values().flatten().map(|bytes| bytes.len() as u64).sum());
    }
}

impl SegmentStore for OverlaySegments {
    fn geometry(&self) -> SegmentGeometry {
        self.below.geometry()
    }

    fn allocate(&self, first: SegmentNumber, count: u32) -> IoFuture<'_, ()> {
        let last = SegmentNumber(first.0.saturating_add(count).saturating_sub(1));
        Box::pin(ready(self.check(last, 0, 0)))
    }

    fn put(&self, id: SegmentId, bytes: BufSlice) -> IoFuture<'_, ()> {
        let may = self.check(id.number, 0, bytes.len() as u64);
        Box::pin(ready(may.and_then(|()| self.keep(id.number, Some(bytes)))))
    }

    fn get(&self, id: SegmentId, offset: u32, len: u32) -> IoFuture<'_, BufSlice> {
        let written = self.written.borrow().get(&id.number).cloned();
        let Some(bytes) = written else { return self.below.get(id, offset, len) }; // OVERLAY-MEDIA-2
        if let Err(error) = self.check(id.number, u64::from(offset), u64::from(len)) {
            return refused(error);
        }
        let (offset, len) = (offset as usize, len as usize);
        let mut out = AlignedBuf::zeroed(len);
        if let Some(bytes) = bytes.as_ref().and_then(|bytes| bytes.get(offset..)) {
            let count = bytes.len().min(len);
            out[..count].copy_from_slice(&bytes[..count]);
        }
        Box::pin(ready(Ok(out.freeze())))
    }

    fn settle(&self) -> IoFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }

    fn delete(&self, id: SegmentId) -> IoFuture<'_, ()> {
        let may = self.check(id.number, 0, 0);
        Box::pin(ready(may.and_then(|()| self.keep(id.number, None))))
    }

    fn domain(&self, number: SegmentNumber) -> Option<u32> {
        self.below.domain(number)
    }

    /// None: leftovers are for who can delete them.
    fn present(&self) -> IoFuture<'_, Vec<SegmentNumber>> {
        Box::pin(ready(Ok(Vec::new())))
    }

    /// Of what was written here there is one copy.
    fn get_again(
        &self,
        id: SegmentId,
        offset: u32,
        len: u32,
        attempt: u32,
    ) -> IoFuture<'_, Option<BufSlice>> {
        if self.written.borrow().contains_key(&id.number) {
            return Box::pin(ready(Ok(None)));
        }
        self.below.get_again(id, offset, len, attempt)
    }

    /// Writes nothing: what is below stays as it is (OVERLAY-MEDIA-1).
    fn complete(&self, _: SegmentId, _: BufSlice) -> IoFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }
}

struct OverlayJournal {
    below: Rc<dyn JournalStore>,
    /// By where they are in the ring.
    pages: OverlayPages,
    /// It began anew, here: what is written from then on is in all copies.
    is_restarted: Cell<bool>,
}

impl OverlayJournal {
    /// Bytes that were all written here: nothing is asked of the media below, which may be unable to read them.
    fn written(&self, position: u64, len: u32) -> Option<IoFuture<'_, BufSlice>> {
        let written = self.pages.whole(position % self.capacity(), len as usize)?;
        Some(Box::pin(ready(Ok(written.freeze()))))
    }

    /// What the media below have, with what was written here (OVERLAY-MEDIA-2).
    fn patched<'a>(
        &'a self,
        position: u64,
        len: u32,
        below: IoFuture<'a, BufSlice>,
    ) -> IoFuture<'a, BufSlice> {
        let at = position % self.capacity();
        Box::pin(async move {
            let mut out = AlignedBuf::scratch(len as usize);
            out.copy_from_slice(&below.await?);
            self.pages.patch(at, &mut out);
            Ok(out.freeze())
        })
    }
}

impl JournalStore for OverlayJournal {
    fn capacity(&self) -> u64 {
        self.below.capacity()
    }

    fn append(&self, position: u64, bytes: BufSlice) -> IoFuture<'_, ()> {
        Box::pin(ready(self.pages.keep(position % self.capacity(), &bytes)))
    }

    fn appends_at_once(&self) -> usize {
        self.below.appends_at_once()
    }

    fn read(&self, position: u64, len: u32) -> IoFuture<'_, BufSlice> {
        match self.written(position, len) {
            Some(written) => written,
            None => self.patched(position, len, self.below.read(position, len)),
        }
    }

    fn settle(&self) -> IoFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }

    fn copies(&self) -> usize {
        self.below.copies()
    }

    fn copy_since(&self, copy: usize) -> u64 {
        if self.is_restarted.get() { 0 } else { self.below.copy_since(copy) }
    }

    fn copy_until(&self, copy: usize) -> u64 {
        if self.is_restarted.get() { u64::MAX } else { self.below.copy_until(copy) }
    }

    /// Below nothing changes.
    fn restart(&self) -> IoFuture<'_, ()> {
        self.is_restarted.set(true);
        Box::pin(ready(Ok(())))
    }

    /// What was written here is in all copies, and what one is restored with is written here.
    fn read_copy(&self, position: u64, len: u32, copy: usize) -> IoFuture<'_, BufSlice> {
        match self.written(position, len) {
            Some(written) => written,
            None => self.patched(position, len, self.below.read_copy(position, len, copy)),
        }
    }
}

struct OverlayRoots {
    below: Rc<dyn RootStore>,
    written: RefCell<BTreeMap<RootKey, (RootVersion, Vec<u8>)>>,
}

impl RootStore for OverlayRoots {
    fn bytes_max(&self) -> u32 {
        self.below.bytes_max()
    }

    fn read(&self, key: RootKey) -> IoFuture<'_, (RootVersion, Vec<u8>)> {
        match self.written.borrow().get(&key).cloned() {
            Some(written) => Box::pin(ready(Ok(written))),
            None => self.below.read(key),
        }
    }

    fn replace(
        &self,
        key: RootKey,
        expected: RootVersion,
        bytes: Vec<u8>,
    ) -> IoFuture<'_, RootVersion> {
        Box::pin(async move {
            let (found, _) = self.read(key).await?;
            let (len, max) = (bytes.len() as u64, u64::from(self.bytes_max()));
            if len > max {
                return Err(Error::RootTooLong { key: key.to_string(), len, max });
            }
            if found != expected {
                let key = key.to_string();
                return Err(Error::RootConflict { key, expected: expected.0, found: found.0 });
            }
            let next = RootVersion(found.0 + 1);
            self.written.borrow_mut().insert(key, (next, bytes));
            Ok(next)
        })
    }
}

/// Nobody else writes to an overlay.
struct OverlayFence;

impl Fence for OverlayFence {
    fn check(&self) -> Result<()> {
        Ok(())
    }
}
