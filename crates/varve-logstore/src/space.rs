//! The segments a shard owns: which are free, how much of each is live, and when an emptied one may be written again.
//!
//! ```text
//!            reserve()            sealed()            empty and released()
//!   free ------------> reserved ----------> sealed -----> freed --reusable()--> free
//!                                             | empty, but the last checkpoint needs its pages
//!                                             +--------> held --checkpointed()--> free
//! ```
//!
//! SPACE-1. Live bytes of a segment are what the units take that the chunk table and the roots place in it: stored
//!     bytes, rounded up to address units each, and their entries in the summary.
//! SPACE-2. A segment with metadata pages in it is reused only after a checkpoint that no longer needs them.
//! SPACE-3. A segment is never reused while a reader has it pinned.
//! SPACE-4. Segments written since the last durable checkpoint are never victims of reclaim: recovery still reads their
//!     summaries.
//! SPACE-5. While recovery replays, a slot may stand for two contents: the checkpoint's, which die in replay, and newer
//!     ones.
//! SPACE-6. A segment that lost what no log tells of yet is not reused before one does, or a checkpoint is durable.
//! SPACE-7. While a zone is about to leave the shard, no writer gets a segment of it: those that are free, or become
//!     free, are withheld.

mod copies;

use std::collections::BTreeSet;
use std::ops::Range;

use hashbrown::HashMap;
use varve_media::SegmentId;
use varve_types::{Generation, SegmentNumber, WriteSeq};

use crate::format::summary::ENTRY_BYTES;
use crate::format::usage::UsageEntry;
use crate::planted::{Bug, planted};
use crate::segment_writer::UNIT_ALIGN;
use copies::Copies;

/// What a segment is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SegmentState {
    /// Reserved for or being filled by a writer, or its put is under way.
    Reserved,
    /// Durable.
    Sealed,
    /// Durable, and reclaim is moving its survivors.
    Victim,
    /// Empty, but waits for a checkpoint or a reader.
    Held,
}

/// One segment that is not free.
#[derive(Clone, Copy, Debug)]
pub struct SegmentUsage {
    /// Which contents of the slot.
    pub generation: Generation,
    /// State.
    pub state: SegmentState,
    /// Stored bytes of live units (SPACE-1).
    pub live_bytes: u32,
    /// Holds pages or other metadata that the last checkpoint may name (SPACE-2).
    pub has_pages: bool,
    /// Highest write in it when it was sealed: its age.
    pub sealed_at: WriteSeq,
    /// Written since the last durable checkpoint (SPACE-4).
    pub is_new: bool,
    /// Something left it that no log tells until this fold is told; 0 is none, [`u64::MAX`] one that only a checkpoint
    /// tells (SPACE-6).
    pub kept: u64,
    /// Readers at work in it (SPACE-3).
    pub pins: u32,
}

/// Segments of one shard.
pub struct Space {
    segment_bytes: u32,
    used: HashMap<SegmentNumber, SegmentUsage>,
    /// Free ones without a copy in them.
    free: BTreeSet<SegmentNumber>,
    /// The other free ones.
    copies: Copies,
    live_bytes: u64,
    held_for_checkpoint: Vec<SegmentNumber>,
    /// Segments that wait for a fold to be told.
    unconfirmed: BTreeSet<SegmentNumber>,
    freed: Vec<SegmentId>,
    /// Emptied ones that are not reusable yet: the shard's all the same.
    discarding: usize,
    /// Contents that a checkpoint calls live in slots that were reused since; replay empties them (SPACE-5).
    stale_contents: HashMap<SegmentId, u32>,
    /// Segments that are about to leave the shard (SPACE-7).
    leaving: Vec<Range<u32>>,
    /// The free ones of them.
    withheld: BTreeSet<SegmentNumber>,
}

/// Sums over a shard's segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceStats {
    /// Segments the shard owns.
    pub segments: u64,
    /// Of these, free ones.
    pub free: u64,
    /// Of these, ones that wait for a checkpoint.
    pub held: u64,
    /// Stored bytes of live units.
    pub live_bytes: u64,
}

/// Bytes that a unit takes in its segment, its entry in the summary included.
#[must_use]
pub const fn unit_space(stored_len: u32) -> u32 {
    unit_extent(stored_len) + ENTRY_BYTES
}

/// Bytes from the start of a unit to where the next one may start.
#[must_use]
pub const fn unit_extent(stored_len: u32) -> u32 {
    stored_len.next_multiple_of(UNIT_ALIGN)
}

impl Space {
    /// A shard without segments.
    #[must_use]
    pub fn new(segment_bytes: u32) -> Self {
        Self {
            segment_bytes,
            used: HashMap::new(),
            free: BTreeSet::new(),
            copies: Copies::default(),
            live_bytes: 0,
            held_for_checkpoint: Vec::new(),
            unconfirmed: BTreeSet::new(),
            freed: Vec::new(),
            discarding: 0,
            stale_contents: HashMap::new(),
            leaving: Vec::new(),
            withheld: BTreeSet::new(),
        }
    }

    /// Adds free segments `first .. first + count`, except those in use.
    pub fn add(&mut self, first: SegmentNumber, count: u32) {
        for number in first.0..first.0 + count {
            let number = SegmentNumber(number);
            if !self.used.contains_key(&number) && !self.copies.is_in(number) {
                self.free.insert(number);
            }
        }
    }

    /// Takes `first .. first + count` away if all of them are free; returns whether it did.
    pub fn remove_free(&mut self, first: SegmentNumber, count: u32) -> bool {
        let range = first..SegmentNumber(first.0 + count);
        let copies = self.copies.slots(range.clone()).len();
        if self.free.range(range.clone()).count() + copies < count as usize {
            return false;
        }
        for number in range.start.0..range.end.0 {
            let was_free = self.take_free(SegmentNumber(number));
            assert!(was_free, "segment {number} was counted as free");
        }
        true
    }

    /// Takes a free segment, whatever copy is in it (SPACE-COPIES-3). False when it is not free.
    fn take_free(&mut self, number: SegmentNumber) -> bool {
        self.free.remove(&number) || self.copies.remove_in(number)
    }

    /// From now on no writer gets a segment of `first .. first + count`, until [`Self::stay`] or [`Self::part`]
    /// (SPACE-7).
    pub fn leave(&mut self, first: SegmentNumber, count: u32) {
        let range = first.0..first.0 + count;
        if !planted(Bug::LeavingReused) {
            let segments = first..SegmentNumber(range.end);
            let mut free = self.copies.slots(segments.clone());
            free.extend(self.free.range(segments));
            for number in free {
                let was_free = self.take_free(number);
                assert!(was_free, "segment {number} was counted as free");
                self.withheld.insert(number);
            }
        }
        self.leaving.push(range);
    }

    /// Whether all segments of a zone that is about to leave are empty.
    #[must_use]
    pub fn has_left(&self, first: SegmentNumber, count: u32) -> bool {
        let range = first..SegmentNumber(first.0 + count);
        let withheld = self.withheld.range(range.clone()).count();
        let planted_free =
            if planted(Bug::LeavingReused) { self.free.range(range).count() } else { 0 };
        withheld + planted_free == count as usize
    }

    /// What was about to leave stays: writers may have its free segments again. Returns whether there was anything.
    pub fn stay(&mut self) -> bool {
        let any = !self.leaving.is_empty();
        self.leaving.clear();
        debug_assert!(self.free.is_disjoint(&self.withheld)); // SPACE-7
        self.free.append(&mut self.withheld);
        any
    }

    /// A zone whose segments are all empty is not the shard's any more.
    ///
    /// # Panics
    /// When it was not about to leave, or something is in it.
    pub fn part(&mut self, first: SegmentNumber, count: u32) {
        assert!(self.has_left(first, count), "only an empty zone leaves");
        let range = first.0..first.0 + count;
        assert!(self.leaving.contains(&range), "a zone was about to leave before it leaves");
        self.leaving.retain(|leaving| *leaving != range);
        for number in range.map(SegmentNumber) {
            self.withheld.remove(&number);
        }
    }

    /// Whether there are empty segments that the media are not done with.
    #[must_use]
    pub fn is_discarding(&self) -> bool {
        self.discarding > 0
    }

    /// Whether a segment is about to leave.
    #[must_use]
    pub fn is_leaving(&self, number: SegmentNumber) -> bool {
        self.leaving.iter().any(|range| range.contains(&number.0)) && !planted(Bug::LeavingReused)
    }

    /// A writer gives a segment back that it reserved and never opened.
    pub fn release_reserved(&mut self, number: SegmentNumber) {
        let usage = self.used.remove(&number).expect("reserved segments are in use");
        assert_eq!(usage.state, SegmentState::Reserved, "only a reserved segment is given back");
        assert_eq!(usage.live_bytes, 0, "segment {number} holds something");
        assert!(!usage.has_pages, "segment {number} holds something"); // SPACE-2
        self.make_free(number);
    }

    fn make_free(&mut self, number: SegmentNumber) {
        let set = if self.is_leaving(number) { &mut self.withheld } else { &mut self.free };
        let is_fresh = set.insert(number);
        assert!(is_fresh && !self.used.contains_key(&number), "segment {number} was emptied once");
    }

    /// Puts a segment back as a checkpoint describes it. False when the slot is not this shard's or described twice.
    #[must_use]
    pub fn restore(&mut self, entry: &UsageEntry) -> bool {
        if !self.take_free(entry.segment.number) || entry.live_bytes > self.segment_bytes {
            return false;
        }
        self.live_bytes += u64::from(entry.live_bytes);
        let usage = SegmentUsage {
            generation: entry.segment.generation,
            state: SegmentState::Sealed,
            live_bytes: entry.live_bytes,
            has_pages: entry.has_pages,
            sealed_at: entry.sealed_at,
            is_new: false,
            kept: 0,
            pins: 0,
        };
        let before = self.used.insert(entry.segment.number, usage);
        assert!(before.is_none(), "a free segment was not in use");
        true
    }

    /// Counts a usage blob, which no blob describes.
    #[must_use]
    pub fn restore_blob(&mut self, id: SegmentId, bytes: u32) -> bool {
        let known =
            self.used.get(&id.number).is_some_and(|usage| usage.generation == id.generation);
        let entry =
            UsageEntry { segment: id, sealed_at: WriteSeq::ZERO, live_bytes: 0, has_pages: true };
        if !known && !self.restore(&entry) {
            return false;
        }
        self.note_pages(id.number);
        self.add_live(id, bytes);
        true
    }

    /// What a checkpoint keeps: every segment with live bytes.
    #[must_use]
    pub fn to_entries(&self) -> Vec<UsageEntry> {
        let live = self.used.iter().filter(|(_, usage)| usage.live_bytes > 0);
        let entry = |(number, usage): (&SegmentNumber, &SegmentUsage)| UsageEntry {
            segment: SegmentId { number: *number, generation: usage.generation },
            sealed_at: usage.sealed_at,
            live_bytes: usage.live_bytes,
            has_pages: usage.has_pages,
        };
        let mut entries: Vec<_> = live.map(entry).collect();
        entries.sort_by_key(|entry| entry.segment.number);
        entries
    }

    /// Takes the lowest free segment for a writer, or gives a copy up for it (SPACE-COPIES-1).
    pub fn reserve(&mut self) -> Option<SegmentNumber> {
        let number = self.free.pop_first().or_else(|| self.copies.give_up())?;
        assert!(!self.used.contains_key(&number), "segment {number} is free and in use");
        self.mark_reserved(number);
        Some(number)
    }

    /// Takes a segment that a chain already promised to a writer; what a checkpoint knew of it becomes a ghost
    /// (SPACE-5). False when the slot is not this shard's, or promised twice.
    #[must_use]
    pub fn reserve_exact(&mut self, number: SegmentNumber) -> bool {
        let was_free = self.take_free(number);
        match self.used.get(&number) {
            None => {
                if !was_free {
                    return false;
                }
            }
            Some(usage) if usage.state == SegmentState::Reserved || usage.is_new => return false,
            Some(usage) => {
                assert!(!was_free, "segment {number} is free and in use");
                assert_eq!(usage.pins, 0, "recovery reads nothing meanwhile"); // SPACE-3
                let id = SegmentId { number, generation: usage.generation };
                let before = self.stale_contents.insert(id, usage.live_bytes);
                assert!(before.is_none(), "segment {number} was reused once"); // SPACE-5
            }
        }
        self.mark_reserved(number);
        true
    }

    /// Ends replay: frees what it emptied. Returns a slot whose old contents are still live although it was reused:
    /// then the log contradicts itself.
    pub fn finish_replay(&mut self) -> Option<SegmentId> {
        let stale_contents = std::mem::take(&mut self.stale_contents);
        stale_contents.into_iter().find(|(_, live)| *live > 0).map(|(id, _)| id)
    }

    fn mark_reserved(&mut self, number: SegmentNumber) {
        self.drop_copy(number); // SPACE-COPIES-3
        let usage = SegmentUsage {
            generation: Generation::ZERO,
            state: SegmentState::Reserved,
            live_bytes: 0,
            has_pages: false,
            sealed_at: WriteSeq::ZERO,
            is_new: true,
            kept: 0,
            pins: 0,
        };
        let before = self.used.insert(number, usage);
        assert!(before.is_none_or(|before| before.state != SegmentState::Reserved));
    }

    /// Whether the shard knows the segment and it is in use.
    #[must_use]
    pub fn get(&self, number: SegmentNumber) -> Option<&SegmentUsage> {
        self.used.get(&number)
    }

    fn get_mut(&mut self, number: SegmentNumber) -> &mut SegmentUsage {
        self.used.get_mut(&number).expect("live segments are in use")
    }

    /// A writer gave its reserved segment contents; they are not durable yet.
    pub fn opened(&mut self, id: SegmentId, sealed_at: WriteSeq) {
        let usage = self.get_mut(id.number);
        assert_eq!(usage.state, SegmentState::Reserved, "only reserved segments are written");
        assert_eq!(usage.live_bytes, 0, "nothing is live in segment {} yet", id.number); // SPACE-1
        usage.generation = id.generation;
        usage.sealed_at = sealed_at;
    }

    /// The contents are durable and applied. A segment without live bytes is freed at once or held.
    pub fn sealed(&mut self, id: SegmentId) {
        let usage = self.get_mut(id.number);
        assert_eq!(usage.generation, id.generation, "segment {} was reused", id.number);
        assert_eq!(usage.state, SegmentState::Reserved, "a segment is sealed once");
        usage.state = SegmentState::Sealed;
        // An empty new segment stays until the next checkpoint: recovery follows the chain through it (SPACE-4).
    }

    /// Counts a unit of `bytes` as live in a segment.
    ///
    /// # Panics
    /// When the segment does not hold those contents.
    pub fn add_live(&mut self, id: SegmentId, bytes: u32) {
        let bytes = unit_space(bytes);
        self.live_bytes += u64::from(bytes);
        let segment_bytes = self.segment_bytes;
        let usage = self.get_mut(id.number);
        assert_eq!(usage.generation, id.generation, "segment {} was reused", id.number);
        usage.live_bytes += bytes;
        assert!(
            usage.live_bytes <= segment_bytes,
            "segment {} holds more than its size",
            id.number
        );
        let live_bytes = u64::from(usage.live_bytes);
        assert!(live_bytes <= self.live_bytes, "the sum counts each segment"); // SPACE-1
    }

    /// Remembers that a segment holds metadata pages (SPACE-2).
    pub fn note_pages(&mut self, number: SegmentNumber) {
        self.get_mut(number).has_pages = true;
    }

    /// Counts a unit of `bytes` as dead. The last one of a segment frees the segment or holds it.
    ///
    /// # Panics
    /// When the segment does not hold those contents, or less of them.
    pub fn sub_live(&mut self, id: SegmentId, bytes: u32) {
        let number = id.number;
        let bytes = unit_space(bytes);
        assert!(self.live_bytes >= u64::from(bytes), "the shard loses more than it holds"); // SPACE-1
        self.live_bytes -= u64::from(bytes);
        if let Some(live) = self.stale_contents.get_mut(&id) {
            assert!(*live >= bytes, "segment {number} loses more than it holds");
            *live -= bytes; // SPACE-5
            return;
        }
        let usage = self.get_mut(number);
        assert_eq!(usage.generation, id.generation, "segment {number} was reused");
        assert!(usage.live_bytes >= bytes, "segment {number} loses more than it holds");
        usage.live_bytes -= bytes;
        self.settle(number);
    }

    /// Keeps a segment, emptied or not, from being reused before the fold is told, by [`Self::confirm_folds`] or a
    /// checkpoint (SPACE-6).
    pub fn keep(&mut self, number: SegmentNumber, fold: u64) {
        assert!(fold > 0, "folds count from 1"); // SPACE-6
        let usage = self.get_mut(number);
        usage.kept = usage.kept.max(fold);
        self.unconfirmed.insert(number);
    }

    /// Folds up to this one are told durably.
    pub fn confirm_folds(&mut self, fold: u64) {
        assert!(fold < u64::MAX, "a checkpoint tells the rest"); // SPACE-6
        for number in std::mem::take(&mut self.unconfirmed) {
            let usage = self.get_mut(number);
            assert!(usage.kept > 0, "segment {number} waits for a fold"); // SPACE-6
            if usage.kept > fold {
                self.unconfirmed.insert(number);
            } else {
                usage.kept = 0;
                self.settle_held(number);
            }
        }
    }

    /// Frees or holds an empty segment.
    fn settle(&mut self, number: SegmentNumber) {
        let usage = self.get_mut(number);
        if usage.live_bytes > 0 || !matches!(usage.state, SegmentState::Sealed | SegmentState::Held)
        {
            return;
        }
        let needed = usage.has_pages && !planted(Bug::PagesReusedEarly);
        let kept = usage.kept > 0 && !planted(Bug::FoldReusedEarly);
        if needed || kept || usage.is_new && !planted(Bug::NewReusedEarly) {
            if usage.state == SegmentState::Sealed {
                usage.state = SegmentState::Held; // SPACE-2, SPACE-4, SPACE-6
                self.held_for_checkpoint.push(number);
            }
        } else if usage.pins > 0 {
            usage.state = SegmentState::Held; // SPACE-3
        } else {
            self.free_now(number);
        }
    }

    fn free_now(&mut self, number: SegmentNumber) {
        if let Some(usage) = self.used.remove(&number) {
            assert_eq!(usage.live_bytes, 0, "only empty segments are freed");
            assert_eq!(usage.pins, 0, "only unpinned segments are freed"); // SPACE-3
            assert!(!usage.has_pages || planted(Bug::PagesReusedEarly)); // SPACE-2
            assert!(!usage.is_new || planted(Bug::NewReusedEarly)); // SPACE-4
            assert!(usage.kept == 0 || planted(Bug::FoldReusedEarly)); // SPACE-6
            assert!(matches!(usage.state, SegmentState::Sealed | SegmentState::Held));
            self.unconfirmed.remove(&number);
            self.drop_copy(number); // SPACE-COPIES-3
            self.freed.push(SegmentId { number, generation: usage.generation });
            self.discarding += 1;
        }
    }

    /// Keeps a segment from being reused while somebody reads it (SPACE-3). False when those contents are not there.
    #[must_use]
    pub fn pin(&mut self, id: SegmentId) -> bool {
        match self.used.get_mut(&id.number) {
            Some(usage) if usage.generation == id.generation => {
                usage.pins += 1;
                true
            }
            _ => false,
        }
    }

    /// Ends [`Self::pin`].
    pub fn unpin(&mut self, number: SegmentNumber) {
        let usage = self.get_mut(number);
        assert!(usage.pins > 0, "segment {number} is pinned");
        usage.pins -= 1;
        self.settle_held(number);
    }

    /// Frees a held segment for which nothing speaks any more.
    fn settle_held(&mut self, number: SegmentNumber) {
        let usage = self.get_mut(number);
        let needed = usage.has_pages || usage.kept > 0 || usage.is_new || usage.pins > 0;
        if usage.state == SegmentState::Held && !needed {
            self.settle(number);
        }
    }

    /// Marks a segment as reclaim's; ends with [`Self::victim_done`].
    pub fn victim(&mut self, number: SegmentNumber) {
        let usage = self.get_mut(number);
        assert_eq!(usage.state, SegmentState::Sealed, "only sealed segments are victims");
        assert!(!usage.is_new, "new segments are never victims"); // SPACE-4
        usage.state = SegmentState::Victim;
    }

    /// Reclaim left the segment; empty, it is freed or held.
    pub fn victim_done(&mut self, number: SegmentNumber) {
        let usage = self.get_mut(number);
        assert_eq!(usage.state, SegmentState::Victim, "reclaim leaves what it took");
        usage.state = SegmentState::Sealed;
        self.settle(number);
    }

    /// Remembers which segments a checkpoint that begins now covers; pass the result to [`Self::checkpointed`].
    #[must_use]
    pub fn begin_checkpoint(&self) -> Vec<SegmentNumber> {
        let covered = |(number, usage): (&SegmentNumber, &SegmentUsage)| {
            let durable = usage.state != SegmentState::Reserved;
            (usage.is_new && durable).then_some(*number)
        };
        self.used.iter().filter_map(covered).collect()
    }

    /// A checkpoint is durable: what it covers is no longer new, and what only the one before needed is free.
    pub fn checkpointed(&mut self, covered: &[SegmentNumber]) {
        for number in std::mem::take(&mut self.unconfirmed) {
            self.get_mut(number).kept = 0;
        }
        for number in covered {
            if let Some(usage) = self.used.get_mut(number) {
                let is_written = usage.state != SegmentState::Reserved;
                assert!(is_written || planted(Bug::NewReusedEarly)); // SPACE-4
                usage.is_new = false;
            }
        }
        for number in std::mem::take(&mut self.held_for_checkpoint) {
            let Some(usage) = self.used.get_mut(&number) else { continue };
            if usage.state != SegmentState::Held || usage.live_bytes > 0 {
                continue;
            }
            if usage.is_new {
                self.held_for_checkpoint.push(number);
                continue;
            }
            usage.has_pages = false;
            self.settle(number);
        }
        let empty = |(number, usage): (&SegmentNumber, &SegmentUsage)| {
            let idle = usage.state == SegmentState::Sealed && !usage.is_new;
            (idle && usage.live_bytes == 0).then_some(*number)
        };
        let mut empty: Vec<SegmentNumber> = self.used.iter().filter_map(empty).collect();
        empty.sort_unstable(); // The same order in every run.
        for number in empty {
            // Emptied by this very checkpoint, so it does not need it: SPACE-2 holds without another one.
            self.get_mut(number).has_pages = false;
            self.settle(number);
        }
    }

    /// Segments emptied since the last call: the caller lets the media discard them, then calls [`Self::reusable`].
    #[must_use]
    pub fn take_freed(&mut self) -> Vec<SegmentId> {
        assert!(self.freed.len() <= self.discarding, "what is freed is discarded next");
        std::mem::take(&mut self.freed)
    }

    /// The media are done with an emptied segment: it may be written again.
    pub fn reusable(&mut self, number: SegmentNumber) {
        assert!(self.discarding > 0, "segment {number} was freed before");
        self.make_free(number);
        self.discarding -= 1;
    }

    /// Every segment in use.
    pub fn iter(&self) -> impl Iterator<Item = (SegmentNumber, &SegmentUsage)> {
        self.used.iter().map(|(number, usage)| (*number, usage))
    }

    /// Whether a segment is free; a copy may be in it (SPACE-COPIES-1).
    #[must_use]
    pub fn is_free(&self, number: SegmentNumber) -> bool {
        self.free.contains(&number) || self.copies.is_in(number)
    }

    /// Whether nobody needs what a slot holds, nor is about to put something there; also where the slot is not this
    /// shard's.
    #[must_use]
    pub fn is_unused(&self, number: SegmentNumber) -> bool {
        !self.used.contains_key(&number)
    }

    /// Free segments, those with copies among them (SPACE-COPIES-1).
    #[must_use]
    pub fn free_count(&self) -> usize {
        self.free.len() + self.copies.len()
    }

    /// Sums.
    #[must_use]
    pub fn stats(&self) -> SpaceStats {
        SpaceStats {
            segments: (self.used.len()
                + self.free_count()
                + self.copies.under_way()
                + self.discarding) as u64,
            free: self.free_count() as u64,
            held: self.held_for_checkpoint.len() as u64,
            live_bytes: self.live_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBER: SegmentNumber = SegmentNumber(3);
    const ID: SegmentId = SegmentId { number: NUMBER, generation: Generation::new(9) };

    /// A segment that a checkpoint knows, with two units of which one is gone.
    fn space() -> Space {
        let mut space = Space::new(1 << 20);
        space.add(SegmentNumber(0), 8);
        let unit = unit_space(4096);
        let sealed_at = WriteSeq::new(1);
        let entry = UsageEntry { segment: ID, sealed_at, live_bytes: 2 * unit, has_pages: false };
        assert!(space.restore(&entry));
        space.sub_live(ID, 4096);
        space
    }

    #[test]
    fn what_no_log_tells_yet_is_not_reused() {
        let mut space = space();
        space.keep(NUMBER, 5);
        space.sub_live(ID, 4096);
        assert_eq!(space.get(NUMBER).map(|usage| usage.state), Some(SegmentState::Held));
        space.confirm_folds(4);
        assert!(space.take_freed().is_empty());
        space.confirm_folds(5);
        assert_eq!(space.take_freed(), [ID]);
    }

    #[test]
    fn what_only_a_checkpoint_tells_waits_for_it() {
        let mut space = space();
        space.keep(NUMBER, u64::MAX);
        space.keep(NUMBER, 5);
        space.sub_live(ID, 4096);
        space.confirm_folds(5);
        assert!(space.take_freed().is_empty());
        assert!(space.pin(ID));
        let covered = space.begin_checkpoint();
        space.checkpointed(&covered);
        assert!(space.take_freed().is_empty(), "it is being read");
        space.unpin(NUMBER);
        assert_eq!(space.take_freed(), [ID]);
    }

    #[test]
    fn what_is_told_before_it_is_empty_is_free_at_once() {
        let mut space = space();
        space.keep(NUMBER, 5);
        space.confirm_folds(5);
        space.sub_live(ID, 4096);
        assert_eq!(space.take_freed(), [ID]);
    }

    #[test]
    fn no_writer_gets_what_is_about_to_leave() {
        let mut space = space();
        space.leave(SegmentNumber(0), 4);
        assert_eq!((space.stats().segments, space.stats().free), (5, 4), "one is in use");
        assert_eq!(space.reserve(), Some(SegmentNumber(4)));
        assert!(!space.has_left(SegmentNumber(0), 4));
        space.sub_live(ID, 4096);
        let [freed] = space.take_freed()[..] else { panic!("one is freed") };
        space.reusable(freed.number);
        assert!(space.has_left(SegmentNumber(0), 4));
        space.part(SegmentNumber(0), 4);
        assert_eq!((space.stats().segments, space.stats().free), (4, 3));
        assert!(!space.is_free(NUMBER));
    }

    #[test]
    fn what_stays_is_free_again() {
        let mut space = space();
        space.leave(SegmentNumber(4), 4);
        assert!(space.has_left(SegmentNumber(4), 4));
        assert!(space.stay());
        assert!(!space.stay());
        assert_eq!((space.stats().segments, space.stats().free), (8, 7));
    }

    #[test]
    fn what_the_media_are_discarding_is_still_the_shards() {
        let mut space = space();
        space.keep(NUMBER, 5);
        space.confirm_folds(5);
        space.sub_live(ID, 4096);
        let [freed] = space.take_freed()[..] else { panic!("one is freed") };
        assert_eq!((space.stats().segments, space.stats().free), (8, 7));
        space.reusable(freed.number);
        assert_eq!((space.stats().segments, space.stats().free), (8, 8));
    }
}
