//! Logarithm and power from additions, products and quotients alone. Those are the same on every machine; the functions
//! of the standard library are those of the platform, and a draw that hangs on their last bit would give other data
//! elsewhere.

use std::f64::consts::{LN_2, LOG2_E, SQRT_2};

const MANTISSA_BITS: u32 = 52;
const EXPONENT_BIAS: u64 = 1023;

/// `LN_2` in two parts; the products of the upper one with small whole numbers are exact.
const LN_2_HIGH: f64 = 6.931_471_803_691_238e-1;
const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;

/// 1, 1/3, 1/5 …: ln m = 2 (s + s³/3 + s⁵/5 + …) with s = (m - 1) ÷ (m + 1), which is below 0.172.
const LN_TERMS: [f64; 11] = [
    1.0,
    1.0 / 3.0,
    1.0 / 5.0,
    1.0 / 7.0,
    1.0 / 9.0,
    1.0 / 11.0,
    1.0 / 13.0,
    1.0 / 15.0,
    1.0 / 17.0,
    1.0 / 19.0,
    1.0 / 21.0,
];

/// Terms of the power series of exp, for arguments below 0.35.
const EXP_TERMS: u32 = 14;

/// Natural logarithm of a positive normal number, to 14 digits.
pub(crate) fn ln(x: f64) -> f64 {
    assert!(x.is_normal() && x > 0.0, "no logarithm of {x}");
    let bits = x.to_bits();
    let mantissa_bits = bits & ((1 << MANTISSA_BITS) - 1);
    let mut exponent = (bits >> MANTISSA_BITS) as f64 - EXPONENT_BIAS as f64;
    let mut mantissa = f64::from_bits(mantissa_bits | (EXPONENT_BIAS << MANTISSA_BITS));
    if mantissa > SQRT_2 {
        mantissa /= 2.0;
        exponent += 1.0;
    }
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let sum = LN_TERMS.iter().rev().fold(0.0, |sum, term| sum * s * s + term);
    exponent * LN_2 + 2.0 * s * sum
}

/// e to the power of `x`, to 14 digits.
pub(crate) fn exp(x: f64) -> f64 {
    assert!(x.abs() < 700.0, "e to the power of {x} is out of range");
    let twos = (x * LOG2_E).round();
    let rest = (x - twos * LN_2_HIGH) - twos * LN_2_LOW;
    let sum = (1..=EXP_TERMS).rev().fold(1.0, |sum, n| 1.0 + sum * rest / f64::from(n));
    sum * f64::from_bits(whole(twos + EXPONENT_BIAS as f64) << MANTISSA_BITS)
}

/// The whole part of a number of 0 to 2^53.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked")]
pub(crate) fn whole(x: f64) -> u64 {
    assert!((0.0..=9_007_199_254_740_992.0).contains(&x), "{x} is out of range");
    x as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_agree_with_the_platform() {
        for n in 1..20_000 {
            let x = f64::from(n) * f64::from(n) * 0.001;
            assert!((ln(x) - x.ln()).abs() <= 1e-14 * x.ln().abs().max(1.0), "ln {x}");
            let y = (f64::from(n) - 10_000.0) * 0.03;
            assert!((exp(y) / y.exp() - 1.0).abs() <= 1e-13, "exp {y}");
        }
        assert_eq!(ln(1.0), 0.0);
        assert_eq!(exp(0.0), 1.0);
    }
}
