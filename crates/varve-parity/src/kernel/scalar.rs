//! Sums byte by byte: for processors without the instructions of other kernels, which are compared with it.

use super::sum::Sum;
use crate::field::FACTORS;

pub(super) fn compute(sources: &[&[u8]], sums: &mut [Sum<'_>]) {
    for sum in sums {
        sum.output.fill(0);
        for (source, factor) in sources.iter().zip(&sum.factors) {
            add(sum.output, source, *factor);
        }
    }
}

/// Adds a source times a factor.
fn add(output: &mut [u8], source: &[u8], factor: u8) {
    if factor == 1 {
        return output.iter_mut().zip(source).for_each(|(sum, byte)| *sum ^= byte);
    }
    let nibbles = &FACTORS[usize::from(factor)].nibbles;
    let products: [u8; 256] =
        std::array::from_fn(|byte| nibbles[byte & 15] ^ nibbles[16 + (byte >> 4)]);
    for (sum, byte) in output.iter_mut().zip(source) {
        *sum ^= products[usize::from(*byte)];
    }
}
