//! The order of repair: zones that can lose least come first. A rank over rows, brought up to each change of a row, a
//! drive or what a zone holds, so that a failed drive costs its own zones and no others.
//!
//! EXPOSURE-1. A zone with a strip that is not readable, or was left out, is in the queue until its row has all of them
//!     on readable drives again, whatever happens meanwhile.
//! EXPOSURE-2. The queue is what it would be if it were computed anew from the view and the contents.

use std::collections::{BTreeMap, BTreeSet};

use varve_media::Error;
use varve_media::planted::{Bug, planted};

use crate::format::{DriveState, DriveTable, Row, StripForm, StripPlace, StripSet};
use crate::ids::{DriveNumber, ZoneIndex};
use crate::view::LayoutView;

/// How much a zone can still lose.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Exposure {
    /// It has lost more than its class survives.
    Lost,
    /// So many more drives.
    Survives(u8),
}

/// What has to be done for a zone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum RepairWork {
    /// It lacks strips.
    Rebuild,
    /// It is whole, and a drive that leaves has a strip.
    Drain,
    /// Each of its sets lacks so many that nothing protects what is left.
    Salvage,
}

/// What the owner of a zone knows of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ZoneHoldings {
    /// Whether it has metadata pages.
    pub has_pages: bool,
    /// Bytes that somebody may still read.
    pub held_bytes: u64,
}

/// The next zone, and what for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RepairItem {
    /// What has to be done.
    pub work: RepairWork,
    /// What those of its sets can still lose that are not lost; lost where all of them are.
    pub exposure: Exposure,
    is_without_pages: bool,
    held_bytes: u64,
    /// The zone.
    pub zone: ZoneIndex,
    /// Whether one of its sets is lost: what is in that one alone cannot be read.
    pub has_lost_set: bool,
}

/// What is known of a zone beside its row.
#[derive(Clone, Default, Debug)]
struct ZoneFacts {
    holdings: ZoneHoldings,
    /// Places to which a strip of a put was not written, as it could not be. At most those of two sets.
    left_out: Vec<StripPlace>,
    item: Option<RepairItem>,
}

/// The queue.
#[derive(Clone, Debug)]
pub struct RepairQueue {
    order: BTreeSet<RepairItem>,
    zones: BTreeMap<ZoneIndex, ZoneFacts>,
    zones_of_drive: BTreeMap<DriveNumber, BTreeSet<ZoneIndex>>,
    /// Zones with rows by what the worst of their sets can lose.
    exposed: BTreeMap<Exposure, u32>,
    exposures: BTreeMap<ZoneIndex, Exposure>,
}

impl RepairQueue {
    /// That of a view, when nothing is known of the zones' contents. O(places).
    #[must_use]
    pub fn of(view: &LayoutView) -> Self {
        let mut queue = Self {
            order: BTreeSet::new(),
            zones: BTreeMap::new(),
            zones_of_drive: BTreeMap::new(),
            exposed: BTreeMap::new(),
            exposures: BTreeMap::new(),
        };
        for (zone, row) in view.rows() {
            queue.enter(zone, row);
            queue.rank(view, zone);
        }
        queue
    }

    /// The zone that comes first.
    #[must_use]
    pub fn next(&self) -> Option<RepairItem> {
        self.order.first().copied()
    }

    /// All of them, in order.
    pub fn items(&self) -> impl Iterator<Item = &RepairItem> {
        self.order.iter()
    }

    /// Zones with rows by what the worst of their sets can lose, the most exposed first.
    pub fn exposed(&self) -> impl Iterator<Item = ExposedZones> + '_ {
        self.exposed
            .iter()
            .map(|(exposure, zones)| ExposedZones { exposure: *exposure, zones: *zones })
    }

    /// Follows a drive whose state changed, in a view that says so already. O(its zones).
    pub fn drive_changes(&mut self, view: &LayoutView, drive: DriveNumber) {
        let zones = self.zones_of_drive.get(&drive).cloned().unwrap_or_default();
        zones.into_iter().for_each(|zone| self.rank(view, zone));
    }

    /// Follows a row: `view` has the new one already. Strips that were left out count for as long as their place is in
    /// the row: another one on the same drive is written anew.
    pub fn row_changes(&mut self, view: &LayoutView, zone: ZoneIndex, before: &Row) {
        for place in before.sets().flat_map(|set| &set.places) {
            if let Some(zones) = self.zones_of_drive.get_mut(&place.drive) {
                zones.remove(&zone);
            }
        }
        let row = view.row(zone);
        self.enter(zone, row);
        if let Some(facts) = self.zones.get_mut(&zone) {
            let stays = |place: &StripPlace| row.sets().any(|set| set.places.contains(place));
            facts.left_out.retain(|place| stays(place) && !planted(Bug::ZoneForgotten));
        }
        self.rank(view, zone);
    }

    /// Takes in what a zone holds now.
    pub fn set_holdings(&mut self, view: &LayoutView, zone: ZoneIndex, holdings: ZoneHoldings) {
        self.zones.entry(zone).or_default().holdings = holdings;
        self.rank(view, zone);
    }

    /// Takes in that a put left out the strip at a place (EXPOSURE-1).
    pub fn leave_out(&mut self, view: &LayoutView, zone: ZoneIndex, place: StripPlace) {
        let facts = self.zones.entry(zone).or_default();
        if !facts.left_out.contains(&place) {
            facts.left_out.push(place);
        }
        self.rank(view, zone);
    }

    fn enter(&mut self, zone: ZoneIndex, row: &Row) {
        for place in row.sets().flat_map(|set| &set.places) {
            self.zones_of_drive.entry(place.drive).or_default().insert(zone);
        }
    }

    /// Puts a zone where it belongs (EXPOSURE-2).
    fn rank(&mut self, view: &LayoutView, zone: ZoneIndex) {
        let facts = self.zones.entry(zone).or_default();
        if let Some(item) = facts.item.take() {
            self.order.remove(&item);
        }
        let standing = ZoneStanding::of(view, view.row(zone), &facts.left_out);
        let work = standing.and_then(|standing| standing.work);
        facts.item = work.zip(standing).map(|(work, standing)| RepairItem {
            work,
            exposure: standing.exposure,
            is_without_pages: !facts.holdings.has_pages,
            held_bytes: facts.holdings.held_bytes,
            zone,
            has_lost_set: standing.worst == Exposure::Lost,
        });
        self.order.extend(facts.item);
        let is_plain = facts.item.is_none() && facts.left_out.is_empty();
        if is_plain && facts.holdings == ZoneHoldings::default() {
            self.zones.remove(&zone);
        }
        self.count(zone, standing.map(|standing| standing.worst));
    }

    /// Counts a zone by what the worst of its sets can lose.
    fn count(&mut self, zone: ZoneIndex, exposure: Option<Exposure>) {
        let before = match exposure {
            Some(exposure) => self.exposures.insert(zone, exposure),
            None => self.exposures.remove(&zone),
        };
        if let Some(before) = before {
            let zones = self.exposed.get_mut(&before).expect("each exposure is counted");
            *zones -= 1;
            if *zones == 0 {
                self.exposed.remove(&before);
            }
        }
        if let Some(exposure) = exposure {
            *self.exposed.entry(exposure).or_default() += 1;
        }
    }
}

/// How many zones can lose so much.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExposedZones {
    /// What they can lose.
    pub exposure: Exposure,
    /// How many.
    pub zones: u32,
}

/// How a zone stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct ZoneStanding {
    /// That of the worst set: what is in it alone can lose so much.
    worst: Exposure,
    /// That of the worst set that is not lost, by which the zone is ranked.
    exposure: Exposure,
    work: Option<RepairWork>,
}

impl ZoneStanding {
    /// `None` for a zone without places.
    fn of(view: &LayoutView, row: &Row, left_out: &[StripPlace]) -> Option<Self> {
        // While a row moves, some segments are in one set and some in the other: the worse one counts. One that is lost
        // says nothing of what can still be saved.
        let replaced = row.sets().flat_map(|set| &set.places).filter(|it| row.is_replaced(it));
        let left_out: Vec<_> = left_out.iter().chain(replaced).copied().collect();
        let left_out = &*left_out;
        let exposures = row.sets().map(|set| exposure_of(view, set, left_out));
        let exposures: Vec<_> = exposures.collect();
        let worst = exposures.iter().copied().min()?;
        let left = exposures.iter().copied().filter(|exposure| *exposure != Exposure::Lost).min();
        let exposure = left.unwrap_or(Exposure::Lost);
        let table = view.drives();
        let target = row.target()?;
        let mut places = row.sets().flat_map(|set| &set.places);
        let lacks = places.any(|place| is_lacking(table, place, left_out));
        let leaves = target.places.iter().any(|place| {
            table.drive(place.drive).is_some_and(|drive| drive.state == DriveState::Leaving)
        });
        let work = match (exposure, lacks) {
            (Exposure::Lost, _) => Some(RepairWork::Salvage),
            (Exposure::Survives(_), true) => Some(RepairWork::Rebuild),
            (Exposure::Survives(_), false) => leaves.then_some(RepairWork::Drain),
        };
        Some(Self { worst, exposure, work })
    }
}

fn exposure_of(view: &LayoutView, set: &StripSet, left_out: &[StripPlace]) -> Exposure {
    let table = view.drives();
    let lost = set.places.iter().filter(|place| is_lacking(table, place, left_out)).count();
    let left = usize::from(parity_of(view, set)).checked_sub(lost);
    let left = left.and_then(|left| u8::try_from(left).ok());
    left.map_or(Exposure::Lost, Exposure::Survives)
}

/// Strips that a set can lose while it is whole.
pub(crate) fn parity_of(view: &LayoutView, set: &StripSet) -> u8 {
    match set.form {
        StripForm::Striped => view.class_of(set).shape.parity(),
        StripForm::Slots { .. } => 0,
    }
}

/// A zone that would be lost without these drives, and is not yet: one that has lost more strips than it can lose by
/// drives that failed before is lost with them and without.
pub(crate) fn lost_without(view: &LayoutView, away: &[DriveNumber]) -> Option<Error> {
    view.rows().find_map(|(ZoneIndex(zone), row)| {
        row.sets().find_map(|set| {
            let spare = usize::from(parity_of(view, set));
            let drives = || set.places.iter().map(|place| place.drive);
            let failed = drives().filter(|drive| !is_readable(view.drives(), *drive)).count();
            let away = drives().filter(|drive| away.contains(drive)).count();
            let is_lost = failed <= spare && failed + away > spare;
            let present = set.places.len() - failed - away;
            let needed = set.places.len() - spare;
            is_lost.then_some(Error::TooFewDrives { zone: Some(zone), present, needed })
        })
    })
}

fn is_lacking(table: &DriveTable, place: &StripPlace, left_out: &[StripPlace]) -> bool {
    !is_readable(table, place.drive) || left_out.contains(place)
}

/// Whether strips on a drive count.
#[must_use]
pub fn is_readable(table: &DriveTable, drive: DriveNumber) -> bool {
    table.drive(drive).is_some_and(|drive| drive.state.is_readable())
}

#[cfg(test)]
mod tests;
