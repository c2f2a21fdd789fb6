//! Record descriptors.
#![no_main]

use libfuzzer_sys::fuzz_target;
use varve_fuzz::round_trip;
use varve_logstore::format::record::RecordHeader;

fuzz_target!(|bytes: &[u8]| {
    round_trip(bytes, RecordHeader::decode, RecordHeader::encode, RecordHeader::LEN);
});
