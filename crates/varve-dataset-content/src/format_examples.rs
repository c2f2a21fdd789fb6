//! The worked examples of what is stored of the contents of buckets, `docs/format-examples/content.md`.

use varve_stdx::{ExamplesPage, Reader, Writer};
use varve_types::ShardId;

use crate::content::{Reference, ReferenceTarget, StoredContent};
use crate::record::{decode_orphan, decode_reference, encode_orphan, encode_reference};
use crate::{ContentAccount, TallyChange};

/// An account that has given blocks and numbers, and counts.
fn account() -> ContentAccount {
    let mut account = ContentAccount::EMPTY;
    account.take_blocks(99).unwrap();
    account.take_id();
    account.changed(TallyChange { items: 2, bytes: 400_000, records: 3 }).unwrap()
}

#[test]
fn the_page_shows_what_is_stored() {
    let account_bytes = account().encode();
    assert_eq!(ContentAccount::decode(&account_bytes), Ok(account()));
    let orphan = encode_orphan(98);
    assert_eq!(decode_orphan(&orphan), Ok(98));
    let key_value = encode_reference();
    assert_eq!(decode_reference(&key_value), Ok(()));
    let target = ReferenceTarget::Extent(9);
    let reference = Reference { number: 5, home: ShardId(2), target };
    let body = StoredContent::Reference { reference, offset: 4096, len: 100_000, depth: 1 };
    let mut tail = vec![0; body.len_in_record()];
    body.encode_tail(&mut Writer::new(&mut tail));
    let decoded = StoredContent::decode(body.head(), &mut Reader::new("content", &tail));
    assert_eq!(decoded, Ok(body));
    ExamplesPage::new("content", "content of buckets", "varve-dataset-content")
        .example("Account of a bucket", &account_bytes)
        .example("Orphan", &orphan)
        .example("Reference", &tail)
        .example("Value of a reference's key", &key_value)
        .compare();
}
