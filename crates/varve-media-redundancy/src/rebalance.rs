//! Which strip to move so that drives are more evenly full. Pure.
//!
//! REBALANCE-1. A move takes a strip from a fuller drive to an emptier one, counts where rows go that move already, and
//!     leaves the one it took from the fuller: so moves come to an end, however many threads plan at the same time.

use crate::conversion::is_as_new;
use crate::fills::DriveFills;
use crate::format::{DriveRecord, DriveRoles, RowState, StripForm, StripSet};
use crate::ids::{DriveNumber, ZoneIndex};
use crate::plan::takes_new_places;
use crate::view::LayoutView;

/// By how much of their sizes drives may differ, in thousandths.
const GAP: u64 = 50;

/// Fullest drives that are tried: where sizes differ much, the fullest may have nothing that others lack.
const SOURCES_MAX: usize = 8;

/// A strip that is to be moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct StripMove {
    /// Of which zone.
    pub(crate) zone: ZoneIndex,
    /// The drive that it is on.
    pub(crate) from: DriveNumber,
    /// The drive that it goes to.
    pub(crate) to: DriveNumber,
}

/// How full a drive is.
struct DriveLevel {
    drive: DriveNumber,
    /// Units that are taken.
    taken: u64,
    /// Those that it has.
    units: u64,
}

impl DriveLevel {
    fn of(drive: &DriveRecord, fills: &DriveFills) -> Self {
        let units = u64::from(drive.units).max(1);
        Self { drive: drive.number, taken: fills.taken(drive.number), units }
    }

    const fn permille(&self) -> u64 {
        self.taken.saturating_mul(1000) / self.units
    }

    /// Whether a strip of so many units makes this drive and an emptier one more even (REBALANCE-1).
    fn gains(&self, to: &Self, strip_units: u64) -> bool {
        let (Some(left), there) = (self.taken.checked_sub(strip_units), to.taken + strip_units)
        else {
            return false;
        };
        let is_fuller =
            u128::from(left) * u128::from(to.units) >= u128::from(there) * u128::from(self.units);
        self.permille() >= to.permille() + GAP && is_fuller
    }
}

impl StripMove {
    /// The next one, of zones that `may_move` says; `None` where drives are even enough, or no strip of those zones
    /// would make them so. Costs a look at the rows for each of the fullest drives.
    pub(crate) fn next(view: &LayoutView, may_move: impl Fn(ZoneIndex) -> bool) -> Option<Self> {
        let fills = DriveFills::of_targets(view);
        let drives = view.drives().drives.iter().filter(|drive| takes_strips(drive));
        let mut levels: Vec<_> = drives.map(|drive| DriveLevel::of(drive, &fills)).collect();
        levels.sort_by_key(|level| (level.permille(), level.drive));
        let emptiest = levels.first()?.permille();
        let is_fuller = |level: &&DriveLevel| level.permille() >= emptiest + GAP;
        let mut sources = levels.iter().rev().filter(is_fuller).take(SOURCES_MAX);
        sources.find_map(|from| from_drive(view, from, &levels, &may_move))
    }

    /// Whether the move makes drives more even now, and the zone is one that may be moved for that.
    pub(crate) fn is_gain(&self, view: &LayoutView) -> bool {
        let Some(set) = movable(view, self.zone) else { return false };
        let fills = DriveFills::of_targets(view);
        let level = |number: DriveNumber| {
            let drive = view.drives().drive(number).filter(|drive| takes_strips(drive));
            drive.map(|drive| DriveLevel::of(drive, &fills))
        };
        let (Some(from), Some(to)) = (level(self.from), level(self.to)) else { return false };
        set.has_drive(self.from)
            && !set.has_drive(self.to)
            && is_of_kind(view, set, self.to)
            && from.gains(&to, strip_units(view, set))
    }
}

fn takes_strips(drive: &DriveRecord) -> bool {
    takes_new_places(drive, DriveRoles::SEGMENTS)
}

/// The strip of a drive that goes to the emptiest other one.
fn from_drive(
    view: &LayoutView,
    from: &DriveLevel,
    levels: &[DriveLevel],
    may_move: &impl Fn(ZoneIndex) -> bool,
) -> Option<StripMove> {
    let emptiest = levels.first()?.drive;
    let mut best: Option<(u64, StripMove)> = None;
    for (zone, _) in view.rows() {
        let Some(set) = movable(view, zone).filter(|set| set.has_drive(from.drive)) else {
            continue;
        };
        let units = strip_units(view, set);
        let takes = |to: &&DriveLevel| !set.has_drive(to.drive) && is_of_kind(view, set, to.drive);
        let Some(to) = levels.iter().find(takes).filter(|to| from.gains(to, units)) else {
            continue;
        };
        let is_better = best.as_ref().is_none_or(|(level, _)| to.permille() < *level);
        if is_better && may_move(zone) {
            best = Some((to.permille(), StripMove { zone, from: from.drive, to: to.drive }));
            if to.drive == emptiest {
                break;
            }
        }
    }
    best.map(|(_, found)| found)
}

/// The strips of a zone that lies still, with labels, in the class of new zones: others move for another reason.
fn movable(view: &LayoutView, zone: ZoneIndex) -> Option<&StripSet> {
    match &view.row(zone).state {
        RowState::Still(set) => {
            let is_plain = set.form == StripForm::Striped && is_as_new(view.drives(), set);
            is_plain.then_some(set)
        }
        RowState::Empty | RowState::Moving { .. } => None,
    }
}

fn strip_units(view: &LayoutView, set: &StripSet) -> u64 {
    view.drives().geometry(view.class_of(set).shape).place_units().into()
}

fn is_of_kind(view: &LayoutView, set: &StripSet, drive: DriveNumber) -> bool {
    let kinds = view.class_of(set).kinds;
    view.drives().drive(drive).is_some_and(|drive| kinds.has(drive.kind))
}

#[cfg(test)]
mod tests;
