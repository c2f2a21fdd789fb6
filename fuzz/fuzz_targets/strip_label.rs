//! Labels of strips. Input that is shorter gets zeros.
#![no_main]

use libfuzzer_sys::fuzz_target;
use varve_fuzz::with_trailing_checksum;
use varve_media_redundancy::format::StripLabel;

fuzz_target!(|bytes: &[u8]| {
    let mut whole = bytes.to_vec();
    whole.resize(StripLabel::LEN, 0);
    with_trailing_checksum(&whole, |bytes| {
        if let Ok(label) = StripLabel::decode(bytes) {
            let mut again = vec![0; StripLabel::LEN];
            label.encode(&mut again);
            assert_eq!(again, bytes);
            assert!(!label.to_string().is_empty());
        }
    });
});
