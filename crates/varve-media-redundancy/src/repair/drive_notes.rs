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

/// The notes.
#[derive(Default)]
pub(super) struct DriveNotes {
    slow_at: BTreeMap<DriveNumber, Nanos>,
    /// By minute.
    errors: BTreeMap<DriveNumber, RecentCounts<u64>>,
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
    fn a_drive_is_quick_since_it_was_slow_last() {
        let drive = DriveNumber::new(3).unwrap();
        let mut notes = DriveNotes::default();
        assert_eq!(notes.quick_nanos(drive, Nanos(50)), 0, "as the table says that it was slow");
        assert_eq!(notes.quick_nanos(drive, Nanos(90)), 40);
        notes.note_slow(drive, Nanos(100));
        assert_eq!(notes.quick_nanos(drive, Nanos(130)), 30);
    }
}
