//! Pools of drives of many sizes, before and after drives join, leave and fail.

use super::*;
use crate::class::{MediumKind, MediumKinds};
use crate::format::tests::samples::{class_id, drive_number, drive_record};
use crate::format::{DriveRecord, StripPlace};
use crate::ids::{DriveId, Epoch};
use crate::plan::{PlaceRequest, choose};
use crate::test_pool::{MIRROR, STRIPED, TestPool, class_of, place_units, set_of, table};

/// A pool of drives with room for so many places of a class each beside journals.
fn pool(rooms: &[u32], class: u8) -> TestPool {
    let units = place_units(&table(&vec![0; rooms.len()]), class);
    let mut table = table(&rooms.iter().map(|room| room * units + 3 * 16).collect::<Vec<_>>());
    table.class = class_id(class);
    let mut pool = TestPool::new(table);
    pool.add_journal(0, &[0, 1]);
    pool
}

fn target(pool: &TestPool, zones: u32, waiting: u32) -> ZoneTarget {
    let is_withdrawn = |zone: ZoneIndex| zone.0 >= zones;
    ZoneTarget::of(&pool.view, &ZoneUse { zones, is_withdrawn: &is_withdrawn, waiting })
}

/// Has a drive join with room for so many places.
fn join(pool: &mut TestPool, room: u32) {
    let mut next = pool.view.drives().clone();
    next.epoch.0 += 1;
    let units = place_units(&next, next.class.get());
    next.drives.push(DriveRecord {
        id: DriveId([next.next_drive; 16]),
        units: room * units + 3 * 16,
        since_epoch: Epoch(next.epoch.0),
        ..drive_record(next.next_drive)
    });
    next.next_drive += 1;
    let after = pool.view.with_drives(next).unwrap();
    pool.occupancy.replace_drives(&pool.view, &after).unwrap();
    pool.view = after;
}

fn promised(pool: &TestPool) -> u32 {
    PoolSizes::of_view(&pool.view).zones
}

/// Gives all zones up to a number a row.
fn place_all(pool: &mut TestPool, zones: u32) {
    let class = pool.view.drives().class.get();
    for zone in 0..zones {
        if pool.view.row(ZoneIndex(zone)).state == RowState::Empty {
            assert!(pool.place(zone, class), "zone {zone} of {zones} finds no room");
        }
    }
}

#[test]
fn a_pool_has_what_it_was_made_with() {
    for rooms in [&[40, 40, 40][..], &[10, 30, 50, 20], &[40, 40]] {
        let pool = pool(rooms, MIRROR);
        let zones = promised(&pool);
        let same = ZoneTarget { zones, is_pressing: false };
        assert_eq!(target(&pool, zones, 0), same, "{rooms:?}");
        let mut full = pool;
        place_all(&mut full, zones);
        assert_eq!(target(&full, zones, 0), same, "{rooms:?}");
    }
}

#[test]
fn a_drive_that_joins_gives_as_many_zones_as_find_room_now() {
    for (rooms, joins) in [
        (&[40, 40, 40][..], 40),
        (&[40, 40, 40], 200),
        (&[20, 30, 50], 15),
        (&[40, 40], 40),
        (&[25, 60, 60, 10], 70),
    ] {
        let mut pool = pool(rooms, MIRROR);
        let mut zones = promised(&pool);
        place_all(&mut pool, zones);
        join(&mut pool, joins);
        let most = promised(&pool);
        let grown = target(&pool, zones, 0).zones;
        assert!((zones..=most).contains(&grown), "{rooms:?}: {grown} of {zones} to {most}");
        // What is given back is placed without a move.
        zones = grown;
        place_all(&mut pool, zones);
    }
    let mut pool = pool(&[40, 40, 40], MIRROR);
    let zones = promised(&pool);
    place_all(&mut pool, zones);
    join(&mut pool, 40);
    assert_eq!(target(&pool, zones, 0).zones, promised(&pool), "equal drives keep a third free");
}

#[test]
fn a_drive_of_another_kind_gives_no_zones() {
    let mut pool = pool(&[40, 40, 40], MIRROR);
    let zones = promised(&pool);
    let mut table = pool.view.drives().clone();
    table.epoch.0 += 1;
    let class = table.class;
    table.classes.iter_mut().filter(|it| it.id == class).for_each(|it| {
        it.kinds = MediumKinds::new(MediumKind::Nvme.bit()).unwrap();
    });
    pool.view = pool.view.with_drives(table).unwrap();
    assert_eq!(promised(&pool), zones, "all of them are nvme");
    join(&mut pool, 40);
    assert!(promised(&pool) > zones);
    let mut table = pool.view.drives().clone();
    table.epoch.0 += 1;
    table.drives[3].kind = MediumKind::Hdd;
    pool.view = pool.view.with_drives(table).unwrap();
    assert_eq!((promised(&pool), target(&pool, zones, 0).zones), (zones, zones));
    place_all(&mut pool, zones);
    let hdd = pool.view.drives().drives[3].number;
    assert!(pool.view.rows().all(|(_, row)| !row.target().unwrap().has_drive(hdd)));
}

#[test]
fn full_drives_let_one_more_hold_nothing_until_strips_moved() {
    let mut pool = pool(&[40, 40], MIRROR);
    let zones = promised(&pool);
    place_all(&mut pool, zones);
    join(&mut pool, 40);
    join(&mut pool, 40);
    let most = promised(&pool);
    assert!(most > zones);
    // Two new drives take mirrors of each other.
    let grown = target(&pool, zones, 0).zones;
    assert_eq!(grown, most);
    let mut narrow = self::pool(&[40, 40], MIRROR);
    place_all(&mut narrow, zones);
    join(&mut narrow, 400);
    assert_eq!(target(&narrow, zones, 0).zones, promised(&narrow), "the largest is kept free");
}

#[test]
fn a_drive_that_leaves_takes_its_zones_along() {
    let mut pool = pool(&[40, 40, 40, 40, 40], MIRROR);
    let zones = promised(&pool);
    place_all(&mut pool, zones / 2);
    pool.set_state(4, DriveState::Leaving);
    let fewer = target(&pool, zones, 0);
    assert!(fewer.is_pressing && fewer.zones < zones, "{fewer:?}");
    assert_eq!(fewer.zones, promised(&pool));
    let there = target(&pool, fewer.zones, 0);
    assert_eq!(there, ZoneTarget { is_pressing: false, ..fewer });
    pool.set_state(4, DriveState::Live);
    assert_eq!(target(&pool, fewer.zones, 0).zones, zones, "it stays after all");
}

#[test]
fn nothing_grows_while_rows_must_move() {
    let mut pool = pool(&[40, 40, 40], MIRROR);
    let zones = promised(&pool);
    place_all(&mut pool, zones);
    join(&mut pool, 40);
    pool.set_state(0, DriveState::Failed);
    assert_eq!(target(&pool, zones, 0).zones, zones, "ZONE-TARGET-1");
}

#[test]
fn rows_without_room_press_and_too_few_drives_do_not() {
    let mut pool = pool(&[40, 40, 40], MIRROR);
    let zones = promised(&pool);
    place_all(&mut pool, zones - 5);
    pool.set_state(2, DriveState::Failed);
    let pressed = target(&pool, zones, 3);
    assert_eq!(pressed, ZoneTarget { zones: zones - 5 - 2, is_pressing: true });
    pool.set_state(1, DriveState::Failed);
    let stays = ZoneTarget { zones, is_pressing: false };
    assert_eq!(target(&pool, zones, 3), stays, "one drive is no mirror");
}

#[test]
fn another_class_takes_less_or_more() {
    let mut pool = pool(&[400; 7], STRIPED);
    let zones = promised(&pool);
    place_all(&mut pool, zones / 4);
    let mut next = pool.view.drives().clone();
    next.epoch.0 += 1;
    next.class = class_id(MIRROR);
    pool.view = pool.view.with_drives(next).unwrap();
    let fewer = target(&pool, zones, 0);
    assert!(fewer.is_pressing && fewer.zones < zones, "{fewer:?} of {zones}");
}

#[test]
fn a_row_that_is_rebalanced_keeps_nothing_from_growing() {
    let mut pool = pool(&[40, 40, 40], MIRROR);
    let zones = promised(&pool);
    place_all(&mut pool, zones);
    join(&mut pool, 40);
    let row = pool.view.row(ZoneIndex(0)).clone();
    let from = row.target().unwrap().clone();
    let kept: Vec<Option<StripPlace>> = vec![Some(from.places[0]), None];
    let class = class_of(pool.view.drives(), MIRROR);
    let request = PlaceRequest {
        zone: ZoneIndex(0),
        class: &class,
        kept: &kept,
        avoid: &[],
        prefer: Some(drive_number(3)),
    };
    let places = choose(&pool.view, &pool.occupancy, &request).unwrap();
    let to = set_of(MIRROR, places);
    let tenancy = row.tenancy.next().unwrap();
    for (why, is_grown) in [(MoveReason::Rebalance, true), (MoveReason::Drain, false)] {
        let mut pool = pool.clone();
        let state = RowState::Moving { from: from.clone(), to: to.clone(), why };
        pool.set_row(0, Row { tenancy, state });
        assert_eq!(target(&pool, zones, 0).zones > zones, is_grown, "{why:?}");
    }
}
