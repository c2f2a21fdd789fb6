//! Points and spans of monotonic time.

use std::fmt;
use std::ops::{Add, Sub};

/// Nanoseconds since an arbitrary start that is fixed for the life of a loop.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Nanos(pub u64);

impl Nanos {
    /// Nanoseconds from `earlier` to this point; 0 when `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// `micros` µs in nanoseconds.
    #[must_use]
    pub const fn micros(micros: u64) -> u64 {
        micros.saturating_mul(1_000)
    }

    /// `millis` ms in nanoseconds.
    #[must_use]
    pub const fn millis(millis: u64) -> u64 {
        millis.saturating_mul(1_000_000)
    }

    /// `seconds` s in nanoseconds.
    #[must_use]
    pub const fn seconds(seconds: u64) -> u64 {
        seconds.saturating_mul(1_000_000_000)
    }
}

impl Add<u64> for Nanos {
    type Output = Self;

    fn add(self, nanos: u64) -> Self {
        Self(self.0.saturating_add(nanos))
    }
}

impl Sub for Nanos {
    type Output = u64;

    fn sub(self, earlier: Self) -> u64 {
        self.since(earlier)
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06} ms", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}
