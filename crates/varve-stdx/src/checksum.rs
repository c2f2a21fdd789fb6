//! XXH3, the checksum of every stored structure: 13 GB/s and more a core, good dispersion in 64 bits.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Checksum of `bytes`.
#[must_use]
pub fn checksum64(bytes: &[u8]) -> u64 {
    xxh3_64(bytes)
}

/// Checksum of `bytes` under `seed`: chains a structure to what came before it.
#[must_use]
pub fn checksum64_seeded(bytes: &[u8], seed: u64) -> u64 {
    xxh3_64_with_seed(bytes, seed)
}

/// The low half of [`checksum64`], where a record has room for 32 bits only.
#[must_use]
pub fn checksum32(bytes: &[u8]) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "the low half is what is wanted")]
    let low = checksum64(bytes) as u32;
    low
}
