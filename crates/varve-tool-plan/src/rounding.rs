//! Counts from fractions (UNITS-2).

use serde::Serialize;

use crate::error::{Error, Result};

/// Part of a fraction that arithmetic may have added: 15.000000000000002 drives are 15.
const SLACK: f64 = 1e-9;

/// How many of something are needed: the fraction, and the whole number that covers it.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Need {
    /// The quotient.
    pub exact: f64,
    /// The quotient, rounded up (erratum X01: never down).
    pub count: u64,
}

impl Need {
    /// Nothing is needed.
    pub const NONE: Self = Self { exact: 0.0, count: 0 };

    /// Exactly so many.
    #[must_use]
    pub fn whole(count: u64) -> Self {
        Self { exact: real(count), count }
    }

    /// How many parts that give `supply` each it takes to have `required`; both in the same unit.
    ///
    /// # Errors
    /// [`Error::NoSupply`] when something is required and a part gives nothing of `what`.
    pub fn of(what: &'static str, required: f64, supply: f64) -> Result<Self> {
        if required <= 0.0 {
            return Ok(Self::NONE);
        }
        let exact = required / supply;
        let count = round_up(exact).filter(|_| supply > 0.0);
        let count = count.ok_or(Error::NoSupply { what, supply, required })?;
        Ok(Self { exact, count })
    }

    /// The larger of two.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        if other.exact > self.exact { other } else { self }
    }
}

/// A count as a number with a fraction. Exact up to 2⁵³.
#[must_use]
pub fn real(count: u64) -> f64 {
    count as f64
}

/// Rounded up; nothing where the result is no count of 2⁵³ or less.
pub(crate) fn round_up(exact: f64) -> Option<u64> {
    whole((exact - SLACK * exact.abs().max(1.0)).ceil())
}

/// Rounded down.
pub(crate) fn round_down(exact: f64) -> Option<u64> {
    whole((exact + SLACK * exact.abs().max(1.0)).floor())
}

fn whole(value: f64) -> Option<u64> {
    const MAX: f64 = 9_007_199_254_740_992.0;
    if !(-0.5..=MAX).contains(&value) {
        return None;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a whole number from 0 to 2⁵³"
    )]
    let count = value.max(0.0) as u64;
    Some(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_are_rounded_up_and_noise_is_not() {
        assert_eq!(Need::of("capacity", 760.0, 48.0).unwrap().count, 16);
        assert_eq!(Need::of("capacity", 15.000_000_000_000_002, 1.0).unwrap().count, 15);
        assert_eq!(Need::of("share", 1.0, 0.1).unwrap().count, 10);
        assert_eq!(Need::of("capacity", 0.0, 0.0).unwrap(), Need::NONE);
        assert_eq!(Need::of("capacity", 1e-6, 1.0).unwrap().count, 1);
    }

    #[test]
    fn nothing_supplies_nothing() {
        let error = Need::of("read IOPS", 5.0, 0.0).unwrap_err();
        assert_eq!(error.to_string(), "read IOPS of one part is 0, so no number of them gives 5");
        assert!(Need::of("capacity", f64::INFINITY, 1.0).is_err());
        assert!(Need::of("capacity", 1.0, -1.0).is_err());
    }
}
