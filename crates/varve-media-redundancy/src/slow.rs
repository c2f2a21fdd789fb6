//! Which drives are slow, by what one thread sees of them (3.11). Pure; asked by the watch once a second.
//!
//! SLOW-1. A drive is compared with others of its kind. Where most of them are late it is not the drive, and nobody is
//!     slow.

use std::collections::BTreeMap;

use varve_reactor::Nanos;

use crate::class::MediumKind;
use crate::handles::DriveWindow;
use crate::ids::DriveNumber;
use crate::latency::LatencyWindow;

/// By how much a drive's median is above that of its peers, where it is slow.
const MEDIAN_FACTOR: u64 = 10;

/// A median below is not slow, however quick others are, in ns.
const MEDIAN_MIN: u64 = Nanos::millis(1);

/// Windows in a row that make it slow.
const WINDOWS: u32 = 30;

/// A window of fewer operations says nothing.
const OPERATIONS_MIN: u32 = 8;

/// Operations in a row of 100 ms and more, over as long as this, make a drive slow at once.
const LATE_MIN: u32 = 8;
const LATE_NANOS: u64 = Nanos::seconds(1);

/// A drive as one thread has seen it since the last look.
#[derive(Clone, Copy)]
pub(crate) struct DriveSample {
    pub(crate) drive: DriveNumber,
    pub(crate) kind: MediumKind,
    /// By the table: it is nobody's measure.
    pub(crate) is_slow: bool,
    pub(crate) window: DriveWindow,
}

/// What a look says of a drive that is not as quick as others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SlowDrive {
    pub(crate) drive: DriveNumber,
    /// For long enough to be called slow.
    pub(crate) is_certain: bool,
}

/// What was seen so far.
#[derive(Default)]
pub(crate) struct SlowJudge {
    /// Windows in a row in which a drive was slower than its peers.
    windows: BTreeMap<DriveNumber, u32>,
}

impl SlowJudge {
    /// The drives that were slow in the last window.
    pub(crate) fn look(&mut self, samples: &[DriveSample], now: Nanos) -> Vec<SlowDrive> {
        let is_late = |sample: &DriveSample| {
            let DriveWindow { late_in_a_row, late_since, .. } = sample.window;
            late_in_a_row >= LATE_MIN && now.since(late_since) >= LATE_NANOS
        };
        let late = samples.iter().filter(|sample| is_late(sample)).count();
        let are_drives = late * 2 <= samples.len(); // SLOW-1
        let mut slow = Vec::new();
        for sample in samples {
            let windows = self.windows.entry(sample.drive).or_default();
            let verdict = median_verdict(samples, sample);
            match verdict {
                Some(true) => *windows += 1,
                Some(false) => *windows = 0,
                None => {}
            }
            let is_late = are_drives && is_late(sample);
            if is_late || verdict == Some(true) {
                let is_certain = is_late || *windows >= WINDOWS;
                slow.push(SlowDrive { drive: sample.drive, is_certain });
            }
        }
        self.windows.retain(|drive, _| samples.iter().any(|sample| sample.drive == *drive));
        slow
    }
}

/// Whether a drive's median is far above that of its peers; `None` where too little was done to say so.
fn median_verdict(samples: &[DriveSample], sample: &DriveSample) -> Option<bool> {
    let peers = || {
        let others = samples.iter().filter(|other| other.drive != sample.drive);
        others.filter(|other| other.kind == sample.kind && !other.is_slow)
    };
    let reads = is_far_above(sample.window.reads, peers().map(|peer| peer.window.reads));
    let writes = is_far_above(sample.window.writes, peers().map(|peer| peer.window.writes));
    match (reads, writes) {
        (Some(reads), Some(writes)) => Some(reads || writes),
        (known, None) | (None, known) => known,
    }
}

fn is_far_above(own: LatencyWindow, peers: impl Iterator<Item = LatencyWindow>) -> Option<bool> {
    let is_enough = |window: &LatencyWindow| window.operations >= OPERATIONS_MIN;
    let mut medians: Vec<u64> = peers.filter(is_enough).map(|it| it.median_nanos).collect();
    medians.sort_unstable();
    let peers_nanos = medians.get(medians.len() / 2).filter(|_| is_enough(&own))?;
    Some(own.median_nanos >= peers_nanos.saturating_mul(MEDIAN_FACTOR).max(MEDIAN_MIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(drive: u8, kind: MediumKind, median_nanos: u64) -> DriveSample {
        let reads = LatencyWindow { operations: 100, median_nanos };
        let window = DriveWindow { reads, ..DriveWindow::default() };
        DriveSample { drive: DriveNumber::new(drive).unwrap(), kind, is_slow: false, window }
    }

    /// Four drives of flash, of which the first has another median.
    fn samples(first_nanos: u64) -> Vec<DriveSample> {
        let of = |drive| {
            let nanos = if drive == 0 { first_nanos } else { 100_000 + u64::from(drive) };
            sample(drive, MediumKind::Nvme, nanos)
        };
        (0..4).map(of).collect()
    }

    fn late(samples: &mut [DriveSample], drives: std::ops::Range<usize>, since: Nanos) {
        for sample in &mut samples[drives] {
            (sample.window.late_in_a_row, sample.window.late_since) = (LATE_MIN, since);
        }
    }

    #[test]
    fn a_median_ten_times_that_of_others_for_thirty_windows_is_slow() {
        let mut judge = SlowJudge::default();
        for window in 1..=WINDOWS {
            let slow = judge.look(&samples(2_000_000), Nanos(0));
            let [SlowDrive { drive, is_certain }] = slow[..] else { panic!("{slow:?}") };
            assert_eq!((drive.get(), is_certain), (0, window == WINDOWS));
        }
        // One window that is not begins anew, one in which nothing is done does not.
        assert!(judge.look(&samples(900_000), Nanos(0)).is_empty());
        assert!(!judge.look(&samples(2_000_000), Nanos(0))[0].is_certain);
        let mut idle = samples(2_000_000);
        idle[0].window.reads.operations = 1;
        assert!(judge.look(&idle, Nanos(0)).is_empty());
        let certain = (0..WINDOWS - 1)
            .filter(|_| judge.look(&samples(2_000_000), Nanos(0))[0].is_certain)
            .count();
        assert_eq!(certain, 1);
    }

    #[test]
    fn drives_are_compared_with_others_of_their_kind() {
        let mut judge = SlowJudge::default();
        let mut mixed = samples(100_000);
        mixed.push(sample(4, MediumKind::Hdd, 8_000_000));
        assert!(judge.look(&mixed, Nanos(0)).is_empty(), "it is the only one");
        mixed.extend([
            sample(5, MediumKind::Hdd, 9_000_000),
            sample(6, MediumKind::Hdd, 95_000_000),
        ]);
        let slow = judge.look(&mixed, Nanos(0));
        assert_eq!(slow.iter().map(|it| it.drive.get()).collect::<Vec<_>>(), [6]);
        // What is far above others and quick all the same is not slow.
        let quick = [sample(0, MediumKind::Nvme, 900_000), sample(1, MediumKind::Nvme, 20_000)];
        assert!(judge.look(&quick, Nanos(0)).is_empty());
    }

    #[test]
    fn a_drive_that_is_late_all_the_time_is_slow_after_a_second() {
        let mut judge = SlowJudge::default();
        let now = Nanos(Nanos::seconds(60));
        let mut samples = samples(100_000);
        late(&mut samples, 0..1, Nanos(now.0 - LATE_NANOS / 2));
        assert!(judge.look(&samples, now).is_empty(), "it may be a moment");
        late(&mut samples, 0..1, Nanos(now.0 - LATE_NANOS));
        let slow = judge.look(&samples, now);
        assert_eq!(slow, [SlowDrive { drive: samples[0].drive, is_certain: true }]);
        late(&mut samples, 0..3, Nanos(now.0 - LATE_NANOS));
        assert!(judge.look(&samples, now).is_empty(), "SLOW-1");
    }
}
