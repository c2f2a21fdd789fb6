//! Names of drives, zones and units of a redundant pool, and the counters that tell their states apart.

use std::fmt;
use std::str::FromStr;

/// Bytes of a unit, in which space of drives is given out.
pub const UNIT_BYTES: u64 = 64 << 10;

/// Number of a drive in its pool; never used again there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DriveNumber(u8);

impl DriveNumber {
    /// Numbers that there are; the one above the last stands for none in stored bytes.
    pub const COUNT: u8 = u8::MAX;

    /// A number, where it is one.
    #[must_use]
    pub const fn new(number: u8) -> Option<Self> {
        if number < Self::COUNT { Some(Self(number)) } else { None }
    }

    /// The plain number.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }

    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl fmt::Display for DriveNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A zone of the pool: its slots lie on the same drives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ZoneIndex(pub u32);

impl fmt::Display for ZoneIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A unit of a drive's space. A place is named by its first unit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct UnitNumber(pub u32);

impl UnitNumber {
    /// Where it begins, in bytes behind the beginning of the drive's space.
    #[must_use]
    pub fn offset(self) -> u64 {
        u64::from(self.0) * UNIT_BYTES
    }
}

impl fmt::Display for UnitNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Counts the rows that a zone has had; 0 before the first. What was written to a place under another one is not the
/// zone's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Tenancy(u32);

impl Tenancy {
    /// That of a zone that never had a row.
    pub const ZERO: Self = Self(0);
    const LIMIT: u32 = 1 << 24;

    /// A tenancy, where it fits 24 bits.
    #[must_use]
    pub const fn new(value: u32) -> Option<Self> {
        if value < Self::LIMIT { Some(Self(value)) } else { None }
    }

    /// The plain number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The next one; `None` when a zone was moved 16 million times, and stays where it is.
    #[must_use]
    pub const fn next(self) -> Option<Self> {
        Self::new(self.0 + 1)
    }
}

/// Counts the changes of a pool's drive table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Epoch(pub u64);

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Random identity of a drive, drawn when it is made part of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct DriveId(pub [u8; 16]);

impl fmt::Display for DriveId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Random identity of a line of drive tables: two that were drawn apart never join.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct HistoryId(pub [u8; 16]);

impl fmt::Display for HistoryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for HistoryId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        hex_bytes(text).map(Self).ok_or_else(|| {
            format!("`{text}` is not the identity of a history: it has 32 hexadecimal digits")
        })
    }
}

impl FromStr for DriveId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        hex_bytes(text).map(Self).ok_or_else(|| {
            format!("`{text}` is not the identity of a drive: it has 32 hexadecimal digits")
        })
    }
}

/// The bytes of 32 hexadecimal digits.
fn hex_bytes(text: &str) -> Option<[u8; 16]> {
    let is_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = u128::from_str_radix(text, 16).ok().filter(|_| is_hex)?;
    Some(number.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_are_read_as_they_are_shown() {
        let mut bytes = [0; 16];
        bytes[0] = 0x1c;
        bytes[15] = 7;
        assert_eq!(HistoryId(bytes).to_string().parse(), Ok(HistoryId(bytes)));
        assert_eq!(DriveId(bytes).to_string().parse(), Ok(DriveId(bytes)));
        for text in ["", "1c", &"g".repeat(32), &"0".repeat(33), &format!("+{}", "0".repeat(31))] {
            assert!(text.parse::<HistoryId>().is_err(), "{text}");
        }
    }
}
