//! Which reads are made twice (3.11): those that a drive does not answer in the time that others take, and those of
//! drives that are known to be late. One for each thread, beside its handles; asked by segments.
//!
//! HEDGE-1. At most `percent` of the reads of the last 10 s are made a second time because they are late. Reads of a
//!     drive that is known to be slow go to others at once, and are not counted: they are not made twice.
//! HEDGE-2. A read that nobody waits for any more goes on until it is answered: its buffer is the kernel's until then,
//!     and how long it took is what the drive is judged by.

use std::cell::{Cell, RefCell};

use varve_reactor::Nanos;

use crate::recent::RecentCounts;

/// Percent of reads that may be made twice where nobody says otherwise.
pub const HEDGE_PERCENT: u8 = 5;

/// A read is not late before that, however quick others are.
pub(crate) const LATE_NANOS_MIN: u64 = Nanos::millis(5);

/// By what the others' p99 is multiplied.
pub(crate) const LATE_FACTOR: u64 = 4;

/// Of the reads of a slow drive that others answer, one in so many is made there too: else nobody would see that it is
/// as quick as others again.
const PROBE_ONE_IN: u64 = 16;

/// Reads and second reads of one second.
#[derive(Clone, Copy, Default)]
struct SecondCount {
    reads: u64,
    hedged: u64,
}

/// Reads of a thread, and how many of them were made twice.
pub(crate) struct Hedging {
    percent: Cell<u8>,
    seconds: RefCell<RecentCounts<SecondCount>>,
    hedged: Cell<u64>,
    degraded: Cell<u64>,
    probes: Cell<u64>,
}

/// Reads of a thread that were not answered by the strip that has the bytes alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReadCounts {
    /// Made a second time from other strips, as the first one was late.
    pub hedged: u64,
    /// Computed from other strips at once: the drive is slow, failed or lacks the strip.
    pub degraded: u64,
}

impl Default for Hedging {
    fn default() -> Self {
        Self {
            percent: Cell::new(HEDGE_PERCENT),
            seconds: RefCell::default(),
            hedged: Cell::new(0),
            degraded: Cell::new(0),
            probes: Cell::new(0),
        }
    }
}

impl Hedging {
    /// Bounds second reads anew; 0 for none.
    pub(crate) fn limit(&self, percent: u8) {
        self.percent.set(percent);
    }

    /// Whether late reads may be made twice at all.
    pub(crate) fn is_on(&self) -> bool {
        self.percent.get() > 0
    }

    /// Counts a read.
    pub(crate) fn note_read(&self, now: Nanos) {
        self.seconds.borrow_mut().of(second_of(now)).reads += 1;
    }

    /// Whether a read that is late may be made a second time, which is counted then (HEDGE-1).
    pub(crate) fn begin(&self, now: Nanos) -> bool {
        let second = second_of(now);
        let (reads, hedged) = {
            let seconds = self.seconds.borrow();
            seconds
                .recent(second)
                .fold((0, 0), |(reads, hedged), it| (reads + it.reads, hedged + it.hedged))
        };
        let may_begin = hedged * 100 < reads * u64::from(self.percent.get());
        if may_begin {
            self.seconds.borrow_mut().of(second).hedged += 1;
            self.hedged.set(self.hedged.get() + 1);
        }
        may_begin
    }

    /// Counts a read that is computed from others at once.
    pub(crate) fn note_degraded(&self) {
        self.degraded.set(self.degraded.get() + 1);
    }

    /// Whether a read of a slow drive is to be made there too, to see how long it takes.
    pub(crate) fn is_probe(&self) -> bool {
        let probes = self.probes.get();
        self.probes.set(probes.wrapping_add(1));
        probes.is_multiple_of(PROBE_ONE_IN)
    }

    pub(crate) fn counts(&self) -> ReadCounts {
        ReadCounts { hedged: self.hedged.get(), degraded: self.degraded.get() }
    }
}

fn second_of(now: Nanos) -> u64 {
    now.0 / Nanos::seconds(1)
}

/// When a read is late by the p99 of other drives, in ns.
pub(crate) fn late_after(mut others: Vec<u64>) -> u64 {
    others.sort_unstable();
    // The middle one: another drive that is slow says nothing of how quick drives are.
    let middle = others.get(others.len() / 2).copied().unwrap_or(0);
    middle.saturating_mul(LATE_FACTOR).max(LATE_NANOS_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_reads_are_bounded_over_ten_seconds() {
        let hedging = Hedging::default();
        let at = |ms: u64| Nanos::millis(ms);
        (0..1000).for_each(|_| hedging.note_read(Nanos(at(500))));
        let begun = (0..1000).filter(|_| hedging.begin(Nanos(at(1500)))).count();
        assert_eq!(begun, 50, "5 percent");
        assert!(!hedging.begin(Nanos(at(9_900))), "HEDGE-1");
        (0..1000).for_each(|_| hedging.note_read(Nanos(at(11_000))));
        let begun = (0..1000).filter(|_| hedging.begin(Nanos(at(11_500)))).count();
        assert_eq!(begun, 50, "what was more than 10 s ago does not count");
        assert_eq!(hedging.counts().hedged, 100);
        hedging.limit(0);
        assert!(!hedging.is_on() && !hedging.begin(Nanos(at(30_000))));
    }

    #[test]
    fn a_read_is_late_by_what_most_others_take() {
        assert_eq!(late_after(Vec::new()), LATE_NANOS_MIN);
        assert_eq!(late_after(vec![100_000, 200_000, 300_000]), LATE_NANOS_MIN);
        let slow = Nanos::millis(10);
        assert_eq!(late_after(vec![slow, slow, Nanos::seconds(1)]), 4 * slow);
    }
}
