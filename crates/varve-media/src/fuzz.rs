//! The drive's own decoders for the fuzzer: bytes nobody vouches for decode into a value that encodes to the same
//! bytes, or into an error.

use varve_types::PoolId;

use crate::format::{
    RootSlot, SUPERBLOCK_BYTES, decode_root, decode_superblock, encode_root, encode_superblock,
};

/// Bytes of a superblock; the last eight are the checksum of the others.
pub const SUPERBLOCK_LEN: usize = SUPERBLOCK_BYTES;

/// Decodes a superblock.
///
/// # Panics
/// When it encodes to other bytes than it came from.
pub fn superblock(bytes: &[u8]) {
    if let Ok(superblock) = decode_superblock(bytes) {
        assert_eq!(encode_superblock(&superblock)[..], bytes[..SUPERBLOCK_BYTES]);
        assert!(!superblock.to_string().is_empty());
    }
}

/// Decodes a side of root `root` of `pool`.
///
/// # Panics
/// When it encodes to other bytes than it came from.
pub fn root_side(pool: [u8; 16], root: u32, bytes: &[u8]) {
    let pool = PoolId(pool);
    if let Ok((version, payload)) = decode_root(pool, root, bytes) {
        let again = encode_root(RootSlot { pool, root, version }, payload);
        let len = crate::format::ROOT_HEADER_BYTES + payload.len();
        assert_eq!(again[..len], bytes[..len]);
    }
}

/// A sound side of root `root` of `pool` that holds `payload`.
#[must_use]
pub fn sound_root_side(pool: [u8; 16], root: u32, version: u64, payload: &[u8]) -> Vec<u8> {
    encode_root(RootSlot { pool: PoolId(pool), root, version }, payload).to_vec()
}
