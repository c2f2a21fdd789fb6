//! Tables of the drives of a redundant pool, of whatever pool they say.
#![no_main]

use libfuzzer_sys::fuzz_target;
use varve_fuzz::{bytes_at, with_length, with_trailing_checksum};
use varve_media_redundancy::format::DriveTable;
use varve_types::PoolId;

fuzz_target!(|bytes: &[u8]| {
    with_trailing_checksum(&with_length(bytes), |bytes| {
        if let Ok(table) = DriveTable::decode(PoolId(bytes_at(bytes, 40)), bytes) {
            assert_eq!(table.encode(), bytes);
            assert!(!table.to_string().is_empty());
        }
    });
});
