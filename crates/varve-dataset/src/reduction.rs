//! How a volume's reduction is written: in its record, and in the word that its openers share. Described in
//! `docs/format.md`.
//!
//! ```text
//! 0       1             2       3            8
//! | dedup | compression | level | reserved 5 |
//! ```

use varve_types::{Compression, Dedup, Reduction};

/// Bytes of a reduction in a record.
pub(crate) const REDUCTION_LEN: usize = 8;

const DEDUP_OFF: u8 = 1;
const DEDUP_ON: u8 = 2;
const DEDUP_AUTO: u8 = 3;

const COMPRESSION_OFF: u8 = 1;
const COMPRESSION_LZ4: u8 = 2;
const COMPRESSION_ZSTD: u8 = 3;

pub(crate) fn encode(reduction: Reduction) -> [u8; REDUCTION_LEN] {
    let dedup = match reduction.dedup {
        Dedup::Off => DEDUP_OFF,
        Dedup::On => DEDUP_ON,
        Dedup::Auto => DEDUP_AUTO,
    };
    let (compression, level) = match reduction.compression {
        Compression::Off => (COMPRESSION_OFF, 0),
        Compression::Lz4 => (COMPRESSION_LZ4, 0),
        Compression::Zstd(level) => (COMPRESSION_ZSTD, level),
    };
    [dedup, compression, level, 0, 0, 0, 0, 0]
}

/// What is not said is the default's; `None` when something unknown is said.
pub(crate) fn decode(bytes: [u8; REDUCTION_LEN]) -> Option<Reduction> {
    let [dedup, compression, level, 0, 0, 0, 0, 0] = bytes else { return None };
    let default = Reduction::default();
    let dedup = match dedup {
        0 => default.dedup,
        DEDUP_OFF => Dedup::Off,
        DEDUP_ON => Dedup::On,
        DEDUP_AUTO => Dedup::Auto,
        _ => return None,
    };
    let compression = match (compression, level) {
        (0, 0) => default.compression,
        (COMPRESSION_OFF, 0) => Compression::Off,
        (COMPRESSION_LZ4, 0) => Compression::Lz4,
        (COMPRESSION_ZSTD, 1..=Compression::ZSTD_LEVEL_MAX) => Compression::Zstd(level),
        _ => return None,
    };
    Some(Reduction { dedup, compression })
}

/// The same, of its bytes as a number.
pub(crate) fn decode_word(word: u64) -> Option<Reduction> {
    decode(word.to_le_bytes())
}

/// A reduction in one word, which threads can exchange without a lock.
pub(crate) fn pack(reduction: Reduction) -> u32 {
    let [dedup, compression, level, ..] = encode(reduction);
    u32::from_le_bytes([dedup, compression, level, 0])
}

/// The reduction of a packed word.
pub(crate) fn unpack(word: u32) -> Reduction {
    let [dedup, compression, level, _] = word.to_le_bytes();
    decode([dedup, compression, level, 0, 0, 0, 0, 0]).expect("words are made by `pack` only")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reductions_round_trip() {
        for dedup in Dedup::ALL {
            for compression in
                [Compression::Off, Compression::Lz4, Compression::Zstd(1), Compression::Zstd(19)]
            {
                let reduction = Reduction { dedup, compression };
                assert_eq!(decode(encode(reduction)), Some(reduction));
                assert_eq!(unpack(pack(reduction)), reduction);
            }
        }
    }

    #[test]
    fn what_is_not_said_is_the_default_and_what_is_unknown_is_refused() {
        let default = Reduction::default();
        assert_eq!(decode([0; 8]), Some(default));
        assert_eq!(
            decode([2, 0, 0, 0, 0, 0, 0, 0]),
            Some(Reduction { dedup: Dedup::On, ..default })
        );
        let off = Reduction { compression: Compression::Off, ..default };
        assert_eq!(decode([0, 1, 0, 0, 0, 0, 0, 0]), Some(off));
        for unknown in [
            [4, 0, 0, 0, 0, 0, 0, 0],
            [0, 4, 0, 0, 0, 0, 0, 0],
            [0, 3, 0, 0, 0, 0, 0, 0],  // zstd without a level
            [0, 3, 20, 0, 0, 0, 0, 0], // and beyond its levels
            [0, 0, 1, 0, 0, 0, 0, 0],  // levels of what has none
            [0, 1, 1, 0, 0, 0, 0, 0],
            [0, 2, 1, 0, 0, 0, 0, 0],
            [0, 0, 0, 1, 0, 0, 0, 0],
            [0, 0, 0, 0, 0, 0, 0, 1],
        ] {
            assert_eq!(decode(unknown), None, "{unknown:?}");
        }
    }
}
