//! Checks that every decoder of this module makes.

use varve_stdx::DecodeError;
use varve_types::PoolId;

use crate::{Error, error::Result};

/// Refuses a key id or AEAD codec: this version encrypts nothing, and must not hand out ciphertext.
#[inline]
pub(super) fn check_unencrypted(what: &'static str, value: u32) -> Result<()> {
    if value != 0 {
        return Err(Error::Unsupported { what, flags: u64::from(value) });
    }
    Ok(())
}

/// The first `N` bytes, where a structure must have at least as many (FORMAT-2).
#[inline]
pub(super) fn head<'a, const N: usize>(what: &'static str, bytes: &'a [u8]) -> Result<&'a [u8; N]> {
    Ok(bytes.first_chunk().ok_or(DecodeError::Truncated { what, need: N, have: bytes.len() })?)
}

/// The first `N` bytes of the memory that a caller gave an encoder.
///
/// # Panics
/// When there are fewer.
#[inline]
pub(super) fn room<const N: usize>(out: &mut [u8]) -> &mut [u8; N] {
    out.first_chunk_mut().expect("the caller gave room for the structure")
}

/// Compares a stored checksum with the computed one.
#[inline]
pub(super) fn verify(what: &'static str, expected: u64, found: u64) -> Result<()> {
    if expected != found {
        return Err(Error::BadChecksum { what, expected, found });
    }
    Ok(())
}

/// Compares the pool that a structure names with the one it was read from; the error shows the id's first half.
pub(super) fn check_pool(what: &'static str, found: PoolId, expected: PoolId) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    let [a, b, c, d, e, f, g, h, ..] = found.0;
    let value = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
    Err(DecodeError::BadField { what, field: "pool", value }.into())
}
