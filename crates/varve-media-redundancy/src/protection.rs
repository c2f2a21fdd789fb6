//! How people say what a pool survives: `none`, `mirror:N` and `ec:K+M`, and what a pool gets when nobody says.
//!
//! Fewer shapes than there are codes for: those that somebody should want.

use std::fmt;
use std::str::FromStr;

use crate::class::StripeShape;

/// Copies of a mirror, at least and at most.
const COPIES: std::ops::RangeInclusive<u8> = 2..=5;
/// Strips of data.
const DATA: std::ops::RangeInclusive<u8> = 2..=12;
/// Strips of parity.
const PARITY: std::ops::RangeInclusive<u8> = 1..=4;

/// How new data are kept over the drives of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Protection(StripeShape);

impl Protection {
    /// One copy.
    pub const NONE: Self = Self(StripeShape::NONE);

    /// What a pool on so many drives gets when nobody says.
    #[must_use]
    pub fn for_drives(drives: usize) -> Self {
        let (data, parity) = match drives {
            0 | 1 => (1, 0),
            2 | 3 => (1, 1),
            4 => (2, 1),
            5 => (3, 1),
            _ => (4, 2),
        };
        Self(StripeShape::new(data, parity).expect("there is a code for each of them"))
    }

    /// Strips of data and parity.
    #[must_use]
    pub const fn shape(self) -> StripeShape {
        self.0
    }

    /// Whether a lost drive loses nothing.
    #[must_use]
    pub const fn is_redundant(self) -> bool {
        self.0.parity() > 0
    }

    /// Drives that it needs at least.
    #[must_use]
    pub fn drives_min(self) -> usize {
        self.0.strips()
    }
}

impl From<StripeShape> for Protection {
    fn from(shape: StripeShape) -> Self {
        Self(shape)
    }
}

impl fmt::Display for Protection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Protection {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown =
            || format!("`{text}` is neither none, nor mirror:N as mirror:2, nor ec:K+M as ec:4+2");
        let number = |digits: &str| -> Result<u8, String> {
            let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
            digits.parse().ok().filter(|_| is_plain).ok_or_else(unknown)
        };
        let (data, parity) = match text.split_once(':') {
            None if text == "none" => return Ok(Self::NONE),
            Some(("mirror", copies)) => {
                let copies = number(copies)?;
                if !COPIES.contains(&copies) {
                    return Err(format!("`{text}`: a mirror has 2 to 5 copies"));
                }
                (1, copies - 1)
            }
            Some(("ec", strips)) => {
                let (data, parity) = strips.split_once('+').ok_or_else(unknown)?;
                let (data, parity) = (number(data)?, number(parity)?);
                if !DATA.contains(&data) || !PARITY.contains(&parity) {
                    return Err(format!(
                        "`{text}`: there may be 2 to 12 strips of data, and 1 to 4 of parity"
                    ));
                }
                (data, parity)
            }
            _ => return Err(unknown()),
        };
        StripeShape::new(data, parity).map(Self).ok_or_else(unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for text in ["none", "mirror:2", "mirror:5", "ec:2+1", "ec:4+2", "ec:12+4"] {
            let protection: Protection = text.parse().unwrap();
            assert_eq!(protection.to_string(), text);
            assert_eq!(protection.is_redundant(), text != "none");
        }
        for text in ["mirror", "mirror:1", "mirror:6", "ec:1+1", "ec:4+0", "ec:4+5", "ec:13+1"] {
            assert!(text.parse::<Protection>().is_err(), "{text}");
        }
        for text in ["", "raid5", "ec:4", "ec:+4+2", "ec:a+b", "mirror:+2", "none:1", "mirror:256"]
        {
            let refused = text.parse::<Protection>().unwrap_err();
            assert!(refused.contains("is neither none"), "{text}: {refused}");
        }
    }

    #[test]
    fn the_default_fits_the_drives_that_there_are() {
        let texts = (1..=7).map(|drives| {
            let protection = Protection::for_drives(drives);
            assert!(protection.drives_min() <= drives, "{drives}");
            protection.to_string()
        });
        let expected = ["none", "mirror:2", "mirror:2", "ec:2+1", "ec:3+1", "ec:4+2", "ec:4+2"];
        assert_eq!(texts.collect::<Vec<_>>(), expected);
    }
}
