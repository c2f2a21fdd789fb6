//! Pools of drives of many sizes to which others are added: moves come to an end, and leave drives as even as can be.

use varve_stdx::Rng;

use super::*;
use crate::format::tests::samples::drive_number;
use crate::format::{DriveState, MoveReason, Row};
use crate::plan::{Occupancy, PlaceRequest, choose};
use crate::test_pool::{MIRROR, STRIPED, TestPool, class_of, set_of, table};
use crate::zone_target::{ZoneTarget, ZoneUse};

/// Begins a move as the keeper does.
fn begin(pool: &mut TestPool, step: StripMove) {
    assert!(step.is_gain(&pool.view), "REBALANCE-1: {step:?}");
    let row = pool.view.row(step.zone).clone();
    let from = row.target().unwrap().clone();
    let class = class_of(pool.view.drives(), from.class.get());
    let kept: Vec<_> =
        from.places.iter().map(|place| Some(*place).filter(|it| it.drive != step.from)).collect();
    let avoid = [step.from];
    let prefer = Some(step.to);
    let request =
        PlaceRequest { zone: step.zone, class: &class, kept: &kept, avoid: &avoid, prefer };
    let places = choose(&pool.view, &pool.occupancy, &request).expect("there is room");
    assert!(places.iter().any(|place| place.drive == step.to), "{step:?}");
    let to = set_of(from.class.get(), places);
    let tenancy = row.tenancy.next().unwrap();
    pool.set_row(
        step.zone.0,
        Row { tenancy, state: RowState::Moving { from, to, why: MoveReason::Rebalance } },
    );
}

fn complete(pool: &mut TestPool, zone: ZoneIndex) {
    let row = pool.view.row(zone).clone();
    let to = row.target().unwrap().clone();
    pool.set_row(zone.0, Row { tenancy: row.tenancy, state: RowState::Still(to) });
}

/// Moves until nothing is to be moved, so many rows at a time; returns how many were.
fn rebalance(pool: &mut TestPool, at_once: usize) -> usize {
    let (mut moved, mut under_way) = (0, Vec::new());
    loop {
        let step = StripMove::next(&pool.view, |_| true);
        if let Some(step) = step {
            begin(pool, step);
            under_way.push(step.zone);
            moved += 1;
            assert!(moved < 10_000, "moves come to no end");
        }
        let is_over = step.is_none();
        if is_over || under_way.len() == at_once {
            let ended: Vec<_> = std::mem::take(&mut under_way);
            let was_last = is_over && ended.is_empty();
            ended.into_iter().for_each(|zone| complete(pool, zone));
            if was_last {
                assert!(Occupancy::of(&pool.view).is_ok_and(|found| found == pool.occupancy));
                return moved;
            }
        }
    }
}

/// How far apart the fullest and the emptiest drive are, in thousandths, once all moves have ended.
fn unevenness(view: &LayoutView) -> u64 {
    let fills = DriveFills::of_targets(view);
    let drives = view.drives().drives.iter().filter(|drive| takes_strips(drive));
    let levels: Vec<u64> = drives.map(|drive| DriveLevel::of(drive, &fills).permille()).collect();
    levels.iter().max().unwrap() - levels.iter().min().unwrap()
}

#[test]
fn a_drive_that_joins_gets_its_part() {
    for class in [MIRROR, STRIPED] {
        for at_once in [1, 4] {
            let mut pool = TestPool::with_rooms(&[60; 7], class);
            let zones = pool.promised();
            pool.place_up_to(zones);
            assert!(unevenness(&pool.view) < 100, "{}", unevenness(&pool.view));
            pool.join(60);
            let moved = rebalance(&mut pool, at_once);
            assert!(unevenness(&pool.view) < 100, "{}", unevenness(&pool.view));
            let strips = zones as usize * class_of(pool.view.drives(), class).shape.strips();
            assert!(
                moved <= strips / 8 + 2,
                "{moved} of {strips} strips for an eighth of the room"
            );
            assert!(moved > strips / 10, "{moved} of {strips}");
        }
    }
}

#[test]
fn what_is_even_is_left_alone() {
    let mut pool = TestPool::with_rooms(&[60; 6], MIRROR);
    let zones = pool.promised();
    pool.place_up_to(zones);
    assert!(rebalance(&mut pool, 1) <= 12, "new zones are spread as it is");
    assert_eq!(StripMove::next(&pool.view, |_| true), None);
}

#[test]
fn zones_that_may_not_be_moved_stay() {
    let mut pool = TestPool::with_rooms(&[60; 6], MIRROR);
    let zones = pool.promised();
    pool.place_up_to(zones);
    pool.join(60);
    assert_eq!(StripMove::next(&pool.view, |_| false), None);
    let odd = StripMove::next(&pool.view, |zone| zone.0 % 2 == 1).unwrap();
    assert_eq!((odd.zone.0 % 2, odd.to), (1, drive_number(6)));
}

#[test]
fn drives_that_are_slow_or_leave_get_nothing() {
    let mut pool = TestPool::with_rooms(&[60; 6], MIRROR);
    let zones = pool.promised();
    pool.place_up_to(zones);
    pool.join(60);
    pool.set_slow(6, true);
    assert!(rebalance(&mut pool, 1) < 12);
    pool.set_slow(6, false);
    pool.set_state(6, DriveState::Leaving);
    assert!(rebalance(&mut pool, 1) < 12);
}

#[test]
fn rows_of_another_class_are_for_conversion() {
    let mut pool = TestPool::with_rooms(&[60; 7], MIRROR);
    for zone in 0..40 {
        assert!(pool.place(zone, STRIPED));
    }
    pool.join(60);
    assert_eq!(StripMove::next(&pool.view, |_| true), None);
}

/// Pools of random sizes to which drives are added: all that is promised finds room after some moves.
#[test]
fn mixed_sizes_end_even_enough_to_hold_what_is_promised() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let class = if rng.chance(1, 2) { MIRROR } else { STRIPED };
        let strips = class_of(&table(&[0; 7]), class).shape.strips();
        let drives = strips + 1 + rng.index(4);
        let mut size = || 20 + u32::try_from(rng.below(60)).unwrap();
        let rooms: Vec<u32> = (0..drives).map(|_| size()).collect();
        let joining = size();
        let mut pool = TestPool::with_rooms(&rooms, class);
        let mut zones = pool.promised();
        pool.place_up_to(zones);
        pool.join(joining);
        for _ in 0..20 {
            rebalance(&mut pool, 3);
            let is_withdrawn = |zone: ZoneIndex| zone.0 >= zones;
            let usage = ZoneUse { zones, is_withdrawn: &is_withdrawn, waiting: 0 };
            let target = ZoneTarget::of(&pool.view, &usage);
            if target.zones == zones {
                break;
            }
            zones = target.zones;
            pool.place_up_to(zones);
        }
        let most = pool.promised();
        assert!(
            zones * 100 >= most * 95,
            "seed {seed}: {zones} of {most} zones on {rooms:?} and {joining}"
        );
    }
}
