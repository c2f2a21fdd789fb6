//! Appends while copies fail, are slow, or are replaced; what each copy proves.

use varve_media::conformance;
use varve_media::planted::{Bug, plant};
use varve_reactor::Nanos;

use super::*;
use crate::class::{MediumKind, MediumKinds};
use crate::format::JournalPlaceKind;
use crate::test_drives::{TestDrives, noise};

const FRAME: u32 = 8192;

struct TestJournal {
    drives: TestDrives,
    journal: MirroredJournal,
}

/// A journal of mirror:2 on drives 0 and 1 of four.
fn journal() -> TestJournal {
    let mut drives = TestDrives::new(1, 1, 1, 4);
    drives.pool.borrow_mut().add_journal(0, &[0, 1]);
    let view = std::sync::Arc::new(drives.pool.borrow().view.clone());
    drives.tables.tables().board().publish(view);
    let (handles, tables) = (Rc::clone(&drives.handles), Rc::clone(&drives.tables));
    let journal =
        MirroredJournal::new(handles, tables, ShardId(0), JournalPatience::default()).unwrap();
    // Handles of tables see what was published.
    drives.sim.run_until(std::future::ready(()));
    TestJournal { drives, journal }
}

impl TestJournal {
    fn append(&mut self, index: u64) -> Result<()> {
        let journal = self.journal.clone();
        let position = index * u64::from(FRAME);
        let append = async move { journal.append(position, noise(index, FRAME)).await };
        self.drives.sim.run_until(append)
    }

    fn read(&mut self, index: u64, copy: usize) -> Result<BufSlice> {
        let journal = self.journal.clone();
        let position = index * u64::from(FRAME);
        self.drives.sim.run_until(async move { journal.read_copy(position, FRAME, copy).await })
    }

    fn is_exposed(&mut self) -> bool {
        let journal = self.journal.clone();
        let exposed = async move { journal.exposed().await };
        self.drives.sim.try_run_until(exposed, 1000).is_some()
    }
}

impl TestJournal {
    fn record(&self) -> crate::format::JournalRecord {
        self.drives.tables.view().journals().next().unwrap().clone()
    }

    /// Drives of current copies.
    fn current(&self) -> Vec<u8> {
        self.record().current().map(|copy| copy.drive.get()).collect()
    }

    /// Lets what goes on beside appends come to its end.
    fn settle_down(&mut self) {
        let reactor = self.drives.sim.handle();
        self.drives.sim.run_until(async move { reactor.sleep(Nanos::seconds(30)).await });
    }

    /// Asserts JOURNAL-COPIES-1 and 2 of frames `0 .. count`: each copy has what it must.
    fn check_copies(&mut self, count: u64) {
        let known = self.journal.inner.copies.known();
        for (index, copy) in known.iter().enumerate() {
            assert!(planted(Bug::CopySinceIgnored) || self.journal.copy_since(index) == copy.since);
            let until = self.journal.copy_until(index);
            assert!(if copy.is_current() { until == u64::MAX } else { copy.has(until - 1) });
            for frame in 0..count {
                if copy.has(frame * u64::from(FRAME)) && self.current().contains(&copy.drive.get())
                {
                    assert_eq!(*self.read(frame, index).unwrap(), *noise(frame, FRAME));
                }
            }
        }
    }
}

impl TestJournal {
    /// Has the tables say that so many drives may be dropped.
    fn set_drops(&mut self, drops_max: u8) {
        let mut pool = self.drives.pool.borrow_mut();
        let mut table = pool.view.drives().clone();
        (table.epoch.0, table.drops_max) = (table.epoch.0 + 1, drops_max);
        pool.view = pool.view.with_drives(table).unwrap();
        let view = std::sync::Arc::new(pool.view.clone());
        drop(pool);
        self.drives.tables.tables().board().publish(view);
        self.settle_down();
    }
}

#[test]
fn copies_follow_how_many_drives_may_be_lost() {
    let mut test = journal();
    test.append(0).unwrap();
    test.set_drops(2);
    test.append(1).unwrap();
    test.settle_down();
    assert_eq!(test.current().len(), 3);
    (2..6).for_each(|frame| test.append(frame).unwrap());
    test.check_copies(6);
    while test.is_exposed() {}
    test.set_drops(1);
    test.append(6).unwrap();
    test.settle_down();
    assert_eq!(test.current().len(), 2);
    assert!(!test.is_exposed(), "a copy that is not needed is no loss");
    (7..10).for_each(|frame| test.append(frame).unwrap());
    test.check_copies(10);
    assert_eq!(test.record().copies.len(), 3, "what it has is read for a lap");
    (10..160).for_each(|frame| test.append(frame).unwrap());
    test.settle_down();
    assert_eq!(test.record().copies.len(), 2);
}

#[test]
fn copies_go_to_drives_of_the_kind_that_is_wanted_where_enough_are_there() {
    let mut test = journal();
    test.append(0).unwrap();
    let wish = |test: &mut TestJournal, nvme: &[usize]| {
        let mut pool = test.drives.pool.borrow_mut();
        let mut table = pool.view.drives().clone();
        table.epoch.0 += 1;
        table.journal_kinds = MediumKinds::new(MediumKind::Nvme.bit()).unwrap();
        for (index, drive) in table.drives.iter_mut().enumerate() {
            drive.kind = if nvme.contains(&index) { MediumKind::Nvme } else { MediumKind::Hdd };
        }
        pool.view = pool.view.with_drives(table).unwrap();
        let view = std::sync::Arc::new(pool.view.clone());
        drop(pool);
        test.drives.tables.tables().board().publish(view);
    };
    wish(&mut test, &[3]);
    test.append(1).unwrap();
    test.settle_down();
    assert_eq!(test.current(), [0, 1], "one is too few for two copies");
    wish(&mut test, &[2, 3]);
    for frame in 2..12 {
        test.append(frame).unwrap();
        test.settle_down();
    }
    let mut drives = test.current();
    drives.sort_unstable();
    assert_eq!(drives, [2, 3]);
    assert!(test.is_exposed(), "what the journal holds has a copy less");
    test.check_copies(12);
    (12..170).for_each(|frame| test.append(frame).unwrap());
    test.settle_down();
    assert_eq!(test.record().copies.len(), 2, "former copies go");
}

#[test]
fn the_contract_is_kept() {
    let mut test = journal();
    let journal = test.journal.clone();
    test.drives.sim.run_until(async move { conformance::journal(&journal).await });
}

#[test]
fn appends_are_on_all_copies() {
    let mut test = journal();
    for frame in 0..10 {
        test.append(frame).unwrap();
    }
    assert_eq!(test.journal.copies(), 2);
    for frame in 0..10 {
        for copy in 0..2 {
            assert_eq!(*test.read(frame, copy).unwrap(), *noise(frame, FRAME));
        }
    }
    assert!(!test.is_exposed());
}

#[test]
fn a_copy_that_fails_is_out_of_the_table_first_and_gets_a_substitute() {
    let mut test = journal();
    test.append(0).unwrap();
    test.drives.media[0].fail_writes(true);
    test.append(1).unwrap();
    let view = test.drives.tables.view();
    let failed = view.drives().drive(crate::ids::DriveNumber::new(0).unwrap()).unwrap();
    assert!(!failed.state.is_readable(), "KEEPER-1");
    assert!(test.is_exposed());
    test.settle_down();
    test.is_exposed(); // By the copy that came since.
    assert!(!test.is_exposed(), "once for each loss");
    test.append(2).unwrap();
    assert_eq!(test.current().len(), 2);
    assert!(test.current().contains(&1));
    let since = test.record().current().find(|copy| copy.drive.get() != 1).unwrap().since;
    assert!((u64::from(FRAME)..=2 * u64::from(FRAME)).contains(&since), "{since}");
    test.check_copies(3);
    // What failed keeps its number, and is no copy.
    assert!(test.read(0, 0).is_err());
}

#[test]
fn what_is_under_way_when_a_substitute_is_asked_for_gets_it() {
    let mut test = journal();
    let begin = |test: &TestJournal, frame: u64| {
        test.journal.inner.writer.append(frame * u64::from(FRAME), noise(frame, FRAME))
    };
    test.append(0).unwrap();
    // The first of both is under way everywhere when a drive is out of the table, and is the second's copy too.
    test.drives.media[1].stick(test.drives.sim.handle().now() + Nanos::millis(50));
    let (first, tables) = (begin(&test, 1), Rc::clone(&test.drives.tables));
    let change = crate::change::Change::DriveFailed {
        drive: crate::ids::DriveNumber::new(0).unwrap(),
        reason: "a test".to_owned(),
    };
    test.drives.sim.run_until(async move { tables.change(change).await }).unwrap();
    assert!(test.is_exposed());
    let second = begin(&test, 2);
    let both = async move { (first.await, second.await) };
    let (first, second) = test.drives.sim.run_until(both);
    first.unwrap();
    second.unwrap();
    test.settle_down();
    let substitute = test.record().current().find(|copy| copy.drive.get() != 1).copied().unwrap();
    assert!(substitute.since <= u64::from(FRAME), "JOURNAL-COPIES-1: {}", substitute.since);
    test.check_copies(3);
    assert!(test.is_exposed(), "what was answered before it came is to be sealed");
    assert!(!test.is_exposed());
}

#[test]
fn a_substitute_is_asked_for_again_once_there_may_be_room() {
    let mut test = journal();
    for drive in [2, 3] {
        test.drives.lose(crate::ids::DriveNumber::new(drive).unwrap());
    }
    test.drives.media[0].fail_writes(true);
    test.append(0).unwrap();
    test.settle_down();
    assert_eq!(test.current(), [0, 1], "nothing took the place of what failed");
    // A drive has room again, and no view that this thread has says so.
    test.drives.pool.borrow_mut().set_state(2, crate::format::DriveState::Live);
    test.append(1).unwrap();
    test.settle_down();
    assert_eq!(test.current(), [1, 2]);
}

#[test]
fn a_silent_copy_is_a_former_one_and_what_waits_goes_to_its_substitute() {
    let mut test = journal();
    for frame in 0..3 {
        test.append(frame).unwrap();
    }
    test.drives.media[0].stick(Nanos(Nanos::seconds(3600)));
    let began = test.drives.sim.handle().now();
    let journal = test.journal.clone();
    let both = async move {
        let first = journal.append(3 * u64::from(FRAME), noise(3, FRAME));
        let second = journal.append(4 * u64::from(FRAME), noise(4, FRAME));
        second.await.unwrap();
        first.await.unwrap();
    };
    test.drives.sim.run_until(both);
    let took = test.drives.sim.handle().now().since(began);
    assert!(took < Nanos::seconds(2), "{took} ns, and the drive is still silent");
    let record = test.record();
    let former = record.copies.iter().find(|copy| copy.drive.get() == 0).unwrap();
    assert!(!former.is_current());
    assert!(former.has(2 * u64::from(FRAME)) && !former.has(3 * u64::from(FRAME)));
    assert_eq!(record.current().count(), 2);
    assert!(test.is_exposed());
    test.check_copies(5);
    for copy in record.current() {
        let known = test.journal.inner.copies.known();
        let index = known.iter().position(|it| it.drive == copy.drive).unwrap();
        for frame in [3, 4] {
            assert_eq!(*test.read(frame, index).unwrap(), *noise(frame, FRAME));
        }
    }
    assert!(test.drives.tables.view().drives().drives[0].state.is_readable(), "it only was late");
}

#[test]
fn without_another_drive_a_silent_one_is_waited_for_and_fails() {
    let mut test = journal();
    for drive in [2, 3] {
        test.drives.lose(crate::ids::DriveNumber::new(drive).unwrap());
    }
    test.append(0).unwrap();
    test.drives.media[0].stick(Nanos(Nanos::seconds(3600)));
    test.append(1).unwrap();
    assert!(!test.drives.tables.view().drives().drives[0].state.is_readable());
    assert_eq!(*test.read(1, 1).unwrap(), *noise(1, FRAME));
}

#[test]
fn restore_brings_a_frame_to_a_copy_that_lacks_it() {
    let mut test = journal();
    test.append(0).unwrap();
    let journal = test.journal.clone();
    let restored =
        async move { journal.restore(u64::from(FRAME), noise(1, FRAME), 1).await.unwrap() };
    test.drives.sim.run_until(restored);
    assert_eq!(*test.read(1, 1).unwrap(), *noise(1, FRAME));
    assert_ne!(*test.read(1, 0).unwrap(), *noise(1, FRAME), "the other one is left alone");
}

#[test]
fn former_copies_go_once_the_ring_has_passed_them() {
    let mut test = journal();
    test.append(0).unwrap();
    test.drives.media[0].stick(test.drives.sim.handle().now() + Nanos::seconds(2));
    test.append(1).unwrap();
    assert_eq!(test.record().copies.len(), 3);
    test.settle_down();
    let lap = test.journal.capacity() / u64::from(FRAME);
    test.append(lap + 1).unwrap();
    test.settle_down();
    assert_eq!(test.record().copies.len(), 2);
}

#[test]
fn former_copies_go_once_no_replay_needs_them() {
    let mut test = journal();
    test.append(0).unwrap();
    test.drives.media[0].stick(test.drives.sim.handle().now() + Nanos::seconds(2));
    test.append(1).unwrap();
    test.settle_down();
    let frame = u64::from(FRAME);
    let former =
        |test: &TestJournal| test.record().copies.iter().copied().find(|copy| !copy.is_current());
    assert!(former(&test).is_some_and(|copy| copy.has(0)));
    test.journal.note_tail(frame - 4096, 2 * frame);
    test.settle_down();
    assert!(former(&test).is_some(), "JOURNAL-COPIES-5");
    test.journal.note_tail(frame, 2 * frame);
    test.settle_down();
    assert_eq!(former(&test), None);
}

#[test]
fn an_idle_journal_gets_the_copies_that_it_lacks_when_it_opens() {
    let mut test = journal();
    test.append(0).unwrap();
    test.drives.lose(crate::ids::DriveNumber::new(0).unwrap());
    let (handles, tables) = (Rc::clone(&test.drives.handles), Rc::clone(&test.drives.tables));
    let patience = JournalPatience::default();
    test.journal = MirroredJournal::new(handles, tables, ShardId(0), patience).unwrap();
    test.settle_down();
    assert_eq!(test.journal.inner.copies.current().len(), 1, "nobody knows what it would lack");
    test.journal.note_tail(u64::from(FRAME), u64::from(FRAME));
    test.settle_down();
    assert_eq!(test.journal.inner.copies.current().len(), 2);
    assert!(test.record().current().all(|copy| !copy.has(0) || copy.drive.get() == 1));
}

#[test]
fn a_silent_copy_that_proves_nothing_keeps_its_place() {
    let mut test = journal();
    test.drives.media[0].stick(test.drives.sim.handle().now() + Nanos::seconds(5));
    test.append(0).unwrap();
    let former = test.record().copies.iter().copied().find(|copy| !copy.is_current()).unwrap();
    assert!(former.drive.get() == 0 && !former.has(0), "JOURNAL-COPIES-4");
    test.journal.note_tail(0, u64::from(FRAME));
    test.settle_down();
    test.journal.note_tail(u64::from(FRAME), u64::from(FRAME));
    test.settle_down();
    assert!(test.record().copies.iter().all(JournalCopy::is_current));
}

#[test]
fn a_journal_that_begins_anew_has_all_copies_from_its_beginning_on() {
    let mut test = journal();
    test.append(0).unwrap();
    test.drives.media[0].stick(test.drives.sim.handle().now() + Nanos::seconds(2));
    test.append(1).unwrap();
    assert_eq!(test.record().copies.len(), 3);
    // The one that was there from the beginning on fails.
    test.drives.lose(crate::ids::DriveNumber::new(1).unwrap());
    test.settle_down();
    // An opening: nothing of an earlier writer is under way.
    let (handles, tables) = (Rc::clone(&test.drives.handles), Rc::clone(&test.drives.tables));
    let patience = JournalPatience::default();
    test.journal = MirroredJournal::new(handles, tables, ShardId(0), patience).unwrap();
    let is_left = |copy: &&JournalCopy| copy.is_current() && copy.drive.get() != 1;
    let record = test.record();
    assert!(!record.copies.iter().filter(is_left).any(|copy| copy.has(0)), "nothing to append to");
    let journal = test.journal.clone();
    test.drives.sim.run_until(async move { journal.restart().await }).unwrap();
    assert!(test.record().copies.iter().all(|copy| copy.is_current() && copy.since == 0));
    assert!((0..test.journal.copies()).all(|copy| test.journal.copy_until(copy) == u64::MAX));
    test.append(0).unwrap();
    test.settle_down();
    test.check_copies(1);
}

#[test]
fn a_former_copy_keeps_its_place_while_a_write_to_it_may_land() {
    let mut test = journal();
    test.append(0).unwrap();
    test.drives.media[0].stick(test.drives.sim.handle().now() + Nanos::seconds(5));
    test.append(1).unwrap();
    assert_eq!(test.record().copies.len(), 3);
    let lap = test.journal.capacity() / u64::from(FRAME);
    for frame in lap + 1..lap + 4 {
        test.append(frame).unwrap();
    }
    assert_eq!(test.record().copies.len(), 3, "JOURNAL-COPIES-4");
    test.settle_down();
    test.append(lap + 4).unwrap();
    test.settle_down();
    assert_eq!(test.record().copies.len(), 2);
}

/// Runs `scene` without the bug, where it must hold, and with it, where it must not.
fn assert_found(bug: Bug, scene: impl Fn() -> bool) {
    assert!(scene(), "it holds without {bug:?}");
    plant(Some(bug));
    let holds = scene();
    plant(None);
    assert!(!holds, "{bug:?} shows");
}

#[test]
fn ack_after_first_copy() {
    assert_found(Bug::AckAfterFirstCopy, || {
        let mut test = journal();
        test.drives.media[0].stick(Nanos(Nanos::seconds(1)));
        test.append(0).unwrap();
        let current = test.current();
        let known = test.journal.inner.copies.known();
        let is_there = |copy: &JournalCopy| {
            let JournalPlaceKind::Units(first) = copy.place else { return false };
            let medium = &test.drives.media[usize::from(copy.drive.get())];
            let held = medium.durable(first.offset()..first.offset() + u64::from(FRAME));
            held.is_some_and(|held| held == *noise(0, FRAME))
        };
        let current = known.iter().filter(|copy| current.contains(&copy.drive.get()));
        current.filter(|copy| is_there(copy)).count() == 2
    });
}

/// A journal whose first copy was silent for so long: it is a former one, which the tail has not passed.
fn with_former_copy(silent_nanos: u64) -> TestJournal {
    let mut test = journal();
    test.append(0).unwrap();
    test.drives.media[0].stick(test.drives.sim.handle().now() + silent_nanos);
    test.append(1).unwrap();
    assert_eq!(test.record().copies.len(), 3);
    test
}

#[test]
fn former_copy_freed_early() {
    assert_found(Bug::FormerCopyFreedEarly, || {
        let mut test = with_former_copy(Nanos::seconds(5));
        let frame = u64::from(FRAME);
        test.journal.note_tail(0, 2 * frame);
        test.journal.note_tail(2 * frame, 2 * frame);
        test.append(2).unwrap();
        test.record().copies.len() == 3 // JOURNAL-COPIES-4
    });
}

#[test]
fn former_copy_forgotten() {
    assert_found(Bug::FormerCopyForgotten, || {
        let mut test = with_former_copy(Nanos::seconds(2));
        test.settle_down();
        test.append(2).unwrap();
        test.settle_down();
        test.record().copies.iter().any(|copy| copy.has(0) && copy.drive.get() == 0) // JOURNAL-COPIES-5
    });
}

#[test]
fn a_former_copy_goes_after_a_refusal_though_nothing_is_appended() {
    let mut test = with_former_copy(Nanos::seconds(2));
    test.settle_down();
    let frame = u64::from(FRAME);
    test.journal.note_tail(0, 2 * frame);
    test.drives.refuse_next();
    test.journal.note_tail(2 * frame, 2 * frame);
    test.drives.pass(Nanos::millis(100));
    assert_eq!(test.record().copies.len(), 3, "it was refused");
    test.settle_down();
    assert_eq!(test.record().copies.len(), 2);
}

#[test]
fn copy_since_ignored() {
    assert_found(Bug::CopySinceIgnored, || {
        let mut test = journal();
        test.append(0).unwrap();
        test.drives.media[0].fail_writes(true);
        test.append(1).unwrap();
        test.settle_down();
        test.append(2).unwrap();
        let known = test.journal.inner.copies.known();
        let substitute = known.iter().position(|copy| copy.since > 0).unwrap();
        test.journal.copy_since(substitute) > 0
    });
}
