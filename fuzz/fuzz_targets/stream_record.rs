//! Stream records.
#![no_main]

use libfuzzer_sys::fuzz_target;
use varve_fuzz::round_trip;
use varve_logstore::format::stream::StreamRecord;

fuzz_target!(|bytes: &[u8]| {
    round_trip(bytes, StreamRecord::decode, StreamRecord::encode, StreamRecord::LEN);
});
