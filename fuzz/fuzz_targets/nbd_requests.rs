//! NBD requests behind the handshake: each has one reply, and reads return what was written, whatever pieces the
//! requests come in.
#![no_main]

use libfuzzer_sys::fuzz_target;
use varve_access_nbd::fuzz::play_requests;

fuzz_target!(|bytes: &[u8]| play_requests(bytes));
