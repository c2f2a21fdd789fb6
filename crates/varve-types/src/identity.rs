//! Identities of 128 random bits that are compared between pools. Their text form is 32 hexadecimal digits.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Identity of a snapshot, over pools: drawn when it was taken, and kept when it is sent to another pool. Displays as
/// 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SnapshotIdentity(pub [u8; 16]);

/// A run of the command that moves volumes and buckets to another pool; no other run has it. Displays as 32
/// hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MigrationRunId(pub [u8; 16]);

macro_rules! hexadecimal_text {
    ($($name:ident),+) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:032x}", u128::from_be_bytes(self.0))
            }
        }

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                let is_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
                let number = u128::from_str_radix(text, 16).ok().filter(|_| is_hex);
                let number = number.ok_or_else(|| format!("`{text}` is not 32 hexadecimal digits"))?;
                Ok(Self(number.to_be_bytes()))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )+};
}

hexadecimal_text!(SnapshotIdentity, MigrationRunId);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_round_trip_through_text() {
        let identity = SnapshotIdentity([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255]);
        assert_eq!(identity.to_string(), "000102030405060708090a0b0c0d0eff");
        assert_eq!(identity.to_string().parse(), Ok(identity));
        for bad in ["", "0", "+00102030405060708090a0b0c0d0eff", "000102030405060708090a0b0c0d0efg"]
        {
            assert!(bad.parse::<SnapshotIdentity>().is_err(), "{bad}");
            assert!(bad.parse::<MigrationRunId>().is_err(), "{bad}");
        }
    }
}
