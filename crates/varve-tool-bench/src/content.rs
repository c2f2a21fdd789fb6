//! What a block holds, told without its bytes: equal contents are equal bytes, and different contents are different
//! bytes.

use crate::mix::mix;

/// Bytes at the start of a block that no other content has there.
pub(crate) const STAMP_BYTES: usize = 24;

/// The contents of a block under one [`DataSpec`](crate::DataSpec); its seed, its size of a block and its compression
/// ratio say the rest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DataContent {
    /// Zeros.
    Zero,
    /// A block of the stock that duplicates come from.
    Stock {
        /// Number in the stock.
        entry: u64,
    },
    /// Data that stand nowhere else.
    Unique {
        /// [`DataSpec::volume`](crate::DataSpec::volume).
        volume: u32,
        /// Index of the block.
        index: u64,
        /// Version of the block.
        version: u64,
    },
    /// Data that one clone of a fleet wrote.
    Private {
        /// The golden volume.
        volume: u32,
        /// The clone.
        clone: u32,
        /// Index of the block.
        index: u64,
    },
    /// Data that every clone of a fleet wrote.
    Common {
        /// The golden volume.
        volume: u32,
        /// Index of the block.
        index: u64,
    },
}

impl DataContent {
    /// Three words that no other content has under this seed; none for zeros, which carry nothing.
    ///
    /// The content is three words itself, and every step is a bijection of one word given the others.
    pub(crate) fn stamp(self, seed: u64) -> Option<[u64; STAMP_BYTES / 8]> {
        let (kind, owner, index, version) = match self {
            Self::Zero => return None,
            Self::Stock { entry } => (0, 0, entry, 0),
            Self::Unique { volume, index, version } => (1, volume, index, version),
            Self::Private { volume, clone, index } => (2, volume, index, u64::from(clone)),
            Self::Common { volume, index } => (3, volume, index, 0),
        };
        let first = mix(seed ^ (kind << 32 | u64::from(owner)));
        let second = mix(index ^ first);
        let third = mix(version ^ second);
        Some([mix(first ^ third), second ^ third.rotate_left(32), third])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn stamps_tell_contents_apart() {
        let mut contents = Vec::new();
        for index in 0..50 {
            contents.push(DataContent::Stock { entry: index });
            for volume in 0..5 {
                contents.push(DataContent::Common { volume, index });
                for n in 0..5 {
                    contents.push(DataContent::Unique { volume, index, version: n });
                    contents.push(DataContent::Private {
                        volume,
                        clone: u32::try_from(n).unwrap(),
                        index,
                    });
                }
            }
        }
        for word in 0..3 {
            let words =
                contents.iter().filter_map(|content| content.stamp(9)).map(|stamp| stamp[word]);
            assert_eq!(words.collect::<BTreeSet<_>>().len(), contents.len(), "word {word}");
        }
        assert_eq!(DataContent::Zero.stamp(9), None);
    }
}
