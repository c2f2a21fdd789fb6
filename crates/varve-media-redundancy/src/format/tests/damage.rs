//! Damaged, cut off and misdirected bytes are refused, and nothing panics.

use varve_stdx::checksum64;
use varve_types::{PoolId, ShardId};

use super::samples::{self, PAGE, POOL, SHARD};
use crate::format::{DriveTable, FormatFault, JournalRecord, LayoutPage, StripLabel};

/// What bytes decode to, encoded again.
fn again(target: &str, bytes: &[u8]) -> Result<Vec<u8>, FormatFault> {
    match target {
        "drive_table" => DriveTable::decode(POOL, bytes).map(|table| table.encode()),
        "journal_record" => JournalRecord::decode(POOL, SHARD, bytes).map(|it| it.encode()),
        "layout_page" => LayoutPage::decode(POOL, PAGE, bytes).map(|page| page.encode()),
        "strip_label" => StripLabel::decode(bytes).map(|label| samples::label_bytes(&label)),
        other => panic!("no table is called {other}"),
    }
}

#[test]
fn every_truncation_is_refused() {
    for (target, bytes) in samples::stored() {
        for len in 0..bytes.len() {
            assert!(again(target, &bytes[..len]).is_err(), "{target}: {len} bytes");
        }
        let longer = [&bytes[..], &[0; 8]].concat();
        assert!(again(target, &longer).is_err(), "{target} with bytes behind it");
    }
}

#[test]
fn every_flipped_bit_is_refused() {
    for (target, mut bytes) in samples::stored() {
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(again(target, &bytes).is_err(), "{target}: bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

/// With the checksum put right, as who writes nonsense would do: no bit counts for nothing.
#[test]
fn what_is_decoded_encodes_to_the_same_bytes() {
    for (target, stored) in samples::stored() {
        let covered = stored.len() - 8;
        for bit in 0..covered * 8 {
            let mut bytes = stored.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let sum = checksum64(&bytes[..covered]);
            bytes[covered..].copy_from_slice(&sum.to_le_bytes());
            if let Ok(again) = again(target, &bytes) {
                assert_eq!(again, bytes, "{target}: bit {bit}");
            }
        }
    }
}

#[test]
fn what_belongs_elsewhere_is_refused() {
    let other = PoolId([8; 16]);
    let misplaced = |owner| Some(FormatFault::Misplaced { owner });
    let table = samples::drive_table().encode();
    assert_eq!(DriveTable::decode(other, &table).err(), misplaced("pool"));
    let journal = samples::journal_record().encode();
    assert_eq!(JournalRecord::decode(other, SHARD, &journal).err(), misplaced("pool"));
    assert_eq!(JournalRecord::decode(POOL, ShardId(4), &journal).err(), misplaced("shard"));
    let page = samples::layout_page().encode();
    assert_eq!(LayoutPage::decode(other, PAGE, &page).err(), misplaced("pool"));
    assert_eq!(LayoutPage::decode(POOL, PAGE + 1, &page).err(), misplaced("page"));
}

#[test]
fn zeros_are_no_table_and_no_label() {
    for (target, stored) in samples::stored() {
        let fault = again(target, &vec![0; stored.len()]).err();
        assert_eq!(fault, Some(FormatFault::Magic { found: 0 }), "{target}");
    }
}
