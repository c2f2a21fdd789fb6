//! Drives that are delayed or fail while they are read: what the tables say then, and when.

use varve_media::SegmentId;
use varve_stdx::{BufSlice, Rng};

use super::*;
use crate::format::{JournalCopyState, JournalPlaceKind};
use crate::ids::UnitNumber;
use crate::repair::{DriveFaults, SuspectMark};
use crate::test_drives::{TestDrives, id, noise};
use crate::test_pool::{TestPool, table};

const SEGMENT: u32 = 256 << 10;

struct Watched {
    drives: TestDrives,
    control: Arc<RepairControl>,
    segment: SegmentId,
    bytes: BufSlice,
    rng: Rng,
}

/// A pool of 4+2 with a segment, on so many drives, which are watched.
fn watched(count: usize) -> Watched {
    let mut drives = TestDrives::new(5, 4, 2, count);
    let (segment, bytes) = (id(0, 5), noise(5, SEGMENT));
    drives.put(segment, &bytes).unwrap();
    let control = Arc::new(RepairControl::new(1, 40));
    start(&drives.handles, &drives.tables, &control);
    Watched { drives, control, segment, bytes, rng: Rng::new(5) }
}

impl Watched {
    /// Reads blocks of the segment, a thousand each second, for so long.
    fn read_for(&mut self, nanos: u64) {
        let end = self.drives.sim.handle().now() + nanos;
        while self.drives.sim.handle().now() < end {
            let at = u32::try_from(self.rng.below(u64::from(SEGMENT / 4096))).unwrap() * 4096;
            let got = self.drives.get(self.segment, at, 4096).unwrap();
            assert_eq!(*got, self.bytes[at as usize..at as usize + 4096]);
            self.drives.pass(Nanos::millis(1));
        }
    }

    fn drive_of(&self, strip: usize) -> DriveNumber {
        self.drives.strips(0)[strip].place.drive
    }

    fn record(&self, drive: DriveNumber) -> DriveRecord {
        self.drives.tables.view().drives().drive(drive).unwrap().clone()
    }
}

#[test]
fn a_delayed_drive_is_slow_in_seconds_and_quick_again_after_ten_minutes() {
    let mut pool = watched(7);
    let slow = pool.drive_of(2);
    pool.read_for(Nanos::seconds(3));
    pool.drives.delay(slow, Nanos::millis(500));
    pool.read_for(Nanos::seconds(5));
    let view = pool.drives.tables.view();
    let named: Vec<_> = view.drives().drives.iter().filter(|it| it.is_slow).collect();
    assert_eq!(named.iter().map(|it| it.number).collect::<Vec<_>>(), [slow]);
    pool.drives.delay(slow, 0);
    pool.read_for(Nanos::seconds(5));
    pool.drives.pass(QUICK_NANOS - Nanos::seconds(30));
    assert!(pool.record(slow).is_slow, "not so soon");
    pool.drives.pass(Nanos::seconds(60));
    assert!(!pool.record(slow).is_slow);
}

#[test]
fn a_drive_whose_reads_take_ten_times_as_long_is_slow_after_half_a_minute() {
    let mut pool = watched(7);
    let slow = pool.drive_of(0);
    pool.drives.delay(slow, Nanos::millis(3));
    pool.read_for(Nanos::seconds(25));
    assert!(!pool.record(slow).is_slow);
    pool.read_for(Nanos::seconds(15));
    assert!(pool.record(slow).is_slow);
}

#[test]
fn a_drive_that_fails_too_often_leaves_where_others_have_room() {
    for (count, leaves) in [(7, true), (6, false)] {
        let mut pool = watched(count);
        let failing = pool.drive_of(1);
        pool.drives.medium_of(&pool.drives.strips(0)[1]).fail_reads(0..u64::MAX);
        pool.read_for(Nanos::seconds(2));
        let errors = pool.control.recent_errors();
        assert_eq!(errors.iter().map(|it| it.drive).collect::<Vec<_>>(), [failing]);
        assert!(errors.iter().all(|it| it.errors >= ERRORS_MAX));
        let expected = if leaves { DriveState::Leaving } else { DriveState::Live };
        assert_eq!(pool.record(failing).state, expected, "WATCH-2: {count} drives");
    }
}

#[test]
fn a_second_drive_that_fails_stays() {
    let mut pool = watched(8);
    let strips = pool.drives.strips(0);
    for strip in &strips[..2] {
        pool.drives.medium_of(strip).fail_reads(0..u64::MAX);
    }
    pool.read_for(Nanos::seconds(3));
    let view = pool.drives.tables.view();
    let leaving = view.drives().drives.iter().filter(|it| it.state == DriveState::Leaving);
    assert_eq!(leaving.count(), 1, "WATCH-2");
}

impl Watched {
    /// Reads blocks of the segment that may not be readable, some hundred each second, for so long.
    fn try_reads_for(&mut self, nanos: u64) {
        let end = self.drives.sim.handle().now() + nanos;
        while self.drives.sim.handle().now() < end {
            let at = u32::try_from(self.rng.below(u64::from(SEGMENT / 4096))).unwrap() * 4096;
            drop(self.drives.get(self.segment, at, 4096));
            self.drives.pass(Nanos::millis(5));
        }
    }

    fn failing(&self) -> Vec<DriveNumber> {
        self.control.failing_drives().iter().map(|it| it.drive).collect()
    }
}

#[test]
fn a_drive_of_which_no_read_is_answered_fails() {
    let mut pool = watched(6);
    let dead = pool.drive_of(1);
    pool.drives.fail_reads(dead, true);
    pool.read_for(Nanos::seconds(3));
    assert_eq!(pool.failing(), [dead]);
    assert_eq!(pool.record(dead).state, DriveState::Live, "it may be a bus that is reset");
    let table = pool.drives.tables.view().drives().clone();
    assert!(table.loss_epoch > table.walked_epoch, "WATCH-4");
    pool.read_for(Nanos::seconds(8));
    assert_eq!(pool.record(dead).state, DriveState::Failed, "WATCH-3");
}

#[test]
fn a_drive_of_which_a_part_is_read_does_not_fail() {
    let mut pool = watched(6);
    let strip = pool.drives.strips(0)[1];
    pool.drives.medium_of(&strip).fail_reads(0..u64::MAX);
    pool.read_for(Nanos::seconds(30));
    assert_eq!(pool.failing(), [strip.place.drive], "it counts as lost");
    assert_eq!(pool.record(strip.place.drive).state, DriveState::Live, "its superblock is read");
    pool.drives.medium_of(&strip).heal_reads();
    pool.drives.pass(Nanos::seconds(3));
    assert!(pool.failing().is_empty(), "though nobody reads");
}

/// More drives cannot be read than the pool survives the loss of; how many of them are given up.
fn given_up_of_three() -> usize {
    let mut pool = watched(6);
    let dead: Vec<_> = (0..3).map(|strip| pool.drive_of(strip)).collect();
    dead.iter().for_each(|drive| pool.drives.fail_reads(*drive, true));
    pool.try_reads_for(Nanos::seconds(40));
    let failed = dead.iter().filter(|it| pool.record(**it).state == DriveState::Failed).count();
    if failed == 0 {
        let mut failing = pool.failing();
        failing.sort_unstable();
        let mut expected = dead.clone();
        expected.sort_unstable();
        assert_eq!(failing, expected);
        // They are plugged in again, and nothing is lost.
        dead.iter().for_each(|drive| pool.drives.fail_reads(*drive, false));
        pool.drives.pass(Nanos::seconds(3));
        assert!(pool.failing().is_empty());
        pool.read_for(Nanos::seconds(1));
    }
    failed
}

#[test]
fn unreadable_given_up() {
    assert_eq!(given_up_of_three(), 0, "WATCH-3");
    varve_media::planted::plant(Some(Bug::UnreadableGivenUp));
    let given_up = given_up_of_three();
    varve_media::planted::plant(None);
    assert!(given_up > 2, "the bug shows");
}

#[test]
fn drives_that_fail_while_superblocks_are_read_count() {
    let mut pool = watched(6);
    let dead = pool.drive_of(0);
    pool.drives.fail_reads(dead, true);
    pool.try_reads_for(Nanos::millis(500));
    pool.drives.pass(Nanos::seconds(4));
    // From here on it takes a while to hear from all drives, and two fail meanwhile.
    pool.drives.delay(pool.drive_of(1), Nanos::seconds(6));
    pool.drives.pass(Nanos::millis(3500));
    assert_eq!(pool.record(dead).state, DriveState::Live, "it is being looked");
    let others = [pool.drive_of(2), pool.drive_of(3)];
    others.into_iter().for_each(|drive| pool.drives.lose(drive));
    pool.drives.pass(Nanos::seconds(20));
    assert_eq!(pool.failing(), [dead]);
    assert_eq!(pool.record(dead).state, DriveState::Live, "WATCH-3");
}

#[test]
fn damage_on_other_drives_keeps_a_drive() {
    for drive in [0, 1] {
        let mut pool = watched(6);
        let (dead, damaged) = (pool.drive_of(0), pool.drive_of(drive));
        let faults = DriveFaults { strips: 1, ..DriveFaults::none(damaged) };
        pool.control.count_faults(faults);
        let mark = SuspectMark::new(Arc::clone(&pool.control));
        pool.drives.fail_reads(dead, true);
        pool.read_for(Nanos::seconds(10));
        pool.drives.pass(Nanos::seconds(20));
        assert_eq!(pool.record(dead).state, DriveState::Live, "what is suspected may be damaged");
        drop(mark);
        pool.drives.pass(Nanos::seconds(20));
        let is_kept = pool.record(dead).state == DriveState::Live;
        assert_eq!(is_kept, damaged != dead, "WATCH-3");
    }
}

#[test]
fn a_drive_with_the_only_copy_of_a_part_of_a_journal_is_kept() {
    use JournalCopyState::{Current, Former};
    let former = Former { until: 8192 };
    for (copies, is_free) in [
        (&[(0, 0, Current), (1, 0, Current)][..], true),
        (&[(0, 0, Current), (1, 4096, Current)], false),
        (&[(0, 4096, Current), (1, 0, Current)], true),
        (&[(0, 0, former), (1, 8192, Current), (2, 8192, Current)], false),
        (&[(0, 0, former), (1, 8192, Current), (2, 0, Current)], true),
        (&[(0, 0, Current), (1, 8192, Current), (2, 0, former)], true),
        (&[(0, 0, Current), (1, 0, former)], false),
    ] {
        let mut pool = TestPool::new(table(&[2000; 7]));
        pool.add_journal(0, &[0, 1]);
        let mut record = pool.view.journals().next().unwrap().clone();
        let copy = |(drive, since, state): (u8, u64, JournalCopyState)| JournalCopy {
            drive: DriveNumber::new(drive).unwrap(),
            place: JournalPlaceKind::Units(UnitNumber(0)),
            since,
            state,
        };
        record.copies = copies.iter().copied().map(copy).collect();
        record.journal_epoch += 1;
        let view = pool.view.with_journal(record).unwrap();
        let free = may_go_without(&view, &[DriveNumber::new(0).unwrap()]);
        assert_eq!(free, is_free, "{copies:?}");
    }
}

#[test]
fn the_watch_ends_when_nobody_has_the_drives() {
    let Watched { drives, .. } = watched(6);
    let (handles, tables) = (Rc::downgrade(&drives.handles), Rc::downgrade(&drives.tables));
    let mut sim = drives.into_loop();
    assert!(handles.upgrade().is_none() && tables.upgrade().is_none(), "WATCH-1");
    let reactor = sim.handle();
    sim.run_until(async move { reactor.sleep(Nanos::seconds(3)).await });
}
