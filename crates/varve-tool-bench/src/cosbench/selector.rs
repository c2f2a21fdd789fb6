//! Selectors: how COSBench writes which container, which object and which size comes next.
//!
//! `c(5)` is always 5; `u(1,100)` draws; `r(1,100)`, or `1-100`, counts, each worker in a part of its own; `s(1,100)`
//! counts, all workers together; `h(1|64|10,64|512|20)` deals a bucket by its weight, and then draws a number in it.
//! COSBench gives the first bucket of a histogram one more than its weight and the last one less; here weights are what
//! is written.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use varve_stdx::Rng;

use crate::cosbench::deck::Deck;
use crate::error::{Error, Result};

/// Upper end of ranges that name none, as in COSBench.
const OPEN: u64 = i32::MAX as u64;

/// A bucket of a histogram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HistogramBucket {
    /// Lowest number.
    pub min: u64,
    /// Highest number.
    pub max: u64,
    /// Share, among the sum of all weights.
    pub weight: u64,
}

/// Which numbers come next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Selector {
    /// Always the same.
    Constant(u64),
    /// Any of them, drawn.
    Uniform {
        /// Lowest number.
        min: u64,
        /// Highest number.
        max: u64,
    },
    /// One after another, each worker in a part of its own.
    Range {
        /// Lowest number.
        min: u64,
        /// Highest number.
        max: u64,
    },
    /// One after another, all workers together.
    Sequential {
        /// Lowest number.
        min: u64,
        /// Highest number.
        max: u64,
    },
    /// Drawn by weight.
    Histogram(Vec<HistogramBucket>),
}

impl Selector {
    /// The lowest and the highest number.
    #[must_use]
    pub fn bounds(&self) -> (u64, u64) {
        match self {
            Self::Constant(value) => (*value, *value),
            Self::Uniform { min, max }
            | Self::Range { min, max }
            | Self::Sequential { min, max } => (*min, *max),
            Self::Histogram(buckets) => {
                let min = buckets.iter().map(|bucket| bucket.min).min();
                let max = buckets.iter().map(|bucket| bucket.max).max();
                (min.unwrap_or(0), max.unwrap_or(0))
            }
        }
    }

    /// The mean of the numbers.
    #[must_use]
    pub fn mean(&self) -> f64 {
        let middle = |min: u64, max: u64| (min as f64 + max as f64) / 2.0;
        match self {
            Self::Histogram(buckets) => {
                let all: u64 = buckets.iter().map(|bucket| bucket.weight).sum();
                let of = |bucket: &HistogramBucket| {
                    middle(bucket.min, bucket.max) * bucket.weight as f64
                };
                buckets.iter().map(of).sum::<f64>() / all as f64
            }
            other => {
                let (min, max) = other.bounds();
                middle(min, max)
            }
        }
    }

    /// The same over a share of its numbers, which begin at 1. What lies within other numbers stays within theirs.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a number lies below it"
    )]
    pub(crate) fn shrink(&mut self, share: f64) {
        if let Self::Uniform { min, max }
        | Self::Range { min, max }
        | Self::Sequential { min, max } = self
        {
            let at = |number: u64| (number as f64 * share) as u64;
            *min = at(min.saturating_sub(1)) + 1;
            *max = at(*max).max(*min);
        }
    }

    /// The same with all numbers `factor` times as high, for sizes with a unit.
    #[must_use]
    pub(crate) fn times(&self, factor: u64) -> Option<Self> {
        let range = |min: u64, max: u64| Some((min.checked_mul(factor)?, max.checked_mul(factor)?));
        Some(match self {
            Self::Constant(value) => Self::Constant(value.checked_mul(factor)?),
            Self::Uniform { min, max } => {
                let (min, max) = range(*min, *max)?;
                Self::Uniform { min, max }
            }
            Self::Range { min, max } => {
                let (min, max) = range(*min, *max)?;
                Self::Range { min, max }
            }
            Self::Sequential { min, max } => {
                let (min, max) = range(*min, *max)?;
                Self::Sequential { min, max }
            }
            Self::Histogram(buckets) => {
                let buckets = buckets.iter().map(|bucket| {
                    let (min, max) = range(bucket.min, bucket.max)?;
                    Some(HistogramBucket { min, max, weight: bucket.weight })
                });
                Self::Histogram(buckets.collect::<Option<_>>()?)
            }
        })
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant(value) => write!(f, "c({value})"),
            Self::Uniform { min, max } => write!(f, "u({min},{max})"),
            Self::Range { min, max } => write!(f, "r({min},{max})"),
            Self::Sequential { min, max } => write!(f, "s({min},{max})"),
            Self::Histogram(buckets) => {
                let bucket = |HistogramBucket { min, max, weight }: &HistogramBucket| {
                    format!("{min}|{max}|{weight}")
                };
                write!(f, "h({})", buckets.iter().map(bucket).collect::<Vec<_>>().join(","))
            }
        }
    }
}

impl FromStr for Selector {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let text = text.trim();
        let read = || {
            if let Some((min, max)) = text.split_once('-') {
                let (min, max) = (number(min)?, number(max)?);
                return Some(Self::Range { min, max });
            }
            let (kind, rest) = text.split_once('(')?;
            let inside = rest.strip_suffix(')')?;
            let (min, max) = inside.split_once(',').unwrap_or((inside, ""));
            let range = || Some((number(min)?, if max.is_empty() { OPEN } else { number(max)? }));
            Some(match kind {
                "c" => Self::Constant(number(inside)?),
                "u" => range().map(|(min, max)| Self::Uniform { min, max })?,
                "r" => range().map(|(min, max)| Self::Range { min, max })?,
                "s" => range().map(|(min, max)| Self::Sequential { min, max })?,
                "h" => Self::Histogram(inside.split(',').map(bucket).collect::<Option<_>>()?),
                _ => return None,
            })
        };
        let refused = |reason: &'static str| Error::Selector { selector: text.to_owned(), reason };
        let selector = read().ok_or_else(|| refused("it is none of c, u, r, s, h"))?;
        selector.check().map_err(refused)?;
        Ok(selector)
    }
}

impl Selector {
    fn check(&self) -> std::result::Result<(), &'static str> {
        match self {
            Self::Uniform { min: 0, .. } | Self::Range { min: 0, .. } => {
                return Err("numbers begin at 1");
            }
            Self::Histogram(buckets) => {
                let weights =
                    buckets.iter().try_fold(0, |sum: u64, bucket| sum.checked_add(bucket.weight));
                if weights.is_none_or(|sum| sum == 0) {
                    return Err("its weights have no sum above 0");
                }
                if buckets.iter().any(|bucket| bucket.min > bucket.max) {
                    return Err("a bucket ends before it begins");
                }
            }
            _ => {}
        }
        let (min, max) = self.bounds();
        if min > max { Err("it ends before it begins") } else { Ok(()) }
    }
}

fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|number| *number <= OPEN)
}

fn bucket(text: &str) -> Option<HistogramBucket> {
    let mut parts = text.split('|').map(str::trim);
    let min = number(parts.next()?)?;
    let max = match parts.next()? {
        "" => OPEN,
        max => number(max)?,
    };
    let weight = number(parts.next()?)?;
    parts.next().is_none().then_some(HistogramBucket { min, max, weight })
}

/// What all workers of a selector share.
#[derive(Default, Debug)]
pub(crate) struct SharedSelector {
    /// Of those that count together: how many came so far.
    so_far: AtomicU64,
    /// Of histograms: which buckets are next.
    deck: Deck,
}

/// A selector at work for one worker.
#[derive(Clone, Debug)]
pub(crate) struct Chooser {
    selector: Selector,
    /// Of those that count, each worker for itself: how many came so far.
    so_far: u64,
    shared: Arc<SharedSelector>,
}

impl Chooser {
    /// That of `selector`; those of one work have the same `shared`.
    pub(crate) fn new(selector: Selector, shared: Arc<SharedSelector>) -> Self {
        Self { selector, so_far: 0, shared }
    }

    /// What it was made from.
    pub(crate) fn selector(&self) -> &Selector {
        &self.selector
    }

    /// The number at a place of those that count.
    pub(crate) fn at(&self, place: u64) -> u64 {
        let (min, max) = self.selector.bounds();
        min + place % (max - min + 1)
    }

    /// The next number, after the last one the first.
    pub(crate) fn next(&mut self, rng: &mut Rng) -> u64 {
        match &self.selector {
            Selector::Constant(value) => *value,
            Selector::Uniform { min, max } => min + rng.below(max - min + 1),
            Selector::Range { min, max } => {
                let place = self.so_far % (max - min + 1);
                self.so_far += 1;
                min + place
            }
            Selector::Sequential { min, max } => {
                min + self.shared.so_far.fetch_add(1, Ordering::Relaxed) % (max - min + 1)
            }
            Selector::Histogram(buckets) => {
                let weights = buckets.iter().map(|bucket| bucket.weight);
                let HistogramBucket { min, max, .. } = buckets[self.shared.deck.deal(weights, rng)];
                min + rng.below(max - min + 1)
            }
        }
    }
}

/// The part of the numbers from `min` to `max` that worker `worker` of `workers` has; none when there are fewer numbers
/// than workers.
pub(crate) fn part(min: u64, max: u64, worker: u64, workers: u64) -> Option<(u64, u64)> {
    let count = max - min + 1;
    let at =
        |worker: u64| u64::try_from(u128::from(count) * u128::from(worker) / u128::from(workers));
    let (begin, end) = (at(worker).unwrap_or(count), at(worker + 1).unwrap_or(count));
    (begin < end).then(|| (min + begin, min + end - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chooser(text: &str) -> Chooser {
        Chooser::new(text.parse().unwrap(), Arc::default())
    }

    #[test]
    fn what_is_printed_is_read_as_the_same() {
        for text in ["c(5)", "u(1,100)", "r(1,9)", "s(1,9)", "h(1|64|10,64|512|20)"] {
            assert_eq!(text.parse::<Selector>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn means_are_those_of_what_is_drawn() {
        for (text, mean) in [
            ("c(5)", 5.0),
            ("u(1,100)", 50.5),
            ("h(4000|4000|80,2500|2500|10,1900|1900|5,1250|1250|5)", 3607.5),
        ] {
            assert_eq!(text.parse::<Selector>().unwrap().mean(), mean);
            let drawn: u64 = numbers(text, 10_000).iter().sum();
            assert!((drawn as f64 / 10_000.0 - mean).abs() < mean * 0.02, "{text}: {drawn}");
        }
    }

    #[test]
    fn a_share_of_numbers_lies_within_a_share_of_more() {
        let shrunk = |text: &str, share| {
            let mut selector: Selector = text.parse().unwrap();
            selector.shrink(share);
            selector.bounds()
        };
        assert_eq!(shrunk("r(1,100)", 0.1), (1, 10));
        assert_eq!((shrunk("u(1,50)", 0.1), shrunk("u(51,100)", 0.1)), ((1, 5), (6, 10)));
        assert_eq!((shrunk("u(1,50)", 0.001), shrunk("u(51,100)", 0.001)), ((1, 1), (1, 1)));
        assert_eq!(shrunk("c(7)", 0.1), (7, 7));
    }

    fn numbers(text: &str, count: usize) -> Vec<u64> {
        let (mut chooser, mut rng) = (chooser(text), Rng::new(3));
        (0..count).map(|_| chooser.next(&mut rng)).collect()
    }

    #[test]
    fn selectors_are_read_as_cosbench_writes_them() {
        for (text, selector) in [
            ("c(64)", Selector::Constant(64)),
            ("u(1,100)", Selector::Uniform { min: 1, max: 100 }),
            ("u(5)", Selector::Uniform { min: 5, max: OPEN }),
            ("r(1,100)", Selector::Range { min: 1, max: 100 }),
            ("1-100", Selector::Range { min: 1, max: 100 }),
            ("s(1, 100)", Selector::Sequential { min: 1, max: 100 }),
            (
                "h(1|64|10,64||20)",
                Selector::Histogram(vec![
                    HistogramBucket { min: 1, max: 64, weight: 10 },
                    HistogramBucket { min: 64, max: OPEN, weight: 20 },
                ]),
            ),
        ] {
            assert_eq!(text.parse::<Selector>().unwrap(), selector, "{text}");
        }
        for wrong in [
            "",
            "5",
            "x(1)",
            "u(0,5)",
            "r(5,1)",
            "u(1",
            "h(1|2)",
            "h(1|2|0)",
            "h(9|2|1)",
            "c(-1)",
            "h(1|2|3|4)",
            "u(1,99999999999)",
        ] {
            assert!(wrong.parse::<Selector>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn those_that_count_begin_anew_after_the_last() {
        assert_eq!(numbers("r(3,5)", 7), [3, 4, 5, 3, 4, 5, 3]);
        assert_eq!(numbers("c(9)", 2), [9, 9]);
        let together: Arc<SharedSelector> = Arc::default();
        let selector: Selector = "s(1,4)".parse().unwrap();
        let mut workers: Vec<Chooser> =
            (0..2).map(|_| Chooser::new(selector.clone(), Arc::clone(&together))).collect();
        let mut rng = Rng::new(1);
        let all: Vec<u64> = (0..6).map(|turn| workers[turn % 2].next(&mut rng)).collect();
        assert_eq!(all, [1, 2, 3, 4, 1, 2]);
    }

    /// Sum of squared distances from what is expected, each by what is expected.
    fn chi_squared(found: &[u64], weights: &[u64]) -> f64 {
        let (all, sum) = (found.iter().sum::<u64>() as f64, weights.iter().sum::<u64>() as f64);
        let cells = found.iter().zip(weights).map(|(found, weight)| {
            let expected = all * *weight as f64 / sum;
            (*found as f64 - expected).powi(2) / expected
        });
        cells.sum()
    }

    #[test]
    fn a_histogram_has_the_weights_that_are_written() {
        // The trace that COSBench comes with.
        let text =
            "h(1|100|604,101|500|116,501|1024|51,1025|5120|169,5121|102400|18,102401|1024000|2)";
        let weights = [604, 116, 51, 169, 18, 2];
        let Selector::Histogram(buckets) = text.parse().unwrap() else { panic!("{text}") };
        let (mut found, mut tenths) = ([0; 6], [0; 10]);
        for value in numbers(text, 960_123) {
            let is_inside = |bucket: &HistogramBucket| (bucket.min..=bucket.max).contains(&value);
            let index = buckets.iter().position(is_inside).unwrap();
            found[index] += 1;
            if index == 0 {
                tenths[usize::try_from((value - 1) / 10).unwrap()] += 1;
            }
        }
        // 99.9 % of fair draws stay below 20.5 with five degrees of freedom, and below 27.9 with nine.
        let fair = chi_squared(&found, &weights);
        assert!(fair < 20.5, "{fair}: {found:?}");
        let inside = chi_squared(&tenths, &[1; 10]);
        assert!(inside < 27.9, "numbers of a bucket are drawn: {inside}: {tenths:?}");
        let of_cosbench = chi_squared(&found, &[605, 116, 51, 169, 18, 1]);
        assert!(of_cosbench > 100.0, "its own weights would be told apart: {of_cosbench}");
    }

    #[test]
    fn uniform_numbers_pass_the_same_test() {
        let mut found = [0; 10];
        for value in numbers("u(11,20)", 100_000) {
            found[usize::try_from(value).unwrap() - 11] += 1;
        }
        let fair = chi_squared(&found, &[1; 10]);
        assert!(fair < 27.9, "99.9 % of nine degrees of freedom: {fair}");
    }

    #[test]
    fn parts_of_workers_cover_all_and_never_overlap() {
        for (count, workers) in [(100, 7), (3, 5), (1, 1), (64, 64)] {
            let parts = (0..workers).filter_map(|worker| part(10, 9 + count, worker, workers));
            let all: Vec<u64> = parts.flat_map(|(min, max)| min..=max).collect();
            assert!(all.into_iter().eq(10..10 + count), "{count} of {workers}");
        }
    }
}
