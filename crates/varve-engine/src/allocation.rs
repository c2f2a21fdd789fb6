//! Segments for writers, and room for new data: who gets the last ones, and when a shard is full.
//!
//! ALLOCATION-1. Checkpoints may take the last segment, reclaim leaves those that one may need now, and data leave what
//!     one may ever need and reclaim's too.
//! ALLOCATION-2. Data are admitted only while live bytes, undrained bytes and the reserves fit the shard's segments.
//! ALLOCATION-3. What was admitted is drained although garbage that waits for mark fills the shard: when reclaim finds
//!     nothing to empty, data leave only what checkpoints may need now, and put no more into a segment than that is
//!     little. Mark waits for the drain, so nobody else would go on.

mod state;

use std::rc::Rc;

use varve_logstore::format::segment::{STRIP_HEADER_BYTES, SegmentKind};
use varve_logstore::planted::{Bug, planted};
use varve_media::SegmentId;
use varve_types::{Generation, SegmentNumber, StreamId};

use crate::reservations::Deadline;
use crate::reserves::{PAGES_OF_ENTRY, Reserves, dirty_limit};
use crate::tree::PAGE_BYTES;
use crate::{Error, Result, Shard};

pub(crate) use state::Allocation;

/// Pages that applying one entry changes at worst: the paths to the block and to two chunks.
const PAGES_PER_ENTRY: usize = 5;

const _: () = assert!(
    PAGES_PER_ENTRY >= PAGES_OF_ENTRY,
    "the worst entry changes no fewer pages than others"
);

/// Segments that a checkpoint may take for one segment of data, about, while garbage fills the shard.
const STUCK_SEGMENTS: usize = 3;

impl Shard {
    /// What the shard keeps of the segments it has now.
    pub(crate) fn reserves(&self) -> Reserves {
        let segments = self.space.borrow().stats().segments;
        Reserves::new(&self.config, segments, self.media.segments.geometry().segment_bytes)
    }

    /// Bytes of changed pages that make a checkpoint due now.
    pub(crate) fn dirty_limit(&self) -> usize {
        self.reserves().dirty_limit.min(dirty_limit(self.caches.page_bytes.get()))
    }

    /// Gives the page cache what the sets beside it do not take, and half at least.
    pub(crate) fn share_cache(&self) {
        let whole = self.config.page_cache_bytes;
        let trees = &mut *self.trees.borrow_mut();
        let taken = trees.deaths.bytes() + trees.deltas.bytes();
        let left = whole.saturating_sub(taken).max(whole / 2);
        assert!(left <= whole, "the sets beside it do not enlarge the page cache"); // DEATHS-5
        trees.cache.resize(left);
        self.caches.page_bytes.set(left);
    }

    /// Free segments that reclaim leaves to the next checkpoint (ALLOCATION-1): what is dirty now and what waits to be
    /// applied. It goes on below what data writes leave, as nobody else can free anything then.
    pub(crate) fn reclaim_floor(&self) -> usize {
        self.reclaim_floor_with(0)
    }

    /// As [`Self::reclaim_floor`], once so many bytes of pages are changed besides.
    pub(crate) fn reclaim_floor_with(&self, bytes: usize) -> usize {
        let waiting = self.apply.entries() * PAGES_PER_ENTRY * PAGE_BYTES;
        self.segments_for(self.checkpoint_bytes() + waiting + bytes)
    }

    /// Segments that a checkpoint takes which has so many bytes to write, those of the pages that it changes itself
    /// included.
    pub(crate) fn segments_for(&self, bytes: usize) -> usize {
        bytes * 5 / 4 / self.media.segments.geometry().segment_bytes as usize + 2
    }

    /// Free segments that a writer leaves to others.
    fn reserve_of(&self, writer: SegmentKind) -> usize {
        let segment = self.media.segments.geometry().segment_bytes as usize;
        match writer {
            SegmentKind::Metadata => 0,
            SegmentKind::Reclaimed => self.reclaim_floor(),
            SegmentKind::Data if self.reclaim.is_starved.get() => {
                let pages = self.entries_may_dirty().div_ceil(segment);
                self.reserves().data.min(self.reclaim_floor() + pages + 1)
            }
            SegmentKind::Data => self.reserves().data,
        }
    }

    /// Bytes that a checkpoint takes for what the open data segment dirties, reckoned as the reserve of data reckons
    /// them.
    fn entries_may_dirty(&self) -> usize {
        self.drain.writer.borrow().entry_count() * PAGES_OF_ENTRY * PAGE_BYTES
    }

    /// Whether the open data segment should take no more entries as garbage fills the shard: it would have to leave
    /// more free segments than there may be (ALLOCATION-3).
    pub(crate) fn is_enough_while_starved(&self) -> bool {
        let segment = self.media.segments.geometry().segment_bytes as usize;
        self.reclaim.is_starved.get() && self.entries_may_dirty() >= STUCK_SEGMENTS * segment
    }

    /// A free segment for a writer, once more are free than it leaves to others (ALLOCATION-1).
    pub(crate) async fn take_segment(&self, writer: SegmentKind) -> Result<SegmentNumber> {
        loop {
            self.check_running()?;
            self.reclaim.request();
            let has_empty = self.space.borrow().has_empty();
            // While there are zones to be had, copies stay.
            if !has_empty && !self.is_grown() && self.lease_zone().await? {
                continue;
            }
            // Anew after each wait: meanwhile others may have dirtied more.
            let may_take = || self.space.borrow().free_count() > self.reserve_of(writer);
            if may_take() && self.look_before_writer_takes_copy().await {
                continue;
            }
            if may_take() {
                let mut space = self.space.borrow_mut();
                if let Some(number) = space.reserve() {
                    assert!(!space.is_free(number), "nobody else gets segment {number}");
                    assert!(!space.is_leaving(number), "segment {number} is withheld"); // SPACE-7
                    return Ok(number);
                }
            }
            // A shard with its share makes room by reclaim; full media are asked again.
            let may_grow = writer == SegmentKind::Metadata || self.lacks_room() || !self.is_grown();
            if may_grow && self.lease_zone().await? {
                continue;
            }
            if may_take() || self.keep_leaving() {
                continue;
            }
            self.reclaim.request(); // Again: while a zone was to be had it was not due.
            if writer == SegmentKind::Reclaimed {
                self.wake_checkpoint_for_space();
            }
            self.allocation.changed().await;
        }
    }

    /// Lets the media discard what was emptied, and makes it free.
    pub(crate) fn settle_freed(&self) {
        let freed = self.space.borrow_mut().take_freed();
        for id in freed {
            tracing::trace!(?id, "segment emptied");
            let Some(shard) = self.me.upgrade() else { return };
            let Some(under_way) = self.lifecycle.writes.begin() else { return };
            self.reactor.spawn(async move {
                if let Err(error) = shard.media.segments.delete(id).await {
                    tracing::warn!(segment = id.number.0, %error, "could not discard a segment");
                }
                drop(under_way);
                shard.space.borrow_mut().reusable(id.number);
                shard.allocation.note_change();
            });
        }
        self.allocation.note_change();
    }

    /// Deletes what crashes left on media that keep slots apart: puts that nothing names, and what had no time to be
    /// deleted.
    pub(crate) async fn delete_leftovers(self: Rc<Self>) -> Result<()> {
        let present = match self.media.segments.present().await {
            Ok(present) => present,
            Err(error) => {
                tracing::warn!(%error, "could not look for segments that nothing names");
                return Ok(()); // The next opening looks again.
            }
        };
        let mut deleted = 0_u64;
        for number in present {
            let Some(_under_way) = self.lifecycle.writes.begin() else { break };
            if !self.space.borrow().is_unused(number) {
                continue;
            }
            // In this step, so that a put of whoever takes the slot from now on comes behind it.
            let id = SegmentId { number, generation: Generation::ZERO };
            match self.media.segments.delete(id).await {
                Ok(()) => deleted += 1,
                Err(error) => tracing::warn!(segment = number.0, %error, "could not delete"),
            }
        }
        if deleted > 0 {
            tracing::info!(shard = self.config.shard.0, deleted, "deleted what a crash had left");
        }
        Ok(())
    }

    /// Bytes of units and their entries that a segment holds.
    pub(crate) fn segment_payload(&self) -> u64 {
        u64::from(self.media.segments.geometry().segment_bytes - STRIP_HEADER_BYTES)
    }

    /// Refuses `bytes` more of a stream's data if there is no room for them (ALLOCATION-2) beside what is promised to
    /// others (`reservations.rs`); gets another zone first when one is to be had.
    pub(crate) async fn admit_space(&self, stream: StreamId, bytes: u64) -> Result<()> {
        let mut patience = Deadline::default();
        loop {
            if self.allocation.is_media_full() {
                return Err(self.no_space());
            }
            if self.takes_from(stream, bytes) || planted(Bug::SpaceUnreserved) {
                return Ok(());
            }
            if self.may_hide_dead() {
                self.fold_deaths().await?; // DEATHS-4
                continue;
            }
            if !self.lease_zone().await? {
                if self.takes_from(stream, bytes) {
                    return Ok(());
                }
                self.request_space();
                if self.wait_for_promised(stream, &mut patience).await? {
                    continue;
                }
                let fits = || self.takes_from(stream, bytes);
                if !self.room_from_others(fits, || true).await? {
                    return Err(self.no_space());
                }
            }
        }
    }

    /// Whether there is room for `bytes` more of a stream's data that nobody has to wait for.
    pub(crate) fn takes_at_once(&self, stream: StreamId, bytes: u64) -> bool {
        let may_grow = self.zone_moves.source.lendable_segments() > 0 && !self.lacks_room();
        !self.allocation.is_media_full() && (may_grow || self.takes_from(stream, bytes))
    }

    /// The error of a shard that has no room.
    pub(crate) fn no_space(&self) -> Error {
        let room = self.room();
        Error::NoSpace { live_bytes: room.live, capacity_bytes: room.capacity }
    }

    /// Bytes that are left for data and the pages that name them.
    pub(crate) fn room_left(&self) -> u64 {
        let room = self.room();
        room.usable.saturating_sub(room.committed)
    }

    /// Whether there is room for more beside what the shard holds and what is on its way.
    pub(crate) fn has_space(&self) -> bool {
        self.room().takes(1)
    }

    /// Whether there is room for all that may linger in the lane, whatever newer ones make of it.
    pub(crate) fn has_room_to_linger(&self) -> bool {
        let may_grow = self.zone_moves.source.lendable_segments() > 0 && !self.lacks_room();
        !self.allocation.is_media_full()
            && (may_grow || self.room().takes(self.admission.credits.data.total()))
    }

    pub(crate) fn room(&self) -> Room {
        let stats = self.space.borrow().stats();
        let segment = u64::from(self.media.segments.geometry().segment_bytes);
        let dirty = self.checkpoint_bytes() as u64;
        Room {
            capacity: stats.segments * segment,
            usable: self.reserves().usable_bytes,
            live: stats.live_bytes,
            under_way: self.admission.credits.data.taken(),
            dirty,
            committed: stats.live_bytes + with_pages(self.admission.credits.data.taken()) + dirty,
        }
    }
}

/// What a shard holds and may hold, in bytes.
pub(crate) struct Room {
    capacity: u64,
    pub(crate) usable: u64,
    pub(crate) live: u64,
    /// Data that are admitted and not in the maps yet.
    pub(crate) under_way: u64,
    /// What the next checkpoint writes.
    pub(crate) dirty: u64,
    pub(crate) committed: u64,
}

impl Room {
    /// Whether `bytes` more of data fit (ALLOCATION-2).
    pub(crate) const fn takes(&self, bytes: u64) -> bool {
        self.committed + with_pages(bytes) <= self.usable
    }
}

/// Data with the pages that name them: a block on its own in its part of a stream takes some of its own.
pub(crate) const fn with_pages(bytes: u64) -> u64 {
    bytes + bytes / 4
}
