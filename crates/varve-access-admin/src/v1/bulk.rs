//! Bodies of objects on their way between two pools: a head in JSON, and bytes behind it. The API and its clients share
//! this.
//!
//! ```text
//! 0                     4
//! | length of the head  | head: JSON | bytes of one | bytes of the next | ...
//! ```
//!
//! The length is little-endian. The head says how long each of them is and what its CRC-32C is, and nothing follows the
//! last one.

use axum::body::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Most bytes of bodies in one request or answer.
pub const BODIES_BYTES_MAX: u64 = 8 << 20;

/// Longest body of a version that comes without having been staged, in bytes.
pub const INLINE_BYTES_MAX: u64 = 64 << 10;

/// Most changes or parts in one request.
pub const CHANGES_MAX: usize = 1000;

/// Largest request with bodies, in bytes.
pub const REQUEST_BYTES_MAX: usize = 9 << 20;

/// Type of such requests and answers.
pub const CONTENT_TYPE: &str = "application/octet-stream";

/// Bytes of the head's length.
const LENGTH_LEN: usize = 4;

/// CRC-32C (Castagnoli).
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    let crc = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes);
    u32::try_from(crc).expect("it has 32 bits")
}

/// A head, and bodies behind it.
///
/// # Panics
/// When the head is longer than 4 GiB, or no JSON can be made of it.
#[must_use]
pub fn with_bodies<T: Serialize, B: AsRef<[u8]>>(head: &T, bodies: &[B]) -> Vec<u8> {
    let head = serde_json::to_vec(head).expect("a head is plain JSON");
    let length = u32::try_from(head.len()).expect("a head is not that long");
    let following_bytes: usize = bodies.iter().map(|body| body.as_ref().len()).sum();
    let mut out = Vec::with_capacity(LENGTH_LEN + head.len() + following_bytes);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&head);
    bodies.iter().for_each(|body| out.extend_from_slice(body.as_ref()));
    out
}

/// The head, and what follows.
///
/// # Errors
/// What is wrong.
pub fn split<T: DeserializeOwned>(whole: &Bytes) -> Result<(T, Bytes), String> {
    let length = whole.first_chunk::<LENGTH_LEN>().ok_or("it is shorter than a head's length")?;
    let length = usize::try_from(u32::from_le_bytes(*length)).map_err(|e| e.to_string())?;
    let end = LENGTH_LEN.checked_add(length).filter(|end| *end <= whole.len());
    let end = end.ok_or("its head is longer than all of it")?;
    let head = serde_json::from_slice(&whole[LENGTH_LEN..end]);
    let head = head.map_err(|error| format!("its head: {error}"))?;
    Ok((head, whole.slice(end..)))
}

/// What follows a head as pieces, of which the head says the lengths and checksums.
///
/// # Errors
/// What is wrong: together they are not what follows, or one has another checksum.
pub fn pieces(
    following: &Bytes,
    pieces: impl IntoIterator<Item = (u64, u32)>,
) -> Result<Vec<Bytes>, String> {
    let (mut rest, mut all) = (following.clone(), Vec::new());
    for (bytes, expected) in pieces {
        let len = usize::try_from(bytes).ok().filter(|len| *len <= rest.len());
        let len = len.ok_or("it is shorter than its head says")?;
        let piece = rest.split_to(len);
        if crc32c(&piece) != expected {
            let number = all.len();
            return Err(format!(
                "piece {number} of its bodies has another CRC-32C than its head says"
            ));
        }
        all.push(piece);
    }
    if rest.is_empty() { Ok(all) } else { Err("it is longer than its head says".to_owned()) }
}
