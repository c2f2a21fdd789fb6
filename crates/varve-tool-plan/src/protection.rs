//! Copies and erasure codes: what is left of raw capacity, and what a write costs. F1, F16.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::units::{Amount, Bytes, Share};

/// Most copies, and most strips of an erasure code: what Ceph's codes can address.
const WIDTH_MAX: u32 = 255;

/// How data survive the loss of drives and nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protection {
    /// The same data several times.
    Copies(u32),
    /// Data strips and parity strips.
    Erasure {
        /// Strips of data: k.
        data: u32,
        /// Strips of parity: m.
        parity: u32,
    },
}

impl Protection {
    /// How many drives, in different failure domains, hold a part of each piece of data.
    #[must_use]
    pub fn width(self) -> u32 {
        match self {
            Self::Copies(copies) => copies,
            Self::Erasure { data, parity } => data + parity,
        }
    }

    /// How many of these may be lost.
    #[must_use]
    pub fn tolerates(self) -> u32 {
        match self {
            Self::Copies(copies) => copies - 1,
            Self::Erasure { parity, .. } => parity,
        }
    }

    /// Raw ÷ usable: bytes on drives for each byte of data (formula F16). 3 for three copies, 1.4 for 10+4.
    #[must_use]
    pub fn overhead(self) -> f64 {
        match self {
            Self::Copies(copies) => f64::from(copies),
            Self::Erasure { data, parity } => f64::from(data + parity) / f64::from(data),
        }
    }

    /// What is left of raw capacity (formula F1, Micron). k ÷ (k + m) is exact here: the source rounds 2/3 to 0.66
    /// (erratum X05).
    #[must_use]
    pub fn usable(self, raw: Bytes) -> Bytes {
        match self {
            Self::Copies(copies) => raw / f64::from(copies),
            Self::Erasure { data, parity } => raw * f64::from(data) / f64::from(data + parity),
        }
    }

    /// Raw capacity that three copies would take and this does not, as a share of theirs (formula F16, Intel). 53.3 %
    /// for 10+4 (erratum X23).
    #[must_use]
    pub fn saving_against_three_copies(self) -> Share {
        Share::of_base(1.0 - self.overhead() / 3.0)
    }

    /// Bytes that the node which takes a write sends to others, for each byte: all other copies or strips.
    #[must_use]
    pub fn sent_per_written(self) -> f64 {
        match self {
            Self::Copies(copies) => f64::from(copies - 1),
            Self::Erasure { data, parity } => f64::from(data + parity - 1) / f64::from(data),
        }
    }

    /// Bytes that the node which answers a read gets from others, for each byte: none of copies, of a code all strips
    /// but its own.
    #[must_use]
    pub fn gathered_per_read(self) -> f64 {
        match self {
            Self::Copies(_) => 0.0,
            Self::Erasure { data, .. } => f64::from(data - 1) / f64::from(data),
        }
    }

    /// Bytes that must be read for each byte that is rebuilt: of a code k strips for one.
    #[must_use]
    pub fn gathered_per_rebuilt(self) -> f64 {
        match self {
            Self::Copies(_) => 1.0,
            Self::Erasure { data, .. } => f64::from(data),
        }
    }

    /// Drive operations for one small write: one for each copy or strip. A log that fills whole stripes needs fewer.
    #[must_use]
    pub fn operations_per_write(self) -> f64 {
        f64::from(self.width())
    }
}

impl fmt::Display for Protection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Copies(1) => f.write_str("1 copy"),
            Self::Copies(copies) => write!(f, "{copies} copies"),
            Self::Erasure { data, parity } => write!(f, "EC {data}+{parity}"),
        }
    }
}

impl FromStr for Protection {
    type Err = Error;

    /// `3` copies, or `4+2` strips.
    fn from_str(text: &str) -> Result<Self> {
        let refuse = || Error::Protection { text: text.to_owned() };
        let number = |text: &str| match text.trim().parse::<u32>() {
            Ok(number) if (1..=WIDTH_MAX).contains(&number) => Ok(number),
            _ => Err(refuse()),
        };
        let Some((data, parity)) = text.split_once('+') else {
            return Ok(Self::Copies(number(text)?));
        };
        let (data, parity) = (number(data)?, number(parity)?);
        if data + parity > WIDTH_MAX {
            return Err(refuse());
        }
        Ok(Self::Erasure { data, parity })
    }
}

impl serde::Serialize for Protection {
    /// As it is read: `3` or `4+2`.
    fn serialize<S: serde::Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        match self {
            Self::Copies(copies) => to.collect_str(copies),
            Self::Erasure { data, parity } => to.collect_str(&format_args!("{data}+{parity}")),
        }
    }
}

impl<'de> serde::Deserialize<'de> for Protection {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_gather_what_they_read() {
        let code = Protection::Erasure { data: 4, parity: 2 };
        assert_eq!((code.sent_per_written(), code.gathered_per_read()), (1.25, 0.75));
        let copies = Protection::Copies(3);
        assert_eq!((copies.sent_per_written(), copies.gathered_per_read()), (2.0, 0.0));
        let one = Protection::Copies(1);
        assert_eq!((one.sent_per_written(), one.gathered_per_read()), (0.0, 0.0));
    }

    #[test]
    fn protections_round_trip_through_text() {
        for (text, shown) in [("3", "3 copies"), ("1", "1 copy"), ("10+4", "EC 10+4")] {
            assert_eq!(text.parse::<Protection>().unwrap().to_string(), shown);
        }
        for text in ["0", "4+0", "+2", "three", "200+56", "3x", ""] {
            assert!(text.parse::<Protection>().is_err(), "{text}");
        }
    }
}
