//! Segments: an object each, written whole, named by shard and slot.
//!
//! RADOS-SEGMENTS-1. A segment carries the epoch of the claim that put it. It is made where there is none, and else
//!     replaced or deleted only by a claim that is no older: what a process that lost its shard has under way never
//!     touches what a later claim put. It may still make an object where there is none, in a slot that no later claim
//!     has used: that one is replaced by whoever uses the slot, and believed by nobody, as chains name their
//!     predecessor's checksum, and the slots behind the chains that a later claim goes on with are its own from its
//!     opening on: it puts an empty header there.
//! RADOS-SEGMENTS-2. A put is answered when the claim was found by a question asked after the put had landed: whoever
//!     claims the shard later sees it, whatever the clocks of both machines did meanwhile.
//! RADOS-SEGMENTS-3. A process that knows that its claim is lost starts nothing.

use std::rc::Rc;

use varve_media::{Error, Fence, IoFuture, Result, SegmentGeometry, SegmentId, SegmentStore};
use varve_stdx::{AlignedBuf, BufSlice};
use varve_types::SegmentNumber;

use crate::claim::ShardClaim;
use crate::layout::ObjectNames;
use crate::objects::{ObjectChange, Objects, RadosFuture, Refusal, Write};

/// So often an object comes and goes between two looks is no coincidence.
const ATTEMPTS_MAX: usize = 8;

/// See the module.
pub(crate) struct Segments {
    pub(crate) objects: Rc<dyn Objects>,
    pub(crate) names: ObjectNames,
    pub(crate) claim: Rc<ShardClaim>,
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

    fn name(&self, id: SegmentId) -> String {
        self.names.segment(self.claim.shard(), id.number)
    }

    fn error(&self, operation: &'static str, object: &str, len: usize, refusal: Refusal) -> Error {
        self.claim.failure(operation, &*self.objects, object, 0, len, refusal)
    }

    async fn land(&self, object: String, made: RadosFuture<()>, bytes: BufSlice) -> Result<()> {
        let len = bytes.len();
        let mut landed = made.await;
        for _ in 0..ATTEMPTS_MAX {
            let change = put(&self.claim, bytes.clone());
            let again = match landed {
                Err(Refusal::EXISTS) => {
                    ObjectChange { at_most: Some(self.claim.expectation()), ..change } // RADOS-SEGMENTS-1
                }
                // A deletion of an earlier claim came between.
                Err(Refusal::NOT_FOUND) => ObjectChange { creates: true, ..change },
                _ => break,
            };
            self.claim.check()?; // RADOS-SEGMENTS-3
            landed = self.objects.change(&object, again).await;
        }
        landed.map_err(|refusal| self.error("write", &object, len, refusal))?;
        self.claim.confirm().await // RADOS-SEGMENTS-2
    }
}

fn put(claim: &ShardClaim, bytes: BufSlice) -> ObjectChange {
    let sets = vec![claim.expectation()];
    ObjectChange { write: Some(Write::Whole(bytes)), sets, ..ObjectChange::default() }
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
        let may = self.claim.check().and_then(|()| self.check(id.number, 0, bytes.len() as u64)); // RADOS-SEGMENTS-3
        if let Err(error) = may {
            return Box::pin(std::future::ready(Err(error)));
        }
        let object = self.name(id);
        let change = ObjectChange { creates: true, ..put(&self.claim, bytes.clone()) };
        let made = self.objects.change(&object, change); // It is under way from here on.
        Box::pin(self.land(object, made, bytes))
    }

    fn get(&self, id: SegmentId, offset: u32, len: u32) -> IoFuture<'_, BufSlice> {
        if let Err(error) = self.check(id.number, u64::from(offset), u64::from(len)) {
            return Box::pin(std::future::ready(Err(error)));
        }
        let object = self.name(id);
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
        if let Err(error) = self.claim.check().and_then(|()| self.check(id.number, 0, 0)) {
            return Box::pin(std::future::ready(Err(error)));
        }
        let object = self.name(id);
        let at_most = Some(self.claim.expectation());
        let change =
            ObjectChange { at_most, write: Some(Write::Remove), ..ObjectChange::default() };
        let under_way = self.objects.change(&object, change);
        Box::pin(async move {
            match under_way.await {
                Ok(()) | Err(Refusal::NOT_FOUND) => Ok(()),
                Err(refusal) => Err(self.error("delete", &object, 0, refusal)),
            }
        })
    }

    fn present(&self) -> IoFuture<'_, Vec<SegmentNumber>> {
        let listed = self.objects.list();
        Box::pin(async move {
            let names = listed.await.map_err(|refusal| self.error("list", "", 0, refusal))?;
            let slots = names.iter().filter_map(|name| self.names.slot(name));
            let own = slots.filter(|(shard, _)| *shard == self.claim.shard());
            Ok(own.map(|(_, slot)| slot).collect())
        })
    }
}
