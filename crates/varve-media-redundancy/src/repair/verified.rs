//! Which segments of a thread's zones were not verified since the last loss.
//!
//! Those are remembered that were held when the loss was seen. What is put later is put to all strips by the view with
//! that loss, or its zone is in the queue of repair; so nothing has to be told of puts, and nothing is kept while all
//! is verified.

use std::collections::BTreeMap;

use varve_media::{HeldSegment, SegmentId};
use varve_types::{Generation, SegmentNumber};

use crate::ids::Epoch;

/// The segments.
#[derive(Debug, Default)]
pub(crate) struct UnverifiedSegments {
    /// The loss since which they count; `None` before the first look.
    since: Option<Epoch>,
    /// 16 B for each of them.
    slots: BTreeMap<SegmentNumber, Generation>,
    /// Of those that are held, the ones of which strips are damaged: a further loss does not change that.
    damaged: BTreeMap<SegmentNumber, Generation>,
    /// The ones of which nothing right could be read.
    unreadable: BTreeMap<SegmentNumber, Generation>,
}

/// How many there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct VerifiedCounts {
    pub(crate) held: u64,
    pub(crate) verified: u64,
    pub(crate) damaged: u64,
    pub(crate) unreadable: u64,
}

impl UnverifiedSegments {
    /// Whether segments are to be counted anew, as there was a loss since.
    pub(crate) fn is_before(&self, loss: Epoch) -> bool {
        self.since != Some(loss)
    }

    /// The loss since which they count.
    pub(crate) fn since(&self) -> Option<Epoch> {
        self.since
    }

    /// Begins to count for a loss: none of `held` is verified. At an opening of a pool that was walked since, `held` is
    /// empty.
    pub(crate) fn begin(&mut self, loss: Epoch, held: impl IntoIterator<Item = HeldSegment>) {
        self.since = Some(loss);
        self.slots = held.into_iter().map(|held| (held.id.number, held.id.generation)).collect();
    }

    /// All strips of a segment were read and are right.
    pub(crate) fn verify(&mut self, id: SegmentId) {
        for slots in [&mut self.slots, &mut self.damaged, &mut self.unreadable] {
            if slots.get(&id.number) == Some(&id.generation) {
                slots.remove(&id.number);
            }
        }
    }

    /// Strips of a segment are wrong; returns whether that is new.
    pub(crate) fn distrust(&mut self, id: SegmentId) -> bool {
        self.slots.insert(id.number, id.generation);
        self.damaged.insert(id.number, id.generation) != Some(id.generation)
    }

    /// Whether strips of a segment are known to be wrong.
    pub(crate) fn is_damaged(&self, id: SegmentId) -> bool {
        self.damaged.get(&id.number) == Some(&id.generation)
    }

    /// Nothing right of a segment can be read; returns whether that is new.
    pub(crate) fn lose(&mut self, id: SegmentId) -> bool {
        self.distrust(id);
        self.unreadable.insert(id.number, id.generation) != Some(id.generation)
    }

    /// Counts some of what is held.
    pub(crate) fn count(&self, held: &[HeldSegment]) -> VerifiedCounts {
        let is_in = |slots: &BTreeMap<SegmentNumber, Generation>, id: SegmentId| {
            slots.get(&id.number) == Some(&id.generation)
        };
        let number = |slots| held.iter().filter(|it| is_in(slots, it.id)).count() as u64;
        let all = held.len() as u64;
        let verified = all - number(&self.slots);
        let (damaged, unreadable) = (number(&self.damaged), number(&self.unreadable));
        VerifiedCounts { held: all, verified, damaged, unreadable }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(slot: u32, generation: u64) -> HeldSegment {
        let generation = Generation::from_untrusted(generation).unwrap();
        let id = SegmentId { number: SegmentNumber(slot), generation };
        HeldSegment { id, used_bytes: 4096, is_put: true, has_pages: false }
    }

    #[test]
    fn what_was_held_at_the_loss_is_not_verified() {
        let mut segments = UnverifiedSegments::default();
        assert!(segments.is_before(Epoch(0)));
        segments.begin(Epoch(3), [held(1, 5), held(2, 6)]);
        assert!(!segments.is_before(Epoch(3)) && segments.is_before(Epoch(4)));
        let now = [held(1, 5), held(2, 7), held(3, 8)];
        let counts = segments.count(&now);
        assert_eq!((counts.held, counts.verified), (3, 2), "slot 2 has later contents");
        segments.verify(held(1, 4).id);
        assert_eq!(segments.count(&now).verified, 2, "of other contents");
        segments.verify(held(1, 5).id);
        assert_eq!(segments.count(&now).verified, 3);
        segments.lose(held(3, 8).id);
        let counts = segments.count(&now);
        assert_eq!((counts.verified, counts.unreadable), (2, 1));
    }

    #[test]
    fn what_is_damaged_stays_so_until_it_is_verified_or_gone() {
        let mut segments = UnverifiedSegments::default();
        segments.begin(Epoch(3), []);
        assert!(segments.distrust(held(1, 5).id) && !segments.distrust(held(1, 5).id));
        segments.distrust(held(2, 6).id);
        segments.begin(Epoch(4), [held(1, 5), held(2, 6)]);
        assert!(segments.is_damaged(held(1, 5).id) && !segments.is_damaged(held(1, 6).id));
        assert_eq!(segments.count(&[held(1, 5), held(2, 6)]).damaged, 2);
        assert_eq!(segments.count(&[held(2, 6)]).damaged, 1, "the other was written elsewhere");
        segments.verify(held(2, 6).id);
        assert_eq!(segments.count(&[held(2, 6)]).damaged, 0);
    }
}
