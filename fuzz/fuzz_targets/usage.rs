//! Usage entries.
#![no_main]

use libfuzzer_sys::fuzz_target;
use varve_fuzz::round_trip;
use varve_logstore::format::usage::UsageEntry;

fuzz_target!(|bytes: &[u8]| {
    round_trip(bytes, UsageEntry::decode, UsageEntry::encode, UsageEntry::LEN);
});
