//! Archives: a header and records from anywhere never panic, and what is accepted is what would be written.
#![no_main]

use libfuzzer_sys::fuzz_target;
use varve_dataset::{ArchiveChain, ArchiveHeader};

fuzz_target!(|bytes: &[u8]| {
    let Some(prefix) = bytes.first_chunk() else { return };
    let Ok(len) = ArchiveHeader::len_of(prefix) else { return };
    let Some((head, mut rest)) = bytes.split_at_checked(len) else { return };
    let Ok(header) = ArchiveHeader::decode(head) else { return };
    assert_eq!(header.encode(), head);
    let mut chain = ArchiveChain::new(&header);
    let mut again = chain.clone();
    while let Some((record, after)) = rest.split_first_chunk() {
        let Ok(len) = chain.payload_len(record) else { return };
        assert!(len <= ArchiveChain::PAYLOAD_MAX);
        let Some((payload, after)) = after.split_at_checked(len) else { return };
        let Ok(accepted) = chain.accept(record, payload) else { return };
        assert_eq!(again.encode(accepted, payload), *record);
        rest = after;
    }
});
