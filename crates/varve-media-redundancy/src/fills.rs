//! How full drives are, in units: counted from a view without looking at which units they are, as that is done often,
//! and on threads that serve.

use crate::class::units_of;
use crate::format::{DriveRecord, JournalPlaceKind, Row, RowState, StripForm};
use crate::ids::DriveNumber;
use crate::plan::takes_new_zones;
use crate::space::ranges_of_row;
use crate::view::LayoutView;

/// Units that are taken on each drive: by strips, copies of journals, and what a drive of an earlier format holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DriveFills {
    /// By number.
    taken: Vec<u64>,
    /// Units of a copy of a journal, the largest.
    journal_units: u32,
}

impl DriveFills {
    /// Those of a view. O(places).
    #[must_use]
    pub fn of(view: &LayoutView) -> Self {
        Self::with_rows(view, Self::add_row)
    }

    /// Those that a view has once all that moves has moved. O(places).
    #[must_use]
    pub fn of_targets(view: &LayoutView) -> Self {
        Self::with_rows(view, |fills, view, row| {
            let RowState::Moving { to, .. } = &row.state else { return fills.add_row(view, row) };
            let state = RowState::Still(to.clone());
            fills.add_row(view, &Row { tenancy: row.tenancy, state });
        })
    }

    fn with_rows(view: &LayoutView, add: impl Fn(&mut Self, &LayoutView, &Row)) -> Self {
        let mut fills = Self { taken: vec![0; usize::from(DriveNumber::COUNT)], journal_units: 0 };
        for drive in &view.drives().drives {
            fills.add(drive.number, drive.held.count);
        }
        for (_, row) in view.rows() {
            add(&mut fills, view, row);
        }
        for journal in view.journals() {
            let units = units_of(journal.lane_bytes);
            fills.journal_units = fills.journal_units.max(units);
            for copy in &journal.copies {
                if matches!(copy.place, JournalPlaceKind::Units(_)) {
                    fills.add(copy.drive, units);
                }
            }
        }
        fills
    }

    /// Units that are taken on a drive.
    #[must_use]
    pub fn taken(&self, drive: DriveNumber) -> u64 {
        self.taken.get(drive.index()).copied().unwrap_or_default()
    }

    /// Places of so many units for which each drive that takes new zones has room beside a copy of a journal, as if its
    /// free units were side by side.
    #[must_use]
    pub fn rooms(&self, view: &LayoutView, place_units: u32) -> Vec<u32> {
        let table = view.drives();
        let drives = table.drives.iter().filter(|drive| takes_new_zones(table, drive));
        let room = |drive: &DriveRecord| {
            let free = u64::from(drive.units).saturating_sub(self.taken(drive.number));
            let free = free.saturating_sub(self.journal_units.into());
            u32::try_from(free / u64::from(place_units.max(1))).unwrap_or(u32::MAX)
        };
        drives.map(room).collect()
    }

    fn add_row(&mut self, view: &LayoutView, row: &Row) {
        match &row.state {
            RowState::Empty => {}
            RowState::Still(set) if set.form == StripForm::Striped => {
                let units = view.drives().geometry(view.class_of(set).shape).place_units();
                set.places.iter().for_each(|place| self.add(place.drive, units));
            }
            RowState::Still(_) | RowState::Moving { .. } => {
                // Sets may share places.
                let ranges = ranges_of_row(view.drives(), row);
                ranges.into_iter().for_each(|range| self.add(range.drive, range.count));
            }
        }
    }

    fn add(&mut self, drive: DriveNumber, units: u32) {
        if let Some(taken) = self.taken.get_mut(drive.index()) {
            *taken += u64::from(units);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::tests::samples::drive_number;
    use crate::test_pool::{MIRROR, STRIPED, TestPool, place_units, table};

    #[test]
    fn what_is_taken_is_what_is_not_free() {
        let mut pool = TestPool::new(table(&[4000, 5000, 6000, 4000, 4000, 4000, 4000]));
        pool.add_journal(0, &[0, 1]);
        for zone in 0..9 {
            assert!(pool.place(zone, if zone % 2 == 0 { MIRROR } else { STRIPED }));
        }
        let fills = DriveFills::of(&pool.view);
        for drive in 0..7 {
            let free = pool.occupancy.spaces().drive(drive_number(drive)).unwrap();
            let taken = u64::from(free.units() - free.total());
            assert_eq!(fills.taken(drive_number(drive)), taken, "drive {drive}");
        }
        let units = place_units(pool.view.drives(), MIRROR);
        let rooms = fills.rooms(&pool.view, units);
        for (drive, room) in (0..7).zip(rooms) {
            let free = pool.occupancy.spaces().drive(drive_number(drive)).unwrap();
            assert_eq!(room, (free.total() - 16) / units, "drive {drive}");
        }
    }
}
