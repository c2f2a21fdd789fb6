//! Where strips of a zone, and copies of a journal, are put.
//!
//! Drives of a zone are drawn so that each two drives share about as many zones, by their sizes: what a lost drive had
//! is then read from all others, and rebuilt to all others. The same tables give the same choice.
//!
//! PLACE-2. Strips of a row are on distinct drives, and so are the current copies of a journal.
//! PLACE-3. As long as zones of one class are placed and none is moved, as many find room as there can be: a drive that
//!     all further zones need is not left out (see [`zones_that_fit`]).
//! PLACE-4. A place is chosen on a failed drive only where no other one has room, and for no more strips of a row than
//!     its class can lose: those that stay on drives that are not read count as well.

use std::cmp::Reverse;

use varve_stdx::{Rng, checksum64_seeded};

use crate::class::{Class, MediumKinds, units_of};
use crate::exposure::is_readable;
use crate::format::{
    DriveRecord, DriveRoles, DriveState, DriveTable, JournalPlaceKind, JournalRecord, Row,
    RowState, StripForm, StripPlace, StripSet,
};
use crate::ids::{DriveNumber, Tenancy, UnitNumber, ZoneIndex};
use crate::shares::SharedZones;
use crate::space::{DriveSpaces, SpaceFault, ranges_of_row};
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

    /// Follows a drive table: `after` has it already. Drives that joined, left or grew are counted anew from all rows;
    /// other changes cost nothing.
    ///
    /// # Errors
    /// [`SpaceFault::Taken`] where places are behind the end of a drive, and then nothing changed.
    pub fn replace_drives(
        &mut self,
        before: &LayoutView,
        after: &LayoutView,
    ) -> Result<(), SpaceFault> {
        let extent = |drive: &DriveRecord| (drive.number, drive.units, drive.held);
        let had = before.drives().drives.iter().map(extent);
        if had.ne(after.drives().drives.iter().map(extent)) {
            self.spaces = DriveSpaces::of(after)?;
        }
        Ok(())
    }

    /// The strip of another zone to be moved, by its index, and the drive to move it to, where [`choose`] finds no
    /// place as all drives with room have a strip of the zone already. The move makes room on a drive that has none.
    ///
    /// Drives of one size always have such a strip: the drive that is full has more zones than the one with room, so
    /// one of them is not on that.
    #[must_use]
    pub fn make_room(
        &self,
        view: &LayoutView,
        request: &PlaceRequest<'_>,
    ) -> Option<(ZoneIndex, usize, DriveNumber)> {
        let table = view.drives();
        let kept = kept_drives(request);
        let place_units = table.geometry(request.class.shape).place_units();
        let is_wanted = |drive: &DriveRecord| {
            takes_new_places(drive, DriveRoles::SEGMENTS) && may_have(drive, request, &kept)
        };
        let is_full = |drive: DriveNumber| {
            let free = self.spaces.drive(drive);
            free.is_none_or(|free| free.first_fit(place_units).is_none())
        };
        let would_do = |place: &StripPlace| {
            table.drive(place.drive).is_some_and(is_wanted) && is_full(place.drive)
        };
        // A drive that the zone could use itself would have to be emptied again.
        let can_take = |drive: &DriveRecord| {
            takes_new_places(drive, DriveRoles::SEGMENTS)
                && !request.avoid.contains(&drive.number)
                && !is_wanted(drive)
        };
        let drives: Vec<_> = table.drives.iter().filter(|drive| can_take(drive)).collect();
        let mut others = view.rows().filter(|(zone, _)| *zone != request.zone);
        others.find_map(|(zone, row)| {
            let RowState::Still(set) = &row.state else { return None };
            let units = table.geometry(view.class_of(set).shape).place_units();
            if set.form != StripForm::Striped || units < place_units {
                return None;
            }
            let strip = set.places.iter().position(would_do)?;
            let drive = self.roomiest(view, set, &drives)?;
            row.tenancy.next().map(|_| (zone, strip, drive))
        })
    }

    /// Of some drives the one with most room that another strip of a set can be put on.
    fn roomiest(
        &self,
        view: &LayoutView,
        set: &StripSet,
        drives: &[&DriveRecord],
    ) -> Option<DriveNumber> {
        let class = view.class_of(set);
        let units = view.drives().geometry(class.shape).place_units();
        let fits = |drive: &&&DriveRecord| {
            class.kinds.has(drive.kind) && !set.has_drive(drive.number) // PLACE-2
        };
        let with_room = drives.iter().filter(fits).filter_map(|drive| {
            let places = self.spaces.drive(drive.number)?.places(units);
            (places > 0).then_some((places, Reverse(drive.number)))
        });
        with_room.max().map(|(_, Reverse(drive))| drive)
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
///
/// Where too few drives take new places, slow ones get strips, and then failed ones that have room: their strips are
/// left out, and the zone is in the queue of repair as its row names them. None is when all that is missing would be
/// left out, as nothing would be gained.
#[must_use]
pub fn choose(
    view: &LayoutView,
    occupancy: &Occupancy,
    request: &PlaceRequest<'_>,
) -> Option<Vec<StripPlace>> {
    let strips = request.class.shape.strips();
    let kept_at = |index: usize| request.kept.get(index).copied().flatten();
    let kept = kept_drives(request);
    let missing = strips - kept.len();
    let mut candidates = candidates(view, occupancy, request, &kept);
    if candidates.len() < missing {
        candidates = with_substitutes(view, occupancy, request, candidates)?;
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

/// Drives of the places that stay.
fn kept_drives(request: &PlaceRequest<'_>) -> Vec<DriveNumber> {
    let places = request.kept.iter().take(request.class.shape.strips()).flatten();
    places.map(|place| place.drive).collect()
}

fn candidates(
    view: &LayoutView,
    occupancy: &Occupancy,
    request: &PlaceRequest<'_>,
    kept: &[DriveNumber],
) -> Vec<Candidate> {
    let drives = view.drives().drives.iter();
    let usable = drives.filter(|drive| takes_new_places(drive, DriveRoles::SEGMENTS));
    with_room(view, occupancy, request, usable.filter(|drive| may_have(drive, request, kept)))
}

/// As many drives as strips are missing, where `usable` are too few: all of them, then slow ones, then failed ones,
/// those with most room first. `None` where there are not so many, or none would be written.
fn with_substitutes(
    view: &LayoutView,
    occupancy: &Occupancy,
    request: &PlaceRequest<'_>,
    usable: Vec<Candidate>,
) -> Option<Vec<Candidate>> {
    let (table, shape) = (view.drives(), request.class.shape);
    let kept = kept_drives(request);
    let missing = shape.strips() - kept.len();
    let others = |state: DriveState| {
        let drives = table.drives.iter().filter(|drive| {
            // Of live drives the slow ones are left.
            drive.state == state
                && drive.roles.has(DriveRoles::SEGMENTS)
                && !takes_new_places(drive, DriveRoles::SEGMENTS)
                && may_have(drive, request, &kept)
        });
        let mut found = with_room(view, occupancy, request, drives);
        found.sort_by_key(|candidate| Reverse(candidate.room));
        found
    };
    let mut chosen = usable;
    chosen.extend(others(DriveState::Live).into_iter().take(missing - chosen.len()));
    if chosen.is_empty() {
        return None;
    }
    let lacking = kept.iter().filter(|drive| !is_readable(table, **drive)).count();
    let spare = usize::from(shape.parity()).saturating_sub(lacking); // PLACE-4
    let left_out = (missing - chosen.len()).min(spare);
    chosen.extend(others(DriveState::Failed).into_iter().take(left_out));
    (chosen.len() == missing).then_some(chosen)
}

/// Whether a zone may get a place on a drive, if that takes any.
fn may_have(drive: &DriveRecord, request: &PlaceRequest<'_>, kept: &[DriveNumber]) -> bool {
    request.class.kinds.has(drive.kind)
        && !request.avoid.contains(&drive.number)
        && !kept.contains(&drive.number) // PLACE-2
}

/// Those of some drives that have room for a strip.
fn with_room<'a>(
    view: &LayoutView,
    occupancy: &Occupancy,
    request: &PlaceRequest<'_>,
    drives: impl Iterator<Item = &'a DriveRecord>,
) -> Vec<Candidate> {
    let place_units = view.drives().geometry(request.class.shape).place_units();
    let with_room = drives.filter_map(|drive| {
        let free = occupancy.spaces.drive(drive.number)?;
        Some(Candidate {
            drive: drive.number,
            place: free.first_fit(place_units)?,
            room: free.places(place_units),
            units: f64::from(drive.units),
            is_scarce: false,
        })
    });
    with_room.collect()
}

/// Whether a drive gets places for what has a role.
pub(crate) fn takes_new_places(drive: &DriveRecord, role: DriveRoles) -> bool {
    drive.state == DriveState::Live && drive.roles.has(role) && !drive.is_slow
}

/// Whether a drive gets places of new zones: it is of a kind that their class may use.
pub(crate) fn takes_new_zones(table: &DriveTable, drive: &DriveRecord) -> bool {
    takes_new_places(drive, DriveRoles::SEGMENTS) && table.zone_kinds().has(drive.kind)
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

/// Kinds of drives that copies of journals go to: those that they are to be on where as many take copies as there are
/// to be, else any.
#[must_use]
pub fn journal_kinds(table: &DriveTable) -> MediumKinds {
    let wanted = table.journal_kinds;
    let takers = table
        .drives
        .iter()
        .filter(|drive| takes_new_places(drive, DriveRoles::JOURNALS) && wanted.has(drive.kind));
    if takers.count() > usize::from(table.drops_max) { wanted } else { MediumKinds::ALL }
}

/// A place for another current copy of a journal: on a drive that has none of them, one of the kinds that they go to
/// first, then one for journals alone, then one with few copies. It is the last one on the drive that is free: journals
/// differ from zones in size, and among them would leave gaps that none fits. `None` where there is no room, or the
/// record is full of copies, former ones included.
#[must_use]
pub fn choose_journal(
    view: &LayoutView,
    occupancy: &Occupancy,
    journal: &JournalRecord,
    avoid: &[DriveNumber],
) -> Option<JournalPlace> {
    if journal.copies.len() >= JournalRecord::COPIES_MAX {
        return None;
    }
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
    let kinds = journal_kinds(view.drives());
    drives.sort_by_key(|drive| {
        let is_other = !kinds.has(drive.kind);
        (is_other, drive.roles.has(DriveRoles::SEGMENTS), copies_on(drive.number), drive.number)
    });
    drives.into_iter().find_map(|drive| {
        // Only where there is one is it worth a look at all rows.
        occupancy.spaces.drive(drive.number)?.first_fit(units)?;
        let place = last_fit(view, drive, units)?;
        Some(JournalPlace { drive: drive.number, place: JournalPlaceKind::Units(place) })
    })
}

/// The last place of so many units on a drive that is free. O(places).
fn last_fit(view: &LayoutView, drive: &DriveRecord, units: u32) -> Option<UnitNumber> {
    let (table, number) = (view.drives(), drive.number);
    let rows = view.rows().map(|(_, row)| row);
    let rows = rows.filter(|row| row.sets().any(|set| set.has_drive(number)));
    let places = rows.flat_map(|row| ranges_of_row(table, row));
    let places = places.filter(|range| range.drive == number);
    let places = places.map(|range| (range.first.0, range.first.0 + range.count));
    let journals = view.journals().flat_map(|journal| {
        let count = units_of(journal.lane_bytes);
        journal.copies.iter().filter_map(move |copy| match copy.place {
            JournalPlaceKind::Units(first) if copy.drive == number => {
                Some((first.0, first.0 + count))
            }
            JournalPlaceKind::Units(_) | JournalPlaceKind::Lane(_) => None,
        })
    });
    let held = (drive.held.first.0, drive.held.first.0 + drive.held.count);
    let mut taken: Vec<_> = places.chain(journals).chain([held, (0, 0)]).collect();
    taken.sort_unstable();
    let mut end = drive.units;
    for (first, behind) in taken.into_iter().rev() {
        if end.saturating_sub(behind) >= units {
            return end.checked_sub(units).map(UnitNumber);
        }
        end = end.min(first);
    }
    None
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
