//! An entry of the register of names.
#![no_main]

use libfuzzer_sys::fuzz_target;
use varve_register::{Entry, Name, NameKind};
use varve_stdx::checksum64;
use varve_types::PoolId;

fuzz_target!(|bytes: &[u8]| {
    let name = Name { sort: NameKind::Volume, full: "default/vm1".to_owned() };
    let mut bytes = bytes.to_vec();
    for _ in 0..2 {
        let mut pool = PoolId::default();
        if let Some(field) = bytes.get(16..32) {
            pool.0.copy_from_slice(field);
        }
        if let Ok(entry) = Entry::decode(pool, &name, &bytes) {
            let _printed = format!("{entry:?}");
            assert_eq!(entry.encode(&name), bytes);
        }
        // The second time with the checksum put right, which covers the name too.
        if let Some((covered, last)) = bytes.split_last_chunk_mut::<8>() {
            let covered = [&*covered, &[1], name.full.as_bytes()].concat();
            *last = checksum64(&covered).to_le_bytes();
        }
    }
});
