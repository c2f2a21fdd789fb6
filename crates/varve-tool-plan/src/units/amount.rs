//! One type for each unit. Each holds its base unit as a number of 64 bits with a fraction, since shares of drives and
//! of bytes occur.

use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Sub};

/// An amount that has a unit, and its spellings.
pub trait Amount: Copy + PartialOrd + Sized {
    /// What it is called in messages.
    const KIND: &'static str;
    /// Spellings of units, each with its size in base units, smallest first. Decimal and binary ones have names of
    /// their own.
    const UNITS: &'static [(&'static str, f64)];

    /// An amount of base units.
    fn of_base(base: f64) -> Self;

    /// How many base units it is.
    fn base(self) -> f64;
}

macro_rules! amount {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $units:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, PartialOrd, Debug, Default)]
        pub struct $name(f64);

        impl Amount for $name {
            const KIND: &'static str = $kind;
            const UNITS: &'static [(&'static str, f64)] = $units;

            fn of_base(base: f64) -> Self {
                Self(base)
            }

            fn base(self) -> f64 {
                self.0
            }
        }

        impl $name {
            /// None of it.
            pub const ZERO: Self = Self(0.0);

            /// The smaller of two.
            #[must_use]
            pub fn min(self, other: Self) -> Self {
                Self(self.0.min(other.0))
            }

            /// The larger of two.
            #[must_use]
            pub fn max(self, other: Self) -> Self {
                Self(self.0.max(other.0))
            }
        }

        impl Add for $name {
            type Output = Self;

            fn add(self, other: Self) -> Self {
                Self(self.0 + other.0)
            }
        }

        impl AddAssign for $name {
            fn add_assign(&mut self, other: Self) {
                self.0 += other.0;
            }
        }

        impl Sub for $name {
            type Output = Self;

            fn sub(self, other: Self) -> Self {
                Self(self.0 - other.0)
            }
        }

        impl Mul<f64> for $name {
            type Output = Self;

            fn mul(self, factor: f64) -> Self {
                Self(self.0 * factor)
            }
        }

        impl Div<f64> for $name {
            type Output = Self;

            fn div(self, divisor: f64) -> Self {
                Self(self.0 / divisor)
            }
        }

        impl Div for $name {
            type Output = f64;

            fn div(self, other: Self) -> f64 {
                self.0 / other.0
            }
        }

        impl Sum for $name {
            fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
                Self(amounts.map(|amount| amount.0).sum())
            }
        }

        impl serde::Serialize for $name {
            /// As a number of base units.
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_f64(self.0)
            }
        }
    };
}

const KIB: f64 = 1024.0;
const MIB: f64 = KIB * KIB;
const GIB: f64 = MIB * KIB;
const TIB: f64 = GIB * KIB;
const PIB: f64 = TIB * KIB;

const SIZES: [(&str, f64); 11] = [
    ("B", 1.0),
    ("KB", 1e3),
    ("KiB", KIB),
    ("MB", 1e6),
    ("MiB", MIB),
    ("GB", 1e9),
    ("GiB", GIB),
    ("TB", 1e12),
    ("TiB", TIB),
    ("PB", 1e15),
    ("PiB", PIB),
];

const SIZES_A_SECOND: [(&str, f64); 11] = [
    ("B/s", 1.0),
    ("KB/s", 1e3),
    ("KiB/s", KIB),
    ("MB/s", 1e6),
    ("MiB/s", MIB),
    ("GB/s", 1e9),
    ("GiB/s", GIB),
    ("TB/s", 1e12),
    ("TiB/s", TIB),
    ("PB/s", 1e15),
    ("PiB/s", PIB),
];

const BITS_A_SECOND: [(&str, f64); 5] =
    [("bit/s", 1.0), ("kbit/s", 1e3), ("Mbit/s", 1e6), ("Gbit/s", 1e9), ("Tbit/s", 1e12)];

/// Seconds of a year of 365 days, as warranties count them.
const YEAR: f64 = 365.0 * 86_400.0;

const TIMES: [(&str, f64); 9] = [
    ("ns", 1e-9),
    ("us", 1e-6),
    ("µs", 1e-6),
    ("ms", 1e-3),
    ("s", 1.0),
    ("min", 60.0),
    ("h", 3600.0),
    ("d", 86_400.0),
    ("y", YEAR),
];

amount!(
    /// An amount of data, in bytes. Decimal and binary units are spelled differently and never guessed.
    Bytes, "size", &SIZES
);
amount!(
    /// Data a second, in bytes a second.
    ByteRate, "rate in bytes", &SIZES_A_SECOND
);
amount!(
    /// Speed of a network link, in bits a second. Becomes a [`ByteRate`] by [`BitRate::bytes`] only.
    BitRate, "rate in bits", &BITS_A_SECOND
);
amount!(
    /// Operations, or objects, a second.
    OpRate, "number of operations a second", &[("", 1.0), ("k", 1e3), ("M", 1e6)]
);
amount!(
    /// A time, in seconds. Years have 365 days.
    Seconds, "time", &TIMES
);
amount!(
    /// Power, in watts.
    Watts, "power", &[("W", 1.0), ("kW", 1e3)]
);
amount!(
    /// Energy, in joules.
    Joules, "energy", &[("J", 1.0), ("kJ", 1e3), ("MJ", 1e6), ("kWh", 3.6e6)]
);
amount!(
    /// Energy for data moved, in joules a byte. The papers' W/GBps is the same amount in J/GB.
    EnergyPerByte, "energy for data", &[("J/GB", 1e-9)]
);
amount!(
    /// A price, in the one currency of the catalogue.
    Money, "price", &[("", 1.0)]
);
amount!(
    /// A part of a whole; 1 is all of it.
    Share, "share", &[("%", 0.01)]
);

impl BitRate {
    /// The same in bytes: 8 bits are one, so 1 Gbit/s is 125 MB/s.
    #[must_use]
    pub fn bytes(self) -> ByteRate {
        ByteRate(self.0 / 8.0)
    }
}

impl Bytes {
    /// How many TB of 10¹² bytes it is.
    #[must_use]
    pub fn tb(self) -> f64 {
        self.0 / 1e12
    }
}

impl ByteRate {
    /// How many MB of 10⁶ bytes a second it is.
    #[must_use]
    pub fn mb_per_second(self) -> f64 {
        self.0 / 1e6
    }
}

impl Seconds {
    /// How many years of 365 days it is.
    #[must_use]
    pub fn years(self) -> f64 {
        self.0 / YEAR
    }

    /// So many years of 365 days.
    #[must_use]
    pub fn of_years(years: f64) -> Self {
        Self(years * YEAR)
    }
}

impl EnergyPerByte {
    /// How many J/GB it is, which is W for each GB/s.
    #[must_use]
    pub fn joules_per_gb(self) -> f64 {
        self.0 * 1e9
    }
}
