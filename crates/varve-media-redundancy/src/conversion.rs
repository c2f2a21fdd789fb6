//! What follows from another class of a pool: said before anything is done. Pure.
//!
//! CONVERSION-1. A class is begun with only where all zones that have places find room in it, as said by
//!     [`PoolSizes`], and the first of them beside what is there: a row keeps its former places until it has moved.

use varve_media::planted::{Bug, planted};

use crate::class::{Class, ClassId, MediumKind, MediumKinds, StripeShape};
use crate::format::{DriveRoles, DriveState, DriveTable, StripForm, StripPlace, StripSet};
use crate::ids::{DriveNumber, ZoneIndex};
use crate::plan::{Occupancy, PlaceRequest, choose};
use crate::sizes::{PoolSizes, shape_of};
use crate::view::LayoutView;

/// What a pool would be with another class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClassOutlook {
    /// Drives that can have strips.
    pub drives: usize,
    /// What the pool holds once all of its zones have the class.
    pub sizes: PoolSizes,
    /// Zones that have places.
    pub zones: u32,
    /// Of those, the ones that are to be converted.
    pub unconverted: u32,
    /// Bytes of zones that would find no room, besides those that do.
    pub lacking_bytes: u64,
    /// Whether drives have room for the first zone beside what is there.
    pub has_room_to_begin: bool,
}

impl ClassOutlook {
    /// That of a pool, and of a shape on drives of some kinds. O(places).
    #[must_use]
    pub fn of(view: &LayoutView, shape: StripeShape, kinds: MediumKinds) -> Self {
        let table = view.drives();
        let takes_strips = table.drives.iter().filter(|drive| {
            drive.state == DriveState::Live
                && drive.roles.has(DriveRoles::SEGMENTS)
                && kinds.has(drive.kind)
        });
        let sizes = PoolSizes::of_live_drives(view, shape, kinds);
        let class = Class { id: ClassId::new(1).expect("1 is a number"), shape, kinds };
        let has_other = |set: &StripSet| !has_shape(view, set, shape) || !is_on(table, set, kinds);
        let (mut zones, mut unconverted, mut first) = (0u32, 0u32, None);
        for (zone, row) in view.rows() {
            zones += 1;
            if row.target().is_some_and(has_other) {
                unconverted += 1;
                first.get_or_insert(zone);
            }
        }
        let zone_bytes = u64::from(table.zone_segments) * u64::from(table.segment_bytes);
        let lacking = u64::from(zones.saturating_sub(sizes.zones));
        Self {
            drives: takes_strips.count(),
            sizes,
            zones,
            unconverted,
            lacking_bytes: if planted(Bug::ConversionWithoutRoom) {
                0
            } else {
                lacking * zone_bytes
            },
            has_room_to_begin: first.is_none_or(|zone| has_room(view, zone, &class)),
        }
    }

    /// That of a pool whose zones stay as they are, once a drive is of another kind. O(places).
    #[must_use]
    pub fn with_kind(view: &LayoutView, drive: DriveNumber, kind: MediumKind) -> Self {
        let view = view.with_kind(drive, kind);
        Self::of(&view, shape_of(&view), view.drives().zone_kinds())
    }
}

/// Whether a zone's strips are as those of new zones: of their class, and on drives of the kinds that this has.
#[must_use]
pub fn is_as_new(table: &DriveTable, set: &StripSet) -> bool {
    set.class == table.class && is_on(table, set, table.zone_kinds())
}

/// Whether all strips of a zone are on drives of some kinds.
pub(crate) fn is_on(table: &DriveTable, set: &StripSet, kinds: MediumKinds) -> bool {
    let fits = |place: &StripPlace| table.drive(place.drive).is_some_and(|it| kinds.has(it.kind));
    kinds == MediumKinds::ALL || set.places.iter().all(fits)
}

/// Zones that are not as new ones, or on their way from that, by their classes, most of them first.
#[must_use]
pub fn unconverted(view: &LayoutView) -> Vec<(Class, u32)> {
    let mut classes: Vec<(Class, u32)> = Vec::new();
    for (_, row) in view.rows() {
        let Some(set) = row.sets().find(|set| !is_as_new(view.drives(), set)) else { continue };
        match classes.iter_mut().find(|(known, _)| known.id == set.class) {
            Some((_, zones)) => *zones += 1,
            None => classes.push((*view.class_of(set), 1)),
        }
    }
    classes.sort_by_key(|(_, zones)| std::cmp::Reverse(*zones));
    classes
}

fn has_shape(view: &LayoutView, set: &StripSet, shape: StripeShape) -> bool {
    set.form == StripForm::Striped && view.class_of(set).shape == shape
}

/// CONVERSION-1
fn has_room(view: &LayoutView, zone: ZoneIndex, class: &Class) -> bool {
    let Ok(occupancy) = Occupancy::of(view) else { return false };
    let request = PlaceRequest { zone, class, kept: &[], avoid: &[], prefer: None };
    choose(view, &occupancy, &request).is_some()
}

#[cfg(test)]
mod tests {
    use varve_media::planted::plant;

    use super::*;
    use crate::class::MediumKind;
    use crate::format::{Row, RowState};
    use crate::test_pool::{MIRROR, STRIPED, TestPool, set_of, table};

    fn shape(data: u8, parity: u8) -> StripeShape {
        StripeShape::new(data, parity).unwrap()
    }

    /// A pool of mirrors on drives with room for so many places each, and a journal.
    fn pool(drives: usize, places: u32) -> TestPool {
        let mut table = table(&vec![0; drives]);
        let geometry = table.geometry(shape(1, 1));
        for drive in &mut table.drives {
            drive.units = places * geometry.place_units() + 2 * 16;
        }
        let mut pool = TestPool::new(table);
        pool.add_journal(0, &[0, 1]);
        pool
    }

    #[test]
    fn a_class_needs_room_for_all_zones_that_have_places() {
        let mut pool = pool(3, 12);
        for zone in 0..12 {
            assert!(pool.place(zone, MIRROR));
        }
        let outlook =
            |pool: &TestPool, shape| ClassOutlook::of(&pool.view, shape, MediumKinds::ALL);
        let same = outlook(&pool, shape(1, 1));
        assert_eq!((same.drives, same.zones, same.unconverted), (3, 12, 0));
        assert_eq!((same.lacking_bytes, same.has_room_to_begin), (0, true));
        let third = outlook(&pool, shape(1, 2));
        assert_eq!((third.unconverted, third.lacking_bytes), (12, 0), "all drives have all zones");
        for zone in 12..18 {
            assert!(pool.place(zone, MIRROR));
        }
        let third = outlook(&pool, shape(1, 2));
        let lacking = u64::from(18 - third.sizes.zones);
        assert!(third.sizes.zones <= 12 && lacking >= 6, "{third:?}");
        let zone_bytes = u64::from(crate::test_pool::ZONE_SEGMENTS) * (256 << 10);
        assert_eq!(third.lacking_bytes, lacking * zone_bytes);
        assert!(!third.has_room_to_begin, "no drive has a place left");
        let striped = outlook(&pool, shape(2, 1));
        assert!(striped.lacking_bytes == 0 && !striped.has_room_to_begin, "{striped:?}");
    }

    #[test]
    fn conversion_without_room() {
        let lacking = || {
            let mut pool = pool(3, 12);
            (0..18).for_each(|zone| assert!(pool.place(zone, MIRROR)));
            ClassOutlook::of(&pool.view, shape(1, 2), MediumKinds::ALL).lacking_bytes
        };
        assert!(lacking() > 0, "CONVERSION-1");
        plant(Some(Bug::ConversionWithoutRoom));
        let lacking = lacking();
        plant(None);
        assert_eq!(lacking, 0, "the bug shows");
    }

    #[test]
    fn zones_that_move_are_not_converted_yet() {
        let mut pool = pool(7, 12);
        assert!(pool.place(0, MIRROR) && pool.place(1, STRIPED) && pool.place(2, STRIPED));
        let others =
            |pool: &TestPool| unconverted(&pool.view).pop().map(|(it, zones)| (it.shape, zones));
        assert_eq!(others(&pool), Some((shape(4, 2), 2)), "new zones are mirrors");
        let row = pool.view.row(ZoneIndex(1)).clone();
        let from = row.target().unwrap().clone();
        let to = set_of(MIRROR, pool.places_for(1, MIRROR).unwrap());
        let why = crate::format::MoveReason::Conversion;
        let tenancy = row.tenancy.next().unwrap();
        pool.set_row(1, Row { tenancy, state: RowState::Moving { from, to, why } });
        assert_eq!(others(&pool), Some((shape(4, 2), 2)));
        assert_eq!(
            ClassOutlook::of(&pool.view, shape(1, 1), MediumKinds::ALL).unconverted,
            1,
            "one is on its way"
        );
    }

    #[test]
    fn drives_of_other_kinds_do_not_count_and_are_left() {
        let mut pool = pool(4, 12);
        let mut table = pool.view.drives().clone();
        table.epoch.0 += 1;
        table.drives[3].kind = MediumKind::Hdd;
        table.drives[2].kind = MediumKind::Unknown;
        pool.view = pool.view.with_drives(table).unwrap();
        for zone in 0..6 {
            assert!(pool.place(zone, MIRROR));
        }
        let nvme = MediumKinds::new(MediumKind::Nvme.bit()).unwrap();
        let is_on = |drive: usize| {
            let number = pool.view.drives().drives[drive].number;
            pool.view.rows().any(|(_, row)| row.target().unwrap().has_drive(number))
        };
        assert!(is_on(2) || is_on(3), "any drive has zones");
        let all = ClassOutlook::of(&pool.view, shape(1, 1), MediumKinds::ALL);
        let some = ClassOutlook::of(&pool.view, shape(1, 1), nvme);
        assert_eq!((all.drives, all.unconverted, some.drives), (4, 0, 2));
        assert!(some.unconverted > 0 && some.has_room_to_begin, "{some:?}");
        assert!(some.sizes.zones < all.sizes.zones && some.sizes.raw_bytes < all.sizes.raw_bytes);
    }
}
