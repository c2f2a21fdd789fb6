//! Locations and page pointers.
#![no_main]

use libfuzzer_sys::fuzz_target;
use varve_fuzz::round_trip;
use varve_logstore::format::pointer::{Location, PagePtr};

fuzz_target!(|bytes: &[u8]| {
    round_trip(bytes, Location::decode, Location::encode, Location::LEN);
    round_trip(bytes, PagePtr::decode, PagePtr::encode, PagePtr::LEN);
});
