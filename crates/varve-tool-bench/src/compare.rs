//! Whether a change is for the worse: more than what is accepted, and more than chance makes of it.

use crate::load::{Estimate, student_t};

/// A figure of two systems, or of one before and after a change, as measured in several repeats.
#[derive(Clone, PartialEq, Debug)]
pub struct ComparedFigure {
    /// What it is, with its unit.
    pub name: &'static str,
    /// Whether more of it is better.
    pub more_is_better: bool,
    /// Repeats of the first.
    pub before: Vec<f64>,
    /// Repeats of the second.
    pub after: Vec<f64>,
}

/// What a figure says of the change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Better by more than is accepted, and not by chance.
    Better,
    /// Neither.
    Same,
    /// Worse by more than is accepted, and not by chance.
    Worse,
    /// Off by more than is accepted, and chance may do that with so few repeats or so much noise.
    Unsure,
}

/// A figure compared.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Comparison {
    /// The first.
    pub before: Estimate,
    /// The second.
    pub after: Estimate,
    /// How much the second is above the first, in percent of this; negative when it is below.
    pub change_percent: f64,
    /// What that means.
    pub verdict: Verdict,
}

impl ComparedFigure {
    /// Compares them: a change counts above `accept_percent` of the first, when it is so much that chance does it in
    /// one of forty cases at most (Welch's test, to one side). With a single repeat of either nobody knows what chance
    /// does, and any change above what is accepted counts.
    ///
    /// # Panics
    /// When there is no repeat of either.
    #[must_use]
    pub fn compare(&self, accept_percent: f64) -> Comparison {
        let (before, after) = (Estimate::of(&self.before), Estimate::of(&self.after));
        let change = after.mean - before.mean;
        let change_percent = if before.mean == 0.0 { 0.0 } else { change / before.mean * 100.0 };
        let is_better = (change > 0.0) == self.more_is_better;
        let verdict = if change_percent.abs() <= accept_percent {
            Verdict::Same
        } else if !is_beyond_chance(&self.before, &self.after) {
            Verdict::Unsure
        } else if is_better {
            Verdict::Better
        } else {
            Verdict::Worse
        };
        Comparison { before, after, change_percent, verdict }
    }
}

/// Welch's test of two means, at 97.5 % to one side.
fn is_beyond_chance(before: &[f64], after: &[f64]) -> bool {
    if before.len() < 2 || after.len() < 2 {
        return true;
    }
    let ((mean_a, error_a), (mean_b, error_b)) = (squared_error(before), squared_error(after));
    let squared = error_a + error_b;
    if squared == 0.0 {
        return mean_a != mean_b;
    }
    let part = |error: f64, count: usize| error * error / (count as f64 - 1.0);
    let freedom = squared * squared / (part(error_a, before.len()) + part(error_b, after.len()));
    let most = (before.len() + after.len() - 2) as f64;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 1 and the number of repeats"
    )]
    let freedom = freedom.floor().clamp(1.0, most) as usize;
    (mean_b - mean_a).abs() > student_t(freedom) * squared.sqrt()
}

/// The mean, and the square of its standard error.
fn squared_error(samples: &[f64]) -> (f64, f64) {
    let count = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / count;
    let squares: f64 = samples.iter().map(|sample| (sample - mean).powi(2)).sum();
    (mean, squares / (count - 1.0) / count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use varve_stdx::Rng;

    fn rate(before: &[f64], after: &[f64]) -> Comparison {
        let (before, after) = (before.to_vec(), after.to_vec());
        ComparedFigure { name: "ops/s", more_is_better: true, before, after }.compare(5.0)
    }

    #[test]
    fn a_change_counts_above_what_is_accepted_and_beyond_chance() {
        let before = [100.0, 101.0, 99.0, 100.0];
        assert_eq!(rate(&before, &[96.0, 97.0, 95.0, 96.0]).verdict, Verdict::Same);
        let worse = rate(&before, &[90.0, 91.0, 89.0, 90.0]);
        assert_eq!((worse.verdict, worse.change_percent), (Verdict::Worse, -10.0));
        assert_eq!(rate(&before, &[110.0, 111.0, 109.0, 110.0]).verdict, Verdict::Better);
        assert_eq!(rate(&before, &[60.0, 120.0, 90.0, 80.0]).verdict, Verdict::Unsure);
        let before = before.to_vec();
        let figure = ComparedFigure {
            name: "p99",
            more_is_better: false,
            after: vec![120.0, 121.0],
            before,
        };
        assert_eq!(figure.compare(5.0).verdict, Verdict::Worse);
    }

    #[test]
    fn single_and_equal_repeats_are_compared_as_they_are() {
        assert_eq!(rate(&[100.0], &[94.0]).verdict, Verdict::Worse);
        assert_eq!(rate(&[100.0], &[96.0]).verdict, Verdict::Same);
        assert_eq!(rate(&[100.0; 3], &[90.0; 3]).verdict, Verdict::Worse);
        assert_eq!(rate(&[0.0; 3], &[0.0; 3]).verdict, Verdict::Same);
    }

    /// Trials of `TRIALS` in which one figure of two is called worse: a rate with 3 % of noise, and a p99 with 6 %, of
    /// five repeats each.
    fn called_worse(factor: f64, seed: u64, accept_percent: f64) -> u32 {
        let mut rng = Rng::new(seed);
        let mut normal =
            || (0..12).map(|_| rng.below(1 << 32) as f64 / 2f64.powi(32)).sum::<f64>() - 6.0;
        let mut figure = |level: f64, noise: f64, factor: f64, more_is_better| {
            let mut repeats = |level: f64| -> Vec<f64> {
                (0..5).map(|_| level * (1.0 + noise * normal())).collect()
            };
            let (before, after) = (repeats(level), repeats(level * factor));
            ComparedFigure { name: "figure", more_is_better, before, after }
        };
        let trials = (0..TRIALS).filter(|_| {
            let figures =
                [figure(5000.0, 0.03, factor, true), figure(800.0, 0.06, 1.0 / factor, false)];
            figures.iter().any(|figure| figure.compare(accept_percent).verdict == Verdict::Worse)
        });
        u32::try_from(trials.count()).unwrap()
    }

    const TRIALS: u32 = 2000;

    #[test]
    fn a_tenth_less_is_caught_in_nineteen_of_twenty_trials() {
        let caught = called_worse(0.9, 7, 5.0);
        assert!(caught * 20 >= TRIALS * 19, "{caught} of {TRIALS}");
    }

    #[test]
    fn no_change_is_called_worse_in_one_of_twenty_trials_at_most() {
        for accept_percent in [5.0, 0.0] {
            let called = called_worse(1.0, 8, accept_percent);
            assert!(called * 20 <= TRIALS, "{called} of {TRIALS} at {accept_percent} %");
        }
    }
}
