//! How much a pool holds: what its drives have, less journals, labels and parity. Said before a pool is made, and of
//! one that is open; so many zones its root begins with.
//!
//! SIZES-1. Journals get their places before zones do: what is said has room beside all copies of all journals, with a
//!     spare one on each drive.

use std::cmp::Reverse;

use crate::class::{MediumKind, MediumKinds, StripGeometry, StripeShape, units_of};
use crate::format::{DriveRecord, DriveState, DriveTable};
use crate::ids::{DriveNumber, Epoch, UNIT_BYTES};
use crate::plan::usable;
use crate::view::LayoutView;

/// Zones that a pool should have at least, so that shards can share them: zones of small pools have fewer slots.
const ZONES_WANTED: u32 = 128;

/// Slots of a zone: most, and least, as both chains of a shard begin in its first zone.
const ZONE_SEGMENTS: [u32; 6] = [128, 64, 32, 16, 8, 4];

/// Journals of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JournalSizes {
    /// How many there are, each of which has copies on as many drives as its zones have strips to lose, and one.
    pub lanes: u16,
    /// Bytes of each copy.
    pub lane_bytes: u64,
}

/// What is asked of a pool that is to be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SizesRequest {
    /// Strips of its zones.
    pub shape: StripeShape,
    /// Bytes of a segment's slot.
    pub segment_bytes: u32,
    /// Its journals.
    pub journals: JournalSizes,
}

impl SizesRequest {
    fn geometry(&self, zone_segments: u32) -> StripGeometry {
        let Self { shape, segment_bytes, .. } = *self;
        StripGeometry { shape, segment_bytes, zone_segments }
    }
}

/// What a pool has room for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolSizes {
    /// Slots of a zone.
    pub zone_segments: u32,
    /// Zones.
    pub zones: u32,
    /// Bytes of their slots.
    pub usable_bytes: u64,
    /// Bytes of all units of all drives that may have zones.
    pub raw_bytes: u64,
}

impl PoolSizes {
    /// Those of a pool to be made, on drives with so many units each.
    #[must_use]
    pub fn of(units: &[u32], request: &SizesRequest) -> Self {
        let sizes = ZONE_SEGMENTS.map(|zone_segments| {
            Self::with(units, request.geometry(zone_segments), request.journals)
        });
        let [.., smallest] = sizes;
        sizes.into_iter().find(|sizes| sizes.zones >= ZONES_WANTED).unwrap_or(smallest)
    }

    /// Those that the tables of a pool promise: drives that failed count until they are replaced, as what is stored
    /// stays as large as it was. Drives that leave do not, unless there are too few others for a zone.
    #[must_use]
    pub fn of_view(view: &LayoutView) -> Self {
        let (table, shape) = (view.drives(), shape_of(view));
        let kinds = table.zone_kinds();
        let counted = || counted(table).filter(move |it| kinds.has(it.kind));
        let leaving = table.drives.iter().filter(|it| it.state == DriveState::Leaving);
        let staying = counted().count();
        let leaving = leaving.filter(|it| staying < shape.strips() && kinds.has(it.kind));
        Self::of_units(view, counted().chain(leaving).map(free_units), shape)
    }

    /// Those that the live drives of some kinds have room for if all zones are strips of a shape on them.
    #[must_use]
    pub fn of_live_drives(view: &LayoutView, shape: StripeShape, kinds: MediumKinds) -> Self {
        let drives = view.drives().drives.iter();
        let live = drives.filter(|it| it.state == DriveState::Live && kinds.has(it.kind));
        Self::of_units(view, live.map(free_units), shape)
    }

    /// Those that are left when a drive leaves. Where there are more drives than strips then, room is kept free for
    /// what a lost one has.
    #[must_use]
    pub fn without(view: &LayoutView, drive: DriveNumber) -> Self {
        let (table, shape) = (view.drives(), shape_of(view));
        let kinds = table.zone_kinds();
        let stays = |it: &&DriveRecord| it.state == DriveState::Live && it.number != drive;
        let others = table.drives.iter().filter(stays).filter(|it| kinds.has(it.kind));
        Self::of_units(view, others.map(free_units), shape)
    }

    /// Those that the live drives have room for together with one of `units` that joins them. Zones of a class that
    /// does not use drives of its kind have no more room for it.
    #[must_use]
    pub fn with_another(view: &LayoutView, units: u32, kind: MediumKind) -> Self {
        let (table, shape) = (view.drives(), shape_of(view));
        let kinds = table.zone_kinds();
        let is_used = |it: &&DriveRecord| it.state == DriveState::Live && kinds.has(it.kind);
        let live = table.drives.iter().filter(is_used).map(free_units);
        let joining = kinds.has(kind).then_some(units);
        Self::of_units(view, live.chain(joining), shape)
    }

    fn of_units(view: &LayoutView, units: impl Iterator<Item = u32>, shape: StripeShape) -> Self {
        let table = view.drives();
        let units: Vec<u32> = units.collect();
        let sizes = Self::with(&units, table.geometry(shape), journals_of(view));
        if sizes.zones <= table.zones_max {
            sizes
        } else {
            sizes.cut(table.zones_max, table.segment_bytes)
        }
    }

    /// Units that each of so many drives needs, for a pool with room for `zones` zones of the least size.
    #[must_use]
    pub fn units_min(drives: usize, zones: u32, request: &SizesRequest) -> u32 {
        let [.., zone_segments] = ZONE_SEGMENTS;
        let (strips, place) =
            (request.shape.strips(), request.geometry(zone_segments).place_units());
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX).max(1);
        // One of more drives than strips is kept free.
        let sharing = if drives > strips { drives - 1 } else { drives };
        let places = zones.saturating_mul(count(strips)).div_ceil(count(sharing)).max(1);
        let journals = journal_units(drives, request.shape, request.journals);
        places.saturating_mul(place).saturating_add(journals)
    }

    fn with(units: &[u32], geometry: StripGeometry, journals: JournalSizes) -> Self {
        let taken = journal_units(units.len(), geometry.shape, journals);
        let free: Vec<u32> = units.iter().map(|units| units.saturating_sub(taken)).collect(); // SIZES-1
        let zones = usable(&free, geometry.shape.strips(), geometry.place_units());
        let raw_bytes = units.iter().map(|units| u64::from(*units) * UNIT_BYTES).sum();
        let sizes =
            Self { zone_segments: geometry.zone_segments, zones, usable_bytes: 0, raw_bytes };
        sizes.cut(zones, geometry.segment_bytes)
    }

    fn cut(self, zones: u32, segment_bytes: u32) -> Self {
        let segments = u64::from(zones) * u64::from(self.zone_segments);
        Self { zones, usable_bytes: segments * u64::from(segment_bytes), ..self }
    }
}

/// Units of a drive that places may have.
const fn free_units(drive: &DriveRecord) -> u32 {
    drive.units.saturating_sub(drive.held.count)
}

/// Drives that stay: of each one that failed, itself or one that joined since.
fn counted(table: &DriveTable) -> impl Iterator<Item = &DriveRecord> {
    let of = |state: DriveState| table.drives.iter().filter(move |drive| drive.state == state);
    let mut joined: Vec<Epoch> = of(DriveState::Live).map(|drive| drive.since_epoch).collect();
    joined.sort_unstable();
    let mut failed: Vec<&DriveRecord> = of(DriveState::Failed).collect();
    failed.sort_by_key(|drive| Reverse(drive.since_epoch));
    failed.retain(|drive| joined.pop_if(|since| *since > drive.since_epoch).is_none());
    of(DriveState::Live).chain(failed)
}

/// Strips of new zones.
pub(crate) fn shape_of(view: &LayoutView) -> StripeShape {
    let table = view.drives();
    table.class_of(table.class).map_or(StripeShape::NONE, |class| class.shape)
}

fn journals_of(view: &LayoutView) -> JournalSizes {
    let lanes = u16::try_from(view.journals().count()).unwrap_or(u16::MAX);
    let lane_bytes = view.journals().map(|journal| journal.lane_bytes).max().unwrap_or(0);
    JournalSizes { lanes, lane_bytes }
}

/// Units of each drive that journals take (SIZES-1).
fn journal_units(drives: usize, shape: StripeShape, journals: JournalSizes) -> u32 {
    if journals.lanes == 0 || drives == 0 {
        return 0;
    }
    let copies = usize::from(journals.lanes) * (usize::from(shape.parity()) + 1);
    let on_drive = copies.div_ceil(drives) + 1;
    u32::try_from(on_drive).unwrap_or(u32::MAX).saturating_mul(units_of(journals.lane_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT_BYTES: u32 = 2 << 20;
    const JOURNALS: JournalSizes = JournalSizes { lanes: 4, lane_bytes: 256 << 20 };

    fn sizes(gib: &[u64], data: u8, parity: u8) -> PoolSizes {
        let units: Vec<u32> =
            gib.iter().map(|gib| u32::try_from((gib << 30) / UNIT_BYTES).unwrap()).collect();
        let shape = StripeShape::new(data, parity).unwrap();
        let request = SizesRequest { shape, segment_bytes: SEGMENT_BYTES, journals: JOURNALS };
        PoolSizes::of(&units, &request)
    }

    #[test]
    fn parity_journals_and_labels_are_taken_off() {
        for (drives, data, parity) in [(2, 1, 1), (3, 2, 1), (6, 4, 2)] {
            let all = vec![1000; drives];
            let sizes = sizes(&all, data, parity);
            assert_eq!(sizes.zone_segments, 128);
            assert_eq!(sizes.raw_bytes, (drives as u64 * 1000) << 30);
            let share = u64::from(data) * sizes.raw_bytes / u64::from(data + parity);
            let part = sizes.usable_bytes * 1000 / share;
            assert!((975..1000).contains(&part), "{data}+{parity}: {part} of 1000");
        }
    }

    #[test]
    fn room_for_one_lost_drive_is_kept_where_there_are_more_than_strips() {
        let (three, four) = (sizes(&[1000; 3], 1, 1), sizes(&[1000; 4], 1, 1));
        assert!(three.usable_bytes < 1001 << 30, "as two drives: {}", three.usable_bytes);
        assert!(four.usable_bytes > 1450 << 30, "as three: {}", four.usable_bytes);
    }

    #[test]
    fn a_pool_without_a_drive_is_one_of_the_others_that_stay() {
        let units = 40 * crate::test_pool::place_units(&crate::test_pool::table(&[0; 4]), 1);
        let pool = crate::test_pool::TestPool::new(crate::test_pool::table(&[units; 4]));
        let without = |pool: &crate::test_pool::TestPool, drive| {
            PoolSizes::without(&pool.view, DriveNumber::new(drive).unwrap()).zones
        };
        assert_eq!((PoolSizes::of_view(&pool.view).zones, without(&pool, 3)), (60, 40));
        let mut fewer = pool.clone();
        fewer.set_state(0, DriveState::Leaving);
        assert_eq!((without(&fewer, 3), without(&fewer, 0)), (40, 40), "two are left, or three");
        let mut failed = pool;
        failed.set_state(0, DriveState::Failed);
        assert_eq!(without(&failed, 3), 40, "nothing is read from one that failed");
    }

    #[test]
    fn a_small_drive_beyond_the_strips_makes_a_pool_smaller() {
        let place = crate::test_pool::place_units(&crate::test_pool::table(&[0; 2]), 1);
        let table = crate::test_pool::table(&[40 * place; 2]);
        let pool = crate::test_pool::TestPool::new(table);
        let with = |units| PoolSizes::with_another(&pool.view, units, MediumKind::Ssd).zones;
        assert_eq!(PoolSizes::of_view(&pool.view).zones, 40);
        assert_eq!((with(10 * place), with(40 * place), with(80 * place)), (10, 40, 40));
    }

    #[test]
    fn a_drive_that_failed_counts_until_another_one_joins() {
        let mut table = crate::test_pool::table(&[1000, 2000, 3000]);
        let units = |table: &DriveTable| -> Vec<u32> {
            let mut units: Vec<u32> = counted(table).map(|drive| drive.units).collect();
            units.sort_unstable();
            units
        };
        table.drives[1].state = DriveState::Failed;
        table.drives[1].since_epoch = Epoch(8);
        assert_eq!(units(&table), [1000, 2000, 3000]);
        table.drives[2].since_epoch = Epoch(9);
        assert_eq!(units(&table), [1000, 3000], "drive 2 is there for it");
        table.drives[1].state = DriveState::Gone;
        assert_eq!(units(&table), [1000, 3000]);
    }

    #[test]
    fn small_pools_have_small_zones_and_what_is_too_small_has_none() {
        let journals = JournalSizes { lanes: 1, lane_bytes: 16 << 20 };
        let shape = StripeShape::new(1, 1).unwrap();
        let request = SizesRequest { shape, segment_bytes: SEGMENT_BYTES, journals };
        let of = |units: u32| PoolSizes::of(&[units; 2], &request);
        let small = of(4096);
        assert_eq!(small.zone_segments, 4);
        assert!(small.zones > 20, "{small:?}");
        assert_eq!(of(256).zones, 0, "journals take all of it");
        let least = PoolSizes::units_min(2, 4, &request);
        assert_eq!(of(least).zones, 4);
        assert_eq!(of(least - 1).zones, 3);
    }
}
