//! Hash tables whose order is the same in every run, so that a seed of the simulator always gives the same one. Their
//! keys are the shard's own numbers, which no client chooses, and hashes of what clients write.

use std::hash::{BuildHasherDefault, Hasher};

/// Multiplies and folds words; good for ids, not for secrets.
#[derive(Clone, Copy, Default)]
pub(crate) struct IdHasher(u64);

impl IdHasher {
    fn add(&mut self, word: u64) {
        let wide = u128::from(self.0 ^ word ^ 0x9E37_79B9_7F4A_7C15) * 0xD6E8_FEB8_6659_FD93;
        #[expect(clippy::cast_possible_truncation, reason = "folds both halves of the product")]
        let folded = (wide >> 64) as u64 ^ wide as u64;
        self.0 = folded;
    }
}

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.add(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.add(u64::from(value));
    }

    fn write_u16(&mut self, value: u16) {
        self.add(u64::from(value));
    }

    fn write_u32(&mut self, value: u32) {
        self.add(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.add(value);
    }

    fn write_usize(&mut self, value: usize) {
        self.add(value as u64);
    }
}

/// A map by ids.
pub(crate) type HashMap<K, V> = hashbrown::HashMap<K, V, BuildHasherDefault<IdHasher>>;

/// A set of ids.
pub(crate) type HashSet<K> = hashbrown::HashSet<K, BuildHasherDefault<IdHasher>>;
