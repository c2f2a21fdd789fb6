//! Tests of the order of repair.

use proptest::prelude::*;
use varve_media::planted::plant;

use super::*;
use crate::format::tests::samples::{drive_number, place, row, striped};
use crate::format::{MoveReason, RowState};
use crate::test_pool::{MIRROR, NONE, STRIPED, TestPool, table};

fn pool() -> TestPool {
    let mut pool = TestPool::new(table(&[20_000; 8]));
    for zone in 0..24 {
        let class = [STRIPED, MIRROR, STRIPED][zone as usize % 3];
        assert!(pool.place(zone, class));
    }
    pool
}

fn order(queue: &RepairQueue) -> Vec<u32> {
    queue.items().map(|item| item.zone.0).collect()
}

/// Zones of class 1 or 2 with two strips on drives 0 and 1, or one of them.
fn small_pool() -> TestPool {
    let mut pool = TestPool::new(table(&[20_000; 8]));
    let striped_on =
        |drives: [u8; 6], unit| striped(STRIPED, &drives.map(|drive| place(drive, 1, unit)));
    let mirror_on =
        |drives: [u8; 2], unit| striped(MIRROR, &drives.map(|drive| place(drive, 1, unit)));
    pool.set_row(0, row(1, RowState::Still(striped_on([0, 1, 2, 3, 4, 5], 0))));
    pool.set_row(1, row(1, RowState::Still(striped_on([0, 2, 3, 4, 5, 6], 100))));
    pool.set_row(2, row(1, RowState::Still(mirror_on([0, 7], 200))));
    pool.set_row(3, row(1, RowState::Still(mirror_on([6, 7], 300))));
    pool.set_row(4, row(1, RowState::Still(striped(NONE, &[place(0, 1, 400)]))));
    pool
}

#[test]
fn the_most_exposed_come_first_and_the_lost_last() {
    let mut pool = small_pool();
    let mut queue = RepairQueue::of(&pool.view);
    assert_eq!(queue.next(), None);
    for (drive, expected) in [(0, &[2, 0, 1, 4][..]), (1, &[0, 2, 1, 4]), (7, &[0, 3, 1, 2, 4])] {
        pool.set_state(drive, DriveState::Failed);
        queue.drive_changes(&pool.view, drive_number(drive));
        assert_eq!(order(&queue), expected, "after drive {drive}");
    }
    let works: Vec<_> = queue.items().map(|item| item.work).collect();
    let (rebuild, salvage) = (RepairWork::Rebuild, RepairWork::Salvage);
    assert_eq!(works, [rebuild, rebuild, rebuild, salvage, salvage]);
    let exposed: Vec<_> = queue.exposed().map(|it| (it.exposure, it.zones)).collect();
    let survives = Exposure::Survives;
    assert_eq!(exposed, [(Exposure::Lost, 2), (survives(0), 2), (survives(1), 1)]);
}

#[test]
fn zones_with_pages_and_with_little_come_before_their_equals() {
    let mut pool = small_pool();
    let mut queue = RepairQueue::of(&pool.view);
    pool.set_state(0, DriveState::Failed);
    queue.drive_changes(&pool.view, drive_number(0));
    let holdings = |has_pages, held_bytes| ZoneHoldings { has_pages, held_bytes };
    queue.set_holdings(&pool.view, ZoneIndex(0), holdings(false, 10));
    queue.set_holdings(&pool.view, ZoneIndex(1), holdings(false, 9));
    assert_eq!(order(&queue), [2, 1, 0, 4]);
    queue.set_holdings(&pool.view, ZoneIndex(0), holdings(true, 10));
    assert_eq!(order(&queue), [2, 0, 1, 4]);
}

#[test]
fn drains_come_after_rebuilds() {
    let mut pool = small_pool();
    let mut queue = RepairQueue::of(&pool.view);
    for (drive, state) in [(7, DriveState::Leaving), (1, DriveState::Failed)] {
        pool.set_state(drive, state);
        queue.drive_changes(&pool.view, drive_number(drive));
    }
    assert_eq!(order(&queue), [0, 2, 3]);
    assert_eq!(queue.next().unwrap().exposure, Exposure::Survives(1));
    let whole = queue.items().filter(|item| item.work == RepairWork::Drain);
    assert!(whole.map(|item| item.exposure).all(|it| it == Exposure::Survives(1)));
}

/// EXPOSURE-1.
#[test]
fn a_strip_that_was_left_out_is_remembered_until_it_is_elsewhere() {
    let mut pool = small_pool();
    let mut queue = RepairQueue::of(&pool.view);
    let zone = ZoneIndex(2);
    let left_out = pool.view.row(zone).target().unwrap().places[1];
    queue.leave_out(&pool.view, zone, left_out);
    assert_eq!(order(&queue), [2]);
    queue.set_holdings(&pool.view, zone, ZoneHoldings { has_pages: true, held_bytes: 1 });
    queue.drive_changes(&pool.view, drive_number(7));
    assert_eq!(queue.next().map(|item| item.exposure), Some(Exposure::Survives(0)));
    let before = pool.view.row(zone).clone();
    let from = before.target().unwrap().clone();
    let to = striped(MIRROR, &[from.places[0], place(3, 2, 200)]);
    let why = MoveReason::Rebuild;
    let moving = row(2, RowState::Moving { from, to: to.clone(), why });
    pool.set_row(2, moving.clone());
    queue.row_changes(&pool.view, zone, &before);
    assert_eq!(order(&queue), [2], "while it moves, some segments lack the strip");
    pool.set_row(2, row(2, RowState::Still(to)));
    queue.row_changes(&pool.view, zone, &moving);
    assert_eq!(queue.next(), None);
}

#[test]
fn zone_forgotten() {
    let is_remembered = || {
        let mut pool = small_pool();
        let mut queue = RepairQueue::of(&pool.view);
        let zone = ZoneIndex(2);
        let before = pool.view.row(zone).clone();
        let from = before.target().unwrap().clone();
        queue.leave_out(&pool.view, zone, from.places[1]);
        // Another strip of it comes elsewhere.
        let to = striped(MIRROR, &[place(3, 2, 200), from.places[1]]);
        let moving = row(2, RowState::Moving { from, to: to.clone(), why: MoveReason::Drain });
        pool.set_row(2, moving.clone());
        queue.row_changes(&pool.view, zone, &before);
        pool.set_row(2, row(2, RowState::Still(to)));
        queue.row_changes(&pool.view, zone, &moving);
        order(&queue) == [2]
    };
    assert!(is_remembered(), "EXPOSURE-1");
    plant(Some(Bug::ZoneForgotten));
    let is_remembered = is_remembered();
    plant(None);
    assert!(!is_remembered, "the bug shows");
}

/// What is put to the new place is there, whatever the old one on the same drive lacks.
#[test]
fn another_place_on_the_same_drive_lacks_nothing() {
    let mut pool = small_pool();
    let mut queue = RepairQueue::of(&pool.view);
    let zone = ZoneIndex(2);
    let before = pool.view.row(zone).clone();
    let from = before.target().unwrap().clone();
    queue.leave_out(&pool.view, zone, from.places[1]);
    let to = striped(MIRROR, &[from.places[0], place(7, 2, 2000)]);
    let moving = row(2, RowState::Moving { from, to: to.clone(), why: MoveReason::Rebuild });
    pool.set_row(2, moving.clone());
    queue.row_changes(&pool.view, zone, &before);
    assert_eq!(order(&queue), [2], "what was put before lacks it");
    pool.set_row(2, row(2, RowState::Still(to)));
    queue.row_changes(&pool.view, zone, &moving);
    assert_eq!(queue.next(), None);
}

#[test]
fn a_zone_is_salvaged_only_when_both_of_its_sets_are_lost() {
    let mut pool = small_pool();
    let zone = ZoneIndex(2);
    let from = pool.view.row(zone).target().unwrap().clone();
    let to = striped(MIRROR, &[place(1, 2, 600), place(2, 2, 600)]);
    pool.set_row(2, row(2, RowState::Moving { from, to, why: MoveReason::Conversion }));
    let mut queue = RepairQueue::of(&pool.view);
    let (rebuild, salvage) = (RepairWork::Rebuild, RepairWork::Salvage);
    let survives = Exposure::Survives;
    for (drive, work, exposure, has_lost_set) in [
        (0, rebuild, survives(0), false),
        (7, rebuild, survives(1), true),
        (1, rebuild, survives(0), true),
        (2, salvage, Exposure::Lost, true),
    ] {
        pool.set_state(drive, DriveState::Failed);
        queue.drive_changes(&pool.view, drive_number(drive));
        let item = *queue.items().find(|item| item.zone == zone).unwrap();
        assert_eq!((item.work, item.exposure), (work, exposure), "after drive {drive}");
        assert_eq!(item.has_lost_set, has_lost_set, "after drive {drive}");
        let lost = queue.exposed().find(|it| it.exposure == Exposure::Lost);
        // Zone 4 has its only strip on drive 0.
        let others = queue.items().filter(|item| item.zone != zone && item.has_lost_set).count();
        let counted = u32::try_from(others).unwrap() + u32::from(has_lost_set);
        assert_eq!(lost.map(|it| it.zones), Some(counted), "after drive {drive}");
    }
}

#[test]
fn the_worse_set_of_a_moving_row_counts() {
    let mut pool = small_pool();
    let zone = ZoneIndex(1);
    let before = pool.view.row(zone).clone();
    let from = before.target().unwrap().clone();
    let to = striped(MIRROR, &[place(1, 2, 600), place(2, 2, 600)]);
    let why = MoveReason::Conversion;
    pool.set_row(1, row(2, RowState::Moving { from, to, why }));
    let mut queue = RepairQueue::of(&pool.view);
    assert_eq!(queue.next(), None);
    pool.set_state(1, DriveState::Failed);
    queue.drive_changes(&pool.view, drive_number(1));
    let found = queue.items().find(|item| item.zone == zone);
    assert_eq!(found.map(|item| item.exposure), Some(Exposure::Survives(0)));
}

#[derive(Clone, Debug)]
enum QueueEvent {
    Drive(u8, usize),
    LeaveOut(u32, usize),
    Holdings(u32, bool, u64),
    Move(u32),
    Empty(u32),
}

fn event() -> impl Strategy<Value = QueueEvent> {
    let zone = || 0u32..24;
    prop_oneof![
        (0u8..8, 0usize..5).prop_map(|(drive, state)| QueueEvent::Drive(drive, state)),
        (zone(), 0usize..6).prop_map(|(zone, strip)| QueueEvent::LeaveOut(zone, strip)),
        (zone(), any::<bool>(), 0u64..9)
            .prop_map(|(zone, pages, bytes)| QueueEvent::Holdings(zone, pages, bytes)),
        zone().prop_map(QueueEvent::Move),
        zone().prop_map(QueueEvent::Empty),
    ]
}

proptest! {
    /// EXPOSURE-2, against a queue that is computed anew after each event.
    #[test]
    fn following_events_is_as_good_as_looking_at_all(events in proptest::collection::vec(event(), 1..60)) {
        let mut pool = pool();
        let mut queue = RepairQueue::of(&pool.view);
        let mut left_out: Vec<(ZoneIndex, StripPlace)> = Vec::new();
        let mut holdings = BTreeMap::new();
        for event in events {
            match event {
                QueueEvent::Drive(drive, state) => {
                    let before = pool.view.drives().drive(drive_number(drive)).unwrap().state;
                    if matches!(before, DriveState::Failed | DriveState::Gone) {
                        continue; // It never lives again.
                    }
                    pool.set_state(drive, DriveState::ALL[state]);
                    queue.drive_changes(&pool.view, drive_number(drive));
                }
                QueueEvent::LeaveOut(zone, strip) => {
                    let zone = ZoneIndex(zone);
                    let target = pool.view.row(zone).target();
                    if let Some(place) = target.and_then(|set| set.places.get(strip)).copied() {
                        queue.leave_out(&pool.view, zone, place);
                        left_out.push((zone, place));
                    }
                }
                QueueEvent::Holdings(zone, has_pages, held_bytes) => {
                    let found = ZoneHoldings { has_pages, held_bytes };
                    queue.set_holdings(&pool.view, ZoneIndex(zone), found);
                    holdings.insert(ZoneIndex(zone), found);
                }
                QueueEvent::Move(zone) => {
                    let before = pool.view.row(ZoneIndex(zone)).clone();
                    let tenancy = before.tenancy.get();
                    let after = match &before.state {
                        RowState::Moving { to, .. } => row(tenancy, RowState::Still(to.clone())),
                        RowState::Still(from) => {
                            let Some(places) = pool.places_for(zone, STRIPED) else { continue };
                            let (from, to) = (from.clone(), striped(STRIPED, &places));
                            row(tenancy + 1, RowState::Moving { from, to, why: MoveReason::Conversion })
                        }
                        RowState::Empty => {
                            let Some(places) = pool.places_for(zone, STRIPED) else { continue };
                            row(tenancy + 1, RowState::Still(striped(STRIPED, &places)))
                        }
                    };
                    pool.set_row(zone, after);
                    queue.row_changes(&pool.view, ZoneIndex(zone), &before);
                }
                QueueEvent::Empty(zone) => {
                    let before = pool.view.row(ZoneIndex(zone)).clone();
                    pool.set_row(zone, row(before.tenancy.get(), RowState::Empty));
                    queue.row_changes(&pool.view, ZoneIndex(zone), &before);
                }
            }
            left_out.retain(|(zone, place)| pool.view.row(*zone).sets().any(|set| set.places.contains(place)));
            let mut anew = RepairQueue::of(&pool.view);
            left_out.iter().for_each(|(zone, place)| anew.leave_out(&pool.view, *zone, *place));
            holdings.iter().for_each(|(zone, found)| anew.set_holdings(&pool.view, *zone, *found));
            prop_assert_eq!(&anew.order, &queue.order);
            prop_assert_eq!(&anew.exposed, &queue.exposed);
            for (zone, row) in pool.view.rows() {
                let lacks = row.sets().flat_map(|set| &set.places).any(|place| {
                    let drive = pool.view.drives().drive(place.drive).unwrap();
                    !drive.state.is_readable() || left_out.contains(&(zone, *place))
                });
                let is_queued = queue.items().any(|item| item.zone == zone && item.work != RepairWork::Drain);
                prop_assert_eq!(is_queued, lacks, "zone {}", zone); // EXPOSURE-1
            }
        }
    }
}

#[test]
fn a_place_that_took_that_of_a_lost_one_lacks_what_was_put_before() {
    let mut pool = TestPool::new(table(&[20_000; 8]));
    let set = |places: [(u8, u32); 2]| {
        striped(MIRROR, &places.map(|(drive, tenancy)| place(drive, tenancy, 0)))
    };
    let moving = |to| RowState::Moving { from: set([(0, 1), (1, 1)]), to, why: MoveReason::Drain };
    pool.set_row(0, row(2, moving(set([(0, 1), (2, 2)]))));
    let queue = RepairQueue::of(&pool.view);
    assert_eq!(queue.next(), None, "the first place is there for all that was put");
    pool.set_row(0, row(4, moving(set([(0, 1), (3, 3)]))));
    let queue = RepairQueue::of(&pool.view);
    let exposed: Vec<_> = queue.exposed().map(|it| (it.exposure, it.zones)).collect();
    assert_eq!(exposed, [(Exposure::Survives(0), 1)]);
    assert_eq!(queue.next().unwrap().work, RepairWork::Rebuild);
}

/// A row that went back has a tenancy above those of its places: whatever moves it next is no replacement of anything.
#[test]
fn a_move_that_follows_one_that_went_back_lacks_nothing() {
    let mut pool = TestPool::new(table(&[20_000; 8]));
    let set = |places: [(u8, u32); 2]| {
        striped(MIRROR, &places.map(|(drive, tenancy)| place(drive, tenancy, tenancy * 1000)))
    };
    let from = set([(0, 1), (1, 1)]);
    let moving = |to| RowState::Moving { from: from.clone(), to, why: MoveReason::Conversion };
    pool.set_row(0, row(1, RowState::Still(from.clone())));
    pool.set_row(0, row(2, moving(set([(2, 2), (3, 2)]))));
    pool.set_row(0, row(3, RowState::Still(from.clone())));
    pool.set_row(0, row(4, moving(set([(2, 4), (3, 4)]))));
    let queue = RepairQueue::of(&pool.view);
    assert_eq!(queue.next(), None);
    let exposed: Vec<_> = queue.exposed().map(|it| (it.exposure, it.zones)).collect();
    assert_eq!(exposed, [(Exposure::Survives(1), 1)]);
    // Of two places one is lost and replaced.
    pool.set_row(0, row(6, moving(set([(2, 4), (4, 5)]))));
    let item = RepairQueue::of(&pool.view).next().unwrap();
    assert_eq!((item.work, item.exposure), (RepairWork::Rebuild, Exposure::Survives(0)));
}
