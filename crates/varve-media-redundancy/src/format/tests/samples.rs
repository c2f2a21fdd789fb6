//! One value of each table with every field set. Their bytes are stored in `fuzz/seeds`: the fuzzer starts from them,
//! and a change of the format shows there.

use varve_stdx::compare_file;
use varve_types::{Generation, PoolId, SegmentNumber, ShardId};

use crate::class::{Class, ClassId, MediumKind, MediumKinds, StripeShape};
use crate::format::{
    DriveRecord, DriveRemoval, DriveRoles, DriveState, DriveTable, EarlierHistory, FeatureWords,
    HeldUnits, JournalCopy, JournalCopyState, JournalPlaceKind, JournalRecord, LayoutPage,
    MoveReason, Row, RowState, StripForm, StripLabel, StripPlace, StripSet,
};
use crate::ids::{DriveId, DriveNumber, Epoch, HistoryId, Tenancy, UnitNumber};

pub(crate) const POOL: PoolId = PoolId([7; 16]);
pub(crate) const SHARD: ShardId = ShardId(3);
pub(crate) const PAGE: u32 = 5;

pub(crate) fn drive_number(number: u8) -> DriveNumber {
    DriveNumber::new(number).unwrap()
}

pub(crate) fn class_id(number: u8) -> ClassId {
    ClassId::new(number).unwrap()
}

pub(crate) fn class(id: u8, data: u8, parity: u8) -> Class {
    let shape = StripeShape::new(data, parity).unwrap();
    Class { id: class_id(id), shape, kinds: MediumKinds::ALL }
}

pub(crate) fn drive_record(number: u8) -> DriveRecord {
    DriveRecord {
        number: drive_number(number),
        id: DriveId([0xD0 | number; 16]),
        state: DriveState::Live,
        roles: DriveRoles::ALL,
        kind: MediumKind::Nvme,
        is_slow: false,
        removal: None,
        former: None,
        units: 1 << 20,
        held: HeldUnits::NONE,
        since_epoch: Epoch(4),
        since_unix_ms: 1_700_000_000_000,
        name: format!("ACME 2000 S/N 000{number}"),
    }
}

pub(crate) fn drive_table() -> DriveTable {
    let kinds = MediumKinds::new(3).unwrap();
    let slow = DriveRecord { is_slow: true, kind: MediumKind::Hdd, ..drive_record(2) };
    let roles = DriveRoles::new(5).unwrap();
    let held = HeldUnits { first: UnitNumber(64), count: 4096 };
    let former = Some(drive_number(3));
    let removal = Some(DriveRemoval { successor: Some(drive_number(6)) });
    let state = DriveState::Failed;
    let failed = DriveRecord { state, removal, roles, former, held, ..drive_record(4) };
    DriveTable {
        features: FeatureWords { compat: 5, ..FeatureWords::default() },
        pool: POOL,
        epoch: Epoch(17),
        history: HistoryId([0xA1; 16]),
        lineage: vec![
            EarlierHistory { history: HistoryId([0xA2; 16]), ended: Epoch(12) },
            EarlierHistory { history: HistoryId([0xA3; 16]), ended: Epoch(2) },
        ],
        classes: vec![class(1, 1, 1), Class { kinds, ..class(2, 4, 2) }],
        class: class_id(2),
        drives: vec![drive_record(0), drive_record(1), slow, failed],
        drops_max: 2,
        next_drive: 7,
        segment_bytes: 2 << 20,
        zone_segments: 128,
        zones_max: 14 * 1024,
        loss_epoch: Epoch(16),
        walked_epoch: Epoch(9),
        settled_epoch: Epoch(15),
        journal_kinds: MediumKinds::ALL,
    }
}

pub(crate) fn journal_record() -> JournalRecord {
    let copy = |drive, place, since, state| JournalCopy {
        drive: drive_number(drive),
        place,
        since,
        state,
    };
    let former = JournalCopyState::Former { until: 0x30_0000 };
    JournalRecord {
        pool: POOL,
        shard: SHARD,
        journal_epoch: 6,
        lane_bytes: 256 << 20,
        copies: vec![
            copy(0, JournalPlaceKind::Lane(3), 0, JournalCopyState::Current),
            copy(1, JournalPlaceKind::Units(UnitNumber(9000)), 0x1000, former),
            copy(2, JournalPlaceKind::Units(UnitNumber(77)), 0x30_0000, JournalCopyState::Current),
        ],
    }
}

pub(crate) fn place(drive: u8, tenancy: u32, place: u32) -> StripPlace {
    StripPlace {
        drive: drive_number(drive),
        tenancy: Tenancy::new(tenancy).unwrap(),
        place: UnitNumber(place),
    }
}

pub(crate) fn striped(class: u8, places: &[StripPlace]) -> StripSet {
    StripSet { class: class_id(class), form: StripForm::Striped, places: places.into() }
}

pub(crate) fn row(tenancy: u32, state: RowState) -> Row {
    Row { tenancy: Tenancy::new(tenancy).unwrap(), state }
}

pub(crate) fn layout_page() -> LayoutPage {
    let mut page = LayoutPage::empty(POOL, PAGE);
    let slots = StripForm::Slots { split: 100 };
    let two = [place(0, 1, 64), place(1, 1, 0)];
    page.rows[0] = row(3, RowState::Still(striped(1, &[place(0, 1, 4104), place(4, 3, 0)])));
    page.rows[1] = row(
        9,
        RowState::Moving {
            from: striped(1, &[place(0, 8, 8208), place(4, 8, 4104)]),
            to: striped(1, &[place(0, 8, 8208), place(1, 9, 12_312)]),
            why: MoveReason::Rebuild,
        },
    );
    page.rows[2] =
        row(1, RowState::Still(StripSet { class: class_id(1), form: slots, places: two.into() }));
    page.rows[13] = row(0xFF_FFFF, RowState::Empty);
    page
}

pub(crate) fn strip_label() -> StripLabel {
    StripLabel {
        shape: StripeShape::new(4, 2).unwrap(),
        strip: 5,
        drive: drive_number(1),
        pool: POOL,
        slot: SegmentNumber(9001),
        place: UnitNumber(4104),
        generation: Generation::new(77),
        epoch: Epoch(17),
        tenancy: Tenancy::new(3).unwrap(),
        used_bytes: 1_044_480,
        data_bytes: 524_288,
        strip_checksums: [0x11, 0x22, 0, 0, 0x55, 0x66].into(),
    }
}

pub(crate) fn label_bytes(label: &StripLabel) -> Vec<u8> {
    let mut bytes = vec![0; StripLabel::LEN];
    label.encode(&mut bytes);
    bytes
}

/// Fuzz target and bytes of each sample.
pub(super) fn stored() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("drive_table", drive_table().encode()),
        ("journal_record", journal_record().encode()),
        ("layout_page", layout_page().encode()),
        ("strip_label", label_bytes(&strip_label())),
    ]
}

/// After a change of the format on purpose: `VARVE_UPDATE_SNAPSHOTS=1 cargo test -p varve-media-redundancy format`.
#[test]
fn stored_bytes_are_those_that_were_stored_before() {
    for (target, bytes) in stored() {
        compare_file(&format!("fuzz/seeds/{target}/sample"), &bytes);
    }
}
