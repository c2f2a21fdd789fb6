//! Scenes with one way to go: what O1 to O3 say, and the bugs that break it, one by one.

use std::cell::RefCell;
use std::rc::Rc;

use varve_media::planted::{Bug, plant};
use varve_media::{
    Disk, Error, OverlayDisk, OverlayMemory, RootKey, RootStore, SimMedium, mark_new_drives,
};
use varve_media_redundancy::format::{DriveRoles, DriveState, MoveReason, Row, RowState};
use varve_media_redundancy::{
    Candidate, Change, DriveNumber, FoundDrive, HistoryId, MediumKind, MediumKinds, Opening,
    OpeningOptions, PoolSizes, RedundantDisks, StripeShape, Survey, UNIT_BYTES, ZoneIndex, open,
    superblock_of,
};
use varve_reactor::{Nanos, Reactor, SimLoop};
use varve_stdx::Rng;
use varve_types::PoolId;

use crate::pool::{
    DRIVE_BYTES, OpenPool, SharedMedia, candidates, look, medium, member, new_pool, options,
};

/// A pool, and what is done to it; power is cut between two things that are.
struct Scene {
    media: SharedMedia,
    lives: u64,
}

impl Scene {
    fn new(drives: usize, parity: u8) -> Self {
        Self::of_shape(drives, StripeShape::new(1, parity).expect("a mirror"))
    }

    fn of_shape(drives: usize, shape: StripeShape) -> Self {
        let media: Vec<_> = (0..drives).map(medium).collect();
        new_pool(&media, shape);
        Self { media: Rc::new(RefCell::new(media)), lives: 0 }
    }

    fn run<T: 'static>(
        &mut self,
        life: impl AsyncFnOnce(Reactor, SharedMedia) -> T + 'static,
    ) -> T {
        self.lives += 1;
        let mut sim = SimLoop::new(self.lives);
        let (reactor, media) = (sim.handle(), Rc::clone(&self.media));
        sim.run_until(async move { life(reactor, media).await })
    }

    /// Opens it with some of its drives, and looks at the outcome.
    fn open(&mut self, present: &[usize], options: OpeningOptions) -> Result<Outcome, Error> {
        let present = present.to_vec();
        self.run(async move |reactor, media| {
            open_some(&reactor, &media, &present, &options)
                .await
                .map(|opening| Outcome::of(&opening))
        })
    }

    /// Opens it with some of its drives, and changes it.
    fn change(&mut self, present: &[usize], options: OpeningOptions, change: Change) {
        let present = present.to_vec();
        self.run(async move |reactor, media| {
            let opening = open_some(&reactor, &media, &present, &options).await.expect("it opens");
            let pool = OpenPool::start(&reactor, opening, &media);
            pool.tables.change(change).await.expect("it changes");
        });
    }

    /// Opens it with all its drives, of which there are two, and changes it until that many steps were made, when power
    /// is cut. Whether the change was answered.
    fn cut(&mut self, change: Change, steps: u64) -> bool {
        self.lives += 1;
        let mut sim = SimLoop::new(self.lives);
        let (reactor, media) = (sim.handle(), Rc::clone(&self.media));
        let life = async move {
            let opening = open_some(&reactor, &media, &[0, 1], &options()).await.expect("it opens");
            let pool = OpenPool::start(&reactor, opening, &media);
            pool.tables.change(change).await.expect("it changes");
        };
        let is_answered = sim.try_run_until(life, steps).is_some();
        drop(sim);
        let mut rng = Rng::new(steps);
        self.media.borrow().iter().for_each(|medium| medium.crash(&mut rng));
        is_answered
    }

    /// Units of a drive by the tables of a pool on two drives.
    fn units(&mut self, drive: u8) -> Result<u32, Error> {
        self.run(async move |reactor, media| {
            let opening = open_some(&reactor, &media, &[0, 1], &options()).await?;
            Ok(opening.view.drives().drive(number(drive)).expect("it has it").units)
        })
    }

    fn fail(&mut self, present: &[usize], drive: u8) {
        let change = Change::DriveFailed { drive: number(drive), reason: "pulled".to_owned() };
        self.change(present, options(), change);
    }

    fn durable(&self) -> Vec<Option<Vec<u8>>> {
        self.media.borrow().iter().map(|medium| medium.durable(0..DRIVE_BYTES)).collect()
    }
}

/// What an opening found.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    epoch: u64,
    history: HistoryId,
    stale: Vec<String>,
    states: Vec<DriveState>,
}

impl Outcome {
    fn of(opening: &Opening) -> Self {
        let table = opening.view.drives();
        Self {
            epoch: table.epoch.0,
            history: table.history,
            stale: opening.stale.clone(),
            states: table.drives.iter().map(|drive| drive.state).collect(),
        }
    }
}

async fn open_some(
    reactor: &Reactor,
    media: &SharedMedia,
    present: &[usize],
    options: &OpeningOptions,
) -> Result<Opening, Error> {
    let media: Vec<SimMedium> = media.borrow().clone();
    let flags: Vec<_> = (0..media.len()).map(|index| present.contains(&index)).collect();
    let candidates = candidates(reactor, &media, &flags).await;
    open(reactor, candidates, options).await
}

fn number(drive: u8) -> DriveNumber {
    DriveNumber::new(drive).expect("a few drives")
}

fn degraded(history: u8) -> OpeningOptions {
    OpeningOptions { degraded: true, new_history: HistoryId([history; 16]), ..options() }
}

/// Moves what a zone has on one drive to another one, as a mover does.
async fn move_strip(pool: &OpenPool, zone: ZoneIndex, from: u8, to: u8) {
    let (why, class, avoid) = (MoveReason::Drain, None, vec![number(from)]);
    let moves = Change::Move { zone, why, class, avoid, prefer: Some(number(to)) };
    let expected = pool.tables.change(moves).await.expect("it moves").row(zone).clone();
    let state = RowState::Still(expected.target().expect("it moves").clone());
    let new = Row { tenancy: expected.tenancy, state };
    pool.tables.change(Change::Row { zone, expected, new }).await.expect("it has moved");
}

/// Runs a check with a bug planted, and says whether it failed.
fn fails_with(bug: Bug, check: impl FnOnce() -> bool) -> bool {
    plant(Some(bug));
    let holds = check();
    plant(None);
    !holds
}

fn mirror(parity: u8, kinds: u8) -> Change {
    let shape = StripeShape::new(1, parity).expect("a mirror");
    Change::Class { shape, kinds: MediumKinds::new(kinds).expect("three bits") }
}

/// GROWING-1, GROWING-2: wherever power is cut, the drive opens with the size that it had or gets, and can grow again.
#[test]
fn grown_in_table_first() {
    let holds = || {
        let before = Scene::new(2, 1).units(1).expect("it opens");
        let units = before + 3;
        let grow = Change::Grow { drive: number(1), units };
        for steps in (0..).step_by(3) {
            let mut scene = Scene::new(2, 1);
            scene.media.borrow()[1].grow(DRIVE_BYTES + 3 * UNIT_BYTES);
            let is_answered = scene.cut(grow.clone(), steps);
            let Ok(found) = scene.units(1) else { return false };
            if is_answered {
                return found == units;
            }
            assert!(found == before || found == units, "{found} units");
            scene.change(&[0, 1], options(), grow.clone());
            assert_eq!(scene.units(1).expect("it opens"), units);
        }
        unreachable!("it is answered in the end")
    };
    assert!(holds());
    assert!(fails_with(Bug::GrownInTableFirst, holds));
}

#[test]
fn as_many_drives_may_be_dropped_as_rows_survive() {
    let mut scene = Scene::new(4, 2);
    let drops = scene.run(async |reactor, media| {
        let opening = open_some(&reactor, &media, &[0, 1, 2, 3], &options()).await.unwrap();
        let pool = OpenPool::start(&reactor, opening, &media);
        let mut drops = Vec::new();
        let mut change = async |change: Change| {
            let view = pool.tables.change(change).await.expect("it changes");
            drops.push(view.drives().drops_max);
            view
        };
        let zone = ZoneIndex(0);
        change(Change::Place { zone }).await;
        let view = change(mirror(1, 0)).await;
        change(Change::LowerDrops).await;
        let (why, class) = (MoveReason::Conversion, Some(view.drives().class));
        let moves = Change::Move { zone, why, class, avoid: Vec::new(), prefer: None };
        let expected = change(moves).await.row(zone).clone();
        change(Change::LowerDrops).await;
        let state = RowState::Still(expected.target().expect("it moves").clone());
        let new = Row { tenancy: expected.tenancy, state };
        change(Change::Row { zone, expected, new }).await;
        change(Change::LowerDrops).await;
        change(mirror(3, 0)).await;
        drops
    });
    assert_eq!(drops, [2, 2, 2, 2, 2, 2, 1, 3], "a row of mirror:3 survives two lost drives");
}

#[test]
fn classes_that_nobody_has_make_room_for_others() {
    let mut scene = Scene::new(4, 1);
    let counts = scene.run(async |reactor, media| {
        let opening = open_some(&reactor, &media, &[0, 1, 2, 3], &options()).await.unwrap();
        let pool = OpenPool::start(&reactor, opening, &media);
        pool.tables.change(Change::Place { zone: ZoneIndex(0) }).await.expect("it changes");
        let mut counts = Vec::new();
        let hdd = pool.tables.change(mirror(1, MediumKind::Hdd.bit())).await;
        assert!(matches!(hdd, Err(Error::TooFewDrives { present: 0, .. })), "all are nvme");
        let shapes = [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (3, 1)];
        let with_nvme = (0..8).filter(|kinds| *kinds == 0 || kinds & MediumKind::Nvme.bit() != 0);
        for (kinds, (data, parity)) in with_nvme.flat_map(|kinds| shapes.map(|it| (kinds, it))) {
            let shape = StripeShape::new(data, parity).expect("a shape of four drives");
            let kinds = MediumKinds::new(kinds).expect("three bits");
            let change = Change::Class { shape, kinds };
            let view = pool.tables.change(change).await.expect("it changes");
            let table = view.drives();
            let row = view.row(ZoneIndex(0)).target().expect("it has places");
            assert!(table.class_of(row.class).is_some(), "that of a row stays");
            counts.push(table.classes.len());
        }
        counts
    });
    assert!(counts.contains(&16) && counts.iter().all(|count| *count <= 16));
}

/// What a drive is is remembered, rows that are bound to kinds leave it, and rebuilds do not wait for that.
#[test]
fn a_drive_is_of_another_kind_where_enough_are_left_of_the_one_that_zones_are_bound_to() {
    let mut scene = Scene::new(4, 1);
    let kind = |drive: u8, kind| Change::Kind { drive: number(drive), kind };
    let (zone, nvme) = (ZoneIndex(0), MediumKind::Nvme.bit());
    let first = scene.run(async move |reactor, media| {
        let opening = open_some(&reactor, &media, &[0, 1, 2, 3], &options()).await.unwrap();
        let pool = OpenPool::start(&reactor, opening, &media);
        pool.tables.change(kind(3, MediumKind::Hdd)).await.expect("zones are on any kind");
        pool.tables.change(mirror(1, nvme)).await.expect("three are of it");
        let view = pool.tables.change(Change::Place { zone }).await.expect("it has places");
        let set = view.row(zone).target().expect("it has places").clone();
        let (first, epoch) = (set.places[0].drive, view.drives().epoch);
        let same = pool.tables.change(kind(first.get(), MediumKind::Nvme)).await.expect("it is");
        assert_eq!(same.drives().epoch, epoch, "nothing changes");
        pool.tables.change(kind(first.get(), MediumKind::Ssd)).await.expect("two are left");
        let others = (0..3).filter(|drive| *drive != first.get());
        for drive in others {
            let fewer = pool.tables.change(kind(drive, MediumKind::Hdd)).await;
            let is_refused =
                matches!(fewer, Err(Error::TooFewDrives { present: 1, needed: 2, .. }));
            assert!(is_refused, "{fewer:?}");
        }
        let unknown = pool.tables.change(kind(9, MediumKind::Ssd)).await;
        assert!(matches!(unknown, Err(Error::TableChange { .. })));
        let lost = set.places[1].drive;
        let reason = "pulled".to_owned();
        pool.tables.change(Change::DriveFailed { drive: lost, reason }).await.expect("it is lost");
        let (why, avoid) = (MoveReason::Rebuild, vec![lost]);
        let moves = Change::Move { zone, why, class: None, avoid, prefer: None };
        let row = pool.tables.change(moves).await.expect("one is free").row(zone).clone();
        let to = row.target().expect("it moves").clone();
        assert_eq!(to.places[0], set.places[0], "a strip that is not lost waits");
        let new = Row { tenancy: row.tenancy, state: RowState::Still(to) };
        let still = Change::Row { zone, expected: row, new };
        pool.tables.change(still).await.expect("it is rebuilt");
        first
    });
    scene.run(async move |reactor, media| {
        let opening = open_some(&reactor, &media, &[0, 1, 2, 3], &options()).await.unwrap();
        let pool = OpenPool::start(&reactor, opening, &media);
        let table = pool.tables.view().drives().clone();
        let found = [first, number(3)].map(|drive| table.drive(drive).expect("it is there").kind);
        assert_eq!(found, [MediumKind::Ssd, MediumKind::Hdd], "they are remembered");
        let (why, class) = (MoveReason::Conversion, Some(table.class));
        let moves = Change::Move { zone, why, class, avoid: Vec::new(), prefer: None };
        let full = pool.tables.change(moves.clone()).await;
        assert!(matches!(full, Err(Error::NoSpace { .. })), "one drive is left: {full:?}");
        pool.tables.change(kind(3, MediumKind::Nvme)).await.expect("more may always be");
        let view = pool.tables.change(moves).await.expect("it moves");
        let to = view.row(zone).target().expect("it moves");
        assert!(to.has_drive(number(3)) && !to.has_drive(first), "{to:?}");
    });
}

#[test]
fn a_new_pool_opens_with_all_drives_and_changes_nothing() {
    let mut scene = Scene::new(3, 1);
    let outcome = scene.open(&[0, 1, 2], options()).unwrap();
    assert_eq!(outcome.epoch, 1);
    assert_eq!(outcome.states, [DriveState::Live; 3]);
    assert!(outcome.stale.is_empty());
}

#[test]
fn a_pool_is_not_made_over_another_one() {
    let mut scene = Scene::new(2, 1);
    let again = scene.run(async |reactor, media| {
        let media = media.borrow().clone();
        crate::pool::make_pool(&reactor, &media, StripeShape::NONE).await
    });
    assert!(matches!(again, Err(Error::PoolExists { .. })), "{again:?}");
}

#[test]
fn one_of_three_may_be_missing_and_is_stale_when_it_returns() {
    let mut scene = Scene::new(3, 1);
    let outcome = scene.open(&[0, 1], options()).unwrap();
    assert_eq!(outcome.states, [DriveState::Live, DriveState::Live, DriveState::Failed]);
    let outcome = scene.open(&[0, 1, 2], options()).unwrap();
    assert_eq!(outcome.stale, ["2"]);
    assert_eq!(outcome.states.last(), Some(&DriveState::Failed));
}

#[test]
fn stale_read() {
    let holds = || {
        let mut scene = Scene::new(3, 1);
        scene.open(&[0, 1], options()).unwrap();
        scene.open(&[0, 1, 2], options()).is_ok_and(|outcome| outcome.stale == ["2"])
    };
    assert!(holds());
    assert!(fails_with(Bug::StaleRead, holds));
}

#[test]
fn half_opens() {
    let holds = || {
        let mut scene = Scene::new(2, 1);
        scene.fail(&[0, 1], 1);
        matches!(scene.open(&[1], options()), Err(Error::DegradedOpening { .. }))
    };
    assert!(holds());
    assert!(fails_with(Bug::HalfOpens, holds));
}

#[test]
fn the_half_that_knows_of_the_loss_opens_alone() {
    let mut scene = Scene::new(2, 1);
    scene.fail(&[0, 1], 1);
    let outcome = scene.open(&[0], options()).unwrap();
    assert_eq!(outcome.states, [DriveState::Live, DriveState::Failed]);
}

#[test]
fn histories_join() {
    let holds = || {
        let mut scene = Scene::new(2, 1);
        let one = scene.open(&[0], degraded(50)).unwrap();
        assert_eq!(one.history, HistoryId([50; 16]));
        scene.change(&[1], degraded(51), Change::Loss);
        matches!(scene.open(&[0, 1], options()), Err(Error::HistorySplit { .. }))
    };
    assert!(holds());
    assert!(fails_with(Bug::HistoriesJoin, holds));
}

#[test]
fn one_of_two_histories_is_chosen_and_the_other_is_stale() {
    let mut scene = Scene::new(2, 1);
    scene.open(&[0], degraded(50)).unwrap();
    scene.open(&[1], degraded(51)).unwrap();
    for (history, stale) in [(50, "1"), (51, "0")] {
        let options = OpeningOptions { history: Some(HistoryId([history; 16])), ..options() };
        let outcome = scene.open(&[0, 1], options).unwrap();
        assert_eq!(outcome.history, HistoryId([history; 16]));
        assert_eq!(outcome.stale, [stale]);
    }
}

#[test]
fn a_degraded_history_counts_where_the_other_half_did_not_go_on() {
    let mut scene = Scene::new(2, 1);
    scene.open(&[0], degraded(50)).unwrap();
    let outcome = scene.open(&[0, 1], options()).unwrap();
    assert_eq!(outcome.history, HistoryId([50; 16]));
    assert_eq!(outcome.stale, ["1"]);
    assert!(matches!(scene.open(&[1], options()), Err(Error::DegradedOpening { .. })));
}

#[test]
fn with_too_much_missing_a_pool_can_only_be_looked_at_and_nothing_is_written() {
    let mut scene = Scene::new(4, 1);
    let before = scene.durable();
    for options in [options(), degraded(50)] {
        let refused = scene.open(&[0, 1], options);
        assert!(matches!(refused, Err(Error::TooFewDrives { .. })), "{refused:?}");
    }
    let (states, is_read_only) = scene.run(async |reactor, media| {
        let media = media.borrow().clone();
        let candidates = candidates(&reactor, &media, &[true, true, false, false]).await;
        let survey = Survey::take(&reactor, candidates, &options()).await.unwrap();
        let opening = survey.look().unwrap();
        (Outcome::of(&opening).states, opening.is_read_only)
    });
    assert!(is_read_only);
    assert_eq!(states[2..], [DriveState::Failed; 2]);
    assert_eq!(scene.durable(), before);
    let outcome = scene.open(&[0, 1, 2, 3], options()).unwrap();
    assert_eq!(outcome.states, [DriveState::Live; 4]);
}

/// Some drives for reading only, under overlays.
async fn look_at(reactor: &Reactor, media: &SharedMedia, present: &[usize]) -> Opening {
    let media: Vec<SimMedium> = media.borrow().clone();
    let flags: Vec<_> = (0..media.len()).map(|index| present.contains(&index)).collect();
    let memory = OverlayMemory::new(1 << 20);
    let over = |disk| -> Rc<dyn Disk> { Rc::new(OverlayDisk::new(disk, Rc::clone(&memory))) };
    let mut candidates = candidates(reactor, &media, &flags).await;
    for candidate in &mut candidates {
        if let Candidate::Found(FoundDrive { disks, .. }) = candidate {
            let RedundantDisks { meta, space } = disks.clone();
            *disks = RedundantDisks { meta: over(meta), space: over(space) };
        }
    }
    Survey::take(reactor, candidates, &options()).await.expect("a survey").look().expect("a look")
}

#[test]
fn a_look_at_half_of_a_mirror_tells_that_it_may_be_older() {
    let mut scene = Scene::new(2, 1);
    let epoch = scene.open(&[0, 1], options()).unwrap().epoch;
    scene.open(&[0], degraded(50)).unwrap(); // The other half went on.
    let ages = scene.run(async |reactor, media| {
        let mut ages = Vec::new();
        for present in [&[1][..], &[0], &[0, 1]] {
            ages.push(look_at(&reactor, &media, present).await.may_be_older);
        }
        ages
    });
    assert_eq!(ages[0].map(|age| age.epoch.0), Some(epoch), "OPEN-6: as it is stored");
    assert_eq!(ages[1..], [None; 2], "the half that went on calls the other one failed");
    let mut scene = Scene::new(3, 1);
    let age =
        scene.run(async |reactor, media| look_at(&reactor, &media, &[0, 2]).await.may_be_older);
    assert_eq!(age, None, "the one that is missing cannot go on alone");
}

#[test]
fn a_drive_that_cannot_be_read_is_kept_for_reading_only_and_others_answer() {
    let silent: fn(&Reactor, &SimMedium) =
        |reactor, medium| medium.stick(reactor.now() + Nanos::seconds(3600));
    let failing: fn(&Reactor, &SimMedium) = |_, medium| medium.fail_reads(0..DRIVE_BYTES);
    for fault in [silent, failing] {
        let mut scene = Scene::new(4, 1);
        let written = scene.run(async |reactor, media| {
            let opening = open_some(&reactor, &media, &[0, 1, 2, 3], &options()).await.unwrap();
            let pool = OpenPool::start(&reactor, opening, &media);
            let (version, _) = pool.roots.read(RootKey::Pool).await.unwrap();
            pool.roots.replace(RootKey::Pool, version, vec![7; 100]).await.unwrap()
        });
        let before = scene.durable();
        scene.run(async move |reactor, media| {
            let opening = look_at(&reactor, &media, &[0, 1, 2]).await; // One is missing already.
            let pool = OpenPool::start(&reactor, opening, &media);
            fault(&reactor, &media.borrow()[0]);
            let (version, bytes) = pool.roots.read(RootKey::Pool).await.unwrap();
            assert_eq!((version, bytes), (written, vec![7; 100]));
            // What recovery needs is placed in memory, and nobody drops the drive.
            let view = pool.tables.change(Change::Place { zone: ZoneIndex(0) }).await.unwrap();
            assert!(view.row(ZoneIndex(0)).target().is_some());
            let record = view.drives().drive(number(0)).unwrap();
            assert_eq!(record.state, DriveState::Live, "FILES-4");
            assert!(pool.tables.tables().failure().is_none());
            fault(&reactor, &media.borrow()[1]);
            fault(&reactor, &media.borrow()[2]);
            let refused = pool.roots.read(RootKey::Pool).await.unwrap_err();
            assert!(matches!(refused, Error::Corrupt { .. }), "{refused}");
        });
        scene.media.borrow().iter().for_each(SimMedium::heal_reads);
        assert!(scene.durable() == before, "nothing is written");
    }
}

#[test]
fn drops_unbounded() {
    let holds = || {
        let mut scene = Scene::new(4, 1);
        let is_closed = scene.run(async |reactor, media| {
            let opening = open_some(&reactor, &media, &[0, 1, 2, 3], &options()).await.unwrap();
            let pool = OpenPool::start(&reactor, opening, &media);
            media.borrow()[1].fail_writes(true);
            media.borrow()[2].fail_writes(true);
            pool.tables.change(Change::Loss).await.is_err()
        });
        scene.media.borrow().iter().for_each(|medium| medium.fail_writes(false));
        is_closed
    };
    assert!(holds());
    assert!(fails_with(Bug::DropsUnbounded, holds));
}

/// A pool of mirrors on three drives, of which one that has a strip of a zone fails, and then the other one.
fn loses_both_of_a_zone(scene: &mut Scene) -> (Result<(), Error>, u8) {
    let (lost, last) = scene.run(async |reactor, media| {
        let opening = open_some(&reactor, &media, &[0, 1, 2], &options()).await.expect("it opens");
        let pool = OpenPool::start(&reactor, opening, &media);
        let view = pool.tables.change(Change::Place { zone: ZoneIndex(0) }).await.expect("a row");
        let set = view.row(ZoneIndex(0)).target().expect("it has places").clone();
        let [first, last] = set.places[..] else { panic!("a mirror of two") };
        let fail = |drive| Change::DriveFailed { drive, reason: "pulled".to_owned() };
        pool.tables.change(fail(first.drive)).await.expect("one may go");
        let lost = pool.tables.change(fail(last.drive)).await.map(drop);
        assert_eq!(pool.tables.tables().failure().is_some(), lost.is_err(), "nothing is written");
        (lost, last.drive.get())
    });
    (lost, last)
}

#[test]
fn drop_loses_zone() {
    let holds = || {
        let mut scene = Scene::new(3, 1);
        let (lost, last) = loses_both_of_a_zone(&mut scene);
        let is_stopped = matches!(lost, Err(Error::TooFewDrives { zone: Some(0), .. }));
        // DROPS-1: it missed nothing, so it counts.
        let outcome = scene.open(&[0, 1, 2], options()).unwrap();
        is_stopped && outcome.states[usize::from(last)] == DriveState::Live
    };
    assert!(holds());
    assert!(fails_with(Bug::DropLosesZone, holds));
}

#[test]
fn a_drive_that_answers_with_errors_is_as_good_as_absent() {
    for (drives, opens) in [(3, true), (2, false)] {
        let mut scene = Scene::new(drives, 1);
        let last = drives - 1;
        scene.media.borrow()[last].fail_reads(0..u64::MAX);
        let all: Vec<usize> = (0..drives).collect();
        let outcome = scene.open(&all, options());
        scene.media.borrow()[last].heal_reads();
        match (outcome, opens) {
            (Ok(outcome), true) => assert_eq!(outcome.states[last], DriveState::Failed),
            // OPEN-2: half of a mirror does not go on by itself, and says why.
            (Err(Error::DegradedOpening { missing, .. }), false) => {
                assert!(missing.contains("read of"), "{missing}");
                assert_eq!(scene.open(&all, options()).unwrap().states, [DriveState::Live; 2]);
            }
            (outcome, _) => panic!("{outcome:?}"),
        }
    }
}

#[test]
fn ack_before_table() {
    let holds = || {
        let mut scene = Scene::new(3, 1);
        scene.fail(&[0, 1, 2], 0);
        scene.open(&[0, 1, 2], options()).is_ok_and(|it| it.states[0] == DriveState::Failed)
    };
    assert!(holds());
    assert!(fails_with(Bug::AckBeforeTable, holds));
}

#[test]
fn error_is_absence() {
    let holds = || {
        let mut scene = Scene::new(3, 1);
        let refused = scene.run(async |reactor, media| {
            let media = media.borrow().clone();
            let mut candidates = candidates(&reactor, &media, &[true, true, false]).await;
            candidates.pop();
            let (path, reason) = ("2".to_owned(), "too many open files".to_owned());
            let error = Error::Open { path: path.clone(), reason };
            candidates.push(Candidate::Failed { path, error });
            open(&reactor, candidates, &options()).await.is_err()
        });
        // Nothing was written: the drive is there once it can be looked at.
        let outcome = scene.open(&[0, 1, 2], options()).unwrap();
        refused && outcome.states == [DriveState::Live; 3]
    };
    assert!(holds());
    assert!(fails_with(Bug::ErrorIsAbsence, holds));
}

#[test]
fn row_unchecked() {
    let holds = || {
        let mut scene = Scene::new(3, 1);
        scene.run(async |reactor, media| {
            let opening = open_some(&reactor, &media, &[0, 1, 2], &options()).await.unwrap();
            let pool = OpenPool::start(&reactor, opening, &media);
            let zone = ZoneIndex(3);
            let view = pool.tables.change(Change::Place { zone }).await.unwrap();
            let tenancy = view.row(zone).tenancy;
            let new = Row { tenancy, state: RowState::Empty };
            let change = Change::Row { zone, expected: Row::EMPTY, new };
            matches!(pool.tables.change(change).await, Err(Error::RootConflict { .. }))
        })
    };
    assert!(holds());
    assert!(fails_with(Bug::RowUnchecked, holds));
}

#[test]
fn root_from_first_drive() {
    let holds = || {
        let mut scene = Scene::new(3, 1);
        scene.run(async |reactor, media| {
            let opening = open_some(&reactor, &media, &[0, 1, 2], &options()).await.unwrap();
            let pool = OpenPool::start(&reactor, opening, &media);
            let (version, _) = pool.roots.read(RootKey::Pool).await.unwrap();
            pool.roots.replace(RootKey::Pool, version, vec![5; 100]).await.unwrap();
        });
        scene.run(async |reactor, media| {
            let opening = open_some(&reactor, &media, &[1, 2], &options()).await.unwrap();
            let pool = OpenPool::start(&reactor, opening, &media);
            pool.roots.read(RootKey::Pool).await.unwrap().1 == vec![5; 100]
        })
    };
    assert!(holds());
    assert!(fails_with(Bug::RootFromFirstDrive, holds));
}

async fn replace_pool_root(pool: &OpenPool, bytes: Vec<u8>) {
    let (version, _) = pool.roots.read(RootKey::Pool).await.expect("a root");
    pool.roots.replace(RootKey::Pool, version, bytes).await.expect("a new root");
}

#[test]
fn slow_drives_keep_tables_and_roots_that_too_few_others_have() {
    let mut scene = Scene::new(3, 1);
    scene.run(async |reactor, media| {
        let opening = open_some(&reactor, &media, &[0, 1, 2], &options()).await.unwrap();
        let pool = OpenPool::start(&reactor, opening, &media);
        for drive in [0, 1] {
            let change = Change::DriveSlow { drive: number(drive), slow: true };
            let view = pool.tables.change(change).await.unwrap();
            let holders = view.drives().drives.iter();
            let holders = holders.filter(|it| it.roles.has(DriveRoles::ROOTS));
            let holders: Vec<_> = holders.map(|it| it.number.get()).collect();
            assert_eq!(holders, [1, 2], "SLOW-ROOTS-1");
        }
        replace_pool_root(&pool, vec![3; 10]).await;
        // Others that leave have them too, where nobody else is there.
        pool.tables.change(Change::Leave { drive: number(0) }).await.unwrap();
        for drive in [2, 1] {
            let change = Change::DriveFailed { drive: number(drive), reason: "pulled".into() };
            pool.tables.change(change).await.unwrap();
        }
        assert_eq!(pool.roots.read(RootKey::Pool).await.unwrap().1, vec![3; 10]);
    });
}

#[test]
fn roots_not_copied() {
    let holds = || {
        let mut scene = Scene::new(3, 1);
        scene.run(async |reactor, media| {
            let opening = open_some(&reactor, &media, &[0, 1, 2], &options()).await.unwrap();
            let pool = OpenPool::start(&reactor, opening, &media);
            let slow = async |slow| {
                let change = Change::DriveSlow { drive: number(0), slow };
                let view = pool.tables.change(change).await.unwrap();
                view.drives().drive(number(0)).unwrap().roles
            };
            assert!(!slow(true).await.has(DriveRoles::ROOTS));
            let before = media.borrow()[0].durable(0..DRIVE_BYTES);
            assert!(before.is_some());
            replace_pool_root(&pool, vec![1; 10]).await;
            pool.tables.change(Change::Place { zone: ZoneIndex(0) }).await.unwrap();
            assert_eq!(media.borrow()[0].durable(0..DRIVE_BYTES), before, "SLOW-ROOTS-1");
            assert!(slow(false).await.has(DriveRoles::ROOTS));
            move_strip(&pool, ZoneIndex(0), 1, 0).await;
            for drive in [1, 2] {
                let change = Change::DriveFailed { drive: number(drive), reason: "pulled".into() };
                pool.tables.change(change).await.unwrap();
            }
        });
        scene.run(async |reactor, media| {
            let opening = open_some(&reactor, &media, &[0], &options()).await.unwrap();
            let rows = opening.view.rows().count();
            let pool = OpenPool::start(&reactor, opening, &media);
            (pool.roots.read(RootKey::Pool).await.unwrap().1, rows) == (vec![1; 10], 1)
        })
    };
    assert!(holds());
    assert!(fails_with(Bug::RootsNotCopied, holds));
}

#[test]
fn a_drive_that_joins_has_tables_and_roots_when_it_is_live() {
    let mut scene = Scene::new(2, 1);
    scene.run(async |reactor, media| {
        let opening = open_some(&reactor, &media, &[0, 1], &options()).await.unwrap();
        let pool = OpenPool::start(&reactor, opening, &media);
        let view = pool.tables.change(Change::Place { zone: ZoneIndex(0) }).await.unwrap();
        let row = view.row(ZoneIndex(0)).clone();
        let (version, _) = pool.roots.read(RootKey::Pool).await.unwrap();
        let version = pool.roots.replace(RootKey::Pool, version, vec![1; 10]).await.unwrap();
        media.borrow_mut().push(medium(2));
        let view = pool.tables.change(Change::Join(member(2, 3))).await.unwrap();
        assert_eq!(view.drives().drive(number(2)).unwrap().state, DriveState::Live);
        assert_eq!(*view.row(ZoneIndex(0)), row);
        // This thread has no handle of the new drive: the keeper copies what it writes.
        assert!(pool.handles.get(number(2)).is_none());
        pool.roots.replace(RootKey::Pool, version, vec![2; 10]).await.unwrap();
        move_strip(&pool, ZoneIndex(0), 0, 2).await;
        for drive in [0, 1] {
            let reason = "pulled".to_owned();
            let change = Change::DriveFailed { drive: number(drive), reason };
            pool.tables.change(change).await.unwrap();
        }
    });
    let (bytes, rows) = scene.run(async |reactor, media| {
        let opening = open_some(&reactor, &media, &[2], &options()).await.unwrap();
        let rows = opening.view.rows().count();
        let pool = OpenPool::start(&reactor, opening, &media);
        (pool.roots.read(RootKey::Pool).await.unwrap().1, rows)
    });
    assert_eq!((bytes, rows), (vec![2; 10], 1));
}

#[test]
fn what_a_drive_held_before_it_joins_counts_no_longer() {
    let mut scene = Scene::new(2, 1);
    // Drive 1 goes on alone, and has a higher version of the root than the pool.
    scene.run(async |reactor, media| {
        let opening = open_some(&reactor, &media, &[1], &degraded(50)).await.unwrap();
        let pool = OpenPool::start(&reactor, opening, &media);
        for _ in 0..5 {
            let (version, _) = pool.roots.read(RootKey::Pool).await.unwrap();
            pool.roots.replace(RootKey::Pool, version, vec![9; 10]).await.unwrap();
        }
    });
    let bytes = scene.run(async |reactor, media| {
        let opening = open_some(&reactor, &media, &[0], &degraded(51)).await.unwrap();
        let pool = OpenPool::start(&reactor, opening, &media);
        let (version, _) = pool.roots.read(RootKey::Pool).await.unwrap();
        pool.roots.replace(RootKey::Pool, version, vec![1; 10]).await.unwrap();
        pool.tables.change(Change::Join(member(1, 9))).await.unwrap();
        pool.roots.read(RootKey::Pool).await.unwrap().1
    });
    assert_eq!(bytes, vec![1; 10]);
    let outcome = scene.open(&[0, 1], options()).unwrap();
    assert_eq!(outcome.history, HistoryId([51; 16]));
    assert!(outcome.stale.is_empty());
}

#[test]
fn a_drive_that_does_not_answer_is_dropped_in_time() {
    let mut scene = Scene::new(3, 1);
    let waited = scene.run(async |reactor, media| {
        let opening = open_some(&reactor, &media, &[0, 1, 2], &options()).await.unwrap();
        let pool = OpenPool::start(&reactor, opening, &media);
        let began = reactor.now();
        media.borrow()[2].stick(began + 60 * crate::pool::PATIENCE_NANOS);
        pool.tables.change(Change::Place { zone: ZoneIndex(0) }).await.unwrap();
        let answered = reactor.now().since(began);
        assert!(answered < crate::pool::PATIENCE_NANOS, "two of three have it: {answered}");
        let state = || pool.tables.view().drives().drive(number(2)).unwrap().state;
        while state() != DriveState::Failed {
            pool.tables.changed().await;
        }
        reactor.now().since(began)
    });
    assert!(waited < 6 * crate::pool::PATIENCE_NANOS, "{waited}");
}

#[test]
fn a_copied_drive_is_refused() {
    let mut scene = Scene::new(2, 1);
    let refused = scene.run(async |reactor, media| {
        let media = media.borrow().clone();
        let copy = media[0].copy();
        let mut candidates = candidates(&reactor, &media, &[true, true]).await;
        candidates.push(look(&reactor, &copy, "copy".to_owned()).await);
        open(&reactor, candidates, &options()).await.map(|_| ())
    });
    assert!(matches!(refused, Err(Error::DriveSet { .. })), "{refused:?}");
}

#[test]
fn a_page_that_is_damaged_everywhere_does_not_count_as_never_written() {
    let mut scene = Scene::new(2, 1);
    scene.change(&[0, 1], options(), Change::Place { zone: ZoneIndex(0) });
    let superblock = superblock_of(&crate::pool::figures(), number(0), &member(0, 1))
        .expect("figures are right");
    for side in superblock.layout_page(0).sides {
        scene.media.borrow().iter().for_each(|medium| medium.flip_bit(side + 80, 1));
    }
    let before = scene.durable();
    let refused = scene.open(&[0, 1], options());
    assert!(matches!(refused, Err(Error::Corrupt { .. })), "{refused:?}");
    assert_eq!(scene.durable(), before, "nothing was written");
}

#[test]
fn a_missing_drive_with_the_last_copy_of_a_journal_is_not_gone_without() {
    let mut scene = Scene::new(4, 1);
    let of_journal = scene.run(async |reactor, media| {
        let opening = open_some(&reactor, &media, &[0, 1, 2, 3], &options()).await.unwrap();
        let journal = opening.view.journals().next().expect("a shard");
        journal.current().map(|copy| copy.drive.get()).collect::<Vec<_>>()
    });
    let [failed, last] = of_journal[..] else { panic!("{of_journal:?}") };
    scene.fail(&[0, 1, 2, 3], failed);
    let present: Vec<_> = (0..4).filter(|it| *it != usize::from(last)).collect();
    let refused = scene.open(&present, options());
    assert!(matches!(refused, Err(Error::TooFewDrives { zone: None, .. })), "{refused:?}");
    let outcome = scene.open(&[0, 1, 2, 3], options()).unwrap();
    assert_eq!(outcome.states[usize::from(last)], DriveState::Live);
}

/// JOINING-3.
#[test]
fn a_cut_off_join_vouches_for_no_drive_of_the_pool() {
    let mut scene = Scene::new(2, 1);
    scene.open(&[0, 1], options()).unwrap();
    scene.media.borrow_mut().push(medium(2));
    scene.run(async |reactor, media| {
        let disk = |index: usize| crate::pool::open_disk(&reactor, &media.borrow()[index]);
        let all = [disk(0), disk(1), disk(2)];
        // Power is cut when the drive that joins has marks.
        mark_new_drives(&[&*all[2]], PoolId([3; 16])).await.unwrap();
        let metas: Vec<_> = all.iter().map(|disk| &**disk).collect();
        let remade = mark_new_drives(&metas, PoolId([8; 16])).await;
        assert!(matches!(remade, Err(Error::PoolExists { .. })), "{remade:?}");
        // Before, its marks named the pool.
        mark_new_drives(&[&*all[2]], crate::pool::POOL).await.unwrap();
        let remade = mark_new_drives(&metas, PoolId([8; 16])).await;
        assert!(matches!(remade, Err(Error::PoolExists { .. })), "{remade:?}");
    });
    scene.change(&[0, 1], options(), Change::Join(member(2, 4)));
    let outcome = scene.open(&[0, 1, 2], options()).unwrap();
    assert_eq!(outcome.states, [DriveState::Live; 3]);
}

/// Has all of a drive be elsewhere, as movers and journals do.
async fn clear(pool: &OpenPool, drive: DriveNumber) {
    let change =
        async |change: Change| pool.tables.change(change).await.expect("there is room elsewhere");
    let (zone, avoid) = (ZoneIndex(0), vec![drive]);
    let moves = Change::Move { zone, why: MoveReason::Drain, class: None, avoid, prefer: None };
    let expected = change(moves).await.row(zone).clone();
    let state = RowState::Still(expected.target().expect("it moves").clone());
    let new = Row { tenancy: expected.tenancy, state };
    change(Change::Row { zone, expected, new }).await;
    let journals: Vec<_> = pool.tables.view().journals().cloned().collect();
    for journal in journals.iter().filter(|it| it.copies.iter().any(|it| it.drive == drive)) {
        let (shard, expected) = (journal.shard, journal.journal_epoch);
        let without = drive;
        let view = change(Change::JournalSubstitute { shard, expected, without, until: 0 }).await;
        let journal = view.journals().find(|it| it.shard == shard).expect("it has a record");
        let copies = journal.copies.iter().filter(|it| it.drive != drive).copied().collect();
        let expected = journal.journal_epoch;
        change(Change::JournalCopies { shard, expected, copies }).await;
    }
}

/// KEEPER-4.
#[test]
fn a_drive_that_is_to_go_does_so_whoever_is_stopped_meanwhile() {
    for has_failed in [false, true] {
        let mut scene = Scene::new(4, 1);
        scene.change(&[0, 1, 2, 3], options(), Change::Place { zone: ZoneIndex(0) });
        let drive = scene.run(async |reactor, media| {
            let opening = open_some(&reactor, &media, &[0, 1, 2, 3], &options()).await.unwrap();
            opening.view.row(ZoneIndex(0)).target().expect("it has places").places[0].drive
        });
        let at = usize::from(drive.get());
        let others: Vec<usize> = (0..4).filter(|it| *it != at).collect();
        let mut present = vec![0, 1, 2, 3];
        if has_failed {
            scene.fail(&present, drive.get());
            present.clone_from(&others);
        }
        scene.change(&present, options(), Change::Remove { drive, successor: None });
        let expected = if has_failed { DriveState::Failed } else { DriveState::Leaving };
        assert_eq!(scene.open(&present, options()).unwrap().states[at], expected);
        let left = scene.run(async move |reactor, media| {
            let opening = open_some(&reactor, &media, &present, &options()).await.unwrap();
            let pool = OpenPool::start(&reactor, opening, &media);
            clear(&pool, drive).await;
            let stay = pool.tables.change(Change::Stay { drive }).await;
            assert!(matches!(stay, Err(Error::TableChange { .. })), "{stay:?}");
            pool.tables.view().drives().drive(drive).expect("it has a record").state
        });
        assert_eq!(left, DriveState::Gone, "nobody has asked again");
        let outcome = scene.open(&others, options()).unwrap();
        assert_eq!(outcome.states[at], DriveState::Gone, "and nobody needs it");
    }
}

/// Who has a drive leave may have looked at a table in which no other one does.
#[test]
fn a_drive_leaves_only_while_new_zones_find_places_without_it() {
    let all = [0, 1, 2, 3];
    let mut scene = Scene::of_shape(4, StripeShape::new(2, 1).unwrap());
    scene.run(async move |reactor, media| {
        let opening = open_some(&reactor, &media, &all, &options()).await.unwrap();
        let pool = OpenPool::start(&reactor, opening, &media);
        for zone in 0..4 {
            pool.tables.change(Change::Place { zone: ZoneIndex(zone) }).await.unwrap();
        }
        pool.tables.change(Change::Leave { drive: number(0) }).await.unwrap();
        let refused = [
            pool.tables.change(Change::Leave { drive: number(1) }).await,
            pool.tables.change(Change::Remove { drive: number(1), successor: None }).await,
        ];
        for refused in refused {
            let is_right =
                matches!(refused, Err(Error::TooFewDrives { present: 2, needed: 3, .. }));
            assert!(is_right, "{refused:?}");
        }
        pool.tables.change(Change::Stay { drive: number(0) }).await.unwrap();
        pool.tables.change(Change::Leave { drive: number(1) }).await.unwrap();
    });
}

/// A drive that stays has been there before: it does not count as what took the place of one that failed meanwhile.
#[test]
fn a_pool_stays_as_large_where_a_drive_stays_after_a_loss() {
    let all = [0, 1, 2, 3, 4];
    let mut scene = Scene::new(5, 1);
    scene.run(async move |reactor, media| {
        let opening = open_some(&reactor, &media, &all, &options()).await.unwrap();
        let pool = OpenPool::start(&reactor, opening, &media);
        for zone in 0..8 {
            pool.tables.change(Change::Place { zone: ZoneIndex(zone) }).await.unwrap();
        }
        let before = PoolSizes::of_view(&pool.tables.view());
        pool.tables.change(Change::Leave { drive: number(4) }).await.unwrap();
        let change = Change::DriveFailed { drive: number(1), reason: "pulled".into() };
        pool.tables.change(change).await.unwrap();
        let view = pool.tables.change(Change::Stay { drive: number(4) }).await.unwrap();
        assert_eq!(PoolSizes::of_view(&view), before);
    });
}

/// KEEPER-5.
#[test]
fn a_drive_that_stays_is_a_full_member_again() {
    let mut scene = Scene::new(3, 1);
    let drive = number(1);
    // Its row names the drive, so that nothing is lost with the two others (DROPS-1).
    scene.change(&[0, 1, 2], options(), Change::Place { zone: ZoneIndex(0) });
    scene.change(&[0, 1, 2], options(), Change::Remove { drive, successor: None });
    let version = scene.run(async move |reactor, media| {
        let opening = open_some(&reactor, &media, &[0, 1, 2], &options()).await.unwrap();
        let pool = OpenPool::start(&reactor, opening, &media);
        let (version, _) = pool.roots.read(RootKey::Pool).await.unwrap();
        let next = pool.roots.replace(RootKey::Pool, version, vec![7; 100]).await.unwrap();
        let view = pool.tables.change(Change::Stay { drive }).await.unwrap();
        let record = view.drives().drive(drive).expect("it has a record");
        assert_eq!((record.state, record.removal), (DriveState::Live, None));
        next
    });
    // Alone in the end, it has all that was acknowledged, and gets what is new.
    scene.fail(&[0, 1, 2], 0);
    scene.run(async move |reactor, media| {
        let opening = open_some(&reactor, &media, &[1, 2], &options()).await.unwrap();
        let pool = OpenPool::start(&reactor, opening, &media);
        let view = pool.tables.change(Change::Place { zone: ZoneIndex(5) }).await.unwrap();
        let places = &view.row(ZoneIndex(5)).target().expect("it has places").places;
        assert!(places.iter().any(|place| place.drive == drive), "{places:?}");
        let reason = "pulled".to_owned();
        pool.tables.change(Change::DriveFailed { drive: number(2), reason }).await.unwrap();
        let (found, bytes) = pool.roots.read(RootKey::Pool).await.unwrap();
        assert_eq!((found, bytes), (version, vec![7; 100]));
    });
}

/// DROPS-1, WATCH-3.
#[test]
fn a_drive_that_nobody_has_to_drop_is_kept_and_ends_nothing() {
    let mut scene = Scene::new(3, 1);
    scene.run(async |reactor, media| {
        let opening = open_some(&reactor, &media, &[0, 1, 2], &options()).await.unwrap();
        let pool = OpenPool::start(&reactor, opening, &media);
        let view = pool.tables.change(Change::Place { zone: ZoneIndex(0) }).await.unwrap();
        let places = &view.row(ZoneIndex(0)).target().expect("it has places").places;
        let (first, second) = (places[0].drive, places[1].drive);
        let give_up = async |drive, unreadable: &[DriveNumber]| {
            let (unreadable, reason) = (unreadable.to_vec(), "not read".to_owned());
            pool.tables.change(Change::GiveUp { drive, unreadable, reason }).await
        };
        let refused = give_up(first, &[first, second]).await;
        assert!(matches!(refused, Err(Error::TableChange { .. })), "{refused:?}");
        let view = give_up(first, &[first]).await.unwrap();
        assert_eq!(view.drives().drive(first).unwrap().state, DriveState::Failed);
        let refused = give_up(second, &[first, second]).await;
        assert!(matches!(refused, Err(Error::TableChange { .. })), "{refused:?}");
        assert_eq!(pool.tables.view().drives().drive(second).unwrap().state, DriveState::Live);
        pool.tables.change(Change::Place { zone: ZoneIndex(5) }).await.expect("the pool goes on");
    });
}
