//! The products of units that have a meaning; every other one does not compile (UNITS-1).

use std::ops::{Div, Mul};

use super::amount::{Amount, ByteRate, Bytes, EnergyPerByte, Joules, OpRate, Seconds, Watts};

macro_rules! product {
    ($whole:ident = $left:ident * $right:ident) => {
        impl Mul<$right> for $left {
            type Output = $whole;

            fn mul(self, other: $right) -> $whole {
                $whole::of_base(self.base() * other.base())
            }
        }

        impl Mul<$left> for $right {
            type Output = $whole;

            fn mul(self, other: $left) -> $whole {
                other * self
            }
        }

        impl Div<$left> for $whole {
            type Output = $right;

            fn div(self, other: $left) -> $right {
                $right::of_base(self.base() / other.base())
            }
        }

        impl Div<$right> for $whole {
            type Output = $left;

            fn div(self, other: $right) -> $left {
                $left::of_base(self.base() / other.base())
            }
        }
    };
}

product!(Bytes = ByteRate * Seconds);
product!(ByteRate = OpRate * Bytes);
product!(Joules = Watts * Seconds);
product!(Joules = EnergyPerByte * Bytes);
product!(Watts = EnergyPerByte * ByteRate);

impl Mul<Seconds> for OpRate {
    /// Operations: a number.
    type Output = f64;

    fn mul(self, time: Seconds) -> f64 {
        self.base() * time.base()
    }
}
