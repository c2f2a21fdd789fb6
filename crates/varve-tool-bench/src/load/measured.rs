//! What was measured: counts and latencies of reads and writes. Histograms are merged, percentiles never averaged.

use hdrhistogram::Histogram;

use crate::load::steady::window_has_settled;

/// Longest latency that is told apart, in ns: an hour. Longer ones count as that.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;

/// Decimal digits of a latency that are kept.
const DIGITS: u8 = 3;

/// What an operation does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OperationKind {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Lists objects.
    List,
    /// Removes an object.
    Delete,
}

/// Operations of one kind.
#[derive(Clone, PartialEq, Debug)]
pub struct KindTotals {
    /// Operations that were answered.
    pub operations: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Their latencies in ns; also, as far as they had waited, those of operations that were due and not begun when
    /// time was up.
    pub latency_ns: Histogram<u64>,
}

/// What was measured within a window of time, of one job or several.
#[derive(Clone, PartialEq, Debug)]
pub struct Measurement {
    /// Reads.
    pub reads: KindTotals,
    /// Writes.
    pub writes: KindTotals,
    /// Listings of objects.
    pub lists: KindTotals,
    /// Removals of objects.
    pub deletes: KindTotals,
    /// Operations that were due and not begun when time was up; the target did not keep up with the rate.
    pub not_begun: u64,
    /// Operations that failed, of loads that go on then.
    pub failures: u64,
    /// Length of the window, in ns.
    pub window_ns: u64,
    /// Operations that were due in each second of the window and answered.
    pub per_second: Vec<u64>,
}

impl Default for KindTotals {
    fn default() -> Self {
        let latency_ns = Histogram::new_with_bounds(1, LATENCY_NS_MAX, DIGITS);
        Self { operations: 0, bytes: 0, latency_ns: latency_ns.expect("the bounds are in order") }
    }
}

impl KindTotals {
    /// Adds a latency without an operation.
    pub(crate) fn wait(&mut self, latency_ns: u64) {
        self.latency_ns.saturating_record(latency_ns.max(1));
    }

    fn merge(&mut self, other: &Self) {
        self.operations += other.operations;
        self.bytes += other.bytes;
        self.latency_ns.add(&other.latency_ns).expect("all histograms have the same bounds");
    }

    /// The histogram's cells: the upper end of each in ns, and what it counts.
    pub fn cells(&self) -> impl Iterator<Item = (u64, u64)> {
        let cells = self.latency_ns.iter_recorded();
        cells.map(|cell| (cell.value_iterated_to(), cell.count_since_last_iteration()))
    }

    /// A side of both.
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        let mut both = self.clone();
        both.merge(other);
        both
    }
}

impl Default for Measurement {
    fn default() -> Self {
        let [reads, writes, lists, deletes] = std::array::from_fn(|_| KindTotals::default());
        let (not_begun, failures, window_ns, per_second) = (0, 0, 0, Vec::new());
        Self { reads, writes, lists, deletes, not_begun, failures, window_ns, per_second }
    }
}

impl Measurement {
    /// Adds an answered operation that was due `at_ns` after the beginning of the window.
    pub fn answer(&mut self, kind: OperationKind, bytes: u64, at_ns: u64, latency_ns: u64) {
        let side = self.side(kind);
        side.operations += 1;
        side.bytes += bytes;
        side.wait(latency_ns);
        let second = usize::try_from(at_ns / 1_000_000_000).unwrap_or(usize::MAX);
        if self.per_second.len() <= second {
            self.per_second.resize(second + 1, 0);
        }
        self.per_second[second] += 1;
    }

    /// Adds an operation that was due and not begun when time was up, which had waited for `waited_ns`.
    pub fn miss(&mut self, kind: OperationKind, waited_ns: u64) {
        self.side(kind).wait(waited_ns);
        self.not_begun += 1;
    }

    fn side(&mut self, kind: OperationKind) -> &mut KindTotals {
        match kind {
            OperationKind::Read => &mut self.reads,
            OperationKind::Write => &mut self.writes,
            OperationKind::List => &mut self.lists,
            OperationKind::Delete => &mut self.deletes,
        }
    }

    /// Operations of every kind.
    #[must_use]
    pub fn all(&self) -> KindTotals {
        let mut all = self.reads.with(&self.writes);
        // Loads of blocks have none, and histograms are long.
        for side in [&self.lists, &self.deletes] {
            if !side.latency_ns.is_empty() {
                all.merge(side);
            }
        }
        all
    }

    /// Answered operations of every kind.
    #[must_use]
    pub fn operations(&self) -> u64 {
        [&self.reads, &self.writes, &self.lists, &self.deletes]
            .iter()
            .map(|side| side.operations)
            .sum()
    }

    /// Adds what another job measured in the same window.
    pub fn merge_job(&mut self, other: &Self) {
        self.window_ns = self.window_ns.max(other.window_ns);
        self.add(other);
        if self.per_second.len() < other.per_second.len() {
            self.per_second.resize(other.per_second.len(), 0);
        }
        for (sum, count) in self.per_second.iter_mut().zip(&other.per_second) {
            *sum += count;
        }
    }

    /// Adds what was measured in a later window.
    pub fn merge_repeat(&mut self, other: &Self) {
        self.window_ns += other.window_ns;
        self.add(other);
        self.per_second.extend(&other.per_second);
    }

    fn add(&mut self, other: &Self) {
        self.reads.merge(&other.reads);
        self.writes.merge(&other.writes);
        for (side, other) in [(&mut self.lists, &other.lists), (&mut self.deletes, &other.deletes)]
        {
            if !other.latency_ns.is_empty() {
                side.merge(other);
            }
        }
        self.not_begun += other.not_begun;
        self.failures += other.failures;
    }

    /// Whether the rate was level over the window's whole seconds; `None` when these are fewer than five.
    #[must_use]
    pub fn has_settled(&self) -> Option<bool> {
        window_has_settled(&self.per_second, self.window_ns)
    }

    /// `amount` a second of the window; 0 for an empty one.
    #[must_use]
    pub fn per_second(&self, amount: u64) -> f64 {
        if self.window_ns == 0 { 0.0 } else { amount as f64 * 1e9 / self.window_ns as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_add_up_within_a_window_and_repeats_over_time() {
        let job = |latency_ns| {
            let mut measured = Measurement { window_ns: 2_000_000_000, ..Measurement::default() };
            measured.answer(OperationKind::Read, 4096, 0, latency_ns);
            measured.answer(OperationKind::Write, 4096, 1_500_000_000, 2 * latency_ns);
            measured
        };
        let mut both = job(1000);
        both.merge_job(&job(50_000));
        assert_eq!(
            (both.reads.operations, both.writes.bytes, both.window_ns),
            (2, 8192, 2_000_000_000)
        );
        assert_eq!(both.per_second, [2, 2]);
        assert_eq!(both.per_second(both.reads.operations), 1.0);
        let mut twice = both.clone();
        twice.merge_repeat(&both);
        assert_eq!((twice.window_ns, &twice.per_second[..]), (4_000_000_000, &[2, 2, 2, 2][..]));
        assert_eq!(twice.per_second(twice.reads.operations), 1.0);
    }

    #[test]
    fn percentiles_of_merged_histograms_are_those_of_all_samples() {
        let (mut slow, mut fast) = (KindTotals::default(), KindTotals::default());
        (0..10).for_each(|_| slow.wait(1_000_000));
        (0..990).for_each(|_| fast.wait(1_000));
        let both = slow.with(&fast);
        assert_eq!(both.latency_ns.value_at_quantile(0.5), 1000);
        let near = |quantile| both.latency_ns.value_at_quantile(quantile) / 1000;
        assert_eq!((near(0.989), near(0.995)), (1, 1000), "their average would be 500 at both");
    }

    #[test]
    fn latencies_beyond_the_bounds_are_kept_at_them() {
        let mut side = KindTotals::default();
        side.wait(0);
        side.wait(u64::MAX);
        assert_eq!(side.latency_ns.len(), 2);
        assert!(side.latency_ns.max() >= LATENCY_NS_MAX);
    }
}
