//! Relations between fields that a decoder checks although every checksum is right.

use varve_stdx::checksum64;

use super::samples::{self, PAGE, POOL, SHARD, place, row, striped};
use crate::format::{
    DriveState, DriveTable, FormatFault, JournalCopyState, JournalRecord, LayoutPage, MoveReason,
    RowState, StripForm, StripLabel, StripSet,
};

/// The sample with `bytes` at an offset, under a right checksum.
fn changed(stored: &[u8], offset: usize, bytes: &[u8]) -> Vec<u8> {
    let mut changed = stored.to_vec();
    changed[offset..offset + bytes.len()].copy_from_slice(bytes);
    let covered = changed.len() - 8;
    let sum = checksum64(&changed[..covered]);
    changed[covered..].copy_from_slice(&sum.to_le_bytes());
    changed
}

fn field(fault: Option<FormatFault>) -> &'static str {
    match fault {
        Some(FormatFault::Field { field, .. }) => field,
        Some(FormatFault::Reserved) => "reserved",
        Some(FormatFault::Features { .. }) => "features",
        Some(FormatFault::Version { .. }) => "version",
        other => panic!("{other:?}"),
    }
}

#[test]
fn tables_of_drives_that_contradict_themselves_are_refused() {
    let stored = samples::drive_table().encode();
    let (lineage, classes, drives) = (128, 128 + 48, 128 + 48 + 32);
    for (offset, bytes, expected) in [
        (8, &2u16.to_le_bytes()[..], "version"),
        (10, &[1], "reserved"),
        (12, &1u32.to_le_bytes(), "length"),
        (32, &1u64.to_le_bytes(), "features"),
        (56, &(1u64 << 62).to_le_bytes(), "epoch"),
        (83, &[3], "class"),
        (83, &[0], "class"),
        (85, &[8], "drops_max"),
        (86, &[4], "drive"),
        (87, &[8], "kinds"),
        (88, &4095u32.to_le_bytes(), "segment_bytes"),
        (92, &65_536u32.to_le_bytes(), "zone_segments"),
        (96, &15u32.to_le_bytes(), "zones_max"),
        (104, &18u64.to_le_bytes(), "loss_epoch"),
        (112, &17u64.to_le_bytes(), "walked_epoch"),
        (120, &18u64.to_le_bytes(), "settled_epoch"),
        (lineage, &[0xA1; 16], "lineage"),
        (lineage + 16, &17u64.to_le_bytes(), "lineage"),
        (lineage + 24 + 16, &12u64.to_le_bytes(), "lineage"),
        (classes, &[2], "class"),
        (classes + 16 + 1, &[15], "data_strips"),
        (classes + 3, &[8], "kinds"),
        (drives, &[1], "drive"),
        (drives, &[255], "drive"),
        (drives + 1, &[6], "state"),
        (drives + 2, &[8], "roles"),
        (drives + 3, &[3], "kind"),
        (drives + 4, &[2], "flags"),
        (drives + 4, &[4], "flags"),
        (drives + 5, &[0], "former"),
        (drives + 128 + 5, &[0], "former"),
        (drives + 3 * 128 + 5, &[4], "former"),
        (drives + 6, &[1], "successor"),
        (drives + 3 * 128 + 6, &[4], "successor"),
        (drives + 3 * 128 + 6, &[7], "successor"),
        (drives + 3 * 128 + 6, &[255], "successor"),
        (drives + 7, &[1], "reserved"),
        (drives + 128 + 8, &[0xD0; 16], "drive_id"),
        (drives + 32, &18u64.to_le_bytes(), "since_epoch"),
        (drives + 3 * 128 + 32, &17u64.to_le_bytes(), "since_epoch"),
        (drives + 48, &[0], "name"),
        (drives + 48, b"\n", "name"),
        (drives + 48, "\u{85}".as_bytes(), "name"),
        (drives + 48, &[0xFF], "name"),
        (drives + 3 * 128 + 116, &(1u32 << 20).to_le_bytes(), "held_units"),
    ] {
        let fault = DriveTable::decode(POOL, &changed(&stored, offset, bytes)).err();
        assert_eq!(field(fault), expected, "{bytes:?} at {offset}");
    }
    let read_only = DriveTable::decode(POOL, &changed(&stored, 24, &[1])).unwrap();
    assert!(!read_only.features.is_writable());
}

#[test]
fn a_table_has_a_drive() {
    let mut table = samples::drive_table();
    table.drives.truncate(1);
    assert_eq!(DriveTable::decode(POOL, &table.encode()), Ok(table.clone()));
    table.drives.clear();
    assert!(std::panic::catch_unwind(|| table.encode()).is_err());
}

/// Only loss of a drive is one that a walk has to follow: who left did so whole.
#[test]
fn a_drive_may_leave_after_the_last_loss() {
    let mut table = samples::drive_table();
    (table.drives[3].state, table.drives[3].since_epoch) = (DriveState::Gone, table.epoch);
    assert_eq!(DriveTable::decode(POOL, &table.encode()), Ok(table));
}

#[test]
fn a_drive_that_was_given_up_never_lives_again() {
    use DriveState::{Failed, Gone, Joining, Leaving, Live};
    for (state, next) in [(Live, &DriveState::ALL[..]), (Failed, &[Failed, Gone]), (Gone, &[Gone])]
    {
        let may_become = DriveState::ALL.into_iter().filter(|it| state.may_become(*it));
        assert_eq!(may_become.collect::<Vec<_>>(), next, "{state:?}");
    }
    assert!(Joining.may_become(Live) && Leaving.may_become(Live));
}

#[test]
fn journal_records_that_contradict_themselves_are_refused() {
    let stored = samples::journal_record().encode();
    for (offset, bytes, expected) in [
        (32, &(1u64 << 62).to_le_bytes()[..], "journal_epoch"),
        (40, &[1], "lane_bytes"),
        (40, &(1u64 << 48).to_le_bytes(), "lane_bytes"),
        (48, &[2], "length"),
        (49, &[1], "reserved"),
        (56, &[2], "drive"),
        (57, &[3], "kind"),
        (58, &[3], "state"),
        (60, &65_536u32.to_le_bytes(), "lane"),
        (64, &[1], "since"),
        (64, &(1u64 << 62).to_le_bytes(), "since"),
        (56 + 32 + 16, &(1u64 << 62).to_le_bytes(), "until"),
        (72, &4096u64.to_le_bytes(), "until"),
        (56 + 32 + 16, &0u64.to_le_bytes(), "until"),
    ] {
        let fault = JournalRecord::decode(POOL, SHARD, &changed(&stored, offset, bytes)).err();
        assert_eq!(field(fault), expected, "{bytes:?} at {offset}");
    }
}

/// PLACE-2, of what is stored.
#[test]
fn a_former_copy_may_be_on_the_drive_of_a_current_one() {
    let mut record = samples::journal_record();
    record.copies[1].drive = record.copies[2].drive;
    assert_eq!(JournalRecord::decode(POOL, SHARD, &record.encode()), Ok(record.clone()));
    record.copies[1].state = JournalCopyState::Current;
    assert!(std::panic::catch_unwind(|| record.encode()).is_err(), "two current ones");
}

#[test]
fn a_journal_has_a_current_copy() {
    let mut record = samples::journal_record();
    record.copies.retain(|copy| !copy.is_current());
    assert!(std::panic::catch_unwind(|| record.encode()).is_err());
}

#[test]
fn a_copy_proves_what_lies_between_its_ends() {
    let [current, former, late] = samples::journal_record().copies[..] else { panic!("three") };
    assert!(current.has(0) && current.has(u64::MAX));
    assert!(!former.has(0) && former.has(0x1000) && !former.has(0x30_0000));
    assert!(!late.has(0x2F_F000) && late.has(0x30_0000));
}

#[test]
fn rows_that_contradict_themselves_are_refused() {
    let stored = samples::layout_page().encode();
    let (still, moving, slots, empty) = (56, 56 + 272, 56 + 2 * 272, 56 + 3 * 272);
    for (offset, bytes, expected) in [
        (32, &69u32.to_le_bytes()[..], "first_zone"),
        (36, &15u32.to_le_bytes(), "rows"),
        (40, &[1], "reserved"),
        (still, &[3], "kind"),
        (still, &[0], "class"),
        (still + 1, &[0], "class"),
        (still + 3, &[1], "why"),
        (still + 4, &2u32.to_le_bytes(), "tenancy"),
        (still + 7, &[1], "tenancy"),
        (still + 8, &[1], "split"),
        (still + 10, &[1], "reserved"),
        (still + 16, &[4], "drive"),
        (still + 16, &[255], "place"),
        (still + 17, &[0, 0, 0], "tenancy"),
        (still + 32, &[254, 1, 0, 0], "strips?"),
        (still + 40, &[9, 1, 0, 0], "drive"),
        (still + 144, &[1], "reserved"),
        (moving + 2, &[0], "reserved"),
        (moving + 3, &[0], "why"),
        (moving + 3, &[7], "why"),
        (moving + 144 + 1, &[7], "place"),
        (moving + 144, &[4, 8, 0, 0, 0x08, 0x10], "place"),
        (slots + 8, &[0, 0], "split"),
        (empty + 3, &[1], "why"),
        (empty + 16, &[255], "reserved"),
        (3864, &[1], "reserved"),
    ] {
        let decoded = LayoutPage::decode(POOL, PAGE, &changed(&stored, offset, bytes));
        if expected == "strips?" {
            // Whether a class has so many strips, the drive table says.
            assert!(decoded.is_ok(), "{decoded:?}");
        } else {
            assert_eq!(field(decoded.err()), expected, "{bytes:?} at {offset}");
        }
    }
}

#[test]
fn nothing_moves_into_slots_without_labels() {
    let mut page = samples::layout_page();
    let RowState::Still(slots) = page.rows[2].state.clone() else { panic!("it does not move") };
    let from = striped(1, &[place(2, 1, 0)]);
    page.rows[2] = row(2, RowState::Moving { from, to: slots, why: MoveReason::Conversion });
    assert!(std::panic::catch_unwind(|| page.encode()).is_err());
}

#[test]
fn a_zone_of_an_earlier_format_is_on_two_drives_at_most() {
    let mut page = samples::layout_page();
    let places = [place(0, 1, 0), place(1, 1, 0), place(2, 1, 0)];
    let form = StripForm::Slots { split: 50 };
    let set = StripSet { class: samples::class_id(1), form, places: places.into() };
    page.rows[2] = row(1, RowState::Still(set));
    assert!(std::panic::catch_unwind(|| page.encode()).is_err());
}

#[test]
fn labels_that_contradict_themselves_are_refused() {
    let stored = samples::label_bytes(&samples::strip_label());
    for (offset, bytes, expected) in [
        (10, &[0][..], "data_strips"),
        (12, &[6], "strip"),
        (13, &[3], "code"),
        (14, &[255], "drive"),
        (15, &[1], "features"),
        (47, &[1], "generation"),
        (55, &[0x40], "epoch"),
        (56, &[0], "tenancy"),
        (59, &[1], "tenancy"),
        (60, &1u32.to_le_bytes(), "used_bytes"),
        (60, &(33u32 << 20).to_le_bytes(), "used_bytes"),
        (60, &0u32.to_le_bytes(), "used_bytes"),
        (64, &0u32.to_le_bytes(), "data_bytes"),
        (64, &(2u32 << 20).to_le_bytes(), "data_bytes"),
        (68, &[1], "features"),
        (72 + 6 * 8, &[1], "reserved"),
        (4087, &[1], "reserved"),
    ] {
        let fault = StripLabel::decode(&changed(&stored, offset, bytes)).err();
        assert_eq!(field(fault), expected, "{bytes:?} at {offset}");
    }
}

#[test]
fn a_strip_without_bytes_has_no_checksum() {
    let mut label = samples::strip_label();
    (label.strip, label.data_bytes) = (2, 0);
    let bytes = samples::label_bytes(&label);
    assert_eq!(StripLabel::decode(&bytes), Ok(label));
    let fault = StripLabel::decode(&changed(&bytes, 72 + 2 * 8, &[1])).err();
    assert_eq!(field(fault), "strip_checksums");
}
