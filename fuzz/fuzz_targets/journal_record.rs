//! Records of the copies of a journal, of whatever pool and shard they say.
#![no_main]

use libfuzzer_sys::fuzz_target;
use varve_fuzz::{bytes_at, with_length, with_trailing_checksum};
use varve_media_redundancy::format::JournalRecord;
use varve_types::{PoolId, ShardId};

fuzz_target!(|bytes: &[u8]| {
    with_trailing_checksum(&with_length(bytes), |bytes| {
        let shard = ShardId(u16::from_le_bytes(bytes_at(bytes, 10)));
        if let Ok(record) = JournalRecord::decode(PoolId(bytes_at(bytes, 16)), shard, bytes) {
            assert_eq!(record.encode(), bytes);
            assert!(!record.to_string().is_empty());
        }
    });
});
