//! What the fuzz targets share. Each target decodes bytes nobody vouches for and requires that whatever decodes prints,
//! and encodes to the very bytes it came from: no two encodings of one value, no bit that counts for nothing.
//!
//! Structures under a checksum are tried twice: as they are, and with the checksum put right, so that the fuzzer gets
//! past it.

use varve_stdx::{checksum64, checksum64_seeded};

/// Calls `check` with `bytes`, and with the checksum of everything before the last eight bytes in their place.
pub fn with_trailing_checksum(bytes: &[u8], check: impl Fn(&[u8])) {
    check(bytes);
    let mut bytes = bytes.to_vec();
    if let Some((covered, last)) = bytes.split_last_chunk_mut::<8>() {
        *last = checksum64(covered).to_le_bytes();
        check(&bytes);
    }
}

/// `bytes` with their number where a root states its length.
#[must_use]
pub fn with_length(bytes: &[u8]) -> Vec<u8> {
    let mut root = bytes.to_vec();
    if let (Some(field), Ok(length)) = (root.get_mut(12..16), u32::try_from(bytes.len())) {
        field.copy_from_slice(&length.to_le_bytes());
    }
    root
}

/// The `N` bytes at an offset, or zeros behind the end: what a structure says of where it belongs.
#[must_use]
pub fn bytes_at<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    bytes.get(offset..).and_then(<[u8]>::first_chunk).copied().unwrap_or([0; N])
}

/// Calls `check` with `bytes`, and with the eight bytes before `header_len` set to the checksum of what follows
/// `header_len`, seeded with the checksum of what precedes them.
pub fn with_header_checksum(
    bytes: &[u8],
    header_len: usize,
    covered_len: usize,
    seed: impl Fn(&[u8]) -> u64,
    check: impl Fn(&[u8]),
) {
    check(bytes);
    let mut bytes = bytes.to_vec();
    if covered_len < header_len || bytes.len() < covered_len {
        return;
    }
    let (header, rest) = bytes.split_at_mut(header_len);
    if let Some((covered, last)) = header.split_last_chunk_mut::<8>() {
        let checksum = checksum64_seeded(&rest[..covered_len - header_len], seed(covered));
        *last = checksum.to_le_bytes();
    }
    check(&bytes);
}

/// For structures of fixed length: what `decode` accepts, `encode` makes again.
pub fn round_trip<T, E>(
    bytes: &[u8],
    decode: impl Fn(&[u8]) -> Result<T, E>,
    encode: impl Fn(&T, &mut [u8]),
    len: usize,
) where
    T: std::fmt::Display,
{
    if let Ok(value) = decode(bytes) {
        let mut again = vec![0; len];
        encode(&value, &mut again);
        assert_eq!(again, bytes[..len]);
        assert!(!value.to_string().is_empty());
    }
}
