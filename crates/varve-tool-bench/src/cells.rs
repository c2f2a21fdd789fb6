//! Counts of latencies as results keep them: the upper end of each cell, and what it counts. Cells of several results
//! are added, so that percentiles of all are those of all operations.

use std::collections::BTreeMap;

/// Cells of a histogram.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct HistogramCells {
    counts: BTreeMap<u64, u64>,
    all: u64,
}

impl HistogramCells {
    /// Adds cells: their values, and what they count.
    pub fn add(&mut self, cells: impl IntoIterator<Item = (u64, u64)>) {
        for (value, count) in cells {
            if count > 0 {
                *self.counts.entry(value).or_default() += count;
                self.all += count;
            }
        }
    }

    /// What all cells count.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.all
    }

    /// The value that this share of operations does not exceed; `None` without any.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a count lies within it"
    )]
    pub fn quantile(&self, quantile: f64) -> Option<u64> {
        // What a share lacks of a whole number by rounding is none.
        let share = self.all as f64 * quantile * (1.0 - 4.0 * f64::EPSILON);
        let wanted = (share.ceil() as u64).clamp(1, self.all.max(1));
        let mut so_far = 0;
        self.counts.iter().find_map(|(value, count)| {
            so_far += count;
            (so_far >= wanted).then_some(*value)
        })
    }

    /// The cells in order.
    #[must_use]
    pub fn to_vec(&self) -> Vec<(u64, u64)> {
        self.counts.iter().map(|(value, count)| (*value, *count)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::KindTotals;

    #[test]
    fn percentiles_are_those_of_the_histogram() {
        let (mut one, mut other) = (KindTotals::default(), KindTotals::default());
        (1..5000).for_each(|n| one.wait(n * n));
        (1..300).for_each(|n| other.wait(n * 1_000_003));
        let mut cells = HistogramCells::default();
        for side in [&one, &other] {
            cells.add(side.cells());
        }
        let both = one.with(&other).latency_ns;
        assert_eq!(cells.count(), both.len());
        for quantile in [0.0001, 0.5, 0.9, 0.95, 0.99, 0.999, 0.9999] {
            assert_eq!(cells.quantile(quantile), Some(both.value_at_quantile(quantile)));
        }
        assert_eq!(HistogramCells::default().quantile(0.5), None);
    }
}
