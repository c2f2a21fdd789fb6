//! Tests of what health says.

use std::collections::BTreeMap;

use proptest::prelude::*;
use varve_media::planted::plant;

use super::*;
use crate::format::tests::samples::{class_id, drive_number, place, row, striped};
use crate::format::{DriveTable, JournalPlaceKind};
use crate::ids::UnitNumber;
use crate::test_pool::{MIRROR, NONE, STRIPED, TestPool};

/// A table of a pool that survives the loss of so many drives.
fn table(units: &[u32], drops_max: u8) -> DriveTable {
    DriveTable { drops_max, ..crate::test_pool::table(units) }
}

/// A pool with facts that are all well, to be spoiled.
struct HealthPool {
    pool: TestPool,
    shard_count: u16,
    shards: Vec<ShardFacts>,
    root_drives: Vec<DriveNumber>,
    failing: Vec<FailingDrive>,
    suspects: u64,
}

impl HealthPool {
    fn new() -> Self {
        let mut pool = TestPool::new(table(&[20_000; 4], 1));
        for zone in 0..8 {
            assert!(pool.place(zone, MIRROR));
        }
        pool.add_journal(0, &[0, 1]);
        pool.add_journal(1, &[2, 3]);
        let shard = |shard| ShardFacts {
            shard: ShardId(shard),
            journal_tail: 0,
            counted_since: Epoch(0),
            held: 100,
            verified: 100,
            damaged: 0,
            unreadable: 0,
        };
        Self {
            pool,
            shard_count: 2,
            shards: vec![shard(0), shard(1)],
            root_drives: (0..4).map(drive_number).collect(),
            failing: Vec::new(),
            suspects: 0,
        }
    }

    fn change_table(&mut self, change: impl Fn(&mut DriveTable)) {
        let mut table = self.pool.view.drives().clone();
        change(&mut table);
        self.pool.view = self.pool.view.with_drives(table).unwrap();
    }

    fn report(&self) -> HealthReport {
        let queue = RepairQueue::of(&self.pool.view);
        HealthReport::of(&HealthFacts {
            view: &self.pool.view,
            queue: &queue,
            shard_count: self.shard_count,
            shards: &self.shards,
            root_drives: &self.root_drives,
            failing: &self.failing,
            suspects: self.suspects,
        })
    }

    /// Gives shard 0 a journal with these copies in another place each.
    fn set_copies(&mut self, copies: &[JournalCopy]) {
        let journal = self.pool.view.journals().next().unwrap();
        let journal_epoch = journal.journal_epoch + 1;
        let journal = JournalRecord { copies: copies.to_vec(), journal_epoch, ..journal.clone() };
        self.pool.view = self.pool.view.with_journal(journal).unwrap();
    }

    fn states(&self) -> Vec<HealthState> {
        self.report().reasons.iter().map(HealthReason::state).collect()
    }
}

#[test]
fn a_new_pool_is_ok() {
    let report = HealthPool::new().report();
    assert_eq!(report, HealthReport { reasons: Vec::new(), survives: Some(1) });
    assert_eq!(report.state().exit_code(), 0);
}

/// The way back after a lost drive. HEALTH-1
#[test]
fn after_a_loss_it_is_ok_after_repair_and_a_whole_walk_only() {
    let mut health = HealthPool::new();
    health.pool.set_state(0, DriveState::Failed);
    let report = health.report();
    assert_eq!((report.state(), report.survives), (HealthState::AtRisk, Some(0)));
    let is_named = |reason: &HealthReason| {
        *reason
            == HealthReason::DriveFailed {
                drive: drive_number(0),
                name: "ACME 2000 S/N 0000".to_owned(),
            }
    };
    assert!(report.reasons.iter().any(is_named), "{report:?}");
    // Repaired: other drives have the strips, the journal and the roots.
    let lost = drive_number(0);
    for zone in 0..8 {
        let before = health.pool.view.row(ZoneIndex(zone)).clone();
        let set = before.target().unwrap();
        if set.has_drive(lost) {
            let tenancy = before.tenancy.get();
            health.pool.set_row(zone, row(tenancy, RowState::Empty));
            assert!(health.pool.place(zone, MIRROR));
        }
    }
    assert_eq!(health.report().state(), HealthState::AtRisk, "the journal lacks a copy");
    health.pool.add_journal(0, &[1, 2]);
    let report = health.report();
    assert_eq!((report.state(), report.survives), (HealthState::Attention, Some(1)));
    let loss = health.pool.view.drives().loss_epoch;
    health.shards.iter_mut().for_each(|shard| shard.counted_since = loss);
    let not_walked = vec![HealthReason::NotWalked { loss }];
    assert_eq!(health.report().reasons, not_walked, "all is counted, but no walk began after it");
    health.change_table(|table| table.walked_epoch = loss);
    assert_eq!(health.report().state(), HealthState::Ok);
    health.shards[1].verified = 99;
    let one = HealthReason::NotVerified { shard: ShardId(1), segments: 1 };
    assert_eq!(health.report().reasons, [one]);
}

#[test]
fn a_walk_that_began_before_another_loss_proves_nothing() {
    let mut health = HealthPool::new();
    health.change_table(|table| {
        (table.epoch, table.loss_epoch, table.walked_epoch) = (Epoch(9), Epoch(8), Epoch(5));
    });
    health.shards.iter_mut().for_each(|shard| shard.counted_since = Epoch(8));
    assert_eq!(health.report().reasons, [HealthReason::NotWalked { loss: Epoch(8) }]);
    // Counts of before the loss are none.
    health.change_table(|table| table.walked_epoch = Epoch(8));
    health.shards[0].counted_since = Epoch(5);
    let none = HealthReason::NotVerified { shard: ShardId(0), segments: 100 };
    assert_eq!(health.report().reasons, [none]);
}

#[test]
fn more_verified_than_held_is_no_proof() {
    let mut health = HealthPool::new();
    health.shards[0].verified = 101;
    assert_eq!(health.report().state(), HealthState::Attention);
}

#[test]
fn a_shard_that_does_not_answer_is_not_ok() {
    let mut health = HealthPool::new();
    let silent = health.shards.remove(0);
    let report = health.report();
    assert_eq!(report.reasons, [HealthReason::ShardSilent { shard: silent.shard }]);
    assert_eq!((report.state(), report.state().exit_code()), (HealthState::Unknown, 4));
    // What is lost for certain outweighs it.
    health.shards[0].unreadable = 1;
    assert_eq!(health.states(), [HealthState::Lost, HealthState::Unknown]);
    assert_eq!(health.report().state().exit_code(), 3);
}

/// POOL-HEALTH-3.
#[test]
fn a_shard_without_a_journal_record_is_lost_and_not_forgotten() {
    let mut health = HealthPool::new();
    health.shard_count = 3;
    let shard = ShardId(2);
    let report = health.report();
    let reasons = [HealthReason::JournalLost { shard }, HealthReason::ShardSilent { shard }];
    assert_eq!((&report.reasons[..], report.survives), (&reasons[..], None));
    health.shards.push(ShardFacts { shard, ..health.shards[0] });
    assert_eq!(health.report().reasons, [HealthReason::JournalLost { shard }]);
}

/// A copy on `drive` that has positions from `since` on, up to `until` if it is a former one.
fn copy(drive: u8, since: u64, until: Option<u64>) -> JournalCopy {
    let first = UnitNumber(18_000 + u32::try_from(since / 4096).unwrap() * 16);
    JournalCopy {
        drive: drive_number(drive),
        place: JournalPlaceKind::Units(first),
        since,
        state: until.map_or(JournalCopyState::Current, |until| JournalCopyState::Former { until }),
    }
}

/// POOL-HEALTH-3: a copy counts where it has what is between the tail and the head.
#[test]
fn only_copies_that_have_the_tail_of_a_journal_count() {
    const TAIL: u64 = 16 << 10;
    let before = TAIL - 4096;
    let after = TAIL + 8192;
    let few = |copies| HealthReason::JournalCopies { shard: ShardId(0), copies, needed: 2 };
    let lost = HealthReason::JournalLost { shard: ShardId(0) };
    for (copies, expected, survives) in [
        (vec![copy(0, 0, None), copy(1, TAIL, None)], None, Some(1)),
        (vec![copy(0, 0, None), copy(1, after, None)], Some(few(1)), Some(0)),
        (vec![copy(0, 0, None), copy(1, after, None), copy(2, 0, Some(after))], None, Some(1)),
        (
            vec![copy(0, 0, None), copy(1, after, None), copy(2, 0, Some(TAIL))],
            Some(few(1)),
            Some(0),
        ),
        (vec![copy(0, 0, None), copy(1, 0, None), copy(2, 0, Some(before))], None, Some(1)),
        // Two copies on one drive are lost with it.
        (
            vec![copy(0, after, None), copy(0, 0, Some(after + 4096)), copy(1, 0, None)],
            None,
            Some(1),
        ),
        (vec![copy(0, after, None), copy(0, 0, Some(after + 4096))], Some(few(1)), Some(0)),
        (vec![copy(0, after, None), copy(1, after, None)], Some(lost.clone()), None),
        // A gap behind the tail.
        (
            vec![copy(0, after, None), copy(1, after, None), copy(2, 0, Some(TAIL + 4096))],
            Some(lost),
            None,
        ),
    ] {
        let mut health = HealthPool::new();
        health.shards[0].journal_tail = TAIL;
        health.set_copies(&copies);
        let report = health.report();
        assert_eq!(report.reasons, Vec::from_iter(expected), "{copies:?}");
        assert_eq!(report.survives, survives, "{copies:?}");
    }
}

#[test]
fn copies_that_survive_another_loss_are_no_risk_yet() {
    let shard = ShardId(0);
    for (copies, expected) in [(1, HealthState::AtRisk), (2, HealthState::Attention)] {
        let journal = HealthReason::JournalCopies { shard, copies, needed: 3 };
        let roots = HealthReason::RootsExposed { copies, needed: 3 };
        assert_eq!([journal.state(), roots.state()], [expected; 2], "{copies} of 3");
    }
}

#[test]
fn a_former_copy_on_a_failed_drive_does_not_count() {
    let mut health = HealthPool::new();
    let copies = [copy(1, 0, None), copy(2, 8192, None), copy(3, 0, Some(8192))];
    health.set_copies(&copies);
    assert_eq!(health.report().state(), HealthState::Ok);
    health.pool.set_state(3, DriveState::Failed);
    let few = HealthReason::JournalCopies { shard: ShardId(0), copies: 1, needed: 2 };
    assert!(health.report().reasons.contains(&few), "{:?}", health.report());
    // Once the tail has passed what only two drives had.
    health.shards[0].journal_tail = 8192;
    assert!(!health.report().reasons.contains(&few), "{:?}", health.report());
}

#[test]
fn zones_that_survive_less_than_new_ones_are_named() {
    let mut health = HealthPool::new();
    assert!(health.pool.place(20, NONE));
    let unconverted = HealthReason::Unconverted { zones: 1 };
    let report = health.report();
    assert_eq!((&report.reasons[..], report.survives), (&[unconverted.clone()][..], Some(0)));
    assert_eq!(report.state(), HealthState::Attention);
    let before = health.pool.view.row(ZoneIndex(20)).clone();
    let from = before.target().unwrap().clone();
    let to = striped(MIRROR, &[place(0, 2, 9000), place(1, 2, 9000)]);
    let why = MoveReason::Conversion;
    health.pool.set_row(20, row(2, RowState::Moving { from, to: to.clone(), why }));
    assert_eq!(health.report().reasons, [unconverted], "a part of its segments has one strip");
    health.pool.set_row(20, row(2, RowState::Still(to)));
    assert_eq!(health.report().state(), HealthState::Ok);
}

/// What is in the set alone that is lost cannot be read, though the other one is whole.
#[test]
fn a_moving_row_that_lost_one_set_is_lost() {
    let mut health = HealthPool::new();
    let from = striped(NONE, &[place(3, 1, 9000)]);
    let to = striped(MIRROR, &[place(0, 2, 9000), place(1, 2, 9000)]);
    let why = MoveReason::Conversion;
    health.pool.set_row(20, row(2, RowState::Moving { from, to, why }));
    health.pool.set_state(3, DriveState::Failed);
    let report = health.report();
    let lost = HealthReason::ZonesLost { first: ZoneIndex(20), zones: 1 };
    assert_eq!((report.reasons.first(), report.survives), (Some(&lost), None));
}

#[test]
fn too_many_lost_drives_are_a_loss_with_a_name() {
    let mut health = HealthPool::new();
    health.pool.set_row(
        100,
        row(1, RowState::Still(striped(MIRROR, &[place(0, 1, 9000), place(1, 1, 9000)]))),
    );
    health.pool.set_state(0, DriveState::Failed);
    health.pool.set_state(1, DriveState::Failed);
    let report = health.report();
    assert_eq!((report.state(), report.survives), (HealthState::Lost, None));
    assert!(report.reasons.contains(&HealthReason::JournalLost { shard: ShardId(0) }));
    let zones = report.reasons.iter().find_map(|reason| match reason {
        HealthReason::ZonesLost { zones, .. } => Some(*zones),
        _ => None,
    });
    assert!(zones.is_some_and(|zones| zones >= 1), "{report:?}");
}

/// Each reason alone, with what it says and what to do.
#[test]
fn each_reason_says_what_to_do() {
    let mut health = HealthPool::new();
    health.change_table(|table| table.drives[3].is_slow = true);
    health.pool.set_state(2, DriveState::Leaving);
    health.root_drives.pop();
    let report = health.report();
    let texts: Vec<_> = report.reasons.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "drive 3 lacks copies of roots",
            "drive 2 leaves, and still has data",
            "drive 3 is much slower than the others",
        ]
    );
    assert!(report.reasons.iter().all(|reason| reason.advice().len() > 10));
    health.root_drives.truncate(1);
    let exposed = HealthReason::RootsExposed { copies: 1, needed: 2 };
    assert_eq!(health.report().reasons.first(), Some(&exposed));
    assert_eq!(health.report().survives, Some(0));
}

#[test]
fn a_rebuild_under_way_is_not_ok() {
    let mut health = HealthPool::new();
    let before = health.pool.view.row(ZoneIndex(0)).clone();
    let from = before.target().unwrap().clone();
    let spare = (0..4).map(drive_number).find(|drive| !from.has_drive(*drive)).unwrap();
    let to = striped(MIRROR, &[from.places[0], place(spare.get(), 2, 9000)]);
    for (why, reasons) in [(MoveReason::Rebuild, 1), (MoveReason::Rebalance, 0)] {
        let (from, to) = (from.clone(), to.clone());
        health.pool.set_row(0, row(2, RowState::Moving { from, to, why }));
        assert_eq!(health.report().reasons.len(), reasons, "{why:?}");
    }
}

fn failing(drive: u8) -> FailingDrive {
    FailingDrive { drive: drive_number(drive), reads: 9, nanos: 0 }
}

/// POOL-HEALTH-4
#[test]
fn drives_that_cannot_be_read_count_as_lost() {
    let mut health = HealthPool::new();
    health.failing.push(failing(0));
    let report = health.report();
    assert_eq!((report.state(), report.survives), (HealthState::AtRisk, Some(0)), "{report:?}");
    let name = "ACME 2000 S/N 0000".to_owned();
    let unreadable = HealthReason::DriveUnreadable { drive: drive_number(0), name, reads: 9 };
    assert!(report.reasons.contains(&unreadable), "{report:?}");
    let is_failed = |it: &HealthReason| matches!(it, HealthReason::DriveFailed { .. });
    assert!(!report.reasons.iter().any(is_failed), "it may be read again");
    health.failing.push(failing(1));
    health.pool.set_row(
        100,
        row(1, RowState::Still(striped(MIRROR, &[place(0, 1, 9000), place(1, 1, 9000)]))),
    );
    let report = health.report();
    assert_eq!((report.state(), report.survives), (HealthState::Lost, None), "{report:?}");
    health.failing.clear();
    assert_eq!(health.report().state(), HealthState::Ok, "they are read again");
}

/// POOL-HEALTH-5
#[test]
fn what_reads_met_is_no_more_ok() {
    let mut health = HealthPool::new();
    health.suspects = 2;
    assert_eq!(health.report().reasons, [HealthReason::SegmentsSuspect { segments: 2 }]);
    (health.suspects, health.shards[1].damaged) = (0, 3);
    let damaged = HealthReason::SegmentsDamaged { shard: ShardId(1), segments: 3 };
    let report = health.report();
    assert_eq!((report.reasons, report.survives), (vec![damaged], None), "nobody counted");
    assert_eq!(health.report().state(), HealthState::Attention);
}

/// Whether a pool is called ok with a bug, of which it is not without.
fn is_blind(bug: Bug, spoil: impl Fn(&mut HealthPool)) -> bool {
    let mut health = HealthPool::new();
    spoil(&mut health);
    assert_ne!(health.report().state(), HealthState::Ok, "without {bug:?}");
    plant(Some(bug));
    let state = health.report().state();
    plant(None);
    state == HealthState::Ok
}

#[test]
fn failing_is_well() {
    let mut health = HealthPool::new();
    health.failing.extend([failing(0), failing(1)]);
    let survives = health.report().survives;
    plant(Some(Bug::FailingIsWell));
    let with_bug = health.report().survives;
    plant(None);
    assert_ne!(survives, with_bug, "POOL-HEALTH-4");
}

#[test]
fn ok_without_walk() {
    let spoil = |health: &mut HealthPool| {
        health.change_table(|table| {
            (table.epoch, table.loss_epoch, table.walked_epoch) = (Epoch(9), Epoch(8), Epoch(5));
        });
        health.shards.iter_mut().for_each(|shard| shard.counted_since = Epoch(8));
    };
    assert!(is_blind(Bug::OkWithoutWalk, spoil), "POOL-HEALTH-1");
}

#[test]
fn counted_from_table() {
    let few = HealthReason::JournalCopies { shard: ShardId(0), copies: 1, needed: 2 };
    let mut health = HealthPool::new();
    health.pool.set_state(0, DriveState::Failed);
    assert!(health.report().reasons.contains(&few));
    plant(Some(Bug::CountedFromTable));
    let report = health.report();
    plant(None);
    assert!(!report.reasons.contains(&few), "POOL-HEALTH-3: the bug shows");
}

#[test]
fn shard_forgotten() {
    let spoil = |health: &mut HealthPool| health.shard_count = 3;
    assert!(is_blind(Bug::ShardForgotten, spoil), "POOL-HEALTH-3");
}

/// One copy that is whole is what was promised: what it survives, the report says.
#[test]
fn a_pool_without_redundancy_is_ok_and_survives_nothing() {
    let mut pool = TestPool::new(table(&[20_000], 1));
    assert!(pool.place(0, NONE));
    pool.add_journal(0, &[0]);
    let mut health = HealthPool { pool, shard_count: 1, ..HealthPool::new() };
    health.change_table(|table| {
        (table.drops_max, table.class) = (0, class_id(NONE));
    });
    let report = health.report();
    assert_eq!((report.state(), report.survives), (HealthState::Ok, Some(0)), "{report:?}");
}

#[test]
fn states_are_ordered_by_how_bad_they_are() {
    use HealthState::{AtRisk, Attention, Lost, Ok, Unknown};
    let states = [Ok, Attention, AtRisk, Unknown, Lost];
    assert!(states.is_sorted());
    assert_eq!(states.map(HealthState::exit_code), [0, 1, 2, 4, 3]);
    assert_eq!(
        states.map(|state| state.to_string()),
        ["ok", "attention", "at risk", "unknown", "lost"]
    );
}

/// What befalls strips, which nobody knows but who reads them.
#[derive(Clone, Copy, Debug)]
enum LifeEvent {
    /// A segment is put, on all drives.
    Put(u32),
    /// A segment is deleted.
    Delete(usize),
    /// A strip rots, and nobody notices.
    Rot(usize, usize),
    /// Somebody reads a segment, and what is bad becomes known.
    Read(usize),
    /// A drive fails.
    Fail(u8),
    /// The next zone is moved to drives that are there, and read back.
    Repair,
    /// A walk begins.
    WalkBegins,
    /// It has read everything.
    WalkEnds,
}

fn life_event() -> impl Strategy<Value = LifeEvent> {
    prop_oneof![
        4 => (0u32..12).prop_map(LifeEvent::Put),
        1 => any::<usize>().prop_map(LifeEvent::Delete),
        1 => any::<(usize, usize)>().prop_map(|(segment, strip)| LifeEvent::Rot(segment, strip)),
        1 => any::<usize>().prop_map(LifeEvent::Read),
        1 => (0u8..9).prop_map(LifeEvent::Fail),
        6 => Just(LifeEvent::Repair),
        2 => Just(LifeEvent::WalkBegins),
        2 => Just(LifeEvent::WalkEnds),
    ]
}

/// A segment that is held.
#[derive(Clone, Debug)]
struct LifeSegment {
    zone: u32,
    /// Whether each strip is what it must be.
    sound: Vec<bool>,
    /// The loss since which all strips were verified last.
    verified: Option<Epoch>,
    /// Whether rot came after that.
    rotted: bool,
}

/// A pool whose strips may be worse than anybody knows.
struct Life {
    pool: TestPool,
    segments: BTreeMap<usize, LifeSegment>,
    next: usize,
    walk: Option<Epoch>,
}

impl Life {
    fn new() -> Self {
        let mut pool = TestPool::new(table(&[20_000; 9], 2));
        for zone in 0..12 {
            assert!(pool.place(zone, STRIPED));
        }
        pool.add_journal(0, &[6, 7, 8]);
        Self { pool, segments: BTreeMap::new(), next: 0, walk: None }
    }

    fn pick(&mut self, which: usize) -> Option<&mut LifeSegment> {
        let count = self.segments.len();
        if count == 0 { None } else { self.segments.values_mut().nth(which % count) }
    }

    fn loss(&self) -> Epoch {
        self.pool.view.drives().loss_epoch
    }

    fn change_table(&mut self, change: impl Fn(&mut DriveTable)) {
        let mut table = self.pool.view.drives().clone();
        table.epoch.0 += 1;
        change(&mut table);
        self.pool.view = self.pool.view.with_drives(table).unwrap();
    }

    fn is_readable(&self, drive: DriveNumber) -> bool {
        self.pool.view.drives().drive(drive).unwrap().state.is_readable()
    }

    /// Reads a segment; what is bad is a loss, and is written elsewhere.
    fn verify(&mut self, id: usize) {
        let loss = self.loss();
        let zone = self.segments[&id].zone;
        let there = self.readable_strips(zone);
        let segment = self.segments.get_mut(&id).unwrap();
        segment.rotted = false;
        if segment.sound.iter().all(|is_sound| *is_sound) {
            segment.verified = Some(loss);
        } else {
            // Relocated: a put of new strips.
            (segment.sound, segment.verified) = (there, None);
            self.change_table(|table| table.loss_epoch = table.epoch);
        }
    }

    /// Which strips of a put to a zone land.
    fn readable_strips(&self, zone: u32) -> Vec<bool> {
        let set = self.pool.view.row(ZoneIndex(zone)).target().unwrap();
        set.places.iter().map(|place| self.is_readable(place.drive)).collect()
    }

    fn step(&mut self, event: LifeEvent) {
        match event {
            LifeEvent::Put(zone) => {
                let sound = self.readable_strips(zone);
                let is_whole = sound.iter().all(|is_sound| *is_sound);
                let verified = is_whole.then_some(self.loss());
                self.segments
                    .insert(self.next, LifeSegment { zone, sound, verified, rotted: false });
                self.next += 1;
            }
            LifeEvent::Delete(which) => {
                let id = self.segments.keys().nth(which % self.segments.len().max(1)).copied();
                id.map(|id| self.segments.remove(&id));
            }
            LifeEvent::Rot(which, strip) => {
                if let Some(segment) = self.pick(which) {
                    let strip = strip % segment.sound.len();
                    segment.sound[strip] = false;
                    segment.rotted = true;
                }
            }
            LifeEvent::Read(which) => {
                let id = self.segments.keys().nth(which % self.segments.len().max(1)).copied();
                if let Some(id) = id {
                    self.verify(id);
                }
            }
            LifeEvent::Fail(drive) => self.fail(drive),
            LifeEvent::Repair => self.repair(),
            LifeEvent::WalkBegins => {
                let is_whole = RepairQueue::of(&self.pool.view).next().is_none();
                self.walk = is_whole.then_some(self.loss());
            }
            LifeEvent::WalkEnds => {
                let Some(began_with) = self.walk.take() else { return };
                for id in self.segments.keys().copied().collect::<Vec<_>>() {
                    self.verify(id);
                }
                self.change_table(|table| table.walked_epoch = began_with);
            }
        }
    }

    fn fail(&mut self, drive: u8) {
        let failed =
            self.pool.view.drives().drives.iter().filter(|it| it.state == DriveState::Failed);
        if failed.count() > 1 {
            return;
        }
        self.pool.set_state(drive, DriveState::Failed);
        for segment in self.segments.values_mut() {
            let row = self.pool.view.row(ZoneIndex(segment.zone)).clone();
            for (strip, place) in row.target().unwrap().places.iter().enumerate() {
                segment.sound[strip] &= place.drive != drive_number(drive);
            }
        }
    }

    fn repair(&mut self) {
        let Some(item) = RepairQueue::of(&self.pool.view).next() else { return };
        let zone = item.zone.0;
        let tenancy = self.pool.view.row(item.zone).tenancy.get();
        self.pool.set_row(zone, row(tenancy, RowState::Empty));
        assert!(self.pool.place(zone, STRIPED));
        let loss = self.loss();
        for segment in self.segments.values_mut().filter(|segment| segment.zone == zone) {
            segment.sound.fill(true);
            (segment.verified, segment.rotted) = (Some(loss), false);
        }
    }

    fn state(&self) -> HealthState {
        let loss = self.loss();
        let verified = self.segments.values().filter(|it| it.verified == Some(loss)).count();
        let shard = ShardFacts {
            shard: ShardId(0),
            journal_tail: 0,
            counted_since: loss,
            held: self.segments.len() as u64,
            verified: verified as u64,
            damaged: 0,
            unreadable: 0,
        };
        let queue = RepairQueue::of(&self.pool.view);
        let root_drives: Vec<_> = (0..9).map(drive_number).collect();
        let report = HealthReport::of(&HealthFacts {
            view: &self.pool.view,
            queue: &queue,
            shard_count: 1,
            shards: &[shard],
            root_drives: &root_drives,
            failing: &[],
            suspects: 0,
        });
        report.state()
    }
}

proptest! {
    /// HEALTH-1: whenever health says ok, all strips of every held segment are what they must be, but for rot that came
    /// after they were read.
    #[test]
    fn ok_is_never_said_of_what_is_not_whole(events in proptest::collection::vec(life_event(), 1..80)) {
        let mut life = Life::new();
        for event in events {
            life.step(event);
            let is_whole = life.segments.values().all(|it| it.rotted || it.sound.iter().all(|is_sound| *is_sound));
            let table = life.pool.view.drives();
            if life.state() == HealthState::Ok {
                prop_assert!(is_whole, "after {:?}: {:?}", event, life.segments);
                prop_assert_eq!(table.walked_epoch, table.loss_epoch);
            }
        }
        // And it gets there again.
        for _ in 0..14 {
            life.step(LifeEvent::Repair);
        }
        let readable = (0..9).map(drive_number).filter(|drive| life.is_readable(*drive));
        let journal_drives: Vec<_> = readable.take(3).map(DriveNumber::get).collect();
        life.pool.add_journal(0, &journal_drives);
        for _ in 0..2 {
            life.step(LifeEvent::WalkBegins);
            life.step(LifeEvent::WalkEnds);
        }
        for which in 0..life.segments.len() {
            life.step(LifeEvent::Read(which));
        }
        prop_assert_eq!(life.state(), HealthState::Ok);
    }
}
