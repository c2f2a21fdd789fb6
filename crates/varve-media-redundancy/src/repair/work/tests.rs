//! Which zone is worked on next.

use varve_media::planted::plant;

use super::*;
use crate::class::{MediumKind, MediumKinds};
use crate::format::tests::samples::{class_id, drive_number};
use crate::test_pool::{MIRROR, TestPool, place_units, table};

fn pool(zones: u32) -> TestPool {
    let table = table(&[place_units(&table(&[0; 6]), MIRROR) * 40; 6]);
    let mut pool = TestPool::new(table);
    for zone in 0..zones {
        assert!(pool.place(zone, MIRROR));
    }
    pool
}

fn control() -> RepairControl {
    RepairControl::new(1, 40)
}

fn begin_move(pool: &mut TestPool, zone: u32, why: MoveReason) {
    let row = pool.view.row(ZoneIndex(zone)).clone();
    let from = row.target().unwrap().clone();
    let tenancy = row.tenancy.next().unwrap();
    let units = place_units(pool.view.drives(), MIRROR);
    let drives = (0..6).map(drive_number);
    let drive = drives.into_iter().find(|drive| !from.has_drive(*drive)).unwrap();
    let place = pool.occupancy.spaces().drive(drive).unwrap().first_fit(units).unwrap();
    let mut to = from.clone();
    to.places[0] = crate::format::StripPlace { drive, tenancy, place };
    pool.set_row(zone, Row { tenancy, state: RowState::Moving { from, to, why } });
}

fn zones(list: &WorkList) -> Vec<u32> {
    list.works().map(|work| work.zone.0).collect()
}

#[test]
fn a_list_that_follows_is_the_one_of_the_view() {
    let mut pool = pool(30);
    let mut list = WorkList::new(Arc::new(pool.view.clone()));
    assert!(list.is_empty());
    begin_move(&mut pool, 7, MoveReason::Drain);
    list.follow(Arc::new(pool.view.clone()));
    assert_eq!(zones(&list), [7]);
    pool.set_state(0, DriveState::Failed);
    pool.set_state(1, DriveState::Leaving);
    list.follow(Arc::new(pool.view.clone()));
    let new = WorkList::new(Arc::new(pool.view.clone()));
    assert_eq!(zones(&list), zones(&new));
    assert!(zones(&list).len() > 5);
    let mut drives = pool.view.drives().clone();
    drives.epoch.0 += 1;
    drives.class = class_id(2);
    pool.view = pool.view.with_drives(drives).unwrap();
    list.follow(Arc::new(pool.view.clone()));
    let new = WorkList::new(Arc::new(pool.view.clone()));
    assert_eq!(zones(&list), zones(&new), "all zones are of another class now");
}

#[test]
fn rows_on_a_drive_that_is_of_another_kind_are_converted_and_lack_nothing() {
    let mut pool = pool(30);
    let mut list = WorkList::new(Arc::new(pool.view.clone()));
    let change = |pool: &mut TestPool, change: &dyn Fn(&mut DriveTable)| {
        let mut table = pool.view.drives().clone();
        table.epoch.0 += 1;
        change(&mut table);
        pool.view = pool.view.with_drives(table).unwrap();
    };
    change(&mut pool, &|table| table.drives[2].kind = MediumKind::Hdd);
    list.follow(Arc::new(pool.view.clone()));
    assert!(list.is_empty(), "zones may be on any kind");
    change(&mut pool, &|table| {
        table.drives[2].kind = MediumKind::Nvme;
        let class = table.classes.iter_mut().find(|class| class.id == table.class).unwrap();
        class.kinds = MediumKinds::new(MediumKind::Nvme.bit()).unwrap();
    });
    list.follow(Arc::new(pool.view.clone()));
    assert!(list.is_empty(), "all drives are of that kind");
    change(&mut pool, &|table| table.drives[2].kind = MediumKind::Ssd);
    list.follow(Arc::new(pool.view.clone()));
    let is_on =
        |zone: &u32| pool.view.row(ZoneIndex(*zone)).target().unwrap().has_drive(drive_number(2));
    let expected: Vec<u32> = (0..30).filter(is_on).collect();
    assert!(expected.len() > 5 && zones(&list) == expected, "{:?} of {expected:?}", zones(&list));
    assert_eq!(zones(&WorkList::new(Arc::new(pool.view.clone()))), expected);
    let work = list.works().next().unwrap();
    assert_eq!((work.why, work.exposure), (MoveReason::Conversion, NOT_EXPOSED));
    let control = control();
    let MoveStep::Ask(asked) = next_step(&pool.view, &work, &control) else { panic!("it moves") };
    let class = Some(pool.view.drives().class);
    assert!(matches!(*asked, Change::Move { class: found, .. } if found == class), "{asked:?}");
    control.cancel(MoveReason::Conversion);
    assert_eq!(next_step(&pool.view, &work, &control), MoveStep::Nothing);
}

#[test]
fn what_lacks_strips_comes_before_what_only_moves() {
    let mut pool = pool(12);
    pool.set_state(0, DriveState::Failed);
    let lacks = |pool: &TestPool, zone: u32| {
        let row = pool.view.row(ZoneIndex(zone));
        row.sets().any(|set| set.has_drive(drive_number(0)))
    };
    let whole = (0..12).find(|zone| !lacks(&pool, *zone)).unwrap();
    begin_move(&mut pool, whole, MoveReason::Conversion);
    let list = WorkList::new(Arc::new(pool.view.clone()));
    let order = zones(&list);
    assert_eq!(*order.last().unwrap(), whole);
    assert!(order.len() > 1);
}

#[test]
fn a_cancelled_move_goes_back_once() {
    let mut pool = pool(1);
    begin_move(&mut pool, 0, MoveReason::Drain);
    let leaving = pool.view.row(ZoneIndex(0)).source().unwrap().places[0].drive;
    pool.set_state(leaving.get(), DriveState::Leaving);
    let control = control();
    let list = WorkList::new(Arc::new(pool.view.clone()));
    let work = list.works().next().unwrap();
    assert_eq!(next_step(&pool.view, &work, &control), MoveStep::Fill);
    control.cancel(MoveReason::Drain);
    let step = next_step(&pool.view, &work, &control);
    let MoveStep::Ask(change) = step else { panic!("it turns: {step:?}") };
    let Change::Row { new, .. } = *change else { panic!("both sets are exchanged") };
    pool.set_row(0, new);
    assert_eq!(next_step(&pool.view, &work, &control), MoveStep::Fill, "once");
    let to = pool.view.row(ZoneIndex(0)).target().unwrap().clone();
    let tenancy = pool.view.row(ZoneIndex(0)).tenancy;
    pool.set_row(0, Row { tenancy, state: RowState::Still(to) });
    assert_eq!(next_step(&pool.view, &work, &control), MoveStep::Nothing, "until it is resumed");
    control.resume(MoveReason::Drain);
    assert!(matches!(next_step(&pool.view, &work, &control), MoveStep::Ask(_)));
}

#[test]
fn a_drain_that_nobody_needs_any_more_goes_back() {
    let mut pool = pool(1);
    begin_move(&mut pool, 0, MoveReason::Drain);
    let list = WorkList::new(Arc::new(pool.view.clone()));
    let work = list.works().next().unwrap();
    let step = next_step(&pool.view, &work, &control());
    assert!(matches!(step, MoveStep::Ask(_)), "no drive of it leaves: {step:?}");
    // Where a drive of it is lost, there is nothing to go back to.
    let lost = pool.view.row(ZoneIndex(0)).source().unwrap().places[0].drive;
    pool.set_state(lost.get(), DriveState::Failed);
    assert_eq!(next_step(&pool.view, &work, &control()), MoveStep::Fill);
}

#[test]
fn a_place_that_is_lost_while_a_row_moves_is_chosen_anew() {
    let mut pool = pool(1);
    begin_move(&mut pool, 0, MoveReason::Rebuild);
    let lost = pool.view.row(ZoneIndex(0)).target().unwrap().places[0].drive;
    pool.set_state(lost.get(), DriveState::Failed);
    let list = WorkList::new(Arc::new(pool.view.clone()));
    let work = list.works().next().unwrap();
    let step = next_step(&pool.view, &work, &control());
    let MoveStep::Ask(change) = step else { panic!("{step:?}") };
    let Change::Move { avoid, .. } = *change else { panic!("another place is asked for") };
    assert_eq!(avoid, [lost]);
    let row = pool.view.row(ZoneIndex(0));
    assert!(!may_complete(&pool.view, row.source().unwrap(), row.target().unwrap()));
}

#[test]
fn rows_that_only_make_drives_even_come_last_and_go_back_when_that_is_cancelled() {
    let mut pool = pool(12);
    begin_move(&mut pool, 3, MoveReason::Rebalance);
    let list = WorkList::new(Arc::new(pool.view.clone()));
    assert!(list.is_only_rebalanced() && !list.is_empty());
    begin_move(&mut pool, 9, MoveReason::Conversion);
    pool.set_state(0, DriveState::Leaving);
    let list = WorkList::new(Arc::new(pool.view.clone()));
    assert!(!list.is_only_rebalanced());
    let order = zones(&list);
    assert_eq!(order.last(), Some(&3), "{order:?}");
    assert!(order.len() > 2);
    pool.set_state(0, DriveState::Live);
    let list = WorkList::new(Arc::new(pool.view.clone()));
    let work = list.works().find(|work| work.zone == ZoneIndex(3)).unwrap();
    assert_eq!((work.why, work.exposure), (MoveReason::Rebalance, NOT_EXPOSED));
    let control = control();
    assert_eq!(next_step(&pool.view, &work, &control), MoveStep::Fill);
    control.cancel(MoveReason::Rebalance);
    assert!(matches!(next_step(&pool.view, &work, &control), MoveStep::Ask(_)), "it goes back");
}

#[test]
fn a_drive_that_is_lost_while_its_row_is_rebalanced_comes_first() {
    let mut pool = pool(12);
    begin_move(&mut pool, 3, MoveReason::Rebalance);
    let lost = pool.view.row(ZoneIndex(3)).source().unwrap().places[1].drive;
    pool.set_state(lost.get(), DriveState::Failed);
    let list = WorkList::new(Arc::new(pool.view.clone()));
    assert!(!list.is_only_rebalanced());
    let work = list.works().find(|work| work.zone == ZoneIndex(3)).unwrap();
    assert_eq!(work.exposure, Exposure::Survives(0), "and not when nothing else is to do");
}

/// Has the first place of the target of a row that moves be lost, and another one take it, as the keeper does.
fn replace_first(pool: &mut TestPool, zone: u32) {
    let row = pool.view.row(ZoneIndex(zone)).clone();
    let RowState::Moving { from, to: lost, why } = row.state.clone() else { panic!("it moves") };
    pool.set_state(lost.places[0].drive.get(), DriveState::Failed);
    let units = place_units(pool.view.drives(), MIRROR);
    let mut drives = (0..6).map(drive_number);
    let drive = drives.find(|it| !from.has_drive(*it) && !lost.has_drive(*it)).unwrap();
    let place = pool.occupancy.spaces().drive(drive).unwrap().first_fit(units).unwrap();
    let mut to = lost.clone();
    to.places[0] = crate::format::StripPlace { drive, tenancy: row.tenancy.next().unwrap(), place };
    pool.set_row(zone, row.moved_to(to, why).unwrap());
}

#[test]
fn a_move_of_which_a_place_was_lost_and_replaced_goes_on() {
    let mut pool = pool(1);
    begin_move(&mut pool, 0, MoveReason::Rebalance);
    replace_first(&mut pool, 0);
    let control = control();
    control.cancel(MoveReason::Rebalance);
    let list = WorkList::new(Arc::new(pool.view.clone()));
    let work = list.works().next().unwrap();
    // What was put to the lost place is not where it came from either.
    assert_eq!(next_step(&pool.view, &work, &control), MoveStep::Fill);
}

/// Of a move that is turned around, and then loses a place that it goes back to, which another one takes: what the zone
/// lacks and can lose, and what comes next.
fn turned_and_replaced() -> (Option<(RepairWork, Exposure)>, MoveStep) {
    let mut pool = pool(1);
    begin_move(&mut pool, 0, MoveReason::Rebalance);
    let control = control();
    control.cancel(MoveReason::Rebalance);
    let list = WorkList::new(Arc::new(pool.view.clone()));
    let work = list.works().next().unwrap();
    let MoveStep::Ask(change) = next_step(&pool.view, &work, &control) else { panic!("it turns") };
    let Change::Row { new, .. } = *change else { panic!("both sets are exchanged") };
    pool.set_row(0, new);
    let list = WorkList::new(Arc::new(pool.view.clone()));
    assert_eq!(list.queue().next(), None, "it lacks nothing");
    replace_first(&mut pool, 0);
    let list = WorkList::new(Arc::new(pool.view.clone()));
    let step = next_step(&pool.view, &list.works().next().unwrap(), &control);
    (list.queue().next().map(|item| (item.work, item.exposure)), step)
}

#[test]
fn replaced_untold() {
    let lacks = Some((RepairWork::Rebuild, Exposure::Survives(0)));
    assert_eq!(turned_and_replaced(), (lacks, MoveStep::Fill), "MOVER-7");
    plant(Some(Bug::ReplacedUntold));
    let (found, step) = turned_and_replaced();
    plant(None);
    assert_eq!(found, None, "nothing tells of what was put to the lost place");
    assert_ne!(step, MoveStep::Fill, "and it would be turned once more");
}
