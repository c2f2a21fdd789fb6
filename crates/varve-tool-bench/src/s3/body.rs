//! Bodies of objects: bytes that do not compress, of which no 4 KiB are written twice, and which follow from the number of their write, so that
//! what is read can be compared.

use varve_stdx::Rng;

/// Every block of this size differs from all others.
const BLOCK_BYTES: usize = 4096;

/// Blocks that are alike but for their stamps.
const BASE_BLOCKS: usize = 16;

/// What makes bodies and compares them. Costs 64 KiB.
#[derive(Clone, Debug)]
pub struct Bodies {
    base: Vec<u8>,
}

impl Bodies {
    /// Those that follow from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut base = vec![0; BLOCK_BYTES * BASE_BLOCKS];
        Rng::new(seed).fill(&mut base);
        Self { base }
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
        let place = usize::try_from(number % BASE_BLOCKS as u64).unwrap_or(0) * BLOCK_BYTES;
        let mut block = [0; BLOCK_BYTES];
        block.copy_from_slice(&self.base[place..place + BLOCK_BYTES]);
        block[..8].copy_from_slice(&write.to_le_bytes());
        block[8..16].copy_from_slice(&number.to_le_bytes());
        (block, usize::try_from(offset % BLOCK_BYTES as u64).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn bodies_are_the_same_in_any_pieces_and_every_wrong_byte_is_found() {
        let bodies = Bodies::new(1);
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
        let (bodies, mut blocks) = (Bodies::new(1), BTreeSet::new());
        for write in 0..4 {
            let mut body = vec![0; 64 * BLOCK_BYTES];
            bodies.fill(write, 0, &mut body);
            blocks.extend(body.chunks(BLOCK_BYTES).map(<[u8]>::to_vec));
        }
        assert_eq!(blocks.len(), 4 * 64);
    }
}
