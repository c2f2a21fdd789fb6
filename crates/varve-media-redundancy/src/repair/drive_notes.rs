//! What the threads of a pool have noted of its drives: when one was slow last, and how often it failed.

use std::collections::BTreeMap;

use varve_reactor::Nanos;

use crate::ids::DriveNumber;
use crate::recent::RecentCounts;

/// Errors of a drive within ten minutes that are too many.
pub const ERRORS_MAX: u64 = 10;

/// How often reads of a drive failed or were wrong within the last ten minutes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecentErrors {
    /// The drive.
    pub drive: DriveNumber,
    /// How often.
    pub errors: u64,
}

/// A drive of which reads fail, one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FailingDrive {
    /// The drive.
    pub drive: DriveNumber,
    /// How many in a row, on the thread that had most.
    pub reads: u64,
    /// For how long, in ns.
    pub nanos: u64,
}

/// Reads of a drive that make it failing, where they fail one after the other.
pub(crate) const FAILED_READS_MIN: u64 = 4;

/// How long after a read that was answered none that fails says that all do, in ns: threads look one after the other.
const ANSWERED_NANOS: u64 = Nanos::seconds(2);

/// What a thread has seen of a drive since its last look.
#[derive(Clone, Copy)]
pub(crate) struct DriveReads {
    pub(crate) now: Nanos,
    /// Whether one was answered.
    pub(crate) is_answered: bool,
    pub(crate) failed_in_a_row: u64,
}

/// Reads of a drive that failed one after the other.
#[derive(Clone, Copy)]
struct FailedReads {
    since: Nanos,
    reads: u64,
}

/// The notes.
#[derive(Default)]
pub(super) struct DriveNotes {
    slow_at: BTreeMap<DriveNumber, Nanos>,
    /// By minute.
    errors: BTreeMap<DriveNumber, RecentCounts<u64>>,
    failed: BTreeMap<DriveNumber, FailedReads>,
    answered_at: BTreeMap<DriveNumber, Nanos>,
    /// The last time at which somebody looked or noted something: people who ask have no clock.
    now: Nanos,
}

impl DriveNotes {
    pub(super) fn note_slow(&mut self, drive: DriveNumber, now: Nanos) {
        self.slow_at.insert(drive, now);
    }

    pub(super) fn note_time(&mut self, now: Nanos) {
        self.now = self.now.max(now);
    }

    /// How long a drive was not slow, at least: from when it was first asked for where nobody noted that it was.
    pub(super) fn quick_nanos(&mut self, drive: DriveNumber, now: Nanos) -> u64 {
        now.since(*self.slow_at.entry(drive).or_insert(now))
    }

    pub(super) fn note_errors(&mut self, drive: DriveNumber, errors: u64) {
        let count = self.errors.entry(drive).or_default().of(minute_of(self.now));
        *count = count.saturating_add(errors);
    }

    pub(super) fn forget_errors(&mut self, drive: DriveNumber) {
        self.errors.remove(&drive);
    }

    /// Takes in what a thread has seen: one read that is answered, on whichever thread, and the drive is read.
    pub(super) fn note_reads(&mut self, drive: DriveNumber, reads: DriveReads) {
        let DriveReads { now, is_answered, failed_in_a_row } = reads;
        if is_answered {
            self.failed.remove(&drive);
            self.answered_at.insert(drive, now);
        }
        let answered_at = self.answered_at.get(&drive);
        let is_read = answered_at.is_some_and(|at| now.since(*at) < ANSWERED_NANOS);
        if failed_in_a_row >= FAILED_READS_MIN && !is_read {
            let failed = self.failed.entry(drive).or_insert(FailedReads { since: now, reads: 0 });
            failed.reads = failed.reads.max(failed_in_a_row);
        }
    }

    /// Drives of which reads fail, as of the last look.
    pub(super) fn failing(&self) -> Vec<FailingDrive> {
        let all = self.failed.iter().map(|(drive, failed)| FailingDrive {
            drive: *drive,
            reads: failed.reads,
            nanos: self.now.since(failed.since),
        });
        all.collect()
    }

    /// Errors of each drive that had any, as of the last look.
    pub(super) fn recent_errors(&self) -> Vec<RecentErrors> {
        let minute = minute_of(self.now);
        let all = self.errors.iter().map(|(drive, counts)| RecentErrors {
            drive: *drive,
            errors: counts.recent(minute).sum(),
        });
        all.filter(|recent| recent.errors > 0).collect()
    }
}

fn minute_of(now: Nanos) -> u64 {
    now.0 / Nanos::seconds(60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_count_for_ten_minutes() {
        let drive = DriveNumber::new(3).unwrap();
        let minute = |minute: u64| Nanos(Nanos::seconds(60 * minute));
        let mut notes = DriveNotes::default();
        for (at, errors) in [(100, 4), (105, 5), (109, 1)] {
            notes.note_time(minute(at));
            notes.note_errors(drive, errors);
        }
        assert_eq!(notes.recent_errors(), [RecentErrors { drive, errors: 10 }]);
        notes.note_time(minute(110));
        assert_eq!(notes.recent_errors(), [RecentErrors { drive, errors: 6 }]);
        notes.note_time(minute(119));
        assert_eq!(notes.recent_errors(), []);
        notes.note_errors(drive, 10);
        notes.forget_errors(drive);
        assert_eq!(notes.recent_errors(), []);
    }

    #[test]
    fn a_drive_fails_until_one_of_its_reads_is_answered() {
        let drive = DriveNumber::new(3).unwrap();
        let mut notes = DriveNotes::default();
        let mut note = |second: u64, is_answered: bool, failed_in_a_row: u64| {
            let now = Nanos(Nanos::seconds(second));
            notes.note_time(now);
            notes.note_reads(drive, DriveReads { now, is_answered, failed_in_a_row });
            notes.failing().first().map(|it| (it.reads, it.nanos / Nanos::seconds(1)))
        };
        assert_eq!(note(10, false, FAILED_READS_MIN - 1), None);
        assert_eq!(note(11, false, 9), Some((9, 0)));
        assert_eq!(note(13, false, 20), Some((20, 2)));
        assert_eq!(note(14, false, 0), Some((20, 3)), "another thread has read nothing");
        assert_eq!(note(15, true, 0), None);
        assert_eq!(note(16, false, 30), None, "another thread's reads are answered");
        assert_eq!(note(18, false, 31), Some((31, 0)));
    }

    #[test]
    fn a_drive_is_quick_since_it_was_slow_last() {
        let drive = DriveNumber::new(3).unwrap();
        let mut notes = DriveNotes::default();
        assert_eq!(notes.quick_nanos(drive, Nanos(50)), 0, "as the table says that it was slow");
        assert_eq!(notes.quick_nanos(drive, Nanos(90)), 40);
        notes.note_slow(drive, Nanos(100));
        assert_eq!(notes.quick_nanos(drive, Nanos(130)), 30);
    }
}
