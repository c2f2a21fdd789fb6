//! The worked examples of what is stored of objects and buckets, `docs/format-examples/objects.md`.

use bytes::Bytes;
use varve_dataset_content::StoredContent;
use varve_stdx::ExamplesPage;
use varve_types::{Compression, Dedup};

use super::record::{ObjectRecord, StoredAttributes};
use crate::{BucketId, BucketOptions, BucketRecord, Settings};

#[test]
fn the_page_shows_what_is_stored() {
    let object = ObjectRecord {
        is_null: true,
        is_marker: false,
        size: 5,
        modified_ms: 1_790_000_000_000,
        link: 0,
        body: StoredContent::Inline(Bytes::from_static(b"hello")),
        attributes: StoredAttributes::Inline(Bytes::from_static(b"(attributes)")),
    };
    let object_bytes = object.encode();
    assert_eq!(ObjectRecord::decode(&object_bytes), Ok(object));
    let settings = Settings {
        owner: "ann".to_owned(),
        created_ms: 1_790_000_000_000,
        dedup: Some(Dedup::Off),
        compression: Some(Compression::Zstd(3)),
        ..Settings::default()
    };
    let bucket = BucketRecord {
        id: BucketId(13),
        options: BucketOptions { private_copy: false },
        moves: None,
        shares_bodies: true,
        record: settings.encode(),
    };
    let bucket_bytes = bucket.encode();
    assert_eq!(BucketRecord::decode(&bucket_bytes), Ok(bucket));
    assert_eq!(Settings::decode(&bucket_bytes[16..]).unwrap(), settings);
    ExamplesPage::new("objects", "objects and buckets", "varve-object")
        .example("Object record", &object_bytes)
        .example("Bucket record", &bucket_bytes)
        .compare();
}
