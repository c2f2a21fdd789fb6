//! Whatever can be stored is read back unchanged.

use proptest::collection::vec;
use proptest::prelude::*;
use varve_types::{Generation, PoolId, SegmentNumber, ShardId};

use super::samples;
use crate::class::{Class, ClassId, MediumKind, MediumKinds, STRIPS_MAX, StripeShape};
use crate::format::{
    DriveRecord, DriveRemoval, DriveRoles, DriveState, DriveTable, EarlierHistory, FeatureWords,
    HeldUnits, JournalCopy, JournalCopyState, JournalPlaceKind, JournalRecord, LayoutPage,
    MoveReason, Row, RowState, StripForm, StripLabel, StripPlace, StripSet,
};
use crate::ids::{DriveId, DriveNumber, Epoch, HistoryId, Tenancy, UnitNumber};

fn pool() -> impl Strategy<Value = PoolId> {
    any::<[u8; 16]>().prop_map(PoolId)
}

fn shape() -> impl Strategy<Value = StripeShape> {
    (1u8..16, 0u8..16).prop_filter_map("a code", |(data, parity)| StripeShape::new(data, parity))
}

fn drive() -> impl Strategy<Value = DriveNumber> {
    (0..DriveNumber::COUNT).prop_filter_map("a number", DriveNumber::new)
}

/// Distinct numbers, ascending.
fn numbers(most: usize) -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::btree_set(0..DriveNumber::COUNT, 1..=most)
        .prop_map(|numbers| numbers.into_iter().collect())
}

prop_compose! {
    fn drive_record(epoch: u64)(
        state in 0usize..5,
        kind in 0usize..3,
        roles in 0u8..8,
        is_slow in any::<bool>(),
        is_removed in any::<bool>(),
        units in 1u32..,
        held in any::<(u32, u32)>(),
        since in 0..=epoch,
        since_unix_ms in any::<u64>(),
        name in "[a-zé ]{0,24}",
    ) -> DriveRecord {
        let count = held.1 % (units - held.0 % units);
        let first = if count == 0 { 0 } else { held.0 % units };
        DriveRecord {
            number: samples::drive_number(0),
            id: DriveId([0; 16]),
            state: DriveState::ALL[state],
            roles: DriveRoles::new(roles).unwrap(),
            kind: MediumKind::ALL[kind],
            is_slow,
            removal: (is_removed && state >= 2).then_some(DriveRemoval { successor: None }),
            former: None,
            units,
            held: HeldUnits { first: UnitNumber(first), count },
            since_epoch: Epoch(since),
            since_unix_ms,
            name,
        }
    }
}

prop_compose! {
    fn drive_table()(epoch in 20u64..1 << 50)(
        epoch in Just(epoch),
        words in any::<(u64, u64)>(),
        pool in pool(),
        history in any::<u8>(),
        lineage in 0u8..=16,
        shapes in vec((shape(), 0u8..8), 1..=16),
        numbers in numbers(40),
        records in vec(drive_record(epoch), 40),
        next in any::<u8>(),
        drops_max in 0..=StripeShape::PARITY_MAX,
        sizes in (1u32..=8192, 1u32..=300, 1u32..=4096),
        epochs in (0..=epoch, 0..=epoch, 0..=epoch),
    ) -> DriveTable {
        let classes: Vec<_> = (1u8..).zip(&shapes).map(|(id, (shape, kinds))| Class {
            id: samples::class_id(id),
            shape: *shape,
            kinds: MediumKinds::new(*kinds).unwrap(),
        }).collect();
        let loss_epoch = Epoch(epochs.0.max(epochs.1));
        let is_unused = |number: &u8| !numbers.contains(number);
        let above = numbers.last().map_or(0, |last| last + 1);
        let later = |number: u8| (number + 1 < above).then(|| samples::drive_number(number + 1));
        let drives = numbers.iter().zip(records).map(|(number, record)| DriveRecord {
            number: samples::drive_number(*number),
            id: DriveId([*number; 16]),
            former: number.checked_sub(1).filter(is_unused).map(samples::drive_number),
            removal: record.removal.map(|_| DriveRemoval { successor: later(*number) }),
            since_epoch: if record.state == DriveState::Failed {
                record.since_epoch.min(loss_epoch)
            } else {
                record.since_epoch
            },
            ..record
        });
        let earlier = |index: u8| EarlierHistory {
            history: HistoryId([history.wrapping_add(1 + index); 16]),
            ended: Epoch(epoch - 1 - u64::from(index)),
        };
        let (segments, zone_segments, pages) = sizes;
        DriveTable {
            features: FeatureWords { compat: words.0, ro_compat: words.1, incompat: 0 },
            pool,
            epoch: Epoch(epoch),
            history: HistoryId([history; 16]),
            lineage: (0..lineage).map(earlier).collect(),
            class: classes[usize::from(next) % classes.len()].id,
            classes,
            drives: drives.collect(),
            drops_max,
            next_drive: next.max(above),
            segment_bytes: segments * 4096,
            zone_segments,
            zones_max: pages * LayoutPage::ROWS,
            loss_epoch,
            walked_epoch: Epoch(epochs.0.min(epochs.1)),
            settled_epoch: Epoch(epochs.2),
            journal_kinds: MediumKinds::new(next % 8).unwrap(),
        }
    }
}

fn journal_copy() -> impl Strategy<Value = JournalCopy> {
    let place = prop_oneof![
        any::<u32>().prop_map(|first| JournalPlaceKind::Units(UnitNumber(first))),
        any::<u16>().prop_map(JournalPlaceKind::Lane),
    ];
    let ends = (0u64..1 << 40, 0u64..1 << 40, any::<bool>());
    (place, ends).prop_map(|(place, (since, length, is_current))| {
        let state = if is_current {
            JournalCopyState::Current
        } else {
            JournalCopyState::Former { until: (since + length) * 4096 }
        };
        JournalCopy { drive: samples::drive_number(0), place, since: since * 4096, state }
    })
}

prop_compose! {
    fn journal_record()(
        pool in pool(),
        shard in 0..ShardId::COUNT_MAX,
        journal_epoch in 0u64..1 << 62,
        lane in 1u64..1 << 30,
        copies in vec(journal_copy(), 1..=JournalRecord::COPIES_MAX),
        first in any::<u8>(),
    ) -> JournalRecord {
        let mut copies = copies;
        copies[0].state = JournalCopyState::Current;
        for (index, copy) in (0u8..).zip(&mut copies) {
            copy.drive = samples::drive_number((first % 200) + index);
        }
        JournalRecord { pool, shard: ShardId(shard), journal_epoch, lane_bytes: lane * 4096, copies }
    }
}

fn places(most: usize, tenancy: u32) -> impl Strategy<Value = Box<[StripPlace]>> {
    vec((1..=tenancy, any::<u32>()), 1..=most).prop_flat_map(move |figures| {
        let count = figures.len();
        proptest::sample::subsequence((0..DriveNumber::COUNT).collect::<Vec<_>>(), count)
            .prop_shuffle()
            .prop_map(move |drives| {
                let each = drives.iter().zip(&figures);
                each.map(|(drive, (came, unit))| samples::place(*drive, *came, *unit)).collect()
            })
    })
}

fn striped(tenancy: u32) -> impl Strategy<Value = StripSet> {
    (1u8.., places(STRIPS_MAX, tenancy)).prop_map(|(class, places)| StripSet {
        class: ClassId::new(class).unwrap(),
        form: StripForm::Striped,
        places,
    })
}

fn slots(tenancy: u32) -> impl Strategy<Value = StripSet> {
    (1u8.., 1u16.., places(2, tenancy)).prop_map(|(class, split, places)| StripSet {
        class: ClassId::new(class).unwrap(),
        form: StripForm::Slots { split },
        places,
    })
}

fn row() -> impl Strategy<Value = Row> {
    (1u32..1 << 24).prop_flat_map(|tenancy| {
        let set = || prop_oneof![striped(tenancy), slots(tenancy)];
        let moving = (set(), striped(tenancy), 0usize..6)
            .prop_map(|(from, to, why)| RowState::Moving { from, to, why: MoveReason::ALL[why] });
        let state = prop_oneof![Just(RowState::Empty), set().prop_map(RowState::Still), moving];
        state.prop_map(move |state| Row { tenancy: Tenancy::new(tenancy).unwrap(), state })
    })
}

prop_compose! {
    fn layout_page()(
        pool in pool(),
        page in 0..LayoutPage::PAGES_MAX,
        rows in vec(row(), 14),
    ) -> LayoutPage {
        let mut layout = LayoutPage::empty(pool, page);
        layout.rows.clone_from_slice(&rows);
        layout
    }
}

prop_compose! {
    fn strip_label()(
        shape in shape(),
        strip in any::<u8>(),
        drive in drive(),
        pool in pool(),
        numbers in any::<(u32, u32)>(),
        generation in 0u64..1 << 48,
        epoch in 0u64..1 << 62,
        tenancy in 1u32..1 << 24,
        blocks in (1u32..=8192, 1u32..=8192),
        sums in vec(any::<u64>(), STRIPS_MAX),
    ) -> StripLabel {
        let used = blocks.0.max(blocks.1) * 4096;
        let data = if shape.data() == 1 { used } else { blocks.0.min(blocks.1) * 4096 };
        StripLabel {
            shape,
            strip: strip % u8::try_from(shape.strips()).unwrap(),
            drive,
            pool,
            slot: SegmentNumber(numbers.0),
            place: UnitNumber(numbers.1),
            generation: Generation::new(generation),
            epoch: Epoch(epoch),
            tenancy: Tenancy::new(tenancy).unwrap(),
            used_bytes: used,
            data_bytes: data,
            strip_checksums: sums[..shape.strips()].into(),
        }
    }
}

proptest! {
    #[test]
    fn of_drive_tables(table in drive_table()) {
        let bytes = table.encode();
        prop_assert!(bytes.len() <= DriveTable::LEN_MAX);
        prop_assert_eq!(DriveTable::decode(table.pool, &bytes), Ok(table));
    }

    #[test]
    fn of_journal_records(record in journal_record()) {
        let bytes = record.encode();
        prop_assert_eq!(JournalRecord::decode(record.pool, record.shard, &bytes), Ok(record));
    }

    #[test]
    fn of_layout_pages(page in layout_page()) {
        prop_assert_eq!(LayoutPage::decode(page.pool, page.page, &page.encode()), Ok(page));
    }

    #[test]
    fn of_labels(label in strip_label()) {
        prop_assert_eq!(StripLabel::decode(&samples::label_bytes(&label)), Ok(label));
    }

    #[test]
    fn of_nothing_from_random_bytes(bytes in vec(any::<u8>(), 0..600)) {
        let pool = samples::POOL;
        prop_assert!(DriveTable::decode(pool, &bytes).is_err());
        prop_assert!(JournalRecord::decode(pool, samples::SHARD, &bytes).is_err());
        prop_assert!(LayoutPage::decode(pool, samples::PAGE, &bytes).is_err());
        prop_assert!(StripLabel::decode(&bytes).is_err());
    }
}
