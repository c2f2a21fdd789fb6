//! Whether a rate has settled: the criterion of SNIA's performance test specification.

/// Rounds that are looked at.
const ROUNDS: usize = 5;

/// Distance between the highest and the lowest round, as a share of their mean.
const RANGE_MAX: f64 = 0.2;

/// The same of the straight line that fits them best: what is left when noise is taken away.
const DRIFT_MAX: f64 = 0.1;

/// Whether the last five of `rates`, of rounds of equal length in order, lie within 20 % of their mean, and the line
/// that fits them best within 10 % of it. False when there are fewer, or none of them is above 0.
#[must_use]
pub fn has_settled(rates: &[f64]) -> bool {
    let Some((_, last)) = rates.split_last_chunk::<ROUNDS>() else { return false };
    let mean = last.iter().sum::<f64>() / ROUNDS as f64;
    if mean.is_nan() || mean <= 0.0 {
        return false;
    }
    let (low, high) = last
        .iter()
        .fold((f64::MAX, f64::MIN), |(low, high), rate| (low.min(*rate), high.max(*rate)));
    let middle = (ROUNDS - 1) as f64 / 2.0;
    let (mut product, mut square) = (0.0, 0.0);
    for (round, rate) in last.iter().enumerate() {
        let place = round as f64 - middle;
        product += place * rate;
        square += place * place;
    }
    let drift = (product / square * (ROUNDS - 1) as f64).abs();
    high - low <= RANGE_MAX * mean && drift <= DRIFT_MAX * mean
}

/// The same of a window: its whole seconds in five parts. `None` when it has fewer than five.
pub(crate) fn window_has_settled(per_second: &[u64], window_ns: u64) -> Option<bool> {
    let whole = usize::try_from(window_ns / 1_000_000_000).unwrap_or(usize::MAX);
    let seconds = whole.min(per_second.len());
    let part = seconds / ROUNDS;
    if part == 0 {
        return None;
    }
    let rates: Vec<f64> = per_second[..part * ROUNDS]
        .chunks(part)
        .map(|seconds| seconds.iter().sum::<u64>() as f64)
        .collect();
    Some(has_settled(&rates))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_rate_has_settled_and_a_falling_one_has_not() {
        assert!(has_settled(&[100.0; 5]));
        assert!(!has_settled(&[100.0; 4]));
        assert!(has_settled(&[500.0, 300.0, 100.0, 105.0, 98.0, 101.0, 97.0]));
        assert!(!has_settled(&[0.0; 9]), "nothing happened");
        // From 106 to 94 by steps of 3: the range of 12 % passes, the drift of 12 % does not.
        assert!(!has_settled(&[106.0, 103.0, 100.0, 97.0, 94.0]));
        assert!(has_settled(&[104.0, 102.0, 100.0, 98.0, 96.0]));
        // Noise about a level: 22 % of range is too much, without any drift.
        assert!(!has_settled(&[100.0, 111.0, 89.0, 111.0, 100.0]));
    }

    #[test]
    fn windows_are_cut_into_five() {
        assert_eq!(window_has_settled(&[7; 4], 4_000_000_000), None);
        assert_eq!(window_has_settled(&[7; 13], 13_000_000_000), Some(true));
        let falling: Vec<u64> = (0..20).map(|second| 1000 - 20 * second).collect();
        assert_eq!(window_has_settled(&falling, 20_000_000_000), Some(false));
        // The last second has just begun.
        assert_eq!(window_has_settled(&[7, 7, 7, 7, 7, 1], 5_100_000_000), Some(true));
    }
}
