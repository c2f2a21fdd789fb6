//! Frames: header, descriptors and payloads.
#![no_main]

use libfuzzer_sys::fuzz_target;
use varve_fuzz::with_header_checksum;
use varve_logstore::format::frame::{Frame, FrameHeader};
use varve_stdx::checksum64_seeded;

fuzz_target!(|bytes: &[u8]| {
    // Frames are multiples of 4 KiB, which no fuzzer finds by itself: the rest is zeros.
    let mut bytes = bytes.to_vec();
    bytes.resize(bytes.len().next_multiple_of(4096), 0);
    let (header_bytes, previous_chain) = match FrameHeader::decode(&bytes) {
        Ok(header) => (header.header_bytes() as usize, header.previous_chain),
        Err(_) => (0, 0),
    };
    let seed = |covered: &[u8]| checksum64_seeded(covered, previous_chain);
    with_header_checksum(&bytes, FrameHeader::LEN, header_bytes, seed, |bytes| {
        let Ok(frame) = Frame::decode(bytes) else { return };
        let mut again = bytes.to_vec();
        assert_eq!(frame.header.encode(&mut again), frame.chain);
        assert_eq!(again, bytes);
        assert_eq!(frame.records().count(), frame.header.record_count as usize);
        assert!(frame.records().all(|record| record.is_ok()));
        drop(frame.verify_payloads());
        assert!(!frame.to_string().is_empty());
    });
});
