//! Payloads of key records.
#![no_main]

use libfuzzer_sys::fuzz_target;
use varve_logstore::format::record::KeyPayload;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(payload) = KeyPayload::decode(bytes) {
        assert_eq!(payload.encoded_len(), bytes.len());
        let mut again = vec![0; bytes.len()];
        payload.encode(&mut again);
        assert_eq!(again, bytes);
        assert!(!payload.to_string().is_empty());
    }
});
