//! The table of nodes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use varve_fuzz::with_trailing_checksum;
use varve_membership::MemberTable;

fuzz_target!(|bytes: &[u8]| {
    with_trailing_checksum(bytes, |bytes| {
        if let Ok(table) = MemberTable::decode(bytes) {
            let _printed = format!("{table:?}");
            // Format 1 is only read.
            if bytes.get(8) != Some(&1) {
                assert_eq!(table.encode(), bytes);
            }
        }
    });
});
