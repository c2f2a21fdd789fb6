//! Summaries: any number of entries.
#![no_main]

use libfuzzer_sys::fuzz_target;
use varve_fuzz::round_trip;
use varve_logstore::format::summary::SummaryEntry;

fuzz_target!(|bytes: &[u8]| {
    for entry in bytes.chunks(SummaryEntry::LEN) {
        round_trip(entry, SummaryEntry::decode, SummaryEntry::encode, SummaryEntry::LEN);
    }
});
