//! Pools of drives of many sizes, before and after drives join, leave and fail.

use super::*;
use crate::class::{MediumKind, MediumKinds};
use crate::format::StripPlace;
use crate::format::tests::samples::{class_id, drive_number};
use crate::plan::{PlaceRequest, choose};
use crate::test_pool::{MIRROR, NONE, STRIPED, TestPool, class_of, set_of};

fn target(pool: &TestPool, zones: u32, waiting: u32) -> ZoneTarget {
    let is_withdrawn = |zone: ZoneIndex| zone.0 >= zones;
    ZoneTarget::of(&pool.view, &ZoneUse { zones, is_withdrawn: &is_withdrawn, waiting })
}

#[test]
fn a_pool_has_what_it_was_made_with() {
    for rooms in [&[40, 40, 40][..], &[10, 30, 50, 20], &[40, 40]] {
        let pool = TestPool::with_rooms(rooms, MIRROR);
        let zones = pool.promised();
        let same = ZoneTarget { zones, is_pressing: false };
        assert_eq!(target(&pool, zones, 0), same, "{rooms:?}");
        let mut full = pool;
        full.place_up_to(zones);
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
        let mut pool = TestPool::with_rooms(rooms, MIRROR);
        let mut zones = pool.promised();
        pool.place_up_to(zones);
        pool.join(joins);
        let most = pool.promised();
        let grown = target(&pool, zones, 0).zones;
        assert!((zones..=most).contains(&grown), "{rooms:?}: {grown} of {zones} to {most}");
        // What is given back is placed without a move.
        zones = grown;
        pool.place_up_to(zones);
    }
    let mut pool = TestPool::with_rooms(&[40, 40, 40], MIRROR);
    let zones = pool.promised();
    pool.place_up_to(zones);
    pool.join(40);
    assert_eq!(target(&pool, zones, 0).zones, pool.promised(), "equal drives keep a third free");
}

#[test]
fn a_drive_of_another_kind_gives_no_zones() {
    let mut pool = TestPool::with_rooms(&[40, 40, 40], MIRROR);
    let zones = pool.promised();
    let mut table = pool.view.drives().clone();
    table.epoch.0 += 1;
    let class = table.class;
    table.classes.iter_mut().filter(|it| it.id == class).for_each(|it| {
        it.kinds = MediumKinds::new(MediumKind::Nvme.bit()).unwrap();
    });
    pool.view = pool.view.with_drives(table).unwrap();
    assert_eq!(pool.promised(), zones, "all of them are nvme");
    pool.join(40);
    assert!(pool.promised() > zones);
    let mut table = pool.view.drives().clone();
    table.epoch.0 += 1;
    table.drives[3].kind = MediumKind::Hdd;
    pool.view = pool.view.with_drives(table).unwrap();
    assert_eq!((pool.promised(), target(&pool, zones, 0).zones), (zones, zones));
    pool.place_up_to(zones);
    let hdd = pool.view.drives().drives[3].number;
    assert!(pool.view.rows().all(|(_, row)| !row.target().unwrap().has_drive(hdd)));
}

#[test]
fn full_drives_let_one_more_hold_nothing_until_strips_moved() {
    let mut pool = TestPool::with_rooms(&[40, 40], MIRROR);
    let zones = pool.promised();
    pool.place_up_to(zones);
    pool.join(40);
    pool.join(40);
    let most = pool.promised();
    assert!(most > zones);
    // Two new drives take mirrors of each other.
    let grown = target(&pool, zones, 0).zones;
    assert_eq!(grown, most);
    let mut narrow = TestPool::with_rooms(&[40, 40], MIRROR);
    narrow.place_up_to(zones);
    narrow.join(400);
    assert_eq!(target(&narrow, zones, 0).zones, narrow.promised(), "the largest is kept free");
}

#[test]
fn a_drive_that_leaves_takes_its_zones_along() {
    let mut pool = TestPool::with_rooms(&[40, 40, 40, 40, 40], MIRROR);
    let zones = pool.promised();
    pool.place_up_to(zones / 2);
    pool.set_state(4, DriveState::Leaving);
    let fewer = target(&pool, zones, 0);
    assert!(fewer.is_pressing && fewer.zones < zones, "{fewer:?}");
    assert_eq!(fewer.zones, pool.promised());
    let there = target(&pool, fewer.zones, 0);
    assert_eq!(there, ZoneTarget { is_pressing: false, ..fewer });
    pool.set_state(4, DriveState::Live);
    assert_eq!(target(&pool, fewer.zones, 0).zones, zones, "it stays after all");
}

#[test]
fn zones_that_a_drive_took_along_are_asked_for_after_its_strips_moved() {
    let mut pool = TestPool::with_rooms(&[40, 40, 40], MIRROR);
    let zones = pool.promised();
    pool.place_up_to(zones / 2);
    let expected = ZoneTarget { zones, is_pressing: true };
    assert_eq!(target(&pool, zones + 5, 0), expected, "no row has to move");
    let pool = TestPool::with_rooms(&[40, 40, 40], NONE);
    let zones = pool.promised();
    let expected = ZoneTarget { zones, is_pressing: false };
    assert_eq!(target(&pool, zones + 5, 0), expected, "nothing would be rebuilt");
}

#[test]
fn nothing_grows_while_rows_must_move() {
    let mut pool = TestPool::with_rooms(&[40, 40, 40], MIRROR);
    let zones = pool.promised();
    pool.place_up_to(zones);
    pool.join(40);
    pool.set_state(0, DriveState::Failed);
    assert_eq!(target(&pool, zones, 0).zones, zones, "ZONE-TARGET-1");
}

#[test]
fn rows_without_room_press_and_too_few_drives_do_not() {
    let mut pool = TestPool::with_rooms(&[40, 40, 40], MIRROR);
    let zones = pool.promised();
    pool.place_up_to(zones - 5);
    pool.set_state(2, DriveState::Failed);
    let pressed = target(&pool, zones, 3);
    assert_eq!(pressed, ZoneTarget { zones: zones - 5 - 2, is_pressing: true });
    pool.set_state(1, DriveState::Failed);
    let stays = ZoneTarget { zones, is_pressing: false };
    assert_eq!(target(&pool, zones, 3), stays, "one drive is no mirror");
}

#[test]
fn another_class_takes_less_or_more() {
    let mut pool = TestPool::with_rooms(&[400; 7], STRIPED);
    let zones = pool.promised();
    pool.place_up_to(zones / 4);
    let mut next = pool.view.drives().clone();
    next.epoch.0 += 1;
    next.class = class_id(MIRROR);
    pool.view = pool.view.with_drives(next).unwrap();
    let fewer = target(&pool, zones, 0);
    assert!(fewer.is_pressing && fewer.zones < zones, "{fewer:?} of {zones}");
}

#[test]
fn a_row_that_is_rebalanced_keeps_nothing_from_growing() {
    let mut pool = TestPool::with_rooms(&[40, 40, 40], MIRROR);
    let zones = pool.promised();
    pool.place_up_to(zones);
    pool.join(40);
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
