//! NBD connections, from the first byte to the last: what a client sends never panics, and is answered alike whatever
//! pieces it comes in.
#![no_main]

use libfuzzer_sys::fuzz_target;
use varve_access_nbd::fuzz::play;

fuzz_target!(|bytes: &[u8]| {
    let _answers = play(bytes);
});
