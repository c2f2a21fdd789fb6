//! Which units of each drive are free: computed from a view, and then brought up to each next one.
//!
//! PLACE-1. Places do not overlap: a unit of a drive is in one place of all rows and journal records, or free. A strip
//!     counts only with the tenancy of its place.

use std::collections::BTreeMap;

use crate::class::units_of;
use crate::format::{
    DriveRecord, DriveTable, JournalPlaceKind, JournalRecord, Row, StripForm, StripSet,
};
use crate::ids::{DriveNumber, UnitNumber};
use crate::view::LayoutView;

/// Units of a drive that belong together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct UnitRange {
    /// The drive.
    pub drive: DriveNumber,
    /// The first unit.
    pub first: UnitNumber,
    /// How many.
    pub count: u32,
}

/// Why places cannot be as they are said to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SpaceFault {
    /// Units are in two places, or behind the drive's end.
    #[error("{} units of drive {} from {} on are taken, or not there", .range.count, .range.drive, .range.first)]
    Taken {
        /// The units.
        range: UnitRange,
    },
}

/// Free units of one drive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FreeUnits {
    /// First unit and number of each free range; no two touch.
    ranges: BTreeMap<u32, u32>,
    total: u32,
    units: u32,
}

impl FreeUnits {
    fn new(units: u32) -> Self {
        let ranges = (units > 0).then_some((0, units)).into_iter().collect();
        Self { ranges, total: units, units }
    }

    /// Units of the drive.
    #[must_use]
    pub const fn units(&self) -> u32 {
        self.units
    }

    /// Free units.
    #[must_use]
    pub const fn total(&self) -> u32 {
        self.total
    }

    /// Places of `count` units that there is room for.
    #[must_use]
    pub fn places(&self, count: u32) -> u32 {
        self.ranges.values().map(|length| length / count).sum()
    }

    /// Where a place of `count` units has room: first fit, lowest first.
    #[must_use]
    pub fn first_fit(&self, count: u32) -> Option<UnitNumber> {
        let fit = self.ranges.iter().find(|(_, length)| **length >= count);
        fit.map(|(first, _)| UnitNumber(*first))
    }

    /// Takes units; false when they are not free, and then nothing was taken.
    fn take(&mut self, first: u32, count: u32) -> bool {
        let Some(end) = first.checked_add(count) else { return false };
        let Some((&start, &length)) = self.ranges.range(..=first).next_back() else { return false };
        if start + length < end {
            return false; // PLACE-1
        }
        self.ranges.remove(&start);
        if start < first {
            self.ranges.insert(start, first - start);
        }
        if end < start + length {
            self.ranges.insert(end, start + length - end);
        }
        self.total -= count;
        true
    }

    /// Gives units back that were taken.
    fn give(&mut self, first: u32, count: u32) {
        let (mut start, mut end) = (first, first + count);
        if let Some((&before, &length)) = self.ranges.range(..start).next_back() {
            assert!(before + length <= start, "PLACE-1: units are given back once");
            if before + length == start {
                self.ranges.remove(&before);
                start = before;
            }
        }
        if let Some((&after, &length)) = self.ranges.range(start.max(first)..).next() {
            assert!(after >= end, "PLACE-1: units are given back once");
            if after == end {
                self.ranges.remove(&after);
                end = after + length;
            }
        }
        self.ranges.insert(start, end - start);
        self.total += count;
    }
}

/// Free units of all drives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DriveSpaces {
    drives: BTreeMap<DriveNumber, FreeUnits>,
}

impl DriveSpaces {
    /// What the view leaves free. O(places).
    ///
    /// # Errors
    /// [`SpaceFault::Taken`] when places overlap.
    pub fn of(view: &LayoutView) -> Result<Self, SpaceFault> {
        let table = view.drives();
        let units = table.drives.iter().map(|drive| (drive.number, FreeUnits::new(drive.units)));
        let mut spaces = Self { drives: units.collect() };
        for held in table.drives.iter().filter_map(held_units) {
            spaces.take(&[held])?;
        }
        for (_, row) in view.rows() {
            spaces.take(&ranges_of_row(table, row))?;
        }
        for journal in view.journals() {
            spaces.take(&ranges_of_journal(journal))?;
        }
        Ok(spaces)
    }

    /// Free units of a drive.
    #[must_use]
    pub fn drive(&self, number: DriveNumber) -> Option<&FreeUnits> {
        self.drives.get(&number)
    }

    /// Follows a row that is replaced in a view: what only `before` has gets free.
    ///
    /// # Errors
    /// [`SpaceFault::Taken`], and then nothing changed.
    pub fn replace_row(
        &mut self,
        table: &DriveTable,
        before: &Row,
        after: &Row,
    ) -> Result<(), SpaceFault> {
        self.replace(&ranges_of_row(table, before), &ranges_of_row(table, after))
    }

    /// Follows a journal record that is replaced in a view.
    ///
    /// # Errors
    /// [`SpaceFault::Taken`], and then nothing changed.
    pub fn replace_journal(
        &mut self,
        before: Option<&JournalRecord>,
        after: &JournalRecord,
    ) -> Result<(), SpaceFault> {
        let before = before.map(ranges_of_journal).unwrap_or_default();
        self.replace(&before, &ranges_of_journal(after))
    }

    fn replace(&mut self, before: &[UnitRange], after: &[UnitRange]) -> Result<(), SpaceFault> {
        let only = |some: &[UnitRange], others: &[UnitRange]| -> Vec<UnitRange> {
            some.iter().filter(|range| !others.contains(range)).copied().collect()
        };
        let is_twice = |(index, range): &(usize, &UnitRange)| {
            after.iter().take(*index).any(|other| other == *range)
        };
        if let Some((_, range)) = after.iter().enumerate().find(is_twice) {
            return Err(SpaceFault::Taken { range: *range }); // PLACE-1
        }
        // Taken first: what comes in must not lie over what goes, which is read until the change is durable.
        self.take(&only(after, before))?;
        self.give(&only(before, after));
        Ok(())
    }

    /// All of them, or none.
    fn take(&mut self, ranges: &[UnitRange]) -> Result<(), SpaceFault> {
        for (index, range) in ranges.iter().enumerate() {
            let drive = self.drives.get_mut(&range.drive);
            if !drive.is_some_and(|free| free.take(range.first.0, range.count)) {
                self.give(ranges.get(..index).unwrap_or_default());
                return Err(SpaceFault::Taken { range: *range });
            }
        }
        Ok(())
    }

    fn give(&mut self, ranges: &[UnitRange]) {
        for range in ranges {
            let drive = self.drives.get_mut(&range.drive).expect("drives with places are there");
            drive.give(range.first.0, range.count);
        }
    }
}

fn held_units(drive: &DriveRecord) -> Option<UnitRange> {
    let held = drive.held;
    (held.count > 0).then_some(UnitRange {
        drive: drive.number,
        first: held.first,
        count: held.count,
    })
}

/// Units of the places of a row. Those that both of its sets have are there once where the same strip has them with the
/// same labels, and else twice, which nothing may have.
#[must_use]
pub fn ranges_of_row(table: &DriveTable, row: &Row) -> Vec<UnitRange> {
    let strips = row.sets().flat_map(|set| {
        let shape = table.class_of(set.class).expect("VIEW-1").shape;
        let has_labels = set.form == StripForm::Striped;
        let places = ranges_of_set(table, set).into_iter().zip(set.places.iter().enumerate());
        places.map(move |(range, (strip, place))| (range, strip, place.tenancy, shape, has_labels))
    });
    let mut strips: Vec<_> = strips.collect();
    strips.sort_unstable();
    strips.dedup();
    strips.into_iter().map(|(range, ..)| range).collect()
}

fn ranges_of_set(table: &DriveTable, set: &StripSet) -> Vec<UnitRange> {
    let class = table.class_of(set.class).expect("VIEW-1");
    let geometry = table.geometry(class.shape);
    let counts = match set.form {
        StripForm::Striped => [geometry.place_units(); 2],
        StripForm::Slots { split } => {
            let first = table.zone_segments.min(split.into());
            [first, table.zone_segments - first]
                .map(|slots| units_of(u64::from(slots) * u64::from(table.segment_bytes)))
        }
    };
    let [first, others] = counts;
    let counts = std::iter::once(first).chain(std::iter::repeat(others));
    let ranges = set.places.iter().zip(counts);
    ranges.map(|(it, count)| UnitRange { drive: it.drive, first: it.place, count }).collect()
}

fn ranges_of_journal(journal: &JournalRecord) -> Vec<UnitRange> {
    let count = units_of(journal.lane_bytes);
    let ranges = journal.copies.iter().filter_map(|copy| match copy.place {
        JournalPlaceKind::Units(first) => Some(UnitRange { drive: copy.drive, first, count }),
        JournalPlaceKind::Lane(_) => None,
    });
    ranges.collect()
}

#[cfg(test)]
mod tests;
