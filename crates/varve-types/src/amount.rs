//! Amounts of bytes: positions, sizes and ranges are three different things.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A position in a stream, in bytes.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct ByteOffset(pub u64);

/// A number of bytes. Displays with a binary unit when it is a whole number of one.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct ByteCount(pub u64);

/// Bytes `start .. end` of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ByteRange {
    /// First byte.
    pub start: u64,
    /// First byte after the range.
    pub end: u64,
}

impl ByteRange {
    /// `len` bytes from `offset`; `None` when the end does not fit 64 bits.
    #[must_use]
    pub const fn checked(offset: u64, len: u64) -> Option<Self> {
        match offset.checked_add(len) {
            Some(end) => Some(Self { start: offset, end }),
            None => None,
        }
    }

    /// Length in bytes.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.end - self.start
    }

    /// Whether the range holds no byte.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.end <= self.start
    }
}

const UNITS: [(&str, u32); 6] =
    [("EiB", 60), ("PiB", 50), ("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];

impl fmt::Display for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, shift) in UNITS {
            let unit = 1u64 << shift;
            if self.0 >= unit {
                return if self.0.is_multiple_of(unit) {
                    write!(f, "{} {name}", self.0 >> shift)
                } else {
                    let tenths = u128::from(self.0) * 10 / u128::from(unit);
                    write!(f, "{}.{} {name}", tenths / 10, tenths % 10)
                };
            }
        }
        write!(f, "{} B", self.0)
    }
}

/// Reads a size such as `20GiB`, `4 KiB`, `512` or `512B`.
///
/// # Errors
/// A sentence fragment that says what is wrong; decimal units (`GB`) are refused, as they are mistaken for binary ones.
pub fn parse_size(text: &str) -> Result<ByteCount, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 =
        number.parse().map_err(|_| format!("size `{text}` does not start with a whole number"))?;
    let unit = unit.trim();
    let shift = match unit {
        "" | "B" => 0,
        _ => {
            let known = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit));
            let (_, shift) = known.ok_or_else(|| {
                format!("unknown unit `{unit}` in size `{text}`: use B, KiB, MiB, GiB, TiB or PiB")
            })?;
            *shift
        }
    };
    number
        .checked_mul(1 << shift)
        .map(ByteCount)
        .ok_or_else(|| format!("size `{text}` is larger than 16 EiB"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_round_trip_through_text() {
        for text in ["20 GiB", "4 KiB", "512 B", "1 TiB"] {
            assert_eq!(parse_size(text).unwrap().to_string(), text);
        }
        assert_eq!(ByteCount(1536).to_string(), "1.5 KiB");
    }

    #[test]
    fn bad_sizes_say_why() {
        assert!(parse_size("20GB").unwrap_err().contains("unknown unit"));
        assert!(parse_size("GiB").unwrap_err().contains("whole number"));
        assert!(parse_size("99999999999EiB").unwrap_err().contains("larger"));
    }
}
