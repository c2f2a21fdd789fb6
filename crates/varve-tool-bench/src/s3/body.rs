//! Bodies of objects, which follow from the number of their write, so that what is read can be compared. Their bytes do
//! not compress, and no 4 KiB of them are written twice, unless a specification of data says otherwise.

use varve_stdx::Rng;

use crate::data::DataSpec;

/// Every block of this size differs from all others.
const BLOCK_BYTES: usize = 4096;

/// Blocks that are alike but for their stamps.
const BASE_BLOCKS: usize = 16;

/// What makes bodies and compares them. Costs 64 KiB.
#[derive(Clone, Debug)]
pub struct Bodies {
    base: Vec<u8>,
    /// What blocks hold where they are not all unique and incompressible; the base is quicker to make.
    data: Option<DataSpec>,
}

impl Bodies {
    /// Those that follow from the seed of `data`, with its shares of zeros and duplicates and its compressibility.
    /// Shares are met by all bodies together: a body of few blocks has none or many of a sort.
    ///
    /// # Panics
    /// When blocks of `data` have another size than 4 KiB.
    #[must_use]
    pub fn new(data: DataSpec) -> Self {
        assert_eq!(data.block_bytes, BLOCK_BYTES, "bodies have blocks of 4 KiB");
        let mut base = vec![0; BLOCK_BYTES * BASE_BLOCKS];
        Rng::new(data.seed).fill(&mut base);
        let is_plain = data.zero_percent + data.duplicate_percent == 0;
        Self { base, data: (!is_plain || data.compression_ratio > 1.0).then_some(data) }
    }

    /// Makes the bytes from `at` on of the body of write `write`; `into` may end anywhere.
    pub fn fill(&self, write: u64, at: u64, into: &mut [u8]) {
        let mut done = 0;
        while let Some(left) = into.get_mut(done..).filter(|left| !left.is_empty()) {
            let (block, within) = self.block(write, at + done as u64);
            let bytes = (BLOCK_BYTES - within).min(left.len());
            left[..bytes].copy_from_slice(&block[within..within + bytes]);
            done += bytes;
        }
    }

    /// The first byte of `found`, which stands at `at` of the body of write `write`, that is wrong.
    #[must_use]
    pub fn wrong_at(&self, write: u64, at: u64, found: &[u8]) -> Option<u64> {
        let mut done = 0;
        while let Some(left) = found.get(done..).filter(|left| !left.is_empty()) {
            let offset = at + done as u64;
            let (block, within) = self.block(write, offset);
            let bytes = (BLOCK_BYTES - within).min(left.len());
            let pairs = left[..bytes].iter().zip(&block[within..]);
            if let Some(wrong) = pairs.into_iter().position(|(found, right)| found != right) {
                return Some(offset + wrong as u64);
            }
            done += bytes;
        }
        None
    }

    /// The block that holds byte `offset`, and where in it that stands.
    fn block(&self, write: u64, offset: u64) -> ([u8; BLOCK_BYTES], usize) {
        let number = offset / BLOCK_BYTES as u64;
        let within = usize::try_from(offset % BLOCK_BYTES as u64).unwrap_or(0);
        let mut block = [0; BLOCK_BYTES];
        if let Some(data) = &self.data {
            data.block(number, write, &mut block);
            return (block, within);
        }
        let place = usize::try_from(number % BASE_BLOCKS as u64).unwrap_or(0) * BLOCK_BYTES;
        block.copy_from_slice(&self.base[place..place + BLOCK_BYTES]);
        block[..8].copy_from_slice(&write.to_le_bytes());
        block[8..16].copy_from_slice(&number.to_le_bytes());
        (block, within)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn plain() -> Bodies {
        Bodies::new(DataSpec { seed: 1, ..DataSpec::default() })
    }

    #[test]
    fn bodies_are_the_same_in_any_pieces_and_every_wrong_byte_is_found() {
        let bodies = plain();
        let mut whole = vec![0; 150_001];
        bodies.fill(7, 0, &mut whole);
        let mut pieces = vec![0; whole.len()];
        let mut at = 0;
        for piece in pieces.chunks_mut(9973) {
            bodies.fill(7, at, piece);
            at += piece.len() as u64;
        }
        assert!(pieces == whole);
        assert_eq!(bodies.wrong_at(7, 0, &whole), None);
        assert_eq!(bodies.wrong_at(7, 777, &whole[777..]), None);
        assert_eq!(bodies.wrong_at(8, 0, &whole), Some(0), "another write");
        assert_eq!(bodies.wrong_at(7, 4096, &whole), Some(4104), "elsewhere");
        for place in [0, 15, 16, 4095, 70_000, 150_000] {
            whole[place] ^= 1;
            assert_eq!(bodies.wrong_at(7, 0, &whole), Some(place as u64));
            whole[place] ^= 1;
        }
    }

    #[test]
    fn no_block_is_written_twice() {
        let (bodies, mut blocks) = (plain(), BTreeSet::new());
        for write in 0..4 {
            let mut body = vec![0; 64 * BLOCK_BYTES];
            bodies.fill(write, 0, &mut body);
            blocks.extend(body.chunks(BLOCK_BYTES).map(<[u8]>::to_vec));
        }
        assert_eq!(blocks.len(), 4 * 64);
    }

    #[test]
    fn shares_of_zeros_and_duplicates_and_compressibility_are_as_asked_for() {
        let data = DataSpec {
            seed: 1,
            zero_percent: 10,
            duplicate_percent: 40,
            stock_blocks: 50,
            compression_ratio: 2.0,
            ..DataSpec::default()
        };
        let bodies = Bodies::new(data);
        // Objects of a few blocks: shares are those of all of them together.
        let (writes, body_blocks) = (200, 31);
        let (mut blocks, mut zeros, mut packed) = (BTreeSet::new(), 0, 0);
        for write in 0..writes {
            let mut body = vec![0; body_blocks * BLOCK_BYTES];
            bodies.fill(write, 0, &mut body);
            assert_eq!(bodies.wrong_at(write, 0, &body), None);
            let mut piece = vec![0; 5000];
            bodies.fill(write, 3333, &mut piece);
            assert!(piece == body[3333..8333], "in any pieces");
            for block in body.chunks(BLOCK_BYTES) {
                zeros += u64::from(block.iter().all(|byte| *byte == 0));
                packed += lz4_flex::block::compress(block).len();
                blocks.insert(block.to_vec());
            }
            body[70_000] ^= 1;
            assert_eq!(bodies.wrong_at(write, 0, &body), Some(70_000));
        }
        let all = (writes * body_blocks as u64) as f64;
        assert!((zeros as f64 / all - 0.1).abs() < 0.03, "{zeros} of {all} are zeros");
        let unique = blocks.len() as f64 - 51.0;
        assert!((unique / all - 0.5).abs() < 0.03, "{unique} of {all} are unique");
        let ratio = all * 0.9 * BLOCK_BYTES as f64 / packed as f64;
        assert!((1.8..2.2).contains(&ratio), "{ratio}");
    }
}
