//! Second copies of segments with metadata pages. They lie in free segments, and go as soon as a writer needs those.
//!
//! SPACE-COPIES-1. A copy takes no room from anybody: its segment counts as free, and a writer gets it when no other
//!     one is free.
//! SPACE-COPIES-2. While a copy is being written, no writer gets its segment.
//! SPACE-COPIES-3. A copy goes with its original, and when either segment gets other contents.
//! SPACE-COPIES-4. Writers get the copy of a damaged original last of all, and that of one at which nobody looked since
//!     the shard was opened after the others. A zone with either in it does not leave the shard.
//! SPACE-COPIES-5. Nothing here is proof: a reader compares a unit of a copy with the checksum under which it looks for
//!     the unit.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use varve_media::SegmentId;
use varve_types::SegmentNumber;

use super::{SegmentState, Space};
use crate::planted::{Bug, planted};

/// A copy that is complete.
#[derive(Clone, Copy, Debug)]
struct Copy {
    /// The segment it lies in.
    slot: SegmentNumber,
    /// Written or compared with its original since the shard was opened.
    is_checked: bool,
    /// The original is damaged (SPACE-COPIES-4).
    is_needed: bool,
}

/// All copies of a shard.
#[derive(Default)]
pub(super) struct Copies {
    of: BTreeMap<SegmentNumber, Copy>,
    /// Originals by the segment of their copy.
    originals: BTreeMap<SegmentNumber, SegmentNumber>,
    /// Segments in which a copy is being written, and of what.
    under_way: BTreeMap<SegmentNumber, SegmentNumber>,
}

impl Copies {
    /// Copies that are complete: as many segments are free beside those that hold nothing.
    pub(super) fn len(&self) -> usize {
        self.originals.len()
    }

    /// Segments in which a copy is being written.
    pub(super) fn under_way(&self) -> usize {
        self.under_way.len()
    }

    /// Whether a copy lies in a segment.
    pub(super) fn is_in(&self, slot: SegmentNumber) -> bool {
        self.originals.contains_key(&slot)
    }

    /// Slots of copies in a range.
    pub(super) fn slots(&self, range: Range<SegmentNumber>) -> Vec<SegmentNumber> {
        self.originals.range(range).map(|(slot, _)| *slot).collect()
    }

    /// The copies in a range, and of what they are.
    fn within(&self, range: Range<SegmentNumber>) -> impl Iterator<Item = (SegmentNumber, Copy)> {
        self.originals.range(range).map(|(_, of)| (*of, self.of[of]))
    }

    fn insert(&mut self, of: SegmentNumber, copy: Copy) {
        let no_copy = self.of.insert(of, copy).is_none();
        let no_other = self.originals.insert(copy.slot, of).is_none();
        assert!(no_copy && no_other, "segment {of} has one copy, alone in segment {}", copy.slot);
        assert_ne!(of, copy.slot, "a copy lies elsewhere");
        assert_eq!(self.of.len(), self.originals.len()); // SPACE-COPIES-3
    }

    /// Forgets the copy of a segment; returns where it lay.
    pub(super) fn remove_of(&mut self, of: SegmentNumber) -> Option<SegmentNumber> {
        let slot = self.of.remove(&of)?.slot;
        let original = self.originals.remove(&slot);
        assert_eq!(original, Some(of), "segment {slot} holds one copy"); // SPACE-COPIES-3
        Some(slot)
    }

    /// Forgets the copy in a segment; false when there is none.
    pub(super) fn remove_in(&mut self, slot: SegmentNumber) -> bool {
        let Some(of) = self.originals.remove(&slot) else { return false };
        let copy = self.of.remove(&of);
        assert!(copy.is_some_and(|copy| copy.slot == slot)); // SPACE-COPIES-3
        true
    }

    /// Gives a copy up for a writer (SPACE-COPIES-1).
    pub(super) fn give_up(&mut self) -> Option<SegmentNumber> {
        let (of, _) = self.next_given_up()?;
        self.remove_of(of)
    }

    /// The copy that writers get next, and of what it is one (SPACE-COPIES-4).
    fn next_given_up(&self) -> Option<(SegmentNumber, Copy)> {
        let last_of_all = |copy: &Copy| (copy.is_needed, !copy.is_checked);
        let next = self.of.iter().min_by_key(|(_, copy)| last_of_all(copy));
        next.map(|(of, copy)| (*of, *copy))
    }
}

impl Space {
    /// Puts copies back that a checkpoint names, before anything else of it. What contradicts itself is left out.
    pub fn restore_copies(&mut self, pairs: &[(SegmentNumber, SegmentNumber)]) {
        assert!(self.used.is_empty(), "copies are put back before anything else");
        let all: BTreeSet<SegmentNumber> = pairs.iter().map(|(of, _)| *of).collect();
        for (of, slot) in pairs.iter().copied() {
            let is_known = self.free.contains(&of) && !self.copies.of.contains_key(&of);
            if is_known && !all.contains(&slot) && self.free.remove(&slot) {
                self.copies.insert(of, Copy { slot, is_checked: false, is_needed: false });
            }
        }
    }

    /// Takes a free segment for a copy of a segment, one of another domain if there is any; end it with
    /// [`Self::copied`]. `None` when it has a copy, or nothing but copies is free. `domain_of` is as of
    /// [`varve_media::SegmentStore::domain`].
    pub fn reserve_copy(
        &mut self,
        of: SegmentId,
        domain_of: impl Fn(SegmentNumber) -> Option<u32>,
    ) -> Option<SegmentNumber> {
        let is_there =
            self.used.get(&of.number).is_some_and(|use_| use_.generation == of.generation);
        let is_begun = self.copies.under_way.values().any(|number| *number == of.number);
        if !is_there || is_begun || self.copies.of.contains_key(&of.number) {
            return None;
        }
        // Domains are ranges of segments: if any free one is elsewhere, the first or the last is.
        let domain = domain_of(of.number)?;
        let first = *self.free.first()?;
        let last = self.free.last().copied().unwrap_or(first);
        let is_elsewhere = |slot: &SegmentNumber| domain_of(*slot) != Some(domain);
        let slot = [first, last].into_iter().find(is_elsewhere).unwrap_or(first);
        if self.copies.under_way.contains_key(&slot) {
            return None; // With the bug.
        }
        if !planted(Bug::PageCopyReusedEarly) {
            self.free.remove(&slot); // SPACE-COPIES-2
        }
        assert_ne!(slot, of.number, "segment {slot} is free and in use");
        let before = self.copies.under_way.insert(slot, of.number);
        assert!(before.is_none(), "one copy is written to a segment"); // SPACE-COPIES-2
        Some(slot)
    }

    /// A copy was written, or could not be: then its segment is free.
    pub fn copied(&mut self, of: SegmentId, slot: SegmentNumber, is_whole: bool) {
        assert!(self.copies.under_way.remove(&slot).is_some(), "a copy is begun once");
        if planted(Bug::PageCopyReusedEarly) && !self.free.remove(&slot) {
            return;
        }
        let is_there =
            self.used.get(&of.number).is_some_and(|use_| use_.generation == of.generation);
        if is_whole && is_there && !self.is_leaving(slot) {
            self.copies.insert(of.number, Copy { slot, is_checked: true, is_needed: false });
        } else {
            self.make_free(slot);
        }
    }

    /// What is to be looked at before a writer gets its copy, the next one that writers get: nobody did since the shard
    /// was opened. `None` where a segment is free without that.
    #[must_use]
    pub fn to_look_at(&self) -> Option<SegmentId> {
        if self.has_empty() {
            return None;
        }
        let (of, copy) = self.copies.next_given_up()?;
        self.unseen(of, copy)
    }

    /// What is to be looked at before some segments leave the shard: their copies are of it, and nobody looked since
    /// the shard was opened.
    #[must_use]
    pub fn to_look_at_in(&self, segments: Range<SegmentNumber>) -> Vec<SegmentId> {
        let within = self.copies.within(segments);
        within.filter_map(|(of, copy)| self.unseen(of, copy)).collect()
    }

    /// Whether a copy of a damaged segment lies in some segments (SPACE-COPIES-4).
    #[must_use]
    pub fn needs_copy_in(&self, segments: Range<SegmentNumber>) -> bool {
        self.copies.within(segments).any(|(_, copy)| copy.is_needed)
    }

    fn unseen(&self, of: SegmentNumber, copy: Copy) -> Option<SegmentId> {
        let usage = self.used.get(&of).filter(|_| !copy.is_checked && !copy.is_needed)?;
        Some(SegmentId { number: of, generation: usage.generation })
    }

    /// Whether a segment is free in which no copy is.
    #[must_use]
    pub fn has_empty(&self) -> bool {
        !self.free.is_empty()
    }

    /// Free segments beside those with copies of damaged segments (SPACE-COPIES-4).
    #[must_use]
    pub fn unneeded_count(&self) -> usize {
        self.free_count() - self.copies.of.values().filter(|copy| copy.is_needed).count()
    }

    /// Copies that are being written.
    #[must_use]
    pub fn copies_under_way(&self) -> usize {
        self.copies.under_way()
    }

    /// Where the copy of a segment lies.
    #[must_use]
    pub fn copy_of(&self, of: SegmentNumber) -> Option<SegmentNumber> {
        self.copies.of.get(&of).map(|copy| copy.slot)
    }

    /// Keeps the copy of a damaged segment as long as possible (SPACE-COPIES-4). False when there is none.
    pub fn need_copy(&mut self, of: SegmentNumber) -> bool {
        let Some(copy) = self.copies.of.get_mut(&of) else { return false };
        copy.is_needed = true;
        true
    }

    /// The copy of a segment is equal to it.
    pub fn copy_is_whole(&mut self, of: SegmentNumber) {
        if let Some(copy) = self.copies.of.get_mut(&of) {
            copy.is_checked = true;
        }
    }

    /// Forgets a copy that is not what it should be.
    pub fn drop_copy(&mut self, of: SegmentNumber) {
        if let Some(slot) = self.copies.remove_of(of) {
            self.make_free(slot);
        }
    }

    /// What a checkpoint names: segments in use, and where their copies lie.
    #[must_use]
    pub fn copies(&self) -> Vec<(SegmentNumber, SegmentNumber)> {
        let in_use = self.copies.of.iter().filter(|(of, _)| self.used.contains_key(*of));
        in_use.map(|(of, copy)| (*of, copy.slot)).collect()
    }

    /// Segments with pages that have no copy, or one that nobody looked at since the shard was opened: the next `count`
    /// of them from `from` on.
    #[must_use]
    pub fn to_copy(&self, from: SegmentNumber, count: usize) -> Vec<SegmentId> {
        let is_checked = |of| self.copies.of.get(of).is_some_and(|copy| copy.is_checked);
        let lacking = self.used.iter().filter(|(number, usage)| {
            usage.has_pages && self.has_settled(usage) && !is_checked(number) && **number >= from
        });
        let mut lacking: Vec<SegmentId> = lacking
            .map(|(number, usage)| SegmentId { number: *number, generation: usage.generation })
            .collect();
        lacking.sort_unstable_by_key(|id| id.number);
        lacking.truncate(count);
        lacking
    }

    /// Segments with pages of which there is one copy only.
    #[must_use]
    pub fn uncopied(&self) -> u64 {
        let lacking = self.used.iter().filter(|(number, usage)| {
            usage.has_pages && self.has_settled(usage) && !self.copies.of.contains_key(number)
        });
        lacking.count() as u64
    }

    fn has_settled(&self, usage: &super::SegmentUsage) -> bool {
        usage.state == SegmentState::Sealed && usage.live_bytes > 0
    }
}

#[cfg(test)]
mod tests {
    use varve_types::{Generation, WriteSeq};

    use super::*;

    const ORIGINAL: SegmentId =
        SegmentId { number: SegmentNumber(0), generation: Generation::new(7) };

    /// Six segments; the first one holds pages.
    fn space() -> Space {
        let mut space = Space::new(1 << 20);
        space.add(SegmentNumber(0), 6);
        assert_eq!(space.reserve(), Some(ORIGINAL.number));
        space.opened(ORIGINAL, WriteSeq::new(1));
        space.add_live(ORIGINAL, 4096);
        space.note_pages(ORIGINAL.number);
        space.sealed(ORIGINAL);
        let covered = space.begin_checkpoint();
        space.checkpointed(&covered);
        space
    }

    /// Two domains of three segments.
    fn halves(number: SegmentNumber) -> Option<u32> {
        Some(number.0 / 3)
    }

    fn with_copy() -> (Space, SegmentNumber) {
        let mut space = space();
        let slot = space.reserve_copy(ORIGINAL, halves).expect("there is room");
        space.copied(ORIGINAL, slot, true);
        (space, slot)
    }

    #[test]
    fn a_copy_lies_elsewhere_and_counts_as_free() {
        let (space, slot) = with_copy();
        assert_eq!(slot, SegmentNumber(5), "of the other domain");
        assert_eq!((space.free_count(), space.stats().free, space.stats().segments), (5, 5, 6));
        assert!(space.is_free(slot) && space.is_unused(slot));
        assert_eq!(space.copies(), [(ORIGINAL.number, slot)]);
        assert_eq!((space.copy_of(ORIGINAL.number), space.uncopied()), (Some(slot), 0));
    }

    #[test]
    fn a_segment_has_one_copy_and_no_copy_without_a_domain() {
        let (mut space, _) = with_copy();
        assert_eq!(space.reserve_copy(ORIGINAL, halves), None);
        space.drop_copy(ORIGINAL.number);
        assert_eq!(space.reserve_copy(ORIGINAL, |_| None), None);
        assert_eq!(space.reserve_copy(ORIGINAL, |_| Some(0)), Some(SegmentNumber(1)));
        assert_eq!(space.reserve_copy(ORIGINAL, |_| Some(0)), None, "one is under way");
        assert_eq!((space.free_count(), space.stats().segments), (4, 6));
    }

    #[test]
    fn writers_get_what_is_empty_first_and_then_the_copy() {
        let (mut space, slot) = with_copy();
        for number in 1..5 {
            assert_eq!(space.reserve(), Some(SegmentNumber(number)));
        }
        assert_eq!((space.free_count(), space.uncopied()), (1, 0));
        assert_eq!(space.reserve(), Some(slot));
        assert_eq!((space.reserve(), space.copy_of(ORIGINAL.number)), (None, None));
        assert_eq!((space.copies(), space.uncopied()), (Vec::new(), 1));
    }

    #[test]
    fn an_original_is_looked_at_before_its_copy_goes() {
        let (mut space, slot) = with_copy();
        let opened_again = |space: &mut Space| {
            let copy = space.copies.of.get_mut(&ORIGINAL.number).unwrap();
            (copy.is_checked, copy.is_needed) = (false, false);
        };
        opened_again(&mut space);
        assert_eq!(space.to_look_at(), None, "others are free");
        for _ in 1..5 {
            space.reserve();
        }
        assert_eq!(space.to_look_at(), Some(ORIGINAL));
        assert!(space.need_copy(ORIGINAL.number));
        assert_eq!(space.to_look_at(), None, "it is damaged");
        opened_again(&mut space);
        space.copy_is_whole(ORIGINAL.number);
        assert_eq!((space.to_look_at(), space.reserve()), (None, Some(slot)));
    }

    #[test]
    fn originals_are_looked_at_before_a_zone_leaves() {
        let (mut space, slot) = with_copy();
        let [near, far] = [0, 3].map(|first| SegmentNumber(first)..SegmentNumber(first + 3));
        assert!(far.contains(&slot) && space.to_look_at_in(far.clone()).is_empty());
        space.copies.of.get_mut(&ORIGINAL.number).unwrap().is_checked = false;
        let asked = [far.clone(), near.clone()].map(|zone| space.to_look_at_in(zone));
        assert_eq!(asked, [vec![ORIGINAL], vec![]]);
        assert!(!space.needs_copy_in(far.clone()), "nothing is known of it");
        assert!(space.need_copy(ORIGINAL.number));
        assert_eq!([near, far.clone()].map(|zone| space.needs_copy_in(zone)), [false, true]);
        assert_eq!(space.to_look_at_in(far), []);
    }

    #[test]
    fn nobody_gets_the_segment_of_a_copy_that_is_being_written() {
        let mut space = space();
        let slot = space.reserve_copy(ORIGINAL, halves).expect("there is room");
        let given: Vec<_> = std::iter::from_fn(|| space.reserve()).collect();
        assert_eq!(given.len(), 4);
        assert!(!given.contains(&slot));
        space.copied(ORIGINAL, slot, false);
        assert_eq!((space.copy_of(ORIGINAL.number), space.reserve()), (None, Some(slot)));
    }

    #[test]
    fn a_copy_goes_with_its_original() {
        let (mut space, slot) = with_copy();
        space.sub_live(ORIGINAL, 4096);
        let covered = space.begin_checkpoint();
        space.checkpointed(&covered);
        assert_eq!(space.take_freed(), [ORIGINAL]);
        assert_eq!((space.copy_of(ORIGINAL.number), space.is_free(slot)), (None, true));
        space.reusable(ORIGINAL.number);
        assert_eq!((space.free_count(), space.stats().segments), (6, 6));
    }

    #[test]
    fn what_is_written_while_its_original_goes_is_no_copy() {
        let mut space = space();
        let slot = space.reserve_copy(ORIGINAL, halves).expect("there is room");
        space.sub_live(ORIGINAL, 4096);
        let covered = space.begin_checkpoint();
        space.checkpointed(&covered);
        space.copied(ORIGINAL, slot, true);
        assert_eq!((space.copies(), space.is_free(slot)), (Vec::new(), true));
    }

    #[test]
    fn a_copy_in_a_zone_that_is_about_to_leave_is_dropped() {
        let (mut space, slot) = with_copy();
        space.leave(SegmentNumber(3), 3);
        assert_eq!(space.copy_of(ORIGINAL.number), None);
        assert!(space.has_left(SegmentNumber(3), 3) && !space.is_free(slot));
        assert_eq!(space.reserve_copy(ORIGINAL, halves), Some(SegmentNumber(1)));
        space.part(SegmentNumber(3), 3);
    }

    #[test]
    fn what_is_written_to_a_zone_that_is_about_to_leave_is_no_copy() {
        let mut space = space();
        let slot = space.reserve_copy(ORIGINAL, halves).expect("there is room");
        space.leave(SegmentNumber(3), 3);
        assert!(!space.has_left(SegmentNumber(3), 3), "it is being written");
        space.copied(ORIGINAL, slot, true);
        assert_eq!(space.copy_of(ORIGINAL.number), None);
        assert!(space.has_left(SegmentNumber(3), 3));
    }

    #[test]
    fn a_chain_and_what_has_no_room_take_the_segment_of_a_copy() {
        let (mut space, slot) = with_copy();
        assert!(space.reserve_exact(slot));
        assert_eq!(space.copy_of(ORIGINAL.number), None);
        let (mut space, slot) = with_copy();
        assert!(space.remove_free(slot, 1));
        assert_eq!((space.copy_of(ORIGINAL.number), space.free_count()), (None, 4));
    }

    #[test]
    fn what_a_checkpoint_names_is_restored_as_far_as_it_makes_sense() {
        let mut space = Space::new(1 << 20);
        space.add(SegmentNumber(0), 6);
        let pairs = [(0, 5), (0, 4), (1, 5), (2, 2), (3, 0), (4, 9), (9, 3)];
        space.restore_copies(&pairs.map(|(of, slot)| (SegmentNumber(of), SegmentNumber(slot))));
        let (of, slot) = (SegmentNumber(0), SegmentNumber(5));
        assert_eq!((space.copy_of(of), space.copies().len()), (Some(slot), 0));
        let entry = crate::format::usage::UsageEntry {
            segment: ORIGINAL,
            sealed_at: WriteSeq::new(1),
            live_bytes: 4096,
            has_pages: true,
        };
        assert!(space.restore(&entry));
        assert_eq!((space.copies(), space.free_count()), (vec![(of, slot)], 5));
        assert_eq!(space.to_copy(SegmentNumber(0), 9), [ORIGINAL], "nobody looked at it yet");
        space.copy_is_whole(of);
        assert!(space.to_copy(SegmentNumber(0), 9).is_empty());
        let other = SegmentId { number: slot, ..ORIGINAL };
        assert!(space.restore(&crate::format::usage::UsageEntry { segment: other, ..entry }));
        assert_eq!((space.copies(), space.free_count()), (Vec::new(), 4), "it holds something");
    }

    #[test]
    fn a_slot_that_gets_other_contents_has_no_copy() {
        let mut space = Space::new(1 << 20);
        space.add(SegmentNumber(0), 3);
        space.restore_copies(&[(SegmentNumber(0), SegmentNumber(2))]);
        assert_eq!(space.reserve(), Some(SegmentNumber(0)));
        assert_eq!((space.copy_of(SegmentNumber(0)), space.free_count()), (None, 2));
    }

    #[test]
    fn copies_of_what_is_damaged_go_last() {
        let mut space = Space::new(1 << 20);
        space.add(SegmentNumber(0), 4);
        let (first, second) = (SegmentNumber(2), SegmentNumber(3));
        space.restore_copies(&[(SegmentNumber(0), first), (SegmentNumber(1), second)]);
        for number in [0, 1].map(SegmentNumber) {
            let entry = crate::format::usage::UsageEntry {
                segment: SegmentId { number, ..ORIGINAL },
                sealed_at: WriteSeq::new(1),
                live_bytes: 4096,
                has_pages: true,
            };
            assert!(space.restore(&entry));
        }
        assert!(space.need_copy(SegmentNumber(0)) && !space.need_copy(first));
        assert_eq!([space.reserve(), space.reserve()], [Some(second), Some(first)]);
        assert_eq!(space.reserve(), None);
    }
}
