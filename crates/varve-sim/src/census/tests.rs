//! The count itself, of strips that are written here.

use varve_media::{Disk, Persist, SimLatency};
use varve_media_redundancy::format::{
    DriveRecord, DriveRoles, DriveState, DriveTable, FeatureWords, HeldUnits, MoveReason, Row,
    RowState, StripForm, StripPlace, StripSet,
};
use varve_media_redundancy::{
    Class, ClassId, DriveId, DriveNumber, Epoch, HistoryId, LayoutView, MediumKind, MediumKinds,
    Tenancy, UnitNumber,
};
use varve_reactor::SimLoop;
use varve_stdx::BufSlice;
use varve_types::{Generation, SegmentNumber};

use super::*;
use crate::config::WorldConfig;
use crate::drives::RedundantMedia;
use crate::redundancy::DriveFaults;

const SEGMENT_BYTES: u32 = 64 << 10;
const STRIP_BYTES: u32 = 32 << 10;
const SLOT: u32 = 1;
const DRIVES: u8 = 3;

/// A pool of three drives with one zone of class 2+1, and with class 2 of mirrors.
struct CountedPool {
    media: RedundantMedia,
    view: LayoutView,
    pool: PoolId,
}

fn shape() -> StripeShape {
    StripeShape::new(2, 1).expect("there is a code for it")
}

fn number(drive: u8) -> DriveNumber {
    DriveNumber::new(drive).expect("a few")
}

fn segment(generation: u64) -> SegmentId {
    let generation = Generation::from_untrusted(generation).expect("small");
    SegmentId { number: SegmentNumber(SLOT), generation }
}

fn record(media: &RedundantMedia, drive: u8) -> DriveRecord {
    DriveRecord {
        number: number(drive),
        id: DriveId(media.drives()[usize::from(drive)].superblock().drive_id),
        state: DriveState::Live,
        roles: DriveRoles::ALL,
        kind: MediumKind::Ssd,
        is_slow: false,
        removal: None,
        former: None,
        units: 100,
        held: HeldUnits::NONE,
        since_epoch: Epoch(1),
        since_unix_ms: 0,
        name: String::new(),
    }
}

/// A drive table.
pub(crate) fn drive_table() -> DriveTable {
    counted_pool().view.drives().clone()
}

fn counted_pool() -> CountedPool {
    let mut config = WorldConfig::on_redundant_drives(1, DriveFaults::None);
    let mut redundancy = config.redundancy.take().expect("it has one");
    (redundancy.shape, redundancy.drive_units) = (shape(), vec![100; usize::from(DRIVES)]);
    config.segment_bytes = SEGMENT_BYTES;
    let (media, pool) = (RedundantMedia::new(&config, &redundancy), config.pool());
    let [class, mirror] = [1, 2].map(|id| ClassId::new(id).expect("not 0"));
    let kinds = MediumKinds::ALL;
    let mirror_shape = StripeShape::new(1, 1).expect("copies");
    let table = DriveTable {
        features: FeatureWords::default(),
        pool,
        epoch: Epoch(1),
        history: HistoryId([1; 16]),
        lineage: Vec::new(),
        classes: vec![
            Class { id: class, shape: shape(), kinds },
            Class { id: mirror, shape: mirror_shape, kinds },
        ],
        class,
        drives: (0..DRIVES).map(|drive| record(&media, drive)).collect(),
        drops_max: 1,
        next_drive: DRIVES,
        segment_bytes: SEGMENT_BYTES,
        zone_segments: 4,
        zones_max: 14,
        loss_epoch: Epoch(0),
        walked_epoch: Epoch(0),
        settled_epoch: Epoch(1),
        journal_kinds: MediumKinds::ALL,
    };
    let tenancy = Tenancy::new(1).expect("small");
    let place = |drive| StripPlace { drive: number(drive), tenancy, place: UnitNumber(4) };
    let places = (0..DRIVES).map(place).collect();
    let state = RowState::Still(StripSet { class, form: StripForm::Striped, places });
    let view = LayoutView::new(table, [], []).expect("the tables agree");
    let view = view.with_row(ZoneIndex(0), Row { tenancy, state }).expect("the row fits");
    CountedPool { media, view, pool }
}

impl CountedPool {
    /// Writes a strip of a segment of `bytes`, of each of its data strips, to where strip `at` belongs.
    fn write(&self, strip: u8, at: u8, generation: u64, bytes: [u8; 2]) {
        let [first, second] = bytes;
        let contents = [first, second, first ^ second].map(|byte| vec![byte; STRIP_BYTES as usize]);
        let row = self.view.row(ZoneIndex(0));
        let set = row.target().expect("it has places");
        let location = self.view.locate(set, SLOT).nth(at.into()).expect("three strips");
        let label = StripLabel {
            shape: shape(),
            strip,
            drive: location.place.drive,
            pool: self.pool,
            slot: SegmentNumber(SLOT),
            place: location.place.place,
            generation: segment(generation).generation,
            epoch: Epoch(1),
            tenancy: location.place.tenancy,
            used_bytes: SEGMENT_BYTES,
            data_bytes: STRIP_BYTES,
            strip_checksums: contents.iter().map(|strip| payload_checksum(strip)).collect(),
        };
        let mut parts = vec![0; StripLabel::LEN];
        label.encode(&mut parts);
        parts.extend_from_slice(&contents[usize::from(strip)]);
        let units = self.media.drives()[usize::from(at)].units();
        let mut sim = SimLoop::new(1);
        let disk = units.medium.open(&sim.handle(), SimLatency::default());
        let offset = units.start + location.offset;
        sim.run_until(async move {
            let written = disk.write(offset, BufSlice::copy_from(&parts), Persist::Durable).await;
            written.expect("the medium works");
        });
    }

    fn write_all(&self, generation: u64, bytes: [u8; 2]) {
        (0..DRIVES).for_each(|strip| self.write(strip, strip, generation, bytes));
    }

    fn count(&self, generation: u64) -> StripCensus {
        let layout = RawLayout::of(&self.media, self.view.clone());
        let held = [segment(generation)];
        let subjects = CensusSubjects { held: &held, stored: &[], left_out: &[], shards: &[] };
        StripCensus::take(&self.media, &layout, self.pool, &subjects)
    }

    /// The same of a segment that was put in this life, with places that were left out.
    fn count_stored(&self, generation: u64, left_out: &[LeftOutStrip]) -> StripCensus {
        let layout = RawLayout::of(&self.media, self.view.clone());
        let held = [segment(generation)];
        let subjects = CensusSubjects { held: &held, stored: &held, left_out, shards: &[] };
        StripCensus::take(&self.media, &layout, self.pool, &subjects)
    }

    fn right(&self, generation: u64) -> usize {
        self.count(generation).segments[0].right.count()
    }
}

#[test]
fn all_strips_of_a_put_count() {
    let pool = counted_pool();
    assert_eq!(pool.right(7), 0, "nothing was written");
    assert!(pool.count(7).fault(false).is_some());
    pool.write_all(7, [1, 2]);
    let census = pool.count(7);
    assert_eq!(census.segments[0].right.count(), 3);
    assert_eq!((census.segments[0].placed.count(), census.segments[0].survives()), (3, Some(1)));
    assert_eq!(census.fault(true), None);
    assert_eq!(pool.right(8), 0, "other contents of the slot");
}

#[test]
fn a_strip_that_rots_or_is_elsewhere_does_not_count() {
    let pool = counted_pool();
    pool.write_all(7, [1, 2]);
    let units = pool.media.drives()[1].units();
    let geometry = pool.view.drives().geometry(shape());
    let label = units.start + geometry.slot_offset(UnitNumber(4), SLOT);
    units.medium.flip_bit(label + 5000, 3);
    let census = pool.count(7);
    assert_eq!(census.segments[0].right.count(), 2);
    assert_eq!(census.fault(false), None, "two suffice");
    assert!(census.fault(true).is_some(), "three are promised");
    pool.write(0, 1, 7, [1, 2]);
    assert_eq!(pool.right(7), 2, "strip 0 stands where strip 1 belongs");
}

#[test]
fn strips_of_two_puts_do_not_count_together() {
    let pool = counted_pool();
    pool.write_all(7, [1, 2]);
    pool.write(1, 1, 7, [1, 3]);
    assert_eq!(pool.right(7), 2);
    pool.write(2, 2, 7, [1, 3]);
    assert_eq!(pool.right(7), 2, "now two of the other put");
    pool.write(0, 0, 8, [1, 3]);
    assert_eq!((pool.right(7), pool.right(8)), (2, 1));
}

#[test]
fn strips_of_a_failed_drive_are_not_expected() {
    let mut pool = counted_pool();
    pool.write_all(7, [1, 2]);
    let mut table = pool.view.drives().clone();
    (table.epoch, table.loss_epoch) = (Epoch(2), Epoch(2));
    (table.drives[2].state, table.drives[2].since_epoch) = (DriveState::Failed, Epoch(2));
    pool.view = pool.view.with_drives(table).expect("a drive may fail");
    let census = pool.count(7);
    let count = &census.segments[0];
    assert_eq!((count.right.count(), count.placed.count()), (2, 2));
    assert_eq!((census.fault(true), census.segments[0].survives()), (None, Some(0)));
}

#[test]
fn a_strip_that_was_left_out_is_on_a_list() {
    let mut pool = counted_pool();
    (0..2).for_each(|strip| pool.write(strip, strip, 7, [1, 2]));
    let mut table = pool.view.drives().clone();
    (table.epoch, table.loss_epoch) = (Epoch(2), Epoch(2));
    (table.drives[2].state, table.drives[2].since_epoch) = (DriveState::Failed, Epoch(2));
    pool.view = pool.view.with_drives(table).expect("a drive may fail");
    assert_eq!(pool.count(7).fault(true), None, "nobody knows of which life it is");
    assert!(pool.count_stored(7, &[]).fault(true).is_some());
    let row = pool.view.row(ZoneIndex(0));
    let place = row.target().expect("it has places").places[2];
    let left_out = [LeftOutStrip { zone: ZoneIndex(0), place }];
    assert_eq!(pool.count_stored(7, &left_out).fault(true), None);
}

#[test]
fn while_a_class_changes_a_segment_lacks_by_that_of_its_strips() {
    let mut pool = counted_pool();
    let row = pool.view.row(ZoneIndex(0));
    let to = row.target().expect("it has places").clone();
    let (tenancy, class) = (Tenancy::new(2).expect("small"), ClassId::new(2).expect("not 0"));
    let place = |drive| StripPlace { drive: number(drive), tenancy, place: UnitNumber(20) };
    let from = StripSet { class, form: StripForm::Striped, places: (0..2).map(place).collect() };
    let state = RowState::Moving { from, to, why: MoveReason::Conversion };
    let moving = pool.view.with_row(ZoneIndex(0), Row { tenancy, state });
    pool.view = moving.expect("places do not overlap");
    (0..2).for_each(|strip| pool.write(strip, strip, 7, [1, 2]));
    let census = pool.count(7);
    assert_eq!(census.segments[0].survives(), Some(0), "as many strips as the mirror has places");
    assert!(census.fault(true).is_some(), "both classes survive a loss");
    pool.write(2, 2, 7, [1, 2]);
    assert_eq!(pool.count(7).fault(true), None);
}
