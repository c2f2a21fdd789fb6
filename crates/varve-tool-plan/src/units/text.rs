//! Amounts as people write and read them. Units are never guessed: `KB` is 1000 bytes, `KiB` 1024, `Gbit/s` bits,
//! `GB/s` bytes.

use std::fmt;
use std::str::FromStr;

use super::amount::{
    Amount, BitRate, ByteRate, Bytes, EnergyPerByte, Joules, Money, OpRate, Seconds, Share, Watts,
};
use crate::error::{Error, Result};

/// Reads a number and its unit, such as `1.6TB` or `10 Gbit/s`.
///
/// # Errors
/// [`Error::Amount`] when the text is not a number of 0 or more, finite in base units, followed by one of `T`'s units,
/// as they are spelled there; it tells which these are, or of what else the unit is.
pub fn parse<T: Amount>(text: &str) -> Result<T> {
    let refuse = |advice: String| Error::Amount { text: text.to_owned(), kind: T::KIND, advice };
    let (number, unit) = split(text.trim());
    let known = T::UNITS.iter().find(|(name, _)| *name == unit);
    let (_, size) = known.ok_or_else(|| refuse(advise::<T>(unit)))?;
    match number.parse::<f64>().map(|number| scaled(number, *size)) {
        Ok(base) if base.is_finite() && base >= 0.0 => Ok(T::of_base(base)),
        _ => Err(refuse(format!("`{number}` is not a number of 0 or more"))),
    }
}

/// `number × size`; units below 1 divide, since 100 is exact and 0.01 is not.
fn scaled(number: f64, size: f64) -> f64 {
    if size < 1.0 { number / (1.0 / size).round() } else { number * size }
}

/// The number and the unit after it.
fn split(text: &str) -> (&str, &str) {
    let part_of_number = |c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | '_');
    let end = text.find(|c| !part_of_number(c)).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    (number, unit.trim_start())
}

/// How amounts of `T` are written, and what `unit` is a unit of.
fn advise<T: Amount>(unit: &str) -> String {
    let names: Vec<&str> = T::UNITS.iter().map(|(name, _)| *name).collect();
    let allowed = match names.as_slice() {
        [""] => "write a number without a unit".to_owned(),
        ["", rest @ ..] => format!("write a number, alone or with {}", rest.join(", ")),
        names => format!("write a number with one of {}", names.join(", ")),
    };
    let elsewhere = [
        owner::<Bytes>(unit),
        owner::<ByteRate>(unit),
        owner::<BitRate>(unit),
        owner::<Seconds>(unit),
        owner::<Watts>(unit),
        owner::<Joules>(unit),
    ];
    let elsewhere = elsewhere.into_iter().flatten().find(|_| !unit.is_empty());
    match (elsewhere, unit) {
        (Some(kind), _) => format!("`{unit}` is the unit of a {kind}; {allowed}"),
        (None, "") => allowed,
        (None, _) => format!("`{unit}` is not among its units; {allowed}"),
    }
}

fn owner<T: Amount>(unit: &str) -> Option<&'static str> {
    T::UNITS.iter().any(|(name, _)| *name == unit).then_some(T::KIND)
}

/// A number in four digits: 3 digits before the point keep one after it, larger ones have commas.
#[must_use]
pub fn short(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let size = value.abs();
    let digits = match size {
        _ if size >= 999.95 => 0,
        _ if size >= 99.995 => 1,
        _ if size >= 9.9995 => 2,
        _ if size >= 0.1 => 3,
        _ => 4,
    };
    if digits == 0 {
        return grouped(&format!("{:.0}", value.round()));
    }
    let text = format!("{value:.digits$}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// A whole number with a comma before each three digits.
fn grouped(text: &str) -> String {
    let mut out = String::new();
    let digits = text.trim_start_matches('-').len();
    for (index, c) in text.trim_start_matches('-').chars().enumerate() {
        if index > 0 && (digits - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    if text.starts_with('-') { format!("-{out}") } else { out }
}

/// A ratio with one digit after the point: `11.5×`. Below 1 with two, and its inverse, which tells more:
/// `0.37× (1 ÷ 2.70)`.
#[must_use]
pub fn times(ratio: f64) -> String {
    match ratio {
        ratio if ratio < 0.995 && ratio > 0.0 => format!("{ratio:.2}× (1 ÷ {:.2})", 1.0 / ratio),
        ratio => format!("{ratio:.1}×"),
    }
}

/// The largest of `units` that the amount reaches, else the smallest.
fn fitting<'a>(base: f64, units: impl Iterator<Item = &'a (&'a str, f64)>) -> String {
    let units: Vec<_> = units.collect();
    let reached = units.iter().rev().find(|(_, size)| base.abs() >= *size * 0.999_95);
    let (name, size) = reached.or(units.first()).expect("every amount has a unit");
    format!("{} {name}", short(base / size)).trim_end().to_owned()
}

/// Whether a size is a whole number of KiB and not of KB, so that its binary name is the exact one.
fn binary(base: f64) -> bool {
    base >= 1024.0 && base % 1024.0 == 0.0 && base % 1000.0 != 0.0
}

impl fmt::Display for Bytes {
    /// In decimal units, as drives are sold; binary where these are exact and decimal ones are not.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let binary = binary(self.base());
        let units = Self::UNITS.iter().filter(|(name, _)| name.contains('i') == binary);
        f.write_str(&fitting(self.base(), units))
    }
}

impl fmt::Display for ByteRate {
    /// In MB/s, GB/s from 100 GB/s on: one unit for what is compared.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.base() >= 1e11 {
            return write!(f, "{} GB/s", short(self.base() / 1e9));
        }
        write!(f, "{} MB/s", short(self.base() / 1e6))
    }
}

impl fmt::Display for OpRate {
    /// In full, so that 1,080,000 reads as what it is.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&short(self.base()))
    }
}

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = Self::UNITS.iter().filter(|(name, _)| *name != "us");
        f.write_str(&fitting(self.base(), units))
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&short(self.base()))
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} %", short(self.base() * 100.0))
    }
}

macro_rules! shown_in_fitting_units {
    ($($name:ident),*) => {
        $(impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&fitting(self.base(), Self::UNITS.iter()))
            }
        })*
    };
}

shown_in_fitting_units!(BitRate, Watts, EnergyPerByte, Joules);

macro_rules! read_as_text {
    ($($name:ident),*) => {
        $(impl FromStr for $name {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self> {
                parse(text)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
                from.deserialize_any(AmountText(std::marker::PhantomData))
            }
        })*
    };
}

read_as_text!(
    Bytes,
    ByteRate,
    BitRate,
    OpRate,
    Seconds,
    Watts,
    Joules,
    EnergyPerByte,
    Money,
    Share
);

/// Reads an amount from text, or from a bare number where the amount needs no unit.
struct AmountText<T>(std::marker::PhantomData<T>);

impl<T: Amount> serde::de::Visitor<'_> for AmountText<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, _) = T::UNITS.last().expect("every amount has a unit");
        match T::UNITS.iter().any(|(name, _)| name.is_empty()) {
            true => write!(f, "a {}", T::KIND),
            false => write!(f, "a {} in text with its unit, such as \"4{unit}\"", T::KIND),
        }
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> std::result::Result<T, E> {
        parse(text).map_err(E::custom)
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> std::result::Result<T, E> {
        parse(&number.to_string()).map_err(E::custom)
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> std::result::Result<T, E> {
        parse(&number.to_string()).map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_and_binary_differ() {
        assert_eq!(parse::<Bytes>("128KB").unwrap().base(), 128_000.0);
        assert_eq!(parse::<Bytes>("128 KiB").unwrap().base(), 131_072.0);
        assert_eq!(
            parse::<ByteRate>("1.25GB/s").unwrap(),
            parse::<BitRate>("10Gbit/s").unwrap().bytes()
        );
    }

    #[test]
    fn sizes_show_the_unit_that_is_exact() {
        let shown = |text: &str| parse::<Bytes>(text).unwrap().to_string();
        for text in ["4 KiB", "128 KB", "25 GiB", "4.8 TB", "1.6 TB", "960 TB", "512 B"] {
            assert_eq!(shown(text), text);
        }
        assert_eq!(Bytes::of_base(640e12 * 8.0 / 11.0).to_string(), "465.5 TB");
    }

    #[test]
    fn another_unit_is_named() {
        let complaint = |text| parse::<BitRate>(text).unwrap_err().to_string();
        assert_eq!(
            complaint("10GB/s"),
            "invalid rate in bits `10GB/s`: `GB/s` is the unit of a rate in bytes; write a number with \
             one of bit/s, kbit/s, Mbit/s, Gbit/s, Tbit/s"
        );
        assert!(complaint("10Gb/s").contains("`Gb/s` is not among its units"));
        assert!(complaint("10").contains("write a number with one of bit/s"));
        assert!(parse::<Bytes>("-1TB").unwrap_err().to_string().contains("`-1` is not a number"));
        assert!(parse::<Bytes>("4K").is_err() && parse::<Bytes>("4kb").is_err());
        assert!(
            parse::<Bytes>(&format!("{}PB", "9".repeat(300))).is_err(),
            "finite, and its bytes are not"
        );
        assert!(parse::<Money>("4EUR").unwrap_err().to_string().contains("without a unit"));
    }

    #[test]
    fn numbers_have_four_digits() {
        let shown = [4582.5, 963.93, 68.79, 8.2857, 0.50197, 0.0331, 999.96, 0.0, 1_080_000.0];
        let texts =
            ["4,583", "963.9", "68.79", "8.286", "0.502", "0.0331", "1,000", "0", "1,080,000"];
        for (value, text) in shown.into_iter().zip(texts) {
            assert_eq!(short(value), text);
        }
        assert_eq!(short(f64::INFINITY), "–");
        // One digit would show both prices of Micron's comparison, 2.70 and 2.02 times as high, as 0.4 and 0.5.
        let ratios = [11.465, 1.0 / 2.70, 1.0 / 2.025, 0.9997, 1.0, 0.0].map(times);
        let expected = ["11.5×", "0.37× (1 ÷ 2.70)", "0.49× (1 ÷ 2.02)", "1.0×", "1.0×", "0.0×"];
        assert_eq!(ratios, expected);
        assert_eq!(short(-1234.0), "-1,234");
    }
}
