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

impl ByteCount {
    /// The same number in the largest unit that it is a whole number of: nothing is rounded.
    #[must_use]
    pub fn exact(self) -> impl fmt::Display {
        let unit = UNITS.iter().find(|(_, shift)| self.0 > 0 && self.0.is_multiple_of(1 << shift));
        let (name, shift) = unit.copied().unwrap_or(("B", 0));
        format!("{} {name}", self.0 >> shift)
    }
}

/// Reads a size such as `20GiB`, `20G`, `1.5TiB`, `4 KiB`, `512` or `512B`. `G`, `Gi` and `GiB` are 2^30 bytes, `GB` is
/// 10^9; so for K, M, T, P and E.
///
/// # Errors
/// A sentence fragment that says what is wrong.
pub fn parse_size(text: &str) -> Result<ByteCount, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim();
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let is_number = |digits: &str| digits.chars().all(|c| c.is_ascii_digit()) && !digits.is_empty();
    if !is_number(whole) || !is_number(fraction) {
        return Err(format!("invalid size `{text}`: write a number and a unit, such as 20GiB"));
    }
    let factor = unit_bytes(unit).ok_or_else(|| {
        format!(
            "unknown unit `{unit}` in size `{text}`: use B, KiB, MiB, GiB, TiB or PiB (K, M, G, T, P for short), or KB, MB, GB, TB, PB for powers of 1000"
        )
    })?;
    let fraction = fraction.trim_end_matches('0');
    let too_large = || format!("size `{text}` is too large");
    let not_whole = || format!("size `{text}` is not a whole number of bytes: use a smaller unit");
    let divisor = u32::try_from(fraction.len()).ok().and_then(|len| 10u128.checked_pow(len));
    let divisor = divisor.ok_or_else(not_whole)?;
    let parts = if fraction.is_empty() { 0 } else { fraction.parse().map_err(|_| not_whole())? };
    let parts = factor.checked_mul(parts).ok_or_else(not_whole)?;
    if !parts.is_multiple_of(divisor) {
        return Err(not_whole());
    }
    let whole: u128 = whole.parse().map_err(|_| too_large())?;
    let bytes = whole.checked_mul(factor).and_then(|bytes| bytes.checked_add(parts / divisor));
    bytes.and_then(|bytes| u64::try_from(bytes).ok()).map(ByteCount).ok_or_else(too_large)
}

/// Bytes of a unit, whatever its case; `None` when there is no such unit.
fn unit_bytes(unit: &str) -> Option<u128> {
    if unit.is_empty() || unit.eq_ignore_ascii_case("B") {
        return Some(1);
    }
    let (prefix, rest) = unit.split_at_checked(1)?;
    let power = "KMGTPE".find(&prefix.to_ascii_uppercase())?;
    let power = u32::try_from(power + 1).ok()?;
    match rest.to_ascii_lowercase().as_str() {
        "" | "i" | "ib" => Some(1u128 << (10 * power)),
        "b" => Some(1000u128.pow(power)),
        _ => None,
    }
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
    fn units_are_binary_unless_they_are_powers_of_1000() {
        for (text, bytes) in [
            ("20G", 20 << 30),
            ("20Gi", 20 << 30),
            ("20gib", 20 << 30),
            ("20GB", 20_000_000_000),
            ("4k", 4096),
            ("4KB", 4000),
            ("1.5TiB", 3 << 39),
            ("1.50 T", 3 << 39),
            ("0.5KiB", 512),
            ("1.5KB", 1500),
            ("4095", 4095),
            ("15.5E", 31 << 59),
        ] {
            assert_eq!(parse_size(text), Ok(ByteCount(bytes)), "{text}");
        }
    }

    #[test]
    fn exact_sizes_are_not_rounded() {
        for (bytes, text) in [
            (0, "0 B"),
            (4095, "4095 B"),
            (1536, "1536 B"),
            (3 << 29, "1536 MiB"),
            (1 << 40, "1 TiB"),
        ] {
            assert_eq!(ByteCount(bytes).exact().to_string(), text);
        }
    }

    #[test]
    fn bad_sizes_say_why() {
        for unit in ["20Gx", "20GiBi", "20Q", "20iB", "20ä"] {
            assert!(parse_size(unit).unwrap_err().contains("unknown unit"), "{unit}");
        }
        for number in ["GiB", "", ".5GiB", "1.GiB", "1.2.3G", "-5GiB"] {
            assert!(parse_size(number).unwrap_err().contains("invalid size"), "{number}");
        }
        for fraction in ["1.1GiB", "0.0000000000000000000000000000000000000000001G", "0.5"] {
            assert!(parse_size(fraction).unwrap_err().contains("whole number"), "{fraction}");
        }
        for large in ["99999999999EiB", "16E", "99999999999999999999999999999999999999999"] {
            assert!(parse_size(large).unwrap_err().contains("too large"), "{large}");
        }
    }
}
