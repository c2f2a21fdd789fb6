//! How figures grow: with workers, with tunings, with concurrency.

use crate::error::{Result, positive};
use crate::rounding::real;
use crate::units::{Amount, ByteRate, Seconds};

/// Least gain of a step that is still growth.
const GAIN_MIN: f64 = 1.05;

/// A measured point of a curve.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Point {
    /// Workers at work.
    pub workers: u64,
    /// What they reached together.
    pub rate: ByteRate,
}

impl Point {
    /// What one of them reached.
    #[must_use]
    pub fn per_worker(self) -> ByteRate {
        self.rate / real(self.workers)
    }
}

/// The knee of a curve whose workers grow: the last point before a step that gives less than 5 % more. Nothing of no
/// points.
#[must_use]
pub fn knee(points: &[Point]) -> Option<Point> {
    let flat = |step: &[Point]| step[1].rate / step[0].rate < GAIN_MIN;
    let bend = points.windows(2).find(|step| flat(step)).map(|step| step[0]);
    bend.or(points.last().copied())
}

/// What independent gains make together: +55 %, +11 % and +11 % are 1.91 times.
#[must_use]
pub fn combined_gain(gains: &[f64]) -> f64 {
    gains.iter().map(|gain| 1.0 + gain).product()
}

/// Time of `jobs` that take `each`, `concurrency` of them at once.
///
/// # Errors
/// [`crate::Error::Range`] when none runs at once.
pub fn batch_time(each: Seconds, jobs: u64, concurrency: u64) -> Result<Seconds> {
    let concurrency = positive("jobs at once", real(concurrency))?;
    Ok(Seconds::of_base(each.base() * real(jobs) / concurrency))
}
