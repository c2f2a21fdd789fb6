//! Reads while a drive answers late: others answer, within bounds, and the drive is read again when it is quick again.

use varve_reactor::Nanos;

use super::*;
use crate::change::Change;
use crate::hedge::ReadCounts;
use crate::ids::DriveNumber;

const REDUNDANT: [(u8, u8); 4] = [(1, 1), (2, 1), (4, 2), (8, 3)];
const DELAY: u64 = Nanos::millis(500);
/// Far less than the delay, and more than two rounds of reads.
const QUICK: u64 = Nanos::millis(10);

/// A pool with a segment, and the drive that has the first block of it.
fn with_late_drive(data: u8, parity: u8) -> (TestDrives, DriveNumber, BufSlice) {
    let mut drives = pool(11, data, parity);
    let bytes = noise(9, SEGMENT);
    drives.put(id(0, 5), &bytes).unwrap();
    let drive = drives.strips(0)[0].place.drive;
    (drives, drive, bytes)
}

/// Reads, checks what came, and says how long it took.
fn timed(drives: &mut TestDrives, bytes: &[u8], offset: u32, len: u32) -> u64 {
    let before = drives.sim.handle().now();
    let got = drives.get(id(0, 5), offset, len).unwrap();
    assert_eq!(*got, bytes[offset as usize..(offset + len) as usize]);
    drives.sim.handle().now().since(before)
}

#[test]
fn a_late_read_is_answered_by_others_and_its_latency_counts() {
    for (data, parity) in REDUNDANT {
        let (mut drives, late, bytes) = with_late_drive(data, parity);
        assert!(timed(&mut drives, &bytes, 0, 4096) < QUICK);
        drives.delay(late, DELAY);
        let took = timed(&mut drives, &bytes, 0, 4096);
        assert!((Nanos::millis(5)..QUICK).contains(&took), "{data}+{parity}: {took}");
        assert_eq!(drives.handles.read_counts(), ReadCounts { hedged: 1, degraded: 0 });
        drives.pass(Nanos::seconds(1));
        let counted = drives.handles.get(late).unwrap().counts().read_latency_nanos(1000);
        assert!(counted > Some(DELAY), "HEDGE-2: {counted:?}");
        // A second one so soon is too many (HEDGE-1).
        assert!(timed(&mut drives, &bytes, 0, 4096) >= DELAY, "{data}+{parity}");
    }
}

#[test]
fn without_hedging_late_reads_are_waited_for() {
    let (mut drives, late, bytes) = with_late_drive(4, 2);
    drives.handles.limit_hedging(0);
    drives.delay(late, DELAY);
    for _ in 0..8 {
        assert!(timed(&mut drives, &bytes, 0, 4096) >= DELAY);
    }
    assert_eq!(drives.handles.read_counts(), ReadCounts::default());
}

#[test]
fn a_drive_that_lags_is_read_around_until_it_is_quick_again() {
    for (data, parity) in REDUNDANT {
        let (mut drives, late, bytes) = with_late_drive(data, parity);
        drives.delay(late, DELAY);
        while !drives.handles.is_avoided(&drives.tables.view(), late) {
            timed(&mut drives, &bytes, 0, 4096);
            drives.pass(DELAY);
            assert!(drives.handles.read_counts().hedged < 10, "{data}+{parity}: it lags");
        }
        let hedged = drives.handles.read_counts().hedged;
        for _ in 0..64 {
            assert!(timed(&mut drives, &bytes, 0, 4096) < QUICK, "{data}+{parity}");
        }
        for len in [64 << 10, SEGMENT] {
            let took = timed(&mut drives, &bytes, 0, len);
            assert!(took < QUICK, "{data}+{parity}: {len} B took {took}");
        }
        let counts = drives.handles.read_counts();
        assert!(counts.hedged == hedged && counts.degraded >= 64, "{counts:?}");
        drives.delay(late, 0);
        drives.pass(Nanos::seconds(1));
        for _ in 0..32 {
            timed(&mut drives, &bytes, 0, 4096); // One of 16 is made there too.
        }
        drives.pass(Nanos::seconds(1));
        assert!(!drives.handles.is_avoided(&drives.tables.view(), late), "{data}+{parity}");
    }
}

#[test]
fn a_drive_that_is_slow_by_the_table_is_no_source_where_others_do() {
    for (data, parity) in REDUNDANT {
        let (mut drives, late, bytes) = with_late_drive(data, parity);
        drives.change(Change::DriveSlow { drive: late, slow: true }).unwrap();
        drives.delay(late, DELAY);
        drives.handles.limit_hedging(0);
        assert!(timed(&mut drives, &bytes, 0, 4096) < QUICK);
        assert!(timed(&mut drives, &bytes, 0, SEGMENT) < QUICK);
        // Nor for what another drive lost.
        let lost = drives.strips(0)[1].place.drive;
        if parity > 1 {
            drives.lose(lost);
            let border = drives.strips(0)[1].geometry.strip_bytes();
            assert!(timed(&mut drives, &bytes, border, 4096) < QUICK, "{data}+{parity}");
            assert!(timed(&mut drives, &bytes, 0, SEGMENT) < QUICK, "{data}+{parity}");
        }
    }
    // It is where there is no other.
    let (mut drives, late, bytes) = with_late_drive(2, 1);
    drives.change(Change::DriveSlow { drive: late, slow: true }).unwrap();
    let lost = drives.strips(0)[1].place.drive;
    drives.lose(lost);
    timed(&mut drives, &bytes, 0, SEGMENT);
}

#[test]
fn where_all_drives_are_late_none_is_avoided() {
    let (mut drives, first, bytes) = with_late_drive(4, 2);
    let all: Vec<_> = drives.handles.all().iter().map(|drive| drive.number()).collect();
    all.iter().for_each(|drive| drives.delay(*drive, DELAY));
    for _ in 0..8 {
        timed(&mut drives, &bytes, 0, SEGMENT);
        drives.pass(Nanos::seconds(2));
    }
    let view = drives.tables.view();
    assert!(drives.handles.get(first).unwrap().counts().is_lagging());
    assert!(!all.iter().any(|drive| drives.handles.is_avoided(&view, *drive)));
}
