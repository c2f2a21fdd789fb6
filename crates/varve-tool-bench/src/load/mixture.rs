//! Mixtures: operations of several sizes, patterns and promises in one load, by their shares.
//!
//! MIXTURE-1. Sizes are multiples of the load's block, which is what versions are kept of; an operation begins at a
//!     multiple of its own size.

use varve_media::Persist;

use crate::access::AccessPattern;
use crate::error::{Error, Result};

/// Operations of one sort.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MixturePart {
    /// Share of all operations, in percent.
    pub percent: u8,
    /// Whether they read; else they write.
    pub is_read: bool,
    /// Bytes of one.
    pub bytes: usize,
    /// Where they go; frequent places are scattered.
    pub pattern: AccessPattern,
    /// Whether a write is answered only when it survives power loss.
    pub durable: bool,
    /// Bytes of what a write carries ÷ bytes that LZ4 makes of it.
    pub compression_ratio: f64,
}

impl MixturePart {
    /// Random reads of 4 KiB, which parts differ from.
    pub const BASE: Self = Self {
        percent: 100,
        is_read: true,
        bytes: 4096,
        pattern: AccessPattern::Uniform,
        durable: false,
        compression_ratio: 1.0,
    };

    /// Whether its writes are durable.
    pub(crate) fn persist(&self) -> Persist {
        if self.durable { Persist::Durable } else { Persist::Cached }
    }
}

/// Parts of a load whose shares are 100 % together.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Mixture {
    parts: [MixturePart; Self::PARTS_MAX],
    count: usize,
}

impl Mixture {
    /// Most parts.
    pub const PARTS_MAX: usize = 8;

    /// A mixture of these.
    ///
    /// # Errors
    /// `Mixture` when they are none or too many, or when their shares are not 100 % together.
    pub fn of(parts: &[MixturePart]) -> Result<Self> {
        let percent: u32 = parts.iter().map(|part| u32::from(part.percent)).sum();
        if parts.len() > Self::PARTS_MAX || percent != 100 {
            let parts_max = Self::PARTS_MAX;
            return Err(Error::Mixture { parts: parts.len(), parts_max, percent });
        }
        let mut all = [MixturePart { percent: 0, ..MixturePart::BASE }; Self::PARTS_MAX];
        all.iter_mut().zip(parts).for_each(|(place, part)| *place = *part);
        Ok(Self { parts: all, count: parts.len() })
    }

    /// The parts, in order.
    #[must_use]
    pub fn parts(&self) -> &[MixturePart] {
        &self.parts[..self.count]
    }

    /// Share of operations that read.
    #[must_use]
    pub fn read_percent(&self) -> u8 {
        self.parts().iter().filter(|part| part.is_read).map(|part| part.percent).sum()
    }

    /// The largest size that all sizes are multiples of.
    #[must_use]
    pub fn block_bytes(&self) -> usize {
        self.parts().iter().fold(0, |divisor, part| greatest_divisor(part.bytes, divisor))
    }

    /// Bytes of the largest operation.
    #[must_use]
    pub fn bytes_max(&self) -> usize {
        self.parts().iter().map(|part| part.bytes).max().unwrap_or(0)
    }
}

fn greatest_divisor(one: usize, other: usize) -> usize {
    if other == 0 { one } else { greatest_divisor(other, one % other) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_all_of_the_operations() {
        let half = MixturePart { percent: 50, ..MixturePart::BASE };
        assert!(Mixture::of(&[half, half]).is_ok());
        for wrong in
            [&[][..], &[half], &[half, half, half], &[MixturePart { percent: 10, ..half }; 10]]
        {
            assert!(matches!(Mixture::of(wrong), Err(Error::Mixture { .. })), "{wrong:?}");
        }
    }

    #[test]
    fn the_block_divides_every_size() {
        let of = |kib: usize, percent, is_read| MixturePart {
            percent,
            is_read,
            bytes: kib << 10,
            ..MixturePart::BASE
        };
        let mixture = Mixture::of(&[of(16, 30, true), of(128, 50, false), of(24, 20, true)]);
        let mixture = mixture.unwrap();
        assert_eq!((mixture.block_bytes(), mixture.bytes_max()), (8 << 10, 128 << 10));
        assert_eq!(mixture.read_percent(), 50);
    }
}
