//! How many zones each drive has, and each two drives share: the more evenly, the more drives a lost one is read from
//! and rebuilt to. Computed from a view, and then brought up to each next row.

use crate::format::{Row, StripSet};
use crate::ids::DriveNumber;
use crate::view::LayoutView;

const SIDE: usize = DriveNumber::COUNT as usize;

/// The counts. Rows count with where their strips go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SharedZones {
    /// By both drives; zones of one drive where they are the same. 254 KiB.
    zones: Vec<u32>,
}

impl SharedZones {
    /// Those of a view. O(places).
    #[must_use]
    pub fn of(view: &LayoutView) -> Self {
        let mut shares = Self { zones: vec![0; SIDE * SIDE] };
        view.rows().filter_map(|(_, row)| row.target()).for_each(|set| shares.add(set));
        shares
    }

    /// Follows a row that is replaced in a view.
    ///
    /// # Panics
    /// When `before` was not counted.
    pub fn replace_row(&mut self, before: &Row, after: &Row) {
        if let Some(set) = before.target() {
            self.count(set, |zones| zones.checked_sub(1).expect("what goes was counted"));
        }
        if let Some(set) = after.target() {
            self.add(set);
        }
    }

    /// Zones that have strips on both.
    #[must_use]
    pub fn between(&self, one: DriveNumber, other: DriveNumber) -> u32 {
        self.zones.get(one.index() * SIDE + other.index()).copied().unwrap_or_default()
    }

    /// Zones that have a strip on a drive.
    #[must_use]
    pub fn zones(&self, drive: DriveNumber) -> u32 {
        self.between(drive, drive)
    }

    fn add(&mut self, set: &StripSet) {
        self.count(set, |zones| zones + 1);
    }

    fn count(&mut self, set: &StripSet, change: impl Fn(u32) -> u32) {
        for one in &set.places {
            for other in &set.places {
                let at = one.drive.index() * SIDE + other.drive.index();
                let zones = self.zones.get_mut(at).expect("numbers of drives are below its side");
                *zones = change(*zones);
            }
        }
    }
}
