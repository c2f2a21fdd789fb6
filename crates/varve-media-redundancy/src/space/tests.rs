//! Tests of free units.

use proptest::prelude::*;

use super::*;
use crate::format::tests::samples::{class_id, drive_number, place, row, striped};
use crate::format::{HeldUnits, MoveReason, RowState};
use crate::ids::ZoneIndex;
use crate::test_pool::{MIRROR, NONE, TestPool, place_units, table};

/// Free units as a plain list of bits.
struct UnitBits(Vec<bool>);

impl UnitBits {
    fn take(&mut self, first: usize, count: usize) -> bool {
        let Some(units) = self.0.get_mut(first..first + count) else { return false };
        let are_free = units.iter().all(|is_free| *is_free);
        if are_free {
            units.fill(false);
        }
        are_free
    }

    fn first_fit(&self, count: usize) -> Option<usize> {
        self.0.windows(count).position(|units| units.iter().all(|is_free| *is_free))
    }
}

proptest! {
    /// PLACE-1, against a list of bits.
    #[test]
    fn units_are_in_one_place_or_free(steps in proptest::collection::vec((0u32..64, 1u32..12, any::<bool>()), 1..60)) {
        let (mut free, mut bits) = (FreeUnits::new(64), UnitBits(vec![true; 64]));
        let mut places = Vec::new();
        for (first, count, gives) in steps {
            let (start, length) = (first as usize, count as usize);
            if gives && !places.is_empty() {
                let (first, count): (u32, u32) = places.swap_remove(start % places.len());
                free.give(first, count);
                bits.0[first as usize..(first + count) as usize].fill(true);
            } else {
                let is_taken = free.take(first, count);
                prop_assert_eq!(is_taken, bits.take(start, length));
                places.extend(is_taken.then_some((first, count)));
            }
            prop_assert_eq!(free.total() as usize, bits.0.iter().filter(|is_free| **is_free).count());
            let fit = free.first_fit(count).map(|unit| unit.0 as usize);
            prop_assert_eq!(fit, bits.first_fit(length));
            prop_assert!(free.ranges.iter().zip(free.ranges.iter().skip(1)).all(|(one, next)| one.0 + one.1 < *next.0));
        }
    }

    /// What follows rows one by one is what the last view says.
    #[test]
    fn following_rows_is_as_good_as_looking_at_all(steps in proptest::collection::vec((0u32..30, 0u8..4), 1..80)) {
        let mut pool = TestPool::new(table(&[2000, 2000, 1500, 1500, 1200, 1000, 900]));
        for (zone, what) in steps {
            let before = pool.view.row(ZoneIndex(zone)).clone();
            let tenancy = before.tenancy.get();
            match (&before.state, what) {
                (RowState::Empty, class) => { pool.place(zone, class.clamp(1, 3)); }
                (_, 0) => pool.set_row(zone, row(tenancy, RowState::Empty)),
                (RowState::Still(from), class) => {
                    let class = class.clamp(1, 3);
                    let Some(places) = pool.places_for(zone, class) else { continue };
                    let (from, to) = (from.clone(), striped(class, &places));
                    let why = MoveReason::Conversion;
                    pool.set_row(zone, row(tenancy + 1, RowState::Moving { from, to, why }));
                }
                (RowState::Moving { from, to, why }, 1) => {
                    let (from, to) = (to.clone(), from.clone());
                    pool.set_row(zone, row(tenancy, RowState::Moving { from, to, why: *why }));
                }
                (RowState::Moving { to, .. }, _) => {
                    pool.set_row(zone, row(tenancy, RowState::Still(to.clone())));
                }
            }
            prop_assert_eq!(DriveSpaces::of(&pool.view), Ok(pool.occupancy.spaces().clone()));
            let shares = crate::shares::SharedZones::of(&pool.view);
            prop_assert!(shares == *pool.occupancy.shares());
        }
    }
}

#[test]
fn places_that_overlap_are_refused() {
    let mut pool = TestPool::new(table(&[1000, 1000]));
    let units = place_units(pool.view.drives(), MIRROR);
    pool.set_row(0, row(1, RowState::Still(striped(MIRROR, &[place(0, 1, 0), place(1, 1, 0)]))));
    let overlap = place(1, 1, units - 1);
    let other = row(1, RowState::Still(striped(MIRROR, &[place(0, 1, units), overlap])));
    let before = pool.occupancy.clone();
    let taken = pool.occupancy.replace_row(&pool.view, ZoneIndex(1), &other);
    let range = UnitRange { drive: drive_number(1), first: overlap.place, count: units };
    assert_eq!(taken, Err(SpaceFault::Taken { range }));
    assert_eq!(pool.occupancy, before, "nothing was taken");
    let view = pool.view.with_row(ZoneIndex(1), other).unwrap();
    assert_eq!(DriveSpaces::of(&view), Err(SpaceFault::Taken { range }));
}

#[test]
fn places_behind_the_end_of_a_drive_are_refused() {
    let mut pool = TestPool::new(table(&[1000, 1000]));
    for first in [1000 - place_units(pool.view.drives(), MIRROR) + 1, u32::MAX] {
        let set = striped(MIRROR, &[place(0, 1, 0), place(1, 1, first)]);
        let row = row(1, RowState::Still(set));
        assert!(pool.occupancy.replace_row(&pool.view, ZoneIndex(0), &row).is_err(), "{first}");
    }
    assert_eq!(pool.occupancy.spaces().drive(drive_number(0)).unwrap().total(), 1000);
}

/// MOVER-3 relies on it: the old place stays taken until a row without it is there.
#[test]
fn while_a_row_moves_both_places_are_taken() {
    let mut pool = TestPool::new(table(&[1000; 3]));
    let units = place_units(pool.view.drives(), MIRROR);
    let from = striped(MIRROR, &[place(0, 1, 0), place(1, 1, 0)]);
    let to = striped(MIRROR, &[place(0, 1, 0), place(2, 2, 0)]);
    let free = |pool: &TestPool| -> Vec<u32> {
        let drives = (0..3).map(|drive| pool.occupancy.spaces().drive(drive_number(drive)));
        drives.map(|free| 1000 - free.unwrap().total()).collect()
    };
    pool.set_row(0, row(1, RowState::Still(from.clone())));
    let why = MoveReason::Rebuild;
    pool.set_row(0, row(2, RowState::Moving { from, to: to.clone(), why }));
    assert_eq!(free(&pool), [units; 3]);
    pool.set_row(0, row(2, RowState::Still(to)));
    assert_eq!(free(&pool), [units, 0, units]);
}

/// PLACE-1, within a row.
#[test]
fn both_sets_of_a_row_share_units_of_the_same_strip_only() {
    let mut pool = TestPool::new(table(&[1000; 3]));
    let from = striped(MIRROR, &[place(0, 1, 0), place(1, 1, 0)]);
    pool.set_row(0, row(1, RowState::Still(from.clone())));
    let why = MoveReason::Conversion;
    let moving = |to| row(2, RowState::Moving { from: from.clone(), to, why });
    let units = place_units(pool.view.drives(), MIRROR);
    for (to, drive, first) in [
        (striped(MIRROR, &[place(1, 1, 0), place(2, 2, 0)]), 1, 0),
        (striped(MIRROR, &[place(2, 2, 0), place(1, 2, 0)]), 1, 0),
        (striped(NONE, &[place(0, 2, 0)]), 0, 0),
        (striped(NONE, &[place(0, 1, 0)]), 0, 0),
        (striped(MIRROR, &[place(0, 2, 64), place(2, 2, 0)]), 0, 64),
    ] {
        let range =
            UnitRange { drive: drive_number(drive), first: UnitNumber(first), count: units };
        let row = moving(to);
        let before = pool.occupancy.clone();
        let taken = pool.occupancy.replace_row(&pool.view, ZoneIndex(0), &row);
        assert_eq!(taken, Err(SpaceFault::Taken { range }), "{row}");
        assert_eq!(pool.occupancy, before, "nothing was taken");
    }
    let to = striped(MIRROR, &[place(2, 2, 0), place(1, 2, 0)]);
    let view = pool.view.with_row(ZoneIndex(0), moving(to)).unwrap();
    assert!(DriveSpaces::of(&view).is_err());
    let stays = moving(striped(MIRROR, &[place(0, 1, 0), place(2, 2, 0)]));
    assert_eq!(pool.occupancy.replace_row(&pool.view, ZoneIndex(0), &stays), Ok(()));
}

#[test]
fn units_with_tables_of_a_drive_are_no_place() {
    let mut table = table(&[1000, 1000]);
    table.drives[0].held = HeldUnits { first: UnitNumber(0), count: 990 };
    let pool = TestPool::new(table);
    assert_eq!(pool.occupancy.spaces().drive(drive_number(0)).unwrap().total(), 10);
    assert_eq!(pool.places_for(0, MIRROR), None);
    assert!(pool.places_for(0, NONE).is_some());
}

#[test]
fn slots_of_an_earlier_format_take_what_they_take() {
    let mut pool = TestPool::new(table(&[1000, 1000]));
    let form = StripForm::Slots { split: 10 };
    let places = [place(0, 1, 100), place(1, 1, 0)].into();
    let set = StripSet { class: class_id(NONE), form, places };
    pool.set_row(0, row(1, RowState::Still(set)));
    let free = |drive| pool.occupancy.spaces().drive(drive_number(drive)).unwrap().total();
    // Slots of 256 KiB are four units.
    assert_eq!((free(0), free(1)), (1000 - 40, 1000 - 24));
}

#[test]
fn journals_take_units_and_give_them_back() {
    let mut pool = TestPool::new(table(&[1000, 1000]));
    pool.add_journal(0, &[0, 1]);
    pool.add_journal(1, &[0, 1]);
    let free = |pool: &TestPool| pool.occupancy.spaces().drive(drive_number(0)).unwrap().total();
    assert_eq!(free(&pool), 1000 - 32);
    assert_eq!(DriveSpaces::of(&pool.view), Ok(pool.occupancy.spaces().clone()));
    pool.add_journal(1, &[1]);
    assert_eq!(free(&pool), 1000 - 16);
}
