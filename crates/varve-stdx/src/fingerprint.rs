//! Fingerprints of blocks, many at once: the keyed hash that `blake3::keyed_hash` gives, with as many blocks side by
//! side in vector registers as fit, in place of the four chunks of one.
//!
//! FINGERPRINT-1. Inputs go to the hash in whole batches of `WIDTH`. The assembly of blake3 1.8.7 for AVX2 loads 32
//!     bytes where it uses 16 when it hashes what is left over of 2 to 7 inputs, so it reads 16 bytes behind the end of
//!     one of them. Chunks of one buffer have another one there; a block that ends a mapping has nothing, and the
//!     process is killed.

use blake3::IncrementCounter;
use blake3::platform::Platform;
/// Blocks hashed side by side: as many as the widest registers take.
pub const BATCH: usize = 16;

/// Inputs that the hash takes at once with the registers of AVX2.
const WIDTH: usize = 8;
const _: () = assert!(BATCH.is_multiple_of(WIDTH));

/// Bytes of a block.
const BLOCK_BYTES: usize = 4096;

/// Fewer blocks than the chunks of one are hashed one after the other: more chunks of one than blocks fit side by side.
const ALONE_MAX: usize = CHUNKS - 1;

/// Bytes of a fingerprint: half of a hash.
pub const FINGERPRINT_BYTES: usize = 16;

/// Bytes of a chunk of the hash: leaves of its tree.
const CHUNK: usize = 1024;
const CHUNKS: usize = BLOCK_BYTES / CHUNK;
/// Bytes of an inner value.
const VALUE: usize = 32;

// Flags of the hash function (BLAKE3 specification, 2.1, table 3).
const CHUNK_START: u8 = 1;
const CHUNK_END: u8 = 1 << 1;
const PARENT: u8 = 1 << 2;
const ROOT: u8 = 1 << 3;
const KEYED_HASH: u8 = 1 << 4;

/// Hashes blocks under one key.
pub struct Fingerprinter {
    key: [u32; 8],
    key_bytes: [u8; blake3::KEY_LEN],
    platform: Platform,
}

impl Fingerprinter {
    /// One that hashes under `key`, with the widest registers that the processor has.
    #[must_use]
    pub fn new(key: &[u8; blake3::KEY_LEN]) -> Self {
        let mut words = [0; 8];
        for (word, bytes) in words.iter_mut().zip(key.as_chunks::<4>().0) {
            *word = u32::from_le_bytes(*bytes);
        }
        Self { key: words, key_bytes: *key, platform: Platform::detect() }
    }

    /// Fingerprints of up to [`BATCH`] blocks of 4 KiB, in their order.
    ///
    /// # Panics
    /// With more blocks, or others.
    #[must_use]
    pub fn fingerprints(&self, blocks: &[&[u8]]) -> [[u8; FINGERPRINT_BYTES]; BATCH] {
        let count = blocks.len();
        assert!(count <= BATCH && blocks.iter().all(|block| block.len() == BLOCK_BYTES));
        if count <= ALONE_MAX {
            let mut found = [[0; FINGERPRINT_BYTES]; BATCH];
            for (out, block) in found.iter_mut().zip(blocks) {
                let hash = blake3::keyed_hash(&self.key_bytes, block);
                *out = *hash.as_bytes().first_chunk().expect("half of a hash");
            }
            return found;
        }
        let count = count.next_multiple_of(WIDTH); // FINGERPRINT-1: what is behind the blocks are chunks of zeros.
        let mut values = [[[0; VALUE]; BATCH]; CHUNKS];
        for (index, out) in values.iter_mut().enumerate() {
            let mut inputs = [&[0; CHUNK]; BATCH];
            for (input, block) in inputs.iter_mut().zip(blocks) {
                *input = &block.as_chunks::<CHUNK>().0[index];
            }
            let inputs = &inputs[..count];
            self.hash(inputs, index as u64, KEYED_HASH, CHUNK_START, CHUNK_END, out);
        }
        let [first, second, third, fourth] = &values;
        let left = self.parents(first, second, count, 0);
        let right = self.parents(third, fourth, count, 0);
        let roots = self.parents(&left, &right, count, ROOT);
        roots.map(|root| *root.first_chunk().expect("half of a value"))
    }

    /// The values above pairs of values.
    fn parents(
        &self,
        left: &[[u8; VALUE]; BATCH],
        right: &[[u8; VALUE]; BATCH],
        count: usize,
        flags: u8,
    ) -> [[u8; VALUE]; BATCH] {
        let mut pairs = [[0; 2 * VALUE]; BATCH];
        for ((pair, left), right) in pairs.iter_mut().zip(left).zip(right) {
            pair[..VALUE].copy_from_slice(left);
            pair[VALUE..].copy_from_slice(right);
        }
        let mut out = [[0; VALUE]; BATCH];
        let inputs = pairs.each_ref();
        self.hash(&inputs[..count], 0, KEYED_HASH | PARENT | flags, 0, 0, &mut out);
        out
    }

    fn hash<const N: usize>(
        &self,
        inputs: &[&[u8; N]],
        counter: u64,
        flags: u8,
        flags_start: u8,
        flags_end: u8,
        out: &mut [[u8; VALUE]; BATCH],
    ) {
        let out = &mut out.as_flattened_mut()[..inputs.len() * VALUE];
        self.platform.hash_many(
            inputs,
            &self.key,
            counter,
            IncrementCounter::No,
            flags,
            flags_start,
            flags_end,
            out,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    #[test]
    fn many_at_once_give_what_one_by_one_gives() {
        let key = [0x5A; 32];
        let fingerprinter = Fingerprinter::new(&key);
        let mut bytes = vec![0; BATCH * BLOCK_BYTES];
        Rng::new(9).fill(&mut bytes);
        let blocks: Vec<&[u8]> = bytes.chunks(BLOCK_BYTES).collect();
        for count in 0..=BATCH {
            let found = fingerprinter.fingerprints(&blocks[..count]);
            for (block, found) in blocks[..count].iter().zip(found) {
                let reference = blake3::keyed_hash(&key, block);
                assert_eq!(found, reference.as_bytes()[..FINGERPRINT_BYTES], "of {count}");
            }
        }
    }

    /// Two pages, the second of which nobody may read: blocks that end with the first one show a hash that reads
    /// further.
    #[test]
    #[expect(unsafe_code, reason = "memory behind which nobody may read")]
    fn nothing_is_read_behind_a_block() {
        let fingerprinter = Fingerprinter::new(&[0x5A; 32]);
        // SAFETY: a new private mapping at an address of the system's choice, which stays until the process ends.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                2 * BLOCK_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert_ne!(start, libc::MAP_FAILED);
        let second = start.wrapping_byte_add(BLOCK_BYTES);
        // SAFETY: the second page of the mapping above, which nothing refers to.
        let code = unsafe { libc::mprotect(second, BLOCK_BYTES, libc::PROT_NONE) };
        assert_eq!(code, 0);
        // SAFETY: the first page of the mapping above: readable, zeroed, and nobody writes it.
        let last: &[u8] = unsafe { std::slice::from_raw_parts(start.cast::<u8>(), BLOCK_BYTES) };
        let wanted = fingerprinter.fingerprints(&[last])[0];
        for count in 0..=BATCH {
            assert!(
                fingerprinter.fingerprints(&vec![last; count])[..count]
                    .iter()
                    .all(|found| *found == wanted)
            );
        }
    }
}
