//! Roots of pools.
#![no_main]

use libfuzzer_sys::fuzz_target;
use varve_fuzz::{with_length, with_trailing_checksum};
use varve_logstore::format::pool::PoolRoot;

fuzz_target!(|bytes: &[u8]| {
    with_trailing_checksum(&with_length(bytes), |bytes| {
        if let Ok(root) = PoolRoot::decode(bytes) {
            let again = root.encode();
            assert_eq!(again, bytes[..again.len()]);
            assert!(!root.to_string().is_empty());
        }
    });
});
