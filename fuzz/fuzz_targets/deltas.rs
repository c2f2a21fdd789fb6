//! Delta blobs.
#![no_main]

use libfuzzer_sys::fuzz_target;
use varve_logstore::format::deltas::decode;

fuzz_target!(|bytes: &[u8]| {
    let mut deltas = Vec::new();
    if decode(bytes, |delta| deltas.push(delta)).is_ok() {
        let ascends = |pair: &[varve_logstore::format::deltas::Delta]| {
            (pair[0].stream, pair[0].block) < (pair[1].stream, pair[1].block)
        };
        assert!(deltas.windows(2).all(ascends));
    }
});
