//! Death blobs.
#![no_main]

use libfuzzer_sys::fuzz_target;
use varve_logstore::format::deaths::{decode, encode};

fuzz_target!(|bytes: &[u8]| {
    let mut ids = Vec::new();
    if decode(bytes, |id| ids.push(id)).is_ok() {
        assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
        let mut again = Vec::new();
        encode(&mut ids.into_iter().peekable(), &mut again, usize::MAX);
        assert_eq!(again, bytes);
    }
});
