//! Map slots.
#![no_main]

use libfuzzer_sys::fuzz_target;
use varve_fuzz::round_trip;
use varve_logstore::format::chunk::MapSlot;

fuzz_target!(|bytes: &[u8]| {
    round_trip(bytes, MapSlot::decode, MapSlot::encode, MapSlot::LEN);
});
