//! Sides of roots, of whatever pool and root they say: as they are, and with length and checksum put right.
#![no_main]

use libfuzzer_sys::fuzz_target;
use varve_media::fuzz;
use varve_stdx::{checksum64, checksum64_seeded};

/// Bytes before the payload, and of them those that the checksum covers.
const HEADER_LEN: usize = 64;
const COVERED_LEN: usize = 48;

fn look(bytes: &[u8]) {
    let root =
        bytes.get(12..16).and_then(|root| root.try_into().ok()).map_or(0, u32::from_le_bytes);
    let pool = bytes.get(24..40).and_then(|pool| pool.try_into().ok()).unwrap_or_default();
    fuzz::root_side(pool, root, bytes);
}

fuzz_target!(|bytes: &[u8]| {
    look(bytes);
    if bytes.len() < HEADER_LEN {
        return;
    }
    let mut bytes = bytes.to_vec();
    let (header, payload) = bytes.split_at_mut(HEADER_LEN);
    let Ok(length) = u32::try_from(payload.len()) else { return };
    header[40..44].copy_from_slice(&length.to_le_bytes());
    let checksum = checksum64_seeded(payload, checksum64(&header[..COVERED_LEN]));
    header[COVERED_LEN..COVERED_LEN + 8].copy_from_slice(&checksum.to_le_bytes());
    look(&bytes);
});
