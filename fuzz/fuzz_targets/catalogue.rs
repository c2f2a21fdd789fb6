//! Keys and values of the catalogue: volumes, snapshots, intents, owners of buckets. The first byte is the length of
//! the key.
#![no_main]

use libfuzzer_sys::fuzz_target;
use varve_dataset::{CatalogueEntry, CatalogueItem};

fuzz_target!(|bytes: &[u8]| {
    let Some((len, rest)) = bytes.split_first() else { return };
    let (key, value) = rest.split_at(usize::from(*len).min(rest.len()));
    if let Some(Ok(entry)) = CatalogueEntry::decode(key, value) {
        // What belongs to no bucket has an owner without a name.
        let may_be_empty = matches!(entry.item, CatalogueItem::Bucket(_));
        assert!(may_be_empty || !entry.name().is_empty(), "what decodes has a name");
    }
});
