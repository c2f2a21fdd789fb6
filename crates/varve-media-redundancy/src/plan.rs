//! Where strips of a zone, and copies of a journal, are put.
//!
//! Drives of a zone are drawn so that each two drives share about as many zones, by their sizes: what a lost drive had
//! is then read from all others, and rebuilt to all others. The same tables give the same choice.
//!
//! PLACE-2. Strips of a row are on distinct drives, and so are the current copies of a journal.
//! PLACE-3. As long as zones of one class are placed and none is moved, as many find room as there can be: a drive that
//!     all further zones need is not left out (see [`zones_that_fit`]).

use varve_stdx::{Rng, checksum64_seeded};

use crate::class::{Class, units_of};
use crate::format::{
    DriveRecord, DriveRoles, DriveState, JournalPlaceKind, JournalRecord, Row, StripPlace,
};
use crate::ids::{DriveNumber, Tenancy, UnitNumber, ZoneIndex};
use crate::shares::SharedZones;
use crate::space::{DriveSpaces, SpaceFault};
use crate::view::LayoutView;

/// Sets of drives that are compared for a zone.
const TRIES: u32 = 32;

/// What of a pool is taken, kept beside the view that it was computed from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Occupancy {
    spaces: DriveSpaces,
    shares: SharedZones,
}

impl Occupancy {
    /// That of a view. O(places).
    ///
    /// # Errors
    /// [`SpaceFault::Taken`] when places overlap.
    pub fn of(view: &LayoutView) -> Result<Self, SpaceFault> {
        Ok(Self { spaces: DriveSpaces::of(view)?, shares: SharedZones::of(view) })
    }

    /// Free units.
    #[must_use]
    pub const fn spaces(&self) -> &DriveSpaces {
        &self.spaces
    }

    /// Zones by pairs of drives.
    #[must_use]
    pub const fn shares(&self) -> &SharedZones {
        &self.shares
    }

    /// Follows a row of `view` that `after` replaces.
    ///
    /// # Errors
    /// [`SpaceFault::Taken`], and then nothing changed.
    pub fn replace_row(
        &mut self,
        view: &LayoutView,
        zone: ZoneIndex,
        after: &Row,
    ) -> Result<(), SpaceFault> {
        let before = view.row(zone);
        self.spaces.replace_row(view.drives(), before, after)?;
        self.shares.replace_row(before, after);
        Ok(())
    }

    /// Follows a journal record of `view` that `after` replaces.
    ///
    /// # Errors
    /// [`SpaceFault::Taken`], and then nothing changed.
    pub fn replace_journal(
        &mut self,
        view: &LayoutView,
        after: &JournalRecord,
    ) -> Result<(), SpaceFault> {
        let before = view.journals().find(|journal| journal.shard == after.shard);
        self.spaces.replace_journal(before, after)
    }
}

/// Places that a zone needs.
#[derive(Clone, Copy, Debug)]
pub struct PlaceRequest<'a> {
    /// The zone.
    pub zone: ZoneIndex,
    /// Its class.
    pub class: &'a Class,
    /// By the strip's index, places that stay; none are missing where all are to be chosen.
    pub kept: &'a [Option<StripPlace>],
    /// Drives that get none.
    pub avoid: &'a [DriveNumber],
    /// One that gets one if it can.
    pub prefer: Option<DriveNumber>,
}

/// A drive that a strip can be put on.
struct Candidate {
    drive: DriveNumber,
    place: UnitNumber,
    /// Places that it has room for.
    room: u32,
    /// Its size, by which its share of zones is measured.
    units: f64,
    /// Whether all further zones may need it (PLACE-3).
    is_scarce: bool,
}

/// Places for all strips of a zone: those that are kept, and others by the next tenancy. `None` where there is no room,
/// or the zone was moved too often.
#[must_use]
pub fn choose(
    view: &LayoutView,
    occupancy: &Occupancy,
    request: &PlaceRequest<'_>,
) -> Option<Vec<StripPlace>> {
    let strips = request.class.shape.strips();
    let kept_at = |index: usize| request.kept.get(index).copied().flatten();
    let kept: Vec<_> = (0..strips).filter_map(kept_at).map(|place| place.drive).collect();
    let missing = strips - kept.len();
    let mut candidates = candidates(view, occupancy, request, &kept);
    if candidates.len() < missing {
        return None;
    }
    let scarce_min = if kept.is_empty() { mark_scarce(&mut candidates, strips) } else { 0 };
    let tenancy = view.row(request.zone).tenancy.next()?;
    let mut rng = generator(view, request.zone, tenancy);
    let draw = SetDraw { occupancy, candidates: &candidates, kept: &kept, missing, scarce_min };
    let mut best = draw.best(&mut rng, request.prefer);
    // Which of them has which strip is drawn too, so that parity is on all drives.
    for last in (1..best.len()).rev() {
        best.swap(last, rng.index(last + 1));
    }
    let mut chosen = best.into_iter();
    let places = (0..strips).map(|index| {
        kept_at(index).or_else(|| {
            let Candidate { drive, place, .. } = *chosen.next()?;
            Some(StripPlace { drive, tenancy, place })
        })
    });
    places.collect()
}

fn generator(view: &LayoutView, zone: ZoneIndex, tenancy: Tenancy) -> Rng {
    let seed = u64::from(zone.0) << 32 | u64::from(tenancy.get());
    Rng::new(checksum64_seeded(&view.drives().pool.0, seed))
}

fn candidates(
    view: &LayoutView,
    occupancy: &Occupancy,
    request: &PlaceRequest<'_>,
    kept: &[DriveNumber],
) -> Vec<Candidate> {
    let table = view.drives();
    let place_units = table.geometry(request.class.shape).place_units();
    let may_have = |drive: &&DriveRecord| {
        takes_new_places(drive, DriveRoles::SEGMENTS)
            && request.class.kinds.has(drive.kind)
            && !request.avoid.contains(&drive.number)
            && !kept.contains(&drive.number) // PLACE-2
    };
    let with_room = |drive: &DriveRecord| {
        let free = occupancy.spaces.drive(drive.number)?;
        Some(Candidate {
            drive: drive.number,
            place: free.first_fit(place_units)?,
            room: free.places(place_units),
            units: f64::from(drive.units),
            is_scarce: false,
        })
    };
    table.drives.iter().filter(may_have).filter_map(with_room).collect()
}

fn takes_new_places(drive: &DriveRecord, role: DriveRoles) -> bool {
    drive.state == DriveState::Live && drive.roles.has(role) && !drive.is_slow
}

/// Zones of `strips` strips that fit drives with room for so many places each: the largest number T with
/// Σ min(room, T) ≥ strips x T.
#[must_use]
pub fn zones_that_fit(rooms: &[u32], strips: usize) -> u32 {
    let strips = strips as u64;
    let places = |zones: u32| rooms.iter().map(|room| u64::from(*room.min(&zones))).sum::<u64>();
    let all = rooms.iter().map(|room| u64::from(*room)).sum::<u64>();
    let most = u32::try_from(all / strips).unwrap_or(u32::MAX);
    let (mut fits, mut beyond) = (0, most.saturating_add(1));
    while beyond - fits > 1 {
        let zones = fits + (beyond - fits) / 2;
        if places(zones) >= strips * u64::from(zones) { fits = zones } else { beyond = zones }
    }
    fits
}

/// What a pool of drives with so many free units each holds of a class, in zones: after one drive, the largest, is
/// left out where there are more than strips, so that what a lost drive had finds room.
#[must_use]
pub fn usable(free_units: &[u32], strips: usize, place_units: u32) -> u32 {
    let mut rooms: Vec<_> = free_units.iter().map(|units| units / place_units).collect();
    rooms.sort_unstable();
    if rooms.len() > strips {
        rooms.pop();
    }
    zones_that_fit(&rooms, strips)
}

/// Marks the drives that have room for as many places as zones fit, and returns how many of them a set must have: each
/// one that is left out costs a place of what all zones together need, and there are only so many to spare (PLACE-3).
fn mark_scarce(candidates: &mut [Candidate], strips: usize) -> usize {
    let rooms: Vec<_> = candidates.iter().map(|candidate| candidate.room).collect();
    let zones = zones_that_fit(&rooms, strips);
    let places: u64 = rooms.iter().map(|room| u64::from(*room.min(&zones))).sum();
    let spare = places - strips as u64 * u64::from(zones);
    let mut scarce = 0;
    for candidate in candidates.iter_mut().filter(|candidate| candidate.room >= zones) {
        candidate.is_scarce = true;
        scarce += 1;
    }
    scarce - usize::try_from(spare).map_or(scarce, |spare| spare.min(scarce))
}

/// Draws sets of drives, and compares them.
struct SetDraw<'a> {
    occupancy: &'a Occupancy,
    candidates: &'a [Candidate],
    kept: &'a [DriveNumber],
    missing: usize,
    scarce_min: usize,
}

impl<'a> SetDraw<'a> {
    /// The set that adds least to pairs that share much already.
    fn best(&self, rng: &mut Rng, prefer: Option<DriveNumber>) -> Vec<&'a Candidate> {
        let mut best = (f64::INFINITY, Vec::new());
        for _ in 0..TRIES {
            let set = self.draw(rng, prefer);
            let load = self.load(&set);
            if load < best.0 {
                best = (load, set);
            }
        }
        best.1
    }

    fn draw(&self, rng: &mut Rng, prefer: Option<DriveNumber>) -> Vec<&'a Candidate> {
        let mut set: Vec<&Candidate> = Vec::with_capacity(self.missing);
        let preferred = self.candidates.iter().find(|candidate| Some(candidate.drive) == prefer);
        set.extend(preferred.filter(|_| self.missing > 0));
        while set.len() < self.missing {
            let scarce = set.iter().filter(|chosen| chosen.is_scarce).count();
            let must_be_scarce = self.scarce_min.saturating_sub(scarce) >= self.missing - set.len();
            let is_eligible = |candidate: &&Candidate| {
                let is_new = set.iter().all(|chosen| chosen.drive != candidate.drive); // PLACE-2
                is_new && (candidate.is_scarce || !must_be_scarce)
            };
            let eligible: Vec<_> = self.candidates.iter().filter(is_eligible).collect();
            // The better one of two keeps pairs even, and leaves enough to chance for sets to differ.
            let (one, other) = (draw_by_room(&eligible, rng), draw_by_room(&eligible, rng));
            let is_better = self.shared_with(other, &set) < self.shared_with(one, &set);
            set.push(if is_better { other } else { one });
        }
        set
    }

    /// Zones that a drive shares with those of a set and those that are kept, by their sizes.
    fn shared_with(&self, candidate: &Candidate, set: &[&Candidate]) -> f64 {
        let shares = &self.occupancy.shares;
        let units_of = |drive: DriveNumber| {
            self.occupancy.spaces.drive(drive).map_or(f64::INFINITY, |free| f64::from(free.units()))
        };
        let chosen = set.iter().map(|other| (other.drive, other.units));
        let kept = self.kept.iter().map(|drive| (*drive, units_of(*drive)));
        let shared = chosen.chain(kept).map(|(drive, units)| {
            f64::from(shares.between(candidate.drive, drive)) / (candidate.units * units)
        });
        shared.sum()
    }

    /// Zones that the drives of a set share with each other, and have at all, by their sizes.
    fn load(&self, set: &[&Candidate]) -> f64 {
        let total: f64 = self.candidates.iter().map(|candidate| candidate.units).sum();
        let partners =
            f64::from(u8::try_from(self.missing + self.kept.len()).unwrap_or(u8::MAX)) - 1.0;
        let load = set.iter().enumerate().map(|(index, candidate)| {
            let before = set.get(..index).unwrap_or_default();
            let zones = f64::from(self.occupancy.shares.zones(candidate.drive));
            let own = zones * partners.max(1.0) / (2.0 * candidate.units);
            total * self.shared_with(candidate, before) + own
        });
        load.sum()
    }
}

/// One of several, the more often the more room it has.
fn draw_by_room<'a>(eligible: &[&'a Candidate], rng: &mut Rng) -> &'a Candidate {
    let total = eligible.iter().map(|candidate| u64::from(candidate.room)).sum();
    let mut rest = rng.below(total);
    let drawn = eligible.iter().find(|candidate| {
        let room = u64::from(candidate.room);
        let is_it = rest < room;
        rest = rest.saturating_sub(room);
        is_it
    });
    drawn.expect("what is drawn is below the sum")
}

/// A place for another current copy of a journal: on a drive that has none of them, one for journals alone first, then
/// one with few copies. `None` where there is no room.
#[must_use]
pub fn choose_journal(
    view: &LayoutView,
    occupancy: &Occupancy,
    journal: &JournalRecord,
    avoid: &[DriveNumber],
) -> Option<JournalPlace> {
    let units = units_of(journal.lane_bytes);
    let has_copy = |drive: DriveNumber| journal.current().any(|copy| copy.drive == drive);
    let copies_on = |drive: DriveNumber| {
        let others = view.journals().filter(|other| other.shard != journal.shard);
        others.flat_map(JournalRecord::current).filter(|copy| copy.drive == drive).count()
    };
    let mut drives: Vec<_> = view.drives().drives.iter().collect();
    drives.retain(|drive| {
        takes_new_places(drive, DriveRoles::JOURNALS)
            && !avoid.contains(&drive.number)
            && !has_copy(drive.number) // PLACE-2
    });
    drives.sort_by_key(|drive| {
        (drive.roles.has(DriveRoles::SEGMENTS), copies_on(drive.number), drive.number)
    });
    drives.into_iter().find_map(|drive| {
        let place = occupancy.spaces.drive(drive.number)?.first_fit(units)?;
        Some(JournalPlace { drive: drive.number, place: JournalPlaceKind::Units(place) })
    })
}

/// Where a copy of a journal can be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JournalPlace {
    /// The drive.
    pub drive: DriveNumber,
    /// The place on it.
    pub place: JournalPlaceKind,
}

#[cfg(test)]
mod tests;
