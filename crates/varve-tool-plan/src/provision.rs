//! Raw throughput that has to be bought with capacity. F17, from Intel's guide, use case 7 (Yahoo).

use crate::error::{Result, positive};
use crate::units::ByteRate;

/// What is promised of one kind of request for each unit of capacity sold, and what such a unit gives.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Promise {
    /// Rate that is promised.
    pub required: ByteRate,
    /// Rate that a unit gives.
    pub given: ByteRate,
    /// How many times faster a cache makes it.
    pub speed_up: f64,
}

/// Units to deploy for each one sold (formula F17): the kind that needs most binds. Yahoo deploys 3 for 1; with reads
/// three times and writes twice as fast it is 1.5, by writes.
///
/// # Errors
/// [`crate::Error::Range`] when a unit gives nothing.
pub fn factor(promises: &[Promise]) -> Result<f64> {
    let mut factor = 0.0_f64;
    for promise in promises {
        let speed_up = positive("a speed-up", promise.speed_up)?;
        let given = positive("the rate of a unit", promise.given.mb_per_second())?;
        factor = factor.max(promise.required.mb_per_second() / given / speed_up);
    }
    Ok(factor)
}
