//! How long a drive took for its last operations of one kind: a histogram of fixed size, to which adding costs some
//! instructions and no memory. Called by the handles of drives.
//!
//! LATENCY-1. What it says is of the last 2,048 to 4,096 operations, and of all where there were fewer: two halves
//!     count one after the other, and the older one is emptied when the newer one is full.

use std::cell::RefCell;

/// Buckets: four for each doubling from 1 µs on. The last one has whatever took more than half an hour.
const BUCKETS: usize = 128;

/// Exponent of the first doubling: 1024 ns.
const FIRST_LOG: u32 = 10;

/// Operations of a half.
const HALF: u16 = 2048;

/// Latencies of one kind of operations of a drive, as one thread has seen them.
pub(crate) struct LatencyHistogram {
    counts: RefCell<LatencyCounts>,
}

struct LatencyCounts {
    last: [u16; BUCKETS],
    before: [u16; BUCKETS],
    /// Since the last look.
    window: [u16; BUCKETS],
    in_last: u16,
    in_before: u16,
}

/// Operations since the last look.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct LatencyWindow {
    /// How many there were; of very many fewer than that.
    pub(crate) operations: u32,
    /// What half of them did not exceed, in ns; 0 where there was none.
    pub(crate) median_nanos: u64,
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        let counts = LatencyCounts {
            last: [0; BUCKETS],
            before: [0; BUCKETS],
            window: [0; BUCKETS],
            in_last: 0,
            in_before: 0,
        };
        Self { counts: RefCell::new(counts) }
    }
}

impl LatencyHistogram {
    /// Adds an operation.
    pub(crate) fn add(&self, nanos: u64) {
        let bucket = bucket_of(nanos);
        let counts = &mut *self.counts.borrow_mut();
        // LATENCY-1
        if counts.in_last == HALF {
            counts.before = std::mem::replace(&mut counts.last, [0; BUCKETS]);
            counts.in_before = std::mem::take(&mut counts.in_last);
        }
        counts.in_last += 1;
        if let Some(last) = counts.last.get_mut(bucket) {
            *last += 1;
        }
    }

    /// Adds to what the next look takes.
    pub(crate) fn add_to_window(&self, nanos: u64) {
        if let Some(count) = self.counts.borrow_mut().window.get_mut(bucket_of(nanos)) {
            *count = count.saturating_add(1);
        }
    }

    /// What so many of 1000 of the last operations did not exceed, in ns, by a quarter too much at most; `None` before
    /// the first one.
    pub(crate) fn quantile_nanos(&self, permille: u64) -> Option<u64> {
        let counts = self.counts.borrow();
        let sums = counts.last.iter().zip(&counts.before);
        let sums = sums.map(|(last, before)| u64::from(*last) + u64::from(*before));
        quantile(sums, u64::from(counts.in_last) + u64::from(counts.in_before), permille)
    }

    /// What was added to it since the last call.
    pub(crate) fn take_window(&self) -> LatencyWindow {
        let window = std::mem::replace(&mut self.counts.borrow_mut().window, [0; BUCKETS]);
        let operations = window.iter().copied().map(u32::from).sum();
        let sums = window.into_iter().map(u64::from);
        let median_nanos = quantile(sums, u64::from(operations), 500).unwrap_or(0);
        LatencyWindow { operations, median_nanos }
    }
}

/// The upper end of the bucket that has the number which so many of 1000 do not exceed.
fn quantile(counts: impl Iterator<Item = u64>, total: u64, permille: u64) -> Option<u64> {
    if total == 0 {
        return None;
    }
    let rank = (total * permille.min(1000)).div_ceil(1000).max(1);
    let mut seen = 0;
    for (bucket, count) in counts.enumerate() {
        seen += count;
        if seen >= rank {
            return Some(end_of(bucket));
        }
    }
    None
}

fn bucket_of(nanos: u64) -> usize {
    let nanos = nanos.max(1 << FIRST_LOG);
    let log = nanos.ilog2();
    let quarter = (nanos >> (log - 2)) & 3;
    let bucket = u64::from(log - FIRST_LOG) * 4 + quarter;
    usize::try_from(bucket).map_or(BUCKETS - 1, |bucket| bucket.min(BUCKETS - 1))
}

/// The first number above a bucket.
fn end_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    (bucket % 4 + 5) << (bucket / 4 + u64::from(FIRST_LOG) - 2)
}

const _: () =
    assert!(size_of::<LatencyHistogram>() <= 1024, "two of them are the 2 KiB of a drive");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_end_a_quarter_above_what_they_begin_with() {
        for nanos in [1u64, 1023, 1024, 1279, 1280, 5_000_000, 500_000_000, 1 << 40] {
            let end = end_of(bucket_of(nanos));
            assert!(end > nanos, "{nanos}");
            assert!(end <= (nanos.max(1024) * 5).div_ceil(4), "{nanos}: {end}");
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_those_of_the_last_operations() {
        let latencies = LatencyHistogram::default();
        assert_eq!(latencies.quantile_nanos(500), None);
        (0..99).for_each(|_| latencies.add(100_000));
        latencies.add(500_000_000);
        assert!((100_000..=125_000).contains(&latencies.quantile_nanos(500).unwrap()));
        assert!((100_000..=125_000).contains(&latencies.quantile_nanos(990).unwrap()));
        assert!(latencies.quantile_nanos(1000).unwrap() > 500_000_000);
        // What is long ago does not count.
        (0..2 * u32::from(HALF)).for_each(|_| latencies.add(2_000_000));
        assert!((2_000_000..=2_500_000).contains(&latencies.quantile_nanos(1).unwrap()));
        assert!((2_000_000..=2_500_000).contains(&latencies.quantile_nanos(1000).unwrap()));
    }

    #[test]
    fn a_window_has_what_came_since_the_last_one() {
        let latencies = LatencyHistogram::default();
        (0..1000).for_each(|_| latencies.add_to_window(100_000));
        assert_eq!(latencies.take_window().operations, 1000);
        (0..5).for_each(|_| latencies.add_to_window(3_000_000));
        let window = latencies.take_window();
        assert_eq!(window.operations, 5);
        assert!((3_000_000..=3_750_000).contains(&window.median_nanos));
        assert_eq!(latencies.take_window(), LatencyWindow::default());
    }
}
