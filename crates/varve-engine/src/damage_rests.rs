//! Segments that could not be emptied, as something in them is lost, and how long reclaim leaves each of them alone
//! (RECLAIM-4).

use std::cell::RefCell;

use varve_media::SegmentId;
use varve_reactor::Nanos;
use varve_types::{Generation, SegmentNumber};

use crate::hash::HashMap;

/// How long a segment is left alone at first.
pub(crate) const REST_NS_MIN: u64 = 5_000_000_000;

/// And at most.
const REST_NS_MAX: u64 = 3_600_000_000_000;

const _: () = assert!(REST_NS_MIN < REST_NS_MAX, "pauses double up to their bound");

/// The damaged segments of a shard, and when each may be tried again.
#[derive(Default)]
pub(crate) struct DamageRests(RefCell<HashMap<SegmentNumber, DamageRest>>);

/// How long a damaged segment is left alone.
#[derive(Clone, Copy)]
struct DamageRest {
    generation: Generation,
    until: Nanos,
    pause_ns: u64,
}

impl DamageRests {
    /// Leaves a segment alone from now on, for twice as long as the last time.
    pub(crate) fn begin(&self, id: SegmentId, now: Nanos) {
        let mut rests = self.0.borrow_mut();
        let before = rests.get(&id.number).filter(|rest| rest.generation == id.generation);
        let pause_ns = before.map_or(REST_NS_MIN, |rest| (2 * rest.pause_ns).min(REST_NS_MAX));
        assert!((REST_NS_MIN..=REST_NS_MAX).contains(&pause_ns), "a pause has bounds"); // RECLAIM-4
        let rest = DamageRest { generation: id.generation, until: now + pause_ns, pause_ns };
        rests.insert(id.number, rest);
    }

    /// Whether a segment is left alone now.
    pub(crate) fn is_resting(&self, id: SegmentId, now: Nanos) -> bool {
        let rests = self.0.borrow();
        let rest = rests.get(&id.number).filter(|rest| rest.generation == id.generation);
        rest.is_some_and(|rest| rest.until > now)
    }

    /// When the first of the segments that are left alone, and that `is_wanted` picks, may be tried again.
    pub(crate) fn next_end(
        &self,
        now: Nanos,
        is_wanted: impl Fn(SegmentNumber, Generation) -> bool,
    ) -> Option<Nanos> {
        let rests = self.0.borrow();
        let wanted = rests
            .iter()
            .filter(|(number, rest)| rest.until > now && is_wanted(**number, rest.generation));
        wanted.map(|(_, rest)| rest.until).min()
    }

    /// Forgets the segments that are gone; returns whether any is left.
    pub(crate) fn keep_present(
        &self,
        is_present: impl Fn(SegmentNumber, Generation) -> bool,
    ) -> bool {
        let mut rests = self.0.borrow_mut();
        rests.retain(|number, rest| is_present(*number, rest.generation));
        !rests.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: SegmentId = SegmentId { number: SegmentNumber(3), generation: Generation::new(7) };

    #[test]
    fn pauses_double_up_to_an_hour() {
        let rests = DamageRests::default();
        let (mut now, mut pauses_s) = (Nanos(0), Vec::new());
        for _ in 0..12 {
            rests.begin(ID, now);
            let end = rests.next_end(now, |_, _| true).expect("it is left alone");
            assert!(rests.is_resting(ID, now) && !rests.is_resting(ID, end));
            pauses_s.push(end.since(now) / 1_000_000_000);
            now = end;
        }
        assert_eq!(pauses_s, [5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600]);
    }

    #[test]
    fn other_contents_of_a_segment_are_not_left_alone() {
        let rests = DamageRests::default();
        rests.begin(ID, Nanos(0));
        let other = SegmentId { generation: Generation::new(8), ..ID };
        assert!(!rests.is_resting(other, Nanos(0)));
        rests.begin(other, Nanos(0));
        assert_eq!(rests.next_end(Nanos(0), |_, _| true), Some(Nanos(REST_NS_MIN)));
        assert!(!rests.keep_present(|_, generation| generation == ID.generation), "all are gone");
    }
}
