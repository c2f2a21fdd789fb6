//! Segments: an object each, written whole, named by shard, slot and generation.
//!
//! S1. A segment is asked for under the generation that it was put under. Generation 0, by which a slot of a drive is read whatever it
//!     holds, is refused: zeros would pass for the end of a chain.
//! S2. Puts and deletions do not demand the claim: the engine's generations keep those of different claims apart only once its root
//!     carries them with the mount (RFC 0016).

use std::rc::Rc;

use varve_media::{Error, IoFuture, Result, SegmentGeometry, SegmentId, SegmentStore};
use varve_stdx::{AlignedBuf, BufSlice};
use varve_types::{Generation, SegmentNumber};

use crate::claim::Claim;
use crate::layout::Names;
use crate::objects::{Change, Objects, RadosFuture, Refusal, Write};

/// See the module.
pub(crate) struct Segments {
    pub(crate) objects: Rc<dyn Objects>,
    pub(crate) names: Names,
    pub(crate) claim: Rc<Claim>,
    pub(crate) geometry: SegmentGeometry,
}

impl Segments {
    fn check(&self, number: SegmentNumber, offset: u64, len: u64) -> Result<()> {
        let inside = number.0 < self.geometry.segment_count
            && offset
                .checked_add(len)
                .is_some_and(|end| end <= u64::from(self.geometry.segment_bytes));
        if inside { Ok(()) } else { Err(Error::OutOfRange { segment: number, offset, len }) }
    }

    fn change(&self, id: SegmentId, write: Write) -> (String, RadosFuture<()>) {
        let object = self.names.segment(self.claim.shard(), id);
        let change = Change { write: Some(write), ..Change::default() };
        let under_way = self.objects.change(&object, change);
        (object, under_way)
    }

    fn error(&self, operation: &'static str, object: &str, len: usize, refusal: Refusal) -> Error {
        self.claim.failure(operation, &*self.objects, object, (0, len), refusal)
    }
}

impl SegmentStore for Segments {
    fn geometry(&self) -> SegmentGeometry {
        self.geometry
    }

    fn allocate(&self, first: SegmentNumber, count: u32) -> IoFuture<'_, ()> {
        let last = SegmentNumber(first.0.saturating_add(count).saturating_sub(1));
        Box::pin(std::future::ready(self.check(last, 0, 0))) // A pool of RADOS promises no room.
    }

    fn put(&self, id: SegmentId, bytes: BufSlice) -> IoFuture<'_, ()> {
        let len = bytes.len();
        if let Err(error) = self.check(id.number, 0, len as u64) {
            return Box::pin(std::future::ready(Err(error)));
        }
        let (object, under_way) = self.change(id, Write::Whole(bytes));
        Box::pin(async move {
            under_way.await.map_err(|refusal| self.error("write", &object, len, refusal))
        })
    }

    fn get(&self, id: SegmentId, offset: u32, len: u32) -> IoFuture<'_, BufSlice> {
        if let Err(error) = self.check(id.number, u64::from(offset), u64::from(len)) {
            return Box::pin(std::future::ready(Err(error)));
        }
        if id.generation == Generation::ZERO {
            let what = format!("slot {} of a pool on RADOS, whatever it holds", id.number.0);
            let reason = "objects are named by generation".to_owned();
            return Box::pin(std::future::ready(Err(Error::Open { path: what, reason }))); // S1
        }
        let object = self.names.segment(self.claim.shard(), id);
        let read = self.objects.read(&object, u64::from(offset), len as usize);
        Box::pin(async move {
            let mut out = AlignedBuf::scratch(len as usize);
            let bytes = match read.await {
                Ok(bytes) => bytes,
                Err(Refusal::NOT_FOUND) => Vec::new(), // Never written, or deleted.
                Err(refusal) => return Err(self.error("read", &object, len as usize, refusal)),
            };
            let (written, rest) = out.split_at_mut(bytes.len().min(len as usize));
            written.copy_from_slice(&bytes[..written.len()]);
            rest.fill(0);
            Ok(out.freeze())
        })
    }

    fn settle(&self) -> IoFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(()))) // RADOS shows nothing that is not durable.
    }

    fn delete(&self, id: SegmentId) -> IoFuture<'_, ()> {
        if let Err(error) = self.check(id.number, 0, 0) {
            return Box::pin(std::future::ready(Err(error)));
        }
        let (object, under_way) = self.change(id, Write::Remove);
        Box::pin(async move {
            match under_way.await {
                Ok(()) | Err(Refusal::NOT_FOUND) => Ok(()),
                Err(refusal) => Err(self.error("delete", &object, 0, refusal)),
            }
        })
    }
}
