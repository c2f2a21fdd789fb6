//! Strip headers. Input is the fields alone: the reserved rest of the 4096 bytes is added.
#![no_main]

use libfuzzer_sys::fuzz_target;
use varve_fuzz::with_trailing_checksum;
use varve_logstore::format::segment::StripHeader;

fuzz_target!(|bytes: &[u8]| {
    drop(StripHeader::decode(bytes));
    let mut header = bytes.to_vec();
    header.resize(StripHeader::LEN, 0);
    with_trailing_checksum(&header, |bytes| {
        if let Ok((header, checksum)) = StripHeader::decode(bytes) {
            let mut again = vec![0xFF; StripHeader::LEN];
            assert_eq!(header.encode(&mut again), checksum);
            assert_eq!(again, bytes);
            assert!(!header.to_string().is_empty());
        }
    });
});
