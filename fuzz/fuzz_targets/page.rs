//! Page units.
#![no_main]

use libfuzzer_sys::fuzz_target;
use varve_fuzz::with_header_checksum;
use varve_logstore::format::page::PageHeader;
use varve_stdx::checksum64;

fuzz_target!(|bytes: &[u8]| {
    with_header_checksum(bytes, PageHeader::LEN, bytes.len(), checksum64, |bytes| {
        if let Ok((header, payload)) = PageHeader::decode(bytes) {
            let mut again = vec![0xFF; PageHeader::LEN];
            again.extend_from_slice(payload);
            header.encode(&mut again);
            assert_eq!(again, bytes);
            assert!(!header.to_string().is_empty());
        }
    });
});
