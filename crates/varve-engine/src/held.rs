//! What the shard tells media that move contents by themselves: which slots hold what somebody may still read, and
//! whether bytes are whole.
//!
//! HELD-1. Nothing is told before recovery has ended, nor once the shard has: then nobody knows what is needed. Nor is
//!     it of a zone that is about to leave and is empty, which may be another shard's before this one knows.
//! HELD-2. Everything is held but what no root, no chain and no reader can lead to. Contents whose put is under way
//!     count: they may be durable at any moment, and recovery follows the chain through them.
//! HELD-3. A slot that is pinned is neither written nor given to anybody else (SPACE-3).

use std::any::Any;
use std::rc::{Rc, Weak};

use varve_logstore::chain_reader::{decode_summary, summary_within, units_are_whole};
use varve_logstore::format::segment::StripHeader;
use varve_logstore::space::SegmentState;
use varve_media::{HeldSegment, SegmentId, ZoneContents};
use varve_stdx::BufSlice;
use varve_types::{Generation, SegmentNumber};

use crate::Shard;

/// What media are told of a shard's zones. Outlives the shard, and then knows nothing.
pub(crate) struct ShardContents {
    shard: Weak<Shard>,
}

/// Keeps a slot from being reused until it is dropped (HELD-3).
struct HeldPin {
    shard: Weak<Shard>,
    id: SegmentId,
}

impl Drop for HeldPin {
    fn drop(&mut self) {
        if let Some(shard) = self.shard.upgrade() {
            shard.space.borrow_mut().unpin(self.id.number);
            shard.settle_freed();
        }
    }
}

impl ShardContents {
    pub(crate) fn of(shard: &Rc<Shard>) -> Rc<Self> {
        Rc::new(Self { shard: Rc::downgrade(shard) })
    }

    /// The shard while it serves or closes.
    fn running(&self) -> Option<Rc<Shard>> {
        let shard = self.shard.upgrade()?;
        let is_running = !shard.lifecycle.is_stopped() && !shard.has_failed();
        is_running.then_some(shard) // HELD-1
    }
}

impl ZoneContents for ShardContents {
    /// `None` of slots that are not all the shard's, too. `used_bytes` is a bound: what a slot holds says how long it
    /// is.
    fn held(&self, first: SegmentNumber, count: u32) -> Option<Vec<HeldSegment>> {
        self.running()?.held(first, count)
    }

    fn pin(&self, id: SegmentId) -> Option<Box<dyn Any>> {
        if id.generation == Generation::ZERO {
            return None; // No contents have it.
        }
        let shard = self.running()?;
        let is_pinned = shard.space.borrow_mut().pin(id); // HELD-3
        is_pinned.then(|| Box::new(HeldPin { shard: self.shard.clone(), id }) as Box<dyn Any>)
    }

    fn is_whole(&self, id: SegmentId, bytes: &BufSlice) -> bool {
        self.shard.upgrade().is_some_and(|shard| shard.is_segment_whole(id, bytes))
    }

    fn relocate(&self, id: SegmentId, reason: &str) {
        if let Some(shard) = self.running() {
            shard.relocate(id, reason);
        }
    }
}

impl Shard {
    /// What media are told of its zones, for somebody else who looks at them.
    #[must_use]
    pub fn zone_contents(self: &Rc<Self>) -> Rc<dyn ZoneContents> {
        ShardContents::of(self)
    }

    /// What of some slots may still be read (HELD-2); `None` when they are not the shard's for sure (HELD-1).
    fn held(&self, first: SegmentNumber, count: u32) -> Option<Vec<HeldSegment>> {
        let segment_bytes = self.media.segments.geometry().segment_bytes;
        let space = self.space.borrow();
        let slots = (first.0..first.0.checked_add(count)?).map(SegmentNumber);
        let is_leaving = slots.clone().any(|number| space.is_leaving(number));
        let in_use = slots.clone().filter_map(|number| Some((number, *space.get(number)?)));
        if !self.owns(slots) || is_leaving && in_use.clone().next().is_none() {
            return None; // HELD-1: what is not empty does not leave (ZONE-MOVES-1).
        }
        // A slot that a writer has reserved and not filled is promised to a chain, and holds nothing of it.
        let filled = in_use.filter(|(_, usage)| usage.generation != Generation::ZERO);
        let held = filled.map(|(number, usage)| HeldSegment {
            id: SegmentId { number, generation: usage.generation },
            used_bytes: segment_bytes,
            is_put: usage.state != SegmentState::Reserved,
            has_pages: usage.has_pages,
        });
        Some(held.collect())
    }

    /// Whether all of some slots are of zones that the shard has.
    fn owns(&self, mut slots: impl Iterator<Item = SegmentNumber>) -> bool {
        let zones = self.zone_moves.owned.borrow();
        slots.all(|slot| zones.iter().any(|zone| zone.segments().contains(&slot)))
    }

    /// Whether bytes are a segment of this shard as it was put: header, summary and every unit.
    fn is_segment_whole(&self, id: SegmentId, bytes: &BufSlice) -> bool {
        let Ok((header, _)) = StripHeader::decode(bytes) else { return false };
        let is_own = header.check_place(self.config.pool, id.number).is_ok()
            && header.segment() == id
            && header.shard == self.config.shard
            && header.used_bytes as usize <= bytes.len();
        let summary = summary_within(&header, bytes).filter(|_| is_own);
        let entries = summary.and_then(|summary| decode_summary(&header, summary).ok());
        entries.is_some_and(|entries| units_are_whole(bytes, &entries))
    }
}
