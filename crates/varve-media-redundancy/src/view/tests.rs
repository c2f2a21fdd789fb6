//! Tests of views.

use varve_types::{Generation, SegmentNumber};

use super::*;
use crate::format::tests::samples::{self, class, class_id, drive_number, place, row, striped};
use crate::format::{DriveState, JournalCopyState};
use crate::ids::{Epoch, Tenancy, UNIT_BYTES, UnitNumber};
use crate::test_pool::{MIRROR, NONE, STRIPED, TestPool, ZONE_SEGMENTS, table, with_state};

fn view() -> LayoutView {
    LayoutView::new(table(&[100_000; 8]), [], []).unwrap()
}

fn still(places: &[StripPlace]) -> Row {
    row(5, RowState::Still(striped(MIRROR, places)))
}

#[test]
fn a_row_is_found_by_its_slots() {
    let zone = ZoneIndex(GROUP_PAGES * LayoutPage::ROWS + 3);
    let before = view();
    let after = before.with_row(zone, still(&[place(1, 5, 0), place(7, 4, 64)])).unwrap();
    assert_eq!(before.row(zone), &Row::EMPTY, "views do not change");
    let slot = SegmentNumber(zone.0 * ZONE_SEGMENTS + 9);
    assert_eq!(after.zone_of(slot), Some(ZoneSlot { zone, slot: 9 }));
    let set = after.row(zone).target().unwrap();
    let found: Vec<_> = after.locate(set, 9).collect();
    let stride = 4096 + (256 << 10);
    assert_eq!(found.len(), 2);
    assert_eq!(found[0].offset, 9 * stride);
    assert_eq!((found[1].strip, found[1].place.drive), (1, drive_number(7)));
    assert_eq!(found[1].offset, 64 * 65_536 + 9 * stride);
    assert_eq!(after.rows().map(|(zone, _)| zone).collect::<Vec<_>>(), [zone]);
    let last = SegmentNumber(after.drives().zones_max * ZONE_SEGMENTS);
    assert_eq!(after.zone_of(last), None);
}

#[test]
fn slots_of_an_earlier_format_go_on_at_the_next_drive() {
    let form = StripForm::Slots { split: 10 };
    let places = [place(0, 1, 100), place(1, 1, 0)].into();
    let set = StripSet { class: class_id(NONE), form, places };
    let view = view().with_row(ZoneIndex(0), row(1, RowState::Still(set.clone()))).unwrap();
    let at = |slot| {
        let [found] = view.locate(&set, slot).collect::<Vec<_>>()[..] else { panic!("one place") };
        assert!(!found.has_label && found.strip == 0);
        (found.place.drive.get(), found.offset)
    };
    assert_eq!(at(9), (0, 100 * 65_536 + 9 * (256 << 10)));
    assert_eq!(at(10), (1, 0));
    assert_eq!(at(15), (1, 5 * (256 << 10)));
}

/// VIEW-1.
#[test]
fn rows_that_the_drive_table_does_not_know_are_refused() {
    let (view, zone) = (view(), ZoneIndex(0));
    let refused = |row| view.with_row(zone, row).err();
    let unknown = row(5, RowState::Still(striped(9, &[place(0, 5, 0)])));
    assert_eq!(refused(unknown), Some(ViewFault::Class { zone, class: 9 }));
    let drive = drive_number(8);
    let foreign = still(&[place(0, 5, 0), place(8, 5, 0)]);
    assert_eq!(refused(foreign), Some(ViewFault::Drive { zone, drive }));
    let one = still(&[place(0, 5, 0)]);
    assert_eq!(refused(one), Some(ViewFault::Strips { zone, expected: 2, found: 1 }));
    for (split, places, expected) in [(16, 2, 1), (3, 1, 2)] {
        let places = [place(0, 1, 0), place(1, 1, 0)][..places].into();
        let form = StripForm::Slots { split };
        let found = 3 - expected;
        let set = StripSet { class: class_id(NONE), form, places };
        let fault = Some(ViewFault::Strips { zone, expected, found });
        assert_eq!(refused(row(1, RowState::Still(set))), fault);
    }
    let beyond = ZoneIndex(view.drives().zones_max);
    let fault = view.with_row(beyond, Row::EMPTY).err();
    assert_eq!(fault, Some(ViewFault::Zone { zone: beyond }));
}

/// VIEW-1, of what a pool survives.
#[test]
fn no_class_has_more_parity_than_drives_may_be_dropped() {
    let fault = |class, drops_max| Some(ViewFault::Parity { class, drops_max });
    let with =
        |class, drops_max| DriveTable { class: class_id(class), drops_max, ..table(&[100_000; 8]) };
    let new_zones = |class, drops_max| LayoutView::new(with(class, drops_max), [], []).err();
    assert_eq!(new_zones(STRIPED, 1), fault(STRIPED, 1));
    assert_eq!(new_zones(STRIPED, 2), None);
    assert_eq!(view().with_drives(with(STRIPED, 1)).err(), fault(STRIPED, 1));
    let few = LayoutView::new(with(MIRROR, 1), [], []).unwrap();
    let places: Vec<_> = (0..6).map(|drive| place(drive, 1, 0)).collect();
    let wide = row(1, RowState::Still(striped(STRIPED, &places)));
    assert_eq!(few.with_row(ZoneIndex(0), wide.clone()).err(), fault(STRIPED, 1));
    let many = view().with_row(ZoneIndex(0), wide).unwrap();
    assert_eq!(many.with_drives(with(MIRROR, 1)).err(), fault(STRIPED, 1));
}

/// VIEW-1, of what earlier formats left.
#[test]
fn slots_without_labels_have_one_copy_and_fit_their_zone() {
    let (view, zone) = (view(), ZoneIndex(0));
    let refused = |class, split| {
        let form = StripForm::Slots { split };
        let set = StripSet { class: class_id(class), form, places: [place(0, 1, 0)].into() };
        view.with_row(zone, row(1, RowState::Still(set))).err()
    };
    assert_eq!(refused(NONE, 16), None);
    assert_eq!(refused(NONE, 17), Some(ViewFault::Split { zone, split: 17 }));
    assert_eq!(refused(MIRROR, 16), Some(ViewFault::SlotClass { zone, class: MIRROR }));
}

/// VIEW-1, of a row that moves.
#[test]
fn sets_of_different_shapes_share_no_place() {
    let (mut table, zone, why) = (table(&[100_000; 8]), ZoneIndex(0), MoveReason::Conversion);
    table.classes.extend([class(4, 1, 2), class(5, 1, 1)]);
    let view = LayoutView::new(table, [], []).unwrap();
    let from = striped(MIRROR, &[place(0, 1, 0), place(1, 1, 0)]);
    let view = view.with_row(zone, row(1, RowState::Still(from.clone()))).unwrap();
    let refused = |to| {
        let from = from.clone();
        view.with_row(zone, row(2, RowState::Moving { from, to, why })).err()
    };
    let wider = striped(4, &[place(2, 2, 0), place(1, 2, 0), place(3, 2, 0)]);
    let drive = drive_number(1);
    assert_eq!(refused(wider), Some(ViewFault::Shared { zone, drive }));
    assert_eq!(refused(striped(5, &[place(0, 1, 0), place(3, 2, 0)])), None);
}

#[test]
fn a_drive_that_is_named_does_not_leave_the_table() {
    let mut pool = TestPool::new(table(&[100_000; 3]));
    pool.add_journal(0, &[0]);
    pool.set_row(2, still(&[place(0, 5, 64), place(1, 5, 64)]));
    let without = |drive: u8| {
        let mut table = pool.view.drives().clone();
        table.drives.retain(|record| record.number != drive_number(drive));
        pool.view.with_drives(table).err()
    };
    let (zone, drive) = (ZoneIndex(2), drive_number(1));
    assert_eq!(without(1), Some(ViewFault::Drive { zone, drive }));
    assert_eq!(without(2), None);
    let fault = ViewFault::Drive { zone, drive: drive_number(0) };
    assert_eq!(without(0), Some(fault));
    let emptied = pool.view.with_row(zone, row(5, RowState::Empty)).unwrap();
    let mut table = emptied.drives().clone();
    table.drives.remove(0);
    let fault = ViewFault::JournalDrive { shard: 0, drive: drive_number(0) };
    assert_eq!(emptied.with_drives(table).err(), Some(fault));
}

/// VIEW-2.
#[test]
fn a_zone_without_places_keeps_its_tenancy() {
    let (view, zone) = (view(), ZoneIndex(0));
    let view = view.with_row(zone, still(&[place(0, 5, 0), place(1, 5, 0)])).unwrap();
    let fault = view.with_row(zone, Row::EMPTY).err();
    assert_eq!(fault, Some(ViewFault::Tenancy { zone, found: 0 }));
    let emptied = view.with_row(zone, row(5, RowState::Empty)).unwrap();
    assert_eq!(emptied.rows().count(), 0);
    assert_eq!(emptied.row(zone).tenancy.get(), 5);
}

/// VIEW-2, of places.
#[test]
fn what_comes_into_a_row_has_a_tenancy_that_the_row_never_had() {
    let zone = ZoneIndex(0);
    let from = striped(MIRROR, &[place(0, 5, 0), place(1, 4, 0)]);
    let view = view().with_row(zone, row(5, RowState::Still(from.clone()))).unwrap();
    let refused = |to: &[StripPlace], why| {
        let (from, to) = (from.clone(), striped(MIRROR, to));
        view.with_row(zone, row(6, RowState::Moving { from, to, why })).err()
    };
    let rebuild = MoveReason::Rebuild;
    let fault =
        |drive, found| Some(ViewFault::PlaceTenancy { zone, drive: drive_number(drive), found });
    assert_eq!(refused(&[place(0, 5, 0), place(2, 6, 0)], rebuild), None);
    assert_eq!(refused(&[place(0, 5, 0), place(2, 5, 0)], rebuild), fault(2, 5));
    assert_eq!(refused(&[place(0, 5, 0), place(1, 4, 100)], rebuild), fault(1, 4));
    assert_eq!(refused(&[place(1, 4, 0), place(2, 6, 0)], rebuild), fault(1, 4));
    // A drive that returned brings its places.
    assert_eq!(refused(&[place(0, 5, 0), place(2, 3, 0)], MoveReason::CatchUp), None);
    let none = striped(NONE, &[place(0, 5, 0)]);
    let fault = view.with_row(zone, row(6, RowState::Still(none))).err();
    let drive = drive_number(0);
    assert_eq!(fault, Some(ViewFault::PlaceTenancy { zone, drive, found: 5 }), "another shape");
}

/// VIEW-3.
#[test]
fn a_drive_table_follows_the_one_before() {
    let mut table = table(&[100_000; 8]);
    table.epoch = Epoch(7);
    let view = LayoutView::new(table.clone(), [], []).unwrap();
    let refused = |change: fn(&mut DriveTable)| {
        let mut table = table.clone();
        change(&mut table);
        view.with_drives(table).err()
    };
    assert_eq!(refused(|_| ()), None);
    assert_eq!(refused(|table| table.epoch.0 -= 1), Some(ViewFault::Epoch { found: Epoch(6) }));
    assert_eq!(refused(|table| table.segment_bytes *= 2), Some(ViewFault::Geometry));
    assert_eq!(refused(|table| table.zone_segments *= 2), Some(ViewFault::Geometry));
    assert_eq!(refused(|table| table.zones_max *= 2), Some(ViewFault::Geometry));
    let fault = refused(|table| table.next_drive -= 1);
    assert_eq!(fault, Some(ViewFault::NextDrive { found: 7 }));
    let drive = drive_number(2);
    let fault = refused(|table| table.drives[2].units -= 1);
    assert_eq!(fault, Some(ViewFault::Smaller { drive }));
    assert_eq!(refused(|table| table.drives[2].units += 1), None);
    let (before, found) = (StripeShape::new(4, 2).unwrap(), StripeShape::new(4, 1).unwrap());
    let fault = refused(|table| table.classes[1].shape = StripeShape::new(4, 1).unwrap());
    assert_eq!(fault, Some(ViewFault::Shape { class: STRIPED, before, found }));
    assert_eq!(refused(|table| table.classes.push(class(4, 3, 1))), None);
}

/// VIEW-3, of drives.
#[test]
fn a_drive_that_was_given_up_is_not_there_again() {
    let (drive, table) = (drive_number(3), table(&[100_000; 8]));
    let failed = view().with_drives(with_state(&table, drive, DriveState::Failed)).unwrap();
    let next = |state| failed.with_drives(with_state(failed.drives(), drive, state));
    assert_eq!(next(DriveState::Live).err(), Some(ViewFault::GivenUp { drive }));
    assert!(next(DriveState::Gone).is_ok());
}

#[test]
fn what_is_stored_makes_the_same_view() {
    let mut pool = TestPool::new(table(&[100_000; 8]));
    for zone in 0..40 {
        assert!(pool.place(zone * 3, if zone % 2 == 0 { STRIPED } else { MIRROR }));
    }
    let pages = (0..12).map(|page| pool.view.page_of(ZoneIndex(page * LayoutPage::ROWS)));
    assert!(pool.view.pages().cloned().eq(pages.clone().take(9)), "the last row is in page 8");
    let read = LayoutView::new(pool.view.drives().clone(), pages, []).unwrap();
    for zone in (0..12 * LayoutPage::ROWS).map(ZoneIndex) {
        assert_eq!(read.row(zone), pool.view.row(zone), "zone {zone}");
    }
    let mut foreign = pool.view.page_of(ZoneIndex(0));
    foreign.pool = PoolId([1; 16]);
    let fault = LayoutView::new(pool.view.drives().clone(), [foreign], []).err();
    assert_eq!(fault, Some(ViewFault::Pool { found: PoolId([1; 16]) }));
}

/// PLACE-1, of what is read.
#[test]
fn only_labels_of_this_slot_place_and_tenancy_count() {
    let zone = ZoneIndex(4);
    let mut table = table(&[100_000; 8]);
    table.drives[2].former = Some(drive_number(0));
    let view = LayoutView::new(table, [], []).unwrap();
    let view = view.with_row(zone, still(&[place(1, 5, 128), place(2, 4, 64)])).unwrap();
    let slot = SegmentNumber(4 * ZONE_SEGMENTS + 3);
    let set = view.row(zone).target().unwrap();
    let found = view.locate(set, 3).nth(1).unwrap();
    let pool = view.drives().pool;
    let label = StripLabel {
        shape: StripeShape::new(1, 1).unwrap(),
        strip: 1,
        drive: drive_number(2),
        pool,
        slot,
        place: found.place.place,
        generation: Generation::new(1),
        epoch: Epoch(1),
        tenancy: Tenancy::new(4).unwrap(),
        used_bytes: 8192,
        data_bytes: 8192,
        strip_checksums: [1, 1].into(),
    };
    assert_eq!(found.misfit(pool, slot, &label), None);
    let misfit = |change: fn(&mut StripLabel)| {
        let mut label = label.clone();
        change(&mut label);
        found.misfit(pool, slot, &label)
    };
    // A drive that returned has another number since; a label with any other one is of a history that was given up.
    assert_eq!(misfit(|label| label.drive = drive_number(0)), None);
    assert_eq!(misfit(|label| label.drive = drive_number(6)), Some("drive"));
    assert_eq!(misfit(|label| label.pool = PoolId([1; 16])), Some("pool"));
    assert_eq!(misfit(|label| label.slot.0 += 1), Some("slot"));
    assert_eq!(misfit(|label| label.place.0 += 1), Some("place"));
    assert_eq!(misfit(|label| label.tenancy = Tenancy::new(3).unwrap()), Some("tenancy"));
    assert_eq!(misfit(|label| label.shape = StripeShape::new(1, 2).unwrap()), Some("class"));
    assert_eq!(misfit(|label| label.strip = 0), Some("strip"));
    assert_eq!(misfit(|label| label.used_bytes = 512 << 10), Some("used_bytes"));
    assert_eq!(misfit(|label| label.data_bytes = 4096), Some("data_bytes"));
}

#[test]
fn journals_are_found_by_shard() {
    let mut pool = TestPool::new(table(&[100_000; 3]));
    for shard in [2, 0, 1, 2] {
        pool.add_journal(shard, &[0, 2]);
    }
    let shards: Vec<_> = pool.view.journals().map(|journal| journal.shard.0).collect();
    assert_eq!(shards, [0, 1, 2]);
    let mut foreign = samples::journal_record();
    foreign.pool = PoolId([1; 16]);
    let fault = pool.view.with_journal(foreign).err();
    assert_eq!(fault, Some(ViewFault::Pool { found: PoolId([1; 16]) }));
}

fn journal(shard: u16, journal_epoch: u64, places: &[JournalPlaceKind]) -> JournalRecord {
    let copies = (0u8..).zip(places).map(|(drive, place)| JournalCopy {
        drive: drive_number(drive),
        place: *place,
        since: 0,
        state: JournalCopyState::Current,
    });
    JournalRecord {
        pool: view().drives().pool,
        shard: varve_types::ShardId(shard),
        journal_epoch,
        lane_bytes: UNIT_BYTES,
        copies: copies.collect(),
    }
}

/// VIEW-1, of lanes.
#[test]
fn a_lane_of_a_drive_is_of_one_shard() {
    use JournalPlaceKind::{Lane, Units};
    let view = view().with_journal(journal(0, 1, &[Lane(0), Lane(1)])).unwrap();
    let refused = |record| view.with_journal(record).err();
    let lane = |lane| Some(ViewFault::Lane { shard: 1, drive: drive_number(1), lane });
    assert_eq!(refused(journal(1, 1, &[Lane(1), Lane(1)])), lane(1));
    assert_eq!(refused(journal(1, 1, &[Units(UnitNumber(0)), Lane(1)])), lane(1));
    assert_eq!(refused(journal(1, 1, &[Lane(1), Lane(0)])), None);
    assert_eq!(refused(journal(0, 1, &[Lane(0), Lane(1)])), None, "its own");
}

/// VIEW-3, of journals.
#[test]
fn the_epoch_of_a_journal_does_not_fall() {
    let lanes = [JournalPlaceKind::Lane(0)];
    let view = view().with_journal(journal(0, 4, &lanes)).unwrap();
    let fault = view.with_journal(journal(0, 3, &lanes)).err();
    assert_eq!(fault, Some(ViewFault::JournalEpoch { shard: 0, found: 3 }));
    assert!(view.with_journal(journal(0, 5, &lanes)).is_ok());
    assert!(view.with_journal(journal(1, 1, &[JournalPlaceKind::Lane(1)])).is_ok());
}

#[test]
fn a_move_has_two_sets_and_a_target() {
    let from = striped(MIRROR, &[place(0, 5, 0), place(1, 5, 0)]);
    let to = striped(MIRROR, &[place(0, 5, 0), place(2, 6, 0)]);
    let why = MoveReason::Rebuild;
    let moving = row(6, RowState::Moving { from: from.clone(), to: to.clone(), why });
    assert_eq!(moving.target(), Some(&to));
    assert_eq!(moving.sets().collect::<Vec<_>>(), [&from, &to]);
    assert_eq!(row(6, RowState::Still(to.clone())).source(), None);
    assert!(DriveState::Leaving.is_readable() && !DriveState::Failed.is_readable());
}
