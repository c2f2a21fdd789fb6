//! Tests of placement.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::class::{MediumKind, MediumKinds};
use crate::format::tests::samples::{drive_number, row, striped};
use crate::format::{MoveReason, RowState};
use crate::test_pool::{MIRROR, NONE, STRIPED, TestPool, class_of, place_units, table};

/// A pool whose drives have room for so many places of a class each.
fn pool_with_rooms(rooms: &[u32], class: u8) -> TestPool {
    let units = place_units(&table(&[1]), class);
    let sizes: Vec<_> = rooms.iter().map(|room| room * units + units - 1).collect();
    TestPool::new(table(&sizes))
}

fn fill(pool: &mut TestPool, class: u8) -> u32 {
    (0..).find(|zone| !pool.place(*zone, class)).unwrap()
}

/// How far pairs of drives are from sharing evenly: what each has is spread over the others by what they have.
fn worst_pair(pool: &TestPool, drives: u8) -> (f64, f64) {
    let shares = pool.occupancy.shares();
    let between =
        |one: u8, other: u8| f64::from(shares.between(drive_number(one), drive_number(other)));
    let others =
        |one: u8| (0..drives).filter(|it| *it != one).map(|it| between(one, it)).sum::<f64>();
    let total: f64 = (0..drives).map(others).sum();
    let mut worst = (0.0f64, 0.0f64);
    for one in 0..drives {
        for other in 0..one {
            let product = others(one) * others(other);
            let even = (product / (total - others(one)) + product / (total - others(other))) / 2.0;
            let off = (between(one, other) - even).abs();
            worst = (worst.0.max(off), worst.1.max(off / even));
        }
    }
    worst
}

#[test]
fn each_two_drives_share_about_as_many_zones() {
    for (drives, class) in [
        (6, STRIPED),
        (7, STRIPED),
        (9, STRIPED),
        (12, STRIPED),
        (24, STRIPED),
        (6, MIRROR),
        (12, MIRROR),
    ] {
        let strips = u32::try_from(class_of(&table(&[1]), class).shape.strips()).unwrap();
        let mut pool = pool_with_rooms(&vec![300; usize::from(drives)], class);
        let mut zone = 0;
        for zones_of_drive in [16, 64, 200] {
            while zone * strips < zones_of_drive * u32::from(drives) {
                assert!(pool.place(zone, class));
                zone += 1;
            }
            let (off, share) = worst_pair(&pool, drives);
            let about = format!("{drives} drives, class {class}, {zones_of_drive} zones a drive");
            assert!(off <= 3.0 || share <= 0.2, "{about}: {off} zones, {share}");
            let zones = (0..drives).map(|drive| pool.occupancy.shares().zones(drive_number(drive)));
            let (least, most) = (zones.clone().min().unwrap(), zones.max().unwrap());
            assert!(most - least <= 4, "{about}: {least} to {most} zones");
        }
    }
}

/// Each index of a strip is on all drives about as often, so that reads and parity are too.
#[test]
fn parity_is_on_all_drives() {
    let mut pool = pool_with_rooms(&[300; 8], STRIPED);
    let mut parity = [0u32; 8];
    for zone in 0..300 {
        assert!(pool.place(zone, STRIPED));
        let row = pool.view.row(ZoneIndex(zone)).clone();
        for place in &row.target().unwrap().places[4..] {
            parity[usize::from(place.drive.get())] += 1;
        }
    }
    assert!(parity.iter().all(|zones| (45..=105).contains(zones)), "{parity:?}");
}

/// PLACE-3.
#[test]
fn all_zones_that_there_can_be_find_room() {
    for (rooms, class, zones) in [
        (&[10, 5, 5][..], MIRROR, 10),
        (&[100, 50, 50], MIRROR, 100),
        (&[100, 10], MIRROR, 10),
        (&[40, 30, 20, 10], MIRROR, 50),
        (&[7, 7, 7], NONE, 21),
        (&[30; 7], STRIPED, 35),
        (&[200, 100, 100, 100, 50, 50, 50, 25], STRIPED, 87),
        (&[5, 5, 5, 5, 5], STRIPED, 0),
    ] {
        let strips = class_of(&table(&[1]), class).shape.strips();
        assert_eq!(zones_that_fit(rooms, strips), zones, "{rooms:?}");
        assert_eq!(fill(&mut pool_with_rooms(rooms, class), class), zones, "{rooms:?}");
    }
}

#[test]
fn a_drive_is_kept_free_where_there_are_more_than_strips() {
    let units = place_units(&table(&[1]), MIRROR);
    let usable_of = |rooms: &[u32]| {
        usable(&rooms.iter().map(|room| room * units).collect::<Vec<_>>(), 2, units)
    };
    assert_eq!(usable_of(&[10]), 0);
    assert_eq!(usable_of(&[10, 10]), 10);
    assert_eq!(usable_of(&[10, 10, 30]), 10);
    assert_eq!(usable_of(&[10, 10, 10, 10]), 15);
}

#[test]
fn the_same_tables_give_the_same_choice() {
    let (mut one, mut other) =
        (pool_with_rooms(&[50; 9], STRIPED), pool_with_rooms(&[50; 9], STRIPED));
    for zone in 0..40 {
        assert_eq!(one.places_for(zone, STRIPED), other.places_for(zone, STRIPED));
        assert!(one.place(zone, STRIPED) && other.place(zone, STRIPED));
    }
    let other_zone = one.places_for(41, STRIPED).unwrap();
    assert_ne!(one.places_for(40, STRIPED), Some(other_zone), "zones differ");
}

#[test]
fn slow_leaving_and_foreign_drives_get_nothing() {
    let mut table = table(&[5000; 7]);
    table.drives[0].is_slow = true;
    table.drives[1].state = DriveState::Leaving;
    table.drives[2].state = DriveState::Joining;
    table.drives[3].roles = DriveRoles::JOURNALS;
    table.drives[4].kind = MediumKind::Hdd;
    table.classes[0].kinds = MediumKinds::new(MediumKind::Nvme.bit()).unwrap();
    let pool = TestPool::new(table);
    let drives: BTreeSet<_> =
        pool.places_for(0, MIRROR).unwrap().iter().map(|place| place.drive.get()).collect();
    assert_eq!(drives, BTreeSet::from([5, 6]));
    let class = class_of(pool.view.drives(), MIRROR);
    let avoid = [drive_number(6)];
    let request =
        PlaceRequest { zone: ZoneIndex(0), class: &class, kept: &[], avoid: &avoid, prefer: None };
    assert_eq!(choose(&pool.view, &pool.occupancy, &request), None);
}

/// What a drive had goes to all others.
#[test]
fn a_lost_drive_is_rebuilt_to_all_others() {
    let mut pool = pool_with_rooms(&[200; 10], STRIPED);
    for zone in 0..200 {
        assert!(pool.place(zone, STRIPED));
    }
    let lost = drive_number(3);
    pool.set_state(3, DriveState::Failed);
    let class = class_of(pool.view.drives(), STRIPED);
    let (mut gained, mut moved) = ([0u32; 10], 0);
    for zone in 0..200 {
        let row_before = pool.view.row(ZoneIndex(zone)).clone();
        let set = row_before.target().unwrap().clone();
        if !set.has_drive(lost) {
            continue;
        }
        let kept: Vec<_> = set.places.iter().map(|it| (it.drive != lost).then_some(*it)).collect();
        let request = PlaceRequest {
            zone: ZoneIndex(zone),
            class: &class,
            kept: &kept,
            avoid: &[],
            prefer: None,
        };
        let places = choose(&pool.view, &pool.occupancy, &request).unwrap();
        for (index, (place, before)) in places.iter().zip(&set.places).enumerate() {
            if kept[index].is_some() {
                assert_eq!(place, before, "what is kept stays");
            } else {
                gained[usize::from(place.drive.get())] += 1;
                assert_eq!(place.tenancy.get(), row_before.tenancy.get() + 1);
            }
        }
        let to = striped(STRIPED, &places);
        let state = RowState::Moving { from: set, to, why: MoveReason::Rebuild };
        pool.set_row(zone, row(row_before.tenancy.get() + 1, state));
        moved += 1;
    }
    assert_eq!(gained[3], 0);
    let fair = f64::from(moved) / 9.0;
    let is_fair = |zones: &u32| (f64::from(*zones) - fair).abs() <= fair / 2.0;
    let others = gained.iter().enumerate().filter(|(drive, _)| *drive != 3);
    assert!(others.map(|(_, zones)| zones).all(is_fair), "{gained:?} of {moved}");
}

#[test]
fn the_preferred_drive_gets_a_strip() {
    let mut pool = pool_with_rooms(&[50; 4], MIRROR);
    for zone in 0..20 {
        assert!(pool.place(zone, MIRROR));
        let set = pool.view.row(ZoneIndex(zone)).target().unwrap().clone();
        let new = (0..4).map(drive_number).find(|drive| !set.has_drive(*drive)).unwrap();
        let class = class_of(pool.view.drives(), MIRROR);
        let kept = [Some(set.places[0]), None];
        let request = PlaceRequest {
            zone: ZoneIndex(zone),
            class: &class,
            kept: &kept,
            avoid: &[],
            prefer: Some(new),
        };
        let places = choose(&pool.view, &pool.occupancy, &request).unwrap();
        assert_eq!(places[1].drive, new);
    }
}

#[test]
fn a_zone_that_was_moved_too_often_stays() {
    let mut pool = pool_with_rooms(&[50; 4], MIRROR);
    pool.set_row(0, row((1 << 24) - 1, RowState::Empty));
    assert_eq!(pool.places_for(0, MIRROR), None);
}

#[test]
fn journals_go_to_drives_of_their_own_first() {
    let mut table = table(&[1000; 4]);
    table.drives[3].roles = DriveRoles::JOURNALS;
    table.drives[1].roles = DriveRoles::SEGMENTS;
    let mut pool = TestPool::new(table);
    pool.add_journal(0, &[0]);
    pool.add_journal(1, &[0]);
    let chosen = |pool: &TestPool, shard: usize, avoid: &[u8]| {
        let journal = pool.view.journals().nth(shard).unwrap();
        let avoid: Vec<_> = avoid.iter().map(|drive| drive_number(*drive)).collect();
        let place = choose_journal(&pool.view, &pool.occupancy, journal, &avoid);
        place.map(|place| place.drive.get())
    };
    assert_eq!(chosen(&pool, 0, &[]), Some(3));
    assert_eq!(chosen(&pool, 0, &[3]), Some(2), "the one with fewest copies");
    assert_eq!(chosen(&pool, 0, &[3, 2]), None, "drive 0 has one, drive 1 takes none");
    pool.add_journal(2, &[2]);
    pool.add_journal(1, &[2, 3]);
    pool.add_journal(3, &[2]);
    assert_eq!(chosen(&pool, 3, &[3]), Some(0), "one copy there, two on drive 2");
}

proptest! {
    /// PLACE-2 and PLACE-3: strips are on distinct drives, in units that were free, and as many zones as can fit do.
    #[test]
    fn drives_of_any_sizes_are_filled(rooms in proptest::collection::vec(0u32..25, 2..11), class in 1u8..=3) {
        let strips = class_of(&table(&[1]), class).shape.strips();
        let mut pool = pool_with_rooms(&rooms, class);
        let zones = fill(&mut pool, class);
        prop_assert_eq!(zones, zones_that_fit(&rooms, strips));
        for (_, row) in pool.view.rows() {
            let drives: BTreeSet<_> = row.target().unwrap().places.iter().map(|it| it.drive).collect();
            prop_assert_eq!(drives.len(), strips);
        }
        prop_assert!(Occupancy::of(&pool.view).is_ok_and(|found| found == pool.occupancy));
    }

    /// Against counting up: no larger number of zones fits.
    #[test]
    fn no_more_zones_fit(rooms in proptest::collection::vec(0u32..40, 0..9), strips in 1usize..7) {
        let fits = |zones: u32| {
            rooms.iter().map(|room| *room.min(&zones)).sum::<u32>() >= zones * u32::try_from(strips).unwrap()
        };
        let most = (0..=400).filter(|zones| fits(*zones)).max();
        prop_assert_eq!(Some(zones_that_fit(&rooms, strips)), most);
    }
}
