//! Tests of placement.

use std::collections::BTreeSet;

use proptest::prelude::*;
use varve_types::ShardId;

use super::*;
use crate::class::{MediumKind, MediumKinds};
use crate::format::tests::samples::{drive_number, place, row, striped};
use crate::format::{JournalCopy, JournalCopyState, MoveReason};
use crate::ids::UNIT_BYTES;
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
    let class = class_of(pool.view.drives(), MIRROR);
    for (avoid, expected) in [
        (&[][..], Some([5, 6])),
        (&[6], Some([0, 5])), // Slow, but there is no other.
        (&[0, 6], None),
    ] {
        let avoid: Vec<_> = avoid.iter().map(|drive| drive_number(*drive)).collect();
        let zone = ZoneIndex(0);
        let request = PlaceRequest { zone, class: &class, kept: &[], avoid: &avoid, prefer: None };
        let places = choose(&pool.view, &pool.occupancy, &request);
        let drives = places.map(|places| drives_of(&places));
        assert_eq!(drives, expected.map(BTreeSet::from), "without {avoid:?}");
    }
}

fn drives_of(places: &[StripPlace]) -> BTreeSet<u8> {
    places.iter().map(|place| place.drive.get()).collect()
}

/// PLACE-4.
#[test]
fn failed_drives_get_strips_that_are_left_out_where_others_lack() {
    let mut pool = pool_with_rooms(&[50; 7], STRIPED);
    let full = |pool: &TestPool| drives_of(&pool.places_for(0, STRIPED).unwrap());
    pool.set_state(0, DriveState::Failed);
    assert_eq!(full(&pool), BTreeSet::from([1, 2, 3, 4, 5, 6]), "there are enough without it");
    pool.set_state(1, DriveState::Leaving);
    assert_eq!(full(&pool), BTreeSet::from([0, 2, 3, 4, 5, 6]));
    assert!(pool.place(1, STRIPED));
    let queue = crate::exposure::RepairQueue::of(&pool.view);
    assert_eq!(queue.next().map(|item| item.zone), Some(ZoneIndex(1)), "its row names drive 0");
    pool.set_state(2, DriveState::Failed);
    assert_eq!(full(&pool), BTreeSet::from([0, 2, 3, 4, 5, 6]), "two may be left out");
    pool.set_state(3, DriveState::Failed);
    assert_eq!(pool.places_for(0, STRIPED), None, "three may not");
    assert_eq!(pool.places_for(0, MIRROR).map(|places| places.len()), Some(2));
}

/// PLACE-4: a strip that stays on a failed drive is left out too, and a move that gains nothing is none.
#[test]
fn kept_strips_on_failed_drives_count_as_left_out() {
    let mut pool = pool_with_rooms(&[50; 6], STRIPED);
    assert!(pool.place(0, STRIPED));
    let set = pool.view.row(ZoneIndex(0)).target().unwrap().clone();
    let class = class_of(pool.view.drives(), STRIPED);
    let chosen = |pool: &TestPool, kept: &[u8]| {
        let kept: Vec<_> =
            set.places.iter().map(|it| kept.contains(&it.drive.get()).then_some(*it)).collect();
        let zone = ZoneIndex(0);
        let request = PlaceRequest { zone, class: &class, kept: &kept, avoid: &[], prefer: None };
        choose(&pool.view, &pool.occupancy, &request)
    };
    pool.set_state(0, DriveState::Failed);
    assert_eq!(chosen(&pool, &[1, 2, 3, 4, 5]), None, "only the failed drive has room");
    pool.set_state(1, DriveState::Failed);
    let all = BTreeSet::from([0, 1, 2, 3, 4, 5]);
    assert_eq!(chosen(&pool, &[0, 2, 3, 4]).map(|it| drives_of(&it)), Some(all));
    pool.set_state(2, DriveState::Failed);
    assert_eq!(chosen(&pool, &[0, 1, 3, 4]), None, "drive 2 would be the third");
}

/// Fills a pool to what is usable from a zone on, loses a drive, and rebuilds all zones in an order that `seed` says,
/// with the moves of other zones that [`Occupancy::make_room`] says. Returns how many these were.
fn rebuild_after_loss(rooms: &[u32], class: u8, lost: u8, seed: u64) -> u32 {
    let mut pool = pool_with_rooms(rooms, class);
    let units = place_units(pool.view.drives(), class);
    let class_record = class_of(pool.view.drives(), class);
    let sizes: Vec<_> = pool.view.drives().drives.iter().map(|drive| drive.units).collect();
    let mut rng = varve_stdx::Rng::new(seed);
    let first = u32::try_from(rng.below(10_000)).unwrap();
    let mut zones: Vec<_> =
        (first..).take(usable(&sizes, class_record.shape.strips(), units) as usize).collect();
    assert!(zones.iter().all(|zone| pool.place(*zone, class)));
    pool.set_state(lost, DriveState::Failed);
    for last in (1..zones.len()).rev() {
        zones.swap(last, rng.index(last + 1));
    }
    let mut moves = 0;
    for zone in zones {
        let set = pool.view.row(ZoneIndex(zone)).target().unwrap().clone();
        if !set.has_drive(drive_number(lost)) {
            continue;
        }
        let is_kept = |place: &StripPlace| place.drive != drive_number(lost);
        let kept: Vec<_> = set.places.iter().map(|it| is_kept(it).then_some(*it)).collect();
        let request = PlaceRequest {
            zone: ZoneIndex(zone),
            class: &class_record,
            kept: &kept,
            avoid: &[],
            prefer: None,
        };
        let mut places = choose(&pool.view, &pool.occupancy, &request);
        if places.is_none() {
            let found = pool.occupancy.make_room(&pool.view, &request);
            let (other, strip, drive) = found.expect("a strip of another zone can be moved");
            move_strip(&mut pool, other, strip, drive);
            moves += 1;
            places = choose(&pool.view, &pool.occupancy, &request);
        }
        move_to(&mut pool, zone, places.expect("there is room now"));
    }
    for (_, row) in pool.view.rows() {
        let drives = drives_of(&row.target().unwrap().places);
        assert_eq!(drives.len(), class_record.shape.strips());
        assert!(!drives.contains(&lost));
    }
    assert!(Occupancy::of(&pool.view).is_ok_and(|found| found == pool.occupancy));
    moves
}

fn move_strip(pool: &mut TestPool, zone: ZoneIndex, strip: usize, drive: DriveNumber) {
    let row = pool.view.row(zone).clone();
    let set = row.target().unwrap();
    assert!(!set.has_drive(drive), "PLACE-2");
    let units = pool.view.drives().geometry(pool.view.class_of(set).shape).place_units();
    let place = pool.occupancy.spaces().drive(drive).unwrap().first_fit(units).unwrap();
    let mut places = set.places.to_vec();
    places[strip] = StripPlace { drive, tenancy: row.tenancy.next().unwrap(), place };
    move_to(pool, zone.0, places);
}

/// Moves a zone of which all is in its target, and ends the move.
fn move_to(pool: &mut TestPool, zone: u32, places: Vec<StripPlace>) {
    let before = pool.view.row(ZoneIndex(zone)).clone();
    let from = before.target().unwrap().clone();
    let to = StripSet { places: places.into(), ..from.clone() };
    let tenancy = before.tenancy.get() + 1;
    let state = RowState::Moving { from, to: to.clone(), why: MoveReason::Rebuild };
    pool.set_row(zone, row(tenancy, state));
    pool.set_row(zone, row(tenancy, RowState::Still(to)));
}

#[test]
fn full_pools_of_equal_drives_are_rebuilt_by_making_room() {
    let moves: Vec<_> = (0..8).map(|lost| rebuild_after_loss(&[60; 8], STRIPED, lost, 7)).collect();
    assert!(moves.iter().any(|moves| *moves > 0), "{moves:?}");
}

#[test]
fn room_is_made_on_a_drive_that_the_zone_lacks() {
    let mut pool = pool_with_rooms(&[2, 2, 2], MIRROR);
    let units = place_units(pool.view.drives(), MIRROR);
    let on = |one: StripPlace, other: StripPlace| {
        row(1, RowState::Still(striped(MIRROR, &[one, other])))
    };
    pool.set_row(0, on(place(0, 1, 0), place(1, 1, 0)));
    pool.set_row(1, on(place(0, 1, units), place(1, 1, units)));
    let class = class_of(pool.view.drives(), MIRROR);
    // Drives 0 and 1 are full, and the only one with room has a strip already.
    let (zone, kept) = (ZoneIndex(2), [Some(place(2, 1, 0)), None]);
    let request = PlaceRequest { zone, class: &class, kept: &kept, avoid: &[], prefer: None };
    assert_eq!(choose(&pool.view, &pool.occupancy, &request), None);
    let found = pool.occupancy.make_room(&pool.view, &request);
    assert_eq!(found, Some((ZoneIndex(0), 0, drive_number(2))));
    let avoid = [drive_number(0), drive_number(1)];
    let nowhere = PlaceRequest { avoid: &avoid, ..request };
    assert_eq!(pool.occupancy.make_room(&pool.view, &nowhere), None);
    // Drive 2 is full as well.
    pool.set_row(3, row(1, RowState::Still(striped(NONE, &[place(2, 1, 0)]))));
    pool.set_row(4, row(1, RowState::Still(striped(NONE, &[place(2, 1, units)]))));
    assert_eq!(pool.occupancy.make_room(&pool.view, &request), None);
}

#[test]
fn spaces_follow_drives_that_join_and_grow() {
    let mut pool = TestPool::new(table(&[500; 3]));
    for zone in 0..5 {
        assert!(pool.place(zone, MIRROR));
    }
    let mut grown = pool.view.drives().clone();
    grown.epoch.0 += 1;
    grown.drives[1].units = 900;
    let joined = DriveRecord {
        state: DriveState::Joining,
        since_epoch: grown.epoch,
        ..table(&[500; 4]).drives[3].clone()
    };
    grown.drives.push(joined);
    grown.next_drive = 4;
    let after = pool.view.with_drives(grown).unwrap();
    let free = |pool: &TestPool, drive| {
        pool.occupancy.spaces().drive(drive_number(drive)).unwrap().total()
    };
    let before = free(&pool, 1);
    pool.occupancy.replace_drives(&pool.view, &after).unwrap();
    pool.view = after;
    assert_eq!((free(&pool, 1), free(&pool, 3)), (before + 400, 500));
    assert!(Occupancy::of(&pool.view).is_ok_and(|found| found == pool.occupancy));
    // One that ends before its places do is refused.
    let mut shrunk = pool.view.drives().clone();
    shrunk.epoch.0 += 1;
    shrunk.drives[0].units = 1;
    let before = pool.occupancy.clone();
    let after = LayoutView::new(shrunk, [pool.view.page_of(ZoneIndex(0))], []).unwrap();
    assert!(pool.occupancy.replace_drives(&pool.view, &after).is_err());
    assert_eq!(pool.occupancy, before, "nothing changed");
}

#[test]
fn journals_are_put_at_the_end_of_their_drives() {
    let mut pool = TestPool::new(table(&[1000, 1000]));
    assert!(pool.place(0, MIRROR));
    let copy = |drive, first, state| JournalCopy {
        drive: drive_number(drive),
        place: JournalPlaceKind::Units(UnitNumber(first)),
        since: 0,
        state,
    };
    let journal = |copies| JournalRecord {
        pool: pool.view.drives().pool,
        shard: ShardId(0),
        journal_epoch: 1,
        lane_bytes: 16 * UNIT_BYTES,
        copies,
    };
    let (current, former) =
        (JournalCopyState::Current, JournalCopyState::Former { until: 1 << 20 });
    for (copies, expected) in [
        (vec![copy(0, 984, current)], 984),
        (vec![copy(0, 984, current), copy(1, 984, former)], 968),
        // What is too small is passed over, and what is just large enough is not.
        (vec![copy(0, 984, current), copy(1, 980, former), copy(1, 956, former)], 940),
        (vec![copy(0, 984, current), copy(1, 980, former), copy(1, 948, former)], 964),
    ] {
        let journal = journal(copies);
        let mut occupancy = pool.occupancy.clone();
        occupancy.replace_journal(&pool.view, &journal).unwrap();
        let view = pool.view.with_journal(journal.clone()).unwrap();
        let found = choose_journal(&view, &occupancy, &journal, &[]).unwrap();
        assert_eq!(found.drive, drive_number(1));
        assert_eq!(found.place, JournalPlaceKind::Units(UnitNumber(expected)));
    }
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

#[test]
fn journals_go_to_drives_of_a_kind_where_enough_take_them() {
    let mut table = table(&[1000; 4]);
    table.journal_kinds = MediumKinds::new(MediumKind::Nvme.bit()).unwrap();
    table.drives[0].kind = MediumKind::Hdd;
    table.drives[1].kind = MediumKind::Unknown;
    let of = |table: &DriveTable| {
        let mut pool = TestPool::new(table.clone());
        pool.add_journal(0, &[3]);
        let journal = pool.view.journals().next().unwrap();
        choose_journal(&pool.view, &pool.occupancy, journal, &[]).map(|it| it.drive.get())
    };
    assert_eq!((journal_kinds(&table), of(&table)), (table.journal_kinds, Some(2)));
    table.drives[2].is_slow = true;
    assert_eq!((journal_kinds(&table), of(&table)), (MediumKinds::ALL, Some(0)), "one is too few");
}

#[test]
fn a_record_that_is_full_of_copies_gets_no_other() {
    let mut pool = TestPool::new(table(&[1000; 2]));
    pool.add_journal(0, &[0]);
    let record = pool.view.journals().next().unwrap().clone();
    let with_copies = |count: usize| {
        let former = |at: usize| JournalCopy {
            place: JournalPlaceKind::Units(UnitNumber(16 * u32::try_from(at).unwrap())),
            state: JournalCopyState::Former { until: 1 << 20 },
            ..record.copies[0]
        };
        let copies = record.copies.iter().copied().chain((1..count).map(former)).collect();
        let journal = JournalRecord { copies, ..record.clone() };
        choose_journal(&pool.view, &pool.occupancy, &journal, &[]).map(|it| it.drive.get())
    };
    assert_eq!(with_copies(JournalRecord::COPIES_MAX - 1), Some(1));
    assert_eq!(with_copies(JournalRecord::COPIES_MAX), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Pools that are filled to what is usable: whichever drive is lost, all zones are rebuilt.
    #[test]
    fn a_lost_drive_of_a_full_pool_is_rebuilt(lost in 0u8..8, seed in any::<u64>()) {
        rebuild_after_loss(&[60; 8], STRIPED, lost, seed);
        rebuild_after_loss(&[20, 40, 60, 80, 100], MIRROR, lost % 5, seed);
    }
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
