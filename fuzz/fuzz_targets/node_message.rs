//! Messages between nodes: as they are, and with the checksum of the frame put right.
#![no_main]

use libfuzzer_sys::fuzz_target;
use varve_dispatch::nodes::wire::{HEADER_BYTES, decode, encode};
use varve_fuzz::with_header_checksum;
use varve_stdx::checksum64;

fuzz_target!(|bytes: &[u8]| {
    let Some(length) = bytes.get(8..12).and_then(|field| field.first_chunk::<4>()) else { return };
    let length = HEADER_BYTES.saturating_add(u32::from_le_bytes(*length) as usize);
    with_header_checksum(bytes, HEADER_BYTES, length, checksum64, |bytes| {
        if let Ok(Some((message, len))) = decode(bytes) {
            let _printed = format!("{message:?}");
            assert_eq!(encode(&message), bytes[..len]);
        }
    });
});
