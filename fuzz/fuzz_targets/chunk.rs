//! Chunk entries.
#![no_main]

use libfuzzer_sys::fuzz_target;
use varve_fuzz::round_trip;
use varve_logstore::format::chunk::ChunkEntry;

fuzz_target!(|bytes: &[u8]| {
    round_trip(bytes, ChunkEntry::decode, ChunkEntry::encode, ChunkEntry::LEN);
});
