//! Caches in front of slow drives. F19, from Intel's guide, use case 7, and Open CAS.

use crate::error::{Result, positive};
use crate::units::{Amount, Bytes, Share};

/// Part of the backing store that metadata alone need.
pub const METADATA_SHARE: f64 = 0.02;

/// Size of a cache for metadata (formula F19): 2 % of the backing store.
#[must_use]
pub fn metadata_size(backing: Bytes) -> Bytes {
    backing * METADATA_SHARE
}

/// What part of the backing store a cache is. 1.5 TB for 80 TB are 1.875 %; the source prints 2 %, which 1.6 TB are
/// (erratum X28).
#[must_use]
pub fn share(cache: Bytes, backing: Bytes) -> Share {
    Share::of_base(cache / backing)
}

/// Memory for the cache's map (formula F19): lines × `per_line`, which is the cache's own figure.
///
/// # Errors
/// [`crate::Error::Range`] when a line is empty.
pub fn map_memory(cache: Bytes, line: Bytes, per_line: Bytes) -> Result<Bytes> {
    let line = Bytes::of_base(positive("a cache line in bytes", line.base())?);
    Ok(per_line * (cache / line))
}
