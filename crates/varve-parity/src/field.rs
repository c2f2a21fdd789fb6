//! GF(2⁸) with the polynomial 0x11d, the field of ISA-L and of Linux' RAID-6, and each factor in the forms in which
//! kernels multiply by it.

/// The polynomial without its term of degree 8, which is what that term is equal to.
pub(crate) const REDUCED: u8 = 0x1d;

/// Product of two elements.
pub(crate) const fn multiply(mut a: u8, mut b: u8) -> u8 {
    let mut product = 0;
    while b != 0 {
        if b & 1 != 0 {
            product ^= a;
        }
        a = double(a);
        b >>= 1;
    }
    product
}

/// Product with 2.
pub(crate) const fn double(a: u8) -> u8 {
    (a << 1) ^ if a & 0x80 == 0 { 0 } else { REDUCED }
}

/// The element whose product with `a` is 1; 0 for 0.
pub(crate) const fn invert(a: u8) -> u8 {
    // The group has 255 elements: a to the power of 254, by squares.
    let (mut inverse, mut square, mut squares) = (1, a, 0);
    while squares < 7 {
        square = multiply(square, square);
        inverse = multiply(inverse, square);
        squares += 1;
    }
    inverse
}

/// A factor in the forms in which kernels multiply by it.
pub(crate) struct Factor {
    /// The product with each value of the lower four bits, then with each value of the upper four.
    pub(crate) nibbles: [u8; 32],
    /// The multiplication as a matrix over bits, in the order that VGF2P8AFFINEQB has: the row of bit 0 is the highest
    /// byte.
    pub(crate) affine: u64,
}

/// All factors.
pub(crate) static FACTORS: [Factor; 256] = factors();

const fn factors() -> [Factor; 256] {
    let mut factors = [const { Factor { nibbles: [0; 32], affine: 0 } }; 256];
    let mut value: u8 = 0;
    loop {
        factors[value as usize] = factor(value);
        if value == u8::MAX {
            return factors;
        }
        value += 1;
    }
}

const fn factor(value: u8) -> Factor {
    let mut nibbles = [0; 32];
    let mut nibble: u8 = 0;
    while nibble < 16 {
        nibbles[nibble as usize] = multiply(value, nibble);
        nibbles[16 + nibble as usize] = multiply(value, nibble << 4);
        nibble += 1;
    }
    let (mut affine, mut from) = (0, 0);
    while from < 8 {
        let column = multiply(value, 1 << from);
        let mut to = 0;
        while to < 8 {
            let bit = (column >> to) as u64 & 1;
            affine |= bit << (8 * (7 - to) + from);
            to += 1;
        }
        from += 1;
    }
    Factor { nibbles, affine }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The product as schoolbooks have it: of polynomials, and then the remainder.
    fn product(a: u8, b: u8) -> u8 {
        let terms = (0..8).filter(|bit| b >> bit & 1 == 1);
        let whole = terms.fold(0, |sum, bit| sum ^ u32::from(a) << bit);
        let rest = (8..16).rev().fold(whole, |rest, bit| {
            if rest >> bit & 1 == 1 { rest ^ 0x11d << (bit - 8) } else { rest }
        });
        u8::try_from(rest).unwrap()
    }

    #[test]
    fn every_product_is_that_of_polynomials() {
        for a in 0..=255 {
            for b in 0..=255 {
                let expected = product(a, b);
                assert_eq!(multiply(a, b), expected, "{a} * {b}");
                let Factor { nibbles, affine } = &FACTORS[usize::from(a)];
                let by_nibbles = nibbles[usize::from(b & 15)] ^ nibbles[16 + usize::from(b >> 4)];
                assert_eq!(by_nibbles, expected, "{a} * {b}");
                let rows = affine.to_be_bytes().into_iter().enumerate();
                let by_bits = rows.map(|(bit, row)| ((row & b).count_ones() & 1) << bit);
                assert_eq!(by_bits.sum::<u32>(), u32::from(expected), "{a} * {b}");
            }
        }
    }

    #[test]
    fn every_element_but_zero_has_its_inverse() {
        assert_eq!(invert(0), 0);
        assert!((1..=255).all(|a| multiply(a, invert(a)) == 1));
    }
}
