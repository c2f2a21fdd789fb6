//! Pools for tests: drives of given sizes, and zones placed on them.

use varve_types::PoolId;

use crate::class::{Class, MediumKinds};
use crate::format::tests::samples::{class, class_id, drive_number, drive_record};
use crate::format::{
    DriveRecord, DriveState, DriveTable, FeatureWords, JournalCopy, JournalCopyState,
    JournalPlaceKind, JournalRecord, LayoutPage, Row, RowState, StripForm, StripPlace, StripSet,
};
use crate::ids::{DriveId, DriveNumber, Epoch, HistoryId, UNIT_BYTES, UnitNumber, ZoneIndex};
use crate::plan::{Occupancy, PlaceRequest, choose};
use crate::sizes::PoolSizes;
use crate::view::LayoutView;

pub(crate) const MIRROR: u8 = 1;
pub(crate) const STRIPED: u8 = 2;
pub(crate) const NONE: u8 = 3;

/// Slots of a zone of these pools.
pub(crate) const ZONE_SEGMENTS: u32 = 16;

/// A table of drives with so many units each: class 1 is mirror:2, 2 is ec:4+2, 3 none. It drops as many drives as the
/// largest class that they have room for.
pub(crate) fn table(units: &[u32]) -> DriveTable {
    let drives = (0u8..).zip(units).map(|(number, units)| DriveRecord {
        id: DriveId([number; 16]),
        units: *units,
        since_epoch: Epoch(1),
        ..drive_record(number)
    });
    DriveTable {
        features: FeatureWords::default(),
        pool: PoolId([9; 16]),
        epoch: Epoch(1),
        history: HistoryId([1; 16]),
        lineage: Vec::new(),
        classes: vec![class(MIRROR, 1, 1), class(STRIPED, 4, 2), class(NONE, 1, 0)],
        class: class_id(MIRROR),
        drives: drives.collect(),
        drops_max: if units.len() < 6 { 1 } else { 2 },
        next_drive: u8::try_from(units.len()).unwrap(),
        segment_bytes: 256 << 10,
        zone_segments: ZONE_SEGMENTS,
        zones_max: 1024 * LayoutPage::ROWS,
        loss_epoch: Epoch(0),
        walked_epoch: Epoch(0),
        settled_epoch: Epoch(0),
        journal_kinds: MediumKinds::ALL,
    }
}

pub(crate) fn place_units(table: &DriveTable, id: u8) -> u32 {
    table.geometry(class_of(table, id).shape).place_units()
}

pub(crate) fn class_of(table: &DriveTable, id: u8) -> Class {
    *table.class_of(class_id(id)).unwrap()
}

/// The table at the next epoch with a drive in another state; a failed drive is a loss.
pub(crate) fn with_state(table: &DriveTable, drive: DriveNumber, state: DriveState) -> DriveTable {
    let mut table = table.clone();
    table.epoch.0 += 1;
    let epoch = table.epoch;
    let record = table.drives.iter_mut().find(|it| it.number == drive).unwrap();
    (record.state, record.since_epoch) = (state, epoch);
    if state == DriveState::Failed {
        table.loss_epoch = epoch;
    }
    table
}

/// A pool whose rows, spaces and shares follow each other.
#[derive(Clone)]
pub(crate) struct TestPool {
    pub(crate) view: LayoutView,
    pub(crate) occupancy: Occupancy,
}

impl TestPool {
    pub(crate) fn new(table: DriveTable) -> Self {
        let view = LayoutView::new(table, [], []).unwrap();
        let occupancy = Occupancy::of(&view).unwrap();
        Self { view, occupancy }
    }

    /// One of drives with room for so many places of a class each beside journals.
    pub(crate) fn with_rooms(rooms: &[u32], class: u8) -> Self {
        let units = place_units(&table(&vec![0; rooms.len()]), class);
        let units: Vec<_> = rooms.iter().map(|room| room * units + 3 * 16).collect();
        let mut pool = Self::new(DriveTable { class: class_id(class), ..table(&units) });
        pool.add_journal(0, &[0, 1]);
        pool
    }

    /// Has a drive join with room for so many places of the class of new zones.
    pub(crate) fn join(&mut self, room: u32) {
        let mut next = self.view.drives().clone();
        next.epoch.0 += 1;
        let units = place_units(&next, next.class.get());
        next.drives.push(DriveRecord {
            id: DriveId([next.next_drive; 16]),
            units: room * units + 3 * 16,
            since_epoch: next.epoch,
            ..drive_record(next.next_drive)
        });
        next.next_drive += 1;
        let after = self.view.with_drives(next).unwrap();
        self.occupancy.replace_drives(&self.view, &after).unwrap();
        self.view = after;
    }

    /// Zones that it promises.
    pub(crate) fn promised(&self) -> u32 {
        PoolSizes::of_view(&self.view).zones
    }

    /// Gives rows to zones that have none, up to a number.
    pub(crate) fn place_up_to(&mut self, zones: u32) {
        let class = self.view.drives().class.get();
        for zone in 0..zones {
            if self.view.row(ZoneIndex(zone)).state == RowState::Empty {
                assert!(self.place(zone, class), "zone {zone} of {zones} finds no room");
            }
        }
    }

    pub(crate) fn set_row(&mut self, zone: u32, row: Row) {
        let zone = ZoneIndex(zone);
        self.occupancy.replace_row(&self.view, zone, &row).unwrap();
        self.view = self.view.with_row(zone, row).unwrap();
    }

    pub(crate) fn places_for(&self, zone: u32, class: u8) -> Option<Vec<StripPlace>> {
        let class = class_of(self.view.drives(), class);
        let (kept, avoid) = (&[][..], &[][..]);
        let zone = ZoneIndex(zone);
        let request = PlaceRequest { zone, class: &class, kept, avoid, prefer: None };
        choose(&self.view, &self.occupancy, &request)
    }

    /// Gives a zone places; false when there is no room.
    pub(crate) fn place(&mut self, zone: u32, class: u8) -> bool {
        let Some(places) = self.places_for(zone, class) else { return false };
        let tenancy = self.view.row(ZoneIndex(zone)).tenancy.next().unwrap();
        let state = RowState::Still(set_of(class, places));
        self.set_row(zone, Row { tenancy, state });
        true
    }

    pub(crate) fn set_state(&mut self, drive: u8, state: DriveState) {
        let table = with_state(self.view.drives(), drive_number(drive), state);
        // Of tables that are read, as a drive that lives again is no change of a table.
        let (pages, journals) = (self.view.pages().cloned(), self.view.journals().cloned());
        self.view = LayoutView::new(table, pages, journals).unwrap();
    }

    pub(crate) fn set_slow(&mut self, drive: u8, is_slow: bool) {
        let mut table = self.view.drives().clone();
        table.epoch.0 += 1;
        let record = table.drives.iter_mut().find(|it| it.number == drive_number(drive)).unwrap();
        record.is_slow = is_slow;
        self.view = self.view.with_drives(table).unwrap();
    }

    pub(crate) fn add_journal(&mut self, shard: u16, drives: &[u8]) {
        let copies = drives.iter().map(|drive| {
            let free = self.occupancy.spaces().drive(drive_number(*drive)).unwrap();
            JournalCopy {
                drive: drive_number(*drive),
                place: JournalPlaceKind::Units(free.first_fit(16).unwrap_or(UnitNumber(0))),
                since: 0,
                state: JournalCopyState::Current,
            }
        });
        let record = JournalRecord {
            pool: self.view.drives().pool,
            shard: varve_types::ShardId(shard),
            journal_epoch: 1,
            lane_bytes: 16 * UNIT_BYTES,
            copies: copies.collect(),
        };
        self.occupancy.replace_journal(&self.view, &record).unwrap();
        self.view = self.view.with_journal(record).unwrap();
    }
}

pub(crate) fn set_of(class: u8, places: Vec<StripPlace>) -> StripSet {
    StripSet { class: class_id(class), form: StripForm::Striped, places: places.into() }
}
