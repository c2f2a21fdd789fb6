//! Puts and reads over simulated drives: all lengths, lost drives, damaged strips, cut puts and moving rows. Readers
//! that know what they must get get that, or an error.

use varve_media::planted::{Bug, plant};
use varve_media::{SegmentStore, conformance};
use varve_stdx::Rng;
use varve_types::ErrorKind;

use super::*;
use crate::test_drives::{TestDrives, id, noise};

mod late_drives;

const SEGMENT: u32 = 256 << 10;
const SHAPES: [(u8, u8); 8] = [(1, 0), (1, 1), (1, 2), (2, 1), (3, 1), (4, 2), (8, 3), (10, 4)];

/// A pool with a drive more than strips.
fn pool(seed: u64, data: u8, parity: u8) -> TestDrives {
    TestDrives::new(seed, data, parity, usize::from(data + parity) + 1)
}

/// All choices of `count` of `total`, or some where there are many.
fn choices(total: usize, count: usize) -> Vec<Vec<usize>> {
    let all = (0u32..1 << total).filter(|bits| bits.count_ones() as usize == count);
    let all: Vec<Vec<usize>> =
        all.map(|bits| (0..total).filter(|it| bits >> it & 1 == 1).collect()).collect();
    let step = all.len().div_ceil(12).max(1);
    all.into_iter().step_by(step).collect()
}

#[test]
fn the_contract_is_kept() {
    for (data, parity) in SHAPES {
        let mut drives = pool(1, data, parity);
        let segments = drives.segments.clone();
        drives.sim.run_until(async move { conformance::segments(&segments).await });
    }
}

#[test]
fn every_length_comes_back_whichever_drives_are_lost() {
    for (data, parity) in SHAPES {
        let strips = usize::from(data + parity);
        let mut lengths: Vec<u32> = (1..=SEGMENT / 4096).step_by(9).map(|it| it * 4096).collect();
        lengths.push(SEGMENT);
        for lost in choices(strips, usize::from(parity)) {
            let mut drives = pool(2, data, parity);
            for (slot, len) in (0..).zip(&lengths) {
                drives.put(id(slot, 5), &noise(u64::from(*len), *len)).unwrap();
            }
            for strip in &lost {
                let drive = drives.strips(0)[*strip].place.drive;
                drives.lose(drive);
            }
            for (slot, len) in (0..).zip(&lengths) {
                let expected = noise(u64::from(*len), *len);
                let got = drives.get(id(slot, 5), 0, *len).unwrap();
                assert_eq!(*got, *expected, "{data}+{parity} without {lost:?}: {len} B");
                for at in [0, len / 8192 * 4096, len - 4096] {
                    let part = &expected[at as usize..at as usize + 4096];
                    let got = drives.get(id(slot, 5), at, 4096).unwrap();
                    assert_eq!(*got, *part, "{data}+{parity} without {lost:?}: {at} of {len} B");
                    let unknown = drives.get(id(slot, 0), at, 4096).unwrap();
                    assert_eq!(*unknown, *part, "chains do not know the generation");
                }
            }
        }
    }
}

#[test]
fn a_small_range_is_not_read_as_a_whole_slot_where_a_drive_is_lost() {
    for (data, parity) in [(1, 1), (1, 2), (2, 1), (4, 2)] {
        let mut drives = pool(2, data, parity);
        let bytes = noise(9, SEGMENT);
        drives.put(id(0, 5), &bytes).unwrap();
        let strips = drives.strips(0);
        drives.lose(strips[0].place.drive);
        let border = strips[0].geometry.strip_bytes().min(SEGMENT - 4096);
        let reads = |drives: &TestDrives| -> u64 {
            let counts = (0..u8::try_from(drives.media.len()).unwrap()).map(|drive| {
                let drive = crate::ids::DriveNumber::new(drive).unwrap();
                drives.handles.get(drive).map_or(0, |handle| handle.counts().reads())
            });
            counts.sum()
        };
        let before = reads(&drives);
        // Across the border of the strip that is lost and the next one.
        let (from, to) = (border - 4096, border + 4096);
        let got = drives.get(id(0, 5), from, 8192).unwrap();
        assert_eq!(*got, bytes[from as usize..to as usize], "{data}+{parity}");
        // Labels and columns of the others, all at once; those that were not needed may be under way.
        let least = if data == 1 { 1 } else { 1 + 2 * u64::from(data) };
        let most = if data == 1 { 1 } else { 1 + 2 * u64::from(data + parity - 1) };
        let count = reads(&drives) - before;
        assert!((least..=most).contains(&count), "{data}+{parity}: {count}");
    }
}

#[test]
fn one_drive_more_is_an_error() {
    for (data, parity) in SHAPES {
        let mut drives = pool(3, data, parity);
        drives.put(id(1, 5), &noise(1, SEGMENT)).unwrap();
        let strips = drives.strips(1);
        for location in strips.iter().take(usize::from(parity) + 1) {
            drives.lose(location.place.drive);
        }
        for generation in [0, 5] {
            let error = drives.get(id(1, generation), 0, 4096).expect_err("too few are left");
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{data}+{parity}");
        }
        // Nothing is believed to be empty because of it.
        let error = drives.get(id(2, 0), 0, 4096).expect_err("nobody knows what is there");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{data}+{parity}");
    }
}

#[test]
fn a_drive_that_fails_during_a_put_is_in_the_table_first() {
    for (data, parity) in SHAPES {
        let mut drives = pool(4, data, parity);
        drives.put(id(0, 1), &noise(1, SEGMENT)).unwrap();
        let failing = drives.strips(0)[0];
        assert_eq!(drives.handles.partial_stripes(), 0);
        drives.medium_of(&failing).fail_writes(true);
        let result = drives.put(id(1, 1), &noise(2, SEGMENT));
        let view = drives.tables.view();
        let state = view.drives().drive(failing.place.drive).unwrap().state;
        assert!(!state.is_readable(), "{data}+{parity}");
        if parity == 0 {
            assert_eq!(result.expect_err("the only one failed").kind(), ErrorKind::Unavailable);
            continue;
        }
        result.unwrap();
        assert_eq!(*drives.get(id(1, 1), 0, SEGMENT).unwrap(), *noise(2, SEGMENT));
        let left_out = drives.segments.take_left_out();
        assert!(left_out.iter().any(|strip| strip.place == failing.place), "STRIPE-2");
        assert_eq!(drives.handles.partial_stripes(), 1);
    }
}

#[test]
fn a_drive_that_does_not_answer_is_given_up() {
    let mut drives = pool(5, 2, 1);
    drives.put(id(0, 1), &noise(1, SEGMENT)).unwrap();
    let silent = drives.strips(0)[1];
    drives.medium_of(&silent).stick(varve_reactor::Nanos(u64::MAX));
    drives.put(id(1, 1), &noise(2, SEGMENT)).unwrap();
    let view = drives.tables.view();
    assert!(!view.drives().drive(silent.place.drive).unwrap().state.is_readable());
    assert_eq!(*drives.get(id(1, 1), 0, SEGMENT).unwrap(), *noise(2, SEGMENT));
}

#[test]
fn flipped_bits_anywhere_in_m_strips_are_never_returned() {
    for (data, parity) in SHAPES {
        let mut rng = Rng::new(u64::from(data) * 16 + u64::from(parity));
        for round in 0..24 {
            let mut drives = pool(round, data, parity);
            let len = 4096 * (1 + u32::try_from(rng.below(u64::from(SEGMENT / 4096))).unwrap());
            let expected = noise(round, len);
            drives.put(id(3, 7), &expected).unwrap();
            let mut strips = drives.strips(3);
            for _ in 0..parity {
                let location = strips.swap_remove(rng.index(strips.len()));
                let medium = drives.medium_of(&location);
                let data_bytes = location.geometry.data_bytes(location.strip, len);
                let at = location.offset + rng.below(4096 + u64::from(data_bytes));
                medium.flip_bit(at, 3);
            }
            let at = 4096 * u32::try_from(rng.below(u64::from(len / 4096))).unwrap();
            let part = &expected[at as usize..at as usize + 4096];
            assert!(drives.get_right(id(3, 7), at, part).unwrap().is_some(), "{data}+{parity}");
            assert!(drives.get_right(id(3, 7), 0, &expected).unwrap().is_some());
            assert_eq!(*drives.contents(id(3, 7), 1).unwrap().unwrap(), *expected);
        }
    }
}

#[test]
fn a_cut_put_is_whole_or_is_not_there() {
    for (data, parity) in [(1, 1), (1, 2), (2, 1), (4, 2)] {
        let (mut old_seen, mut new_seen) = (0, 0);
        for seed in 0..60 {
            let mut drives = pool(seed, data, parity);
            let (old, new) = (noise(seed, SEGMENT), noise(seed + 1000, SEGMENT / 2));
            drives.put(id(0, 1), &old).unwrap();
            let put = drives.segments.put(id(0, 2), new.clone());
            drop(put); // MEDIA-4
            let steps = 1 + Rng::new(seed).below(60);
            drives.sim.try_run_until(std::future::pending::<()>(), steps);
            let mut drives = drives.crash(seed);
            match drives.contents(id(0, 2), 1).unwrap() {
                Some(bytes) => {
                    new_seen += 1;
                    assert_eq!(*bytes, *new, "{data}+{parity}, {seed}");
                    drives.complete(id(0, 2), &bytes).unwrap();
                    let lost = drives.strips(0)[usize::try_from(seed).unwrap() % 2].place.drive;
                    drives.lose(lost);
                    let again = drives.get_right(id(0, 2), 0, &new).unwrap();
                    assert!(again.is_some(), "what was completed survives");
                }
                None => {
                    old_seen += 1;
                    let bytes = drives.contents(id(0, 1), 1).unwrap();
                    assert!(bytes.is_none_or(|bytes| *bytes == *old));
                }
            }
        }
        assert!(old_seen > 0 && new_seen > 0, "{data}+{parity}: {old_seen} old, {new_seen} new");
    }
}

#[test]
fn complete_writes_what_lacks_and_leaves_the_rest() {
    let mut drives = pool(9, 4, 2);
    let bytes = noise(9, SEGMENT - 4096);
    drives.put(id(0, 3), &bytes).unwrap();
    let strips = drives.strips(0);
    let end = |location: &StripLocation| location.offset + 4096 + u64::from(64u32 << 10);
    for location in &strips[1..3] {
        drives.medium_of(location).erase(location.offset..location.offset + 4096);
    }
    let before = |drives: &TestDrives, location: &StripLocation| {
        drives.medium_of(location).durable(location.offset..end(location)).unwrap()
    };
    let kept = before(&drives, &strips[0]);
    drives.complete(id(0, 3), &bytes).unwrap();
    assert_eq!(before(&drives, &strips[0]), kept);
    for location in [&strips[0], &strips[5]] {
        drives.lose(location.place.drive);
    }
    assert_eq!(*drives.get(id(0, 3), 0, SEGMENT - 4096).unwrap(), *bytes);
    // The caller's checksums say which of two puts of a generation counts: one may have been cut off in an earlier
    // life.
    let other = noise(10, SEGMENT - 4096);
    drives.complete(id(0, 3), &other).unwrap();
    assert_eq!(*drives.get(id(0, 3), 0, SEGMENT - 4096).unwrap(), *other);
}

#[test]
fn what_is_put_while_a_zone_moves_goes_to_its_new_places() {
    for (data, parity) in [(1, 1), (2, 1), (4, 2)] {
        let mut drives = pool(11, data, parity);
        drives.put(id(0, 1), &noise(1, SEGMENT)).unwrap();
        drives.put(id(1, 1), &noise(2, SEGMENT)).unwrap();
        drives.move_strip(0, 0);
        assert_eq!(*drives.get(id(0, 1), 0, SEGMENT).unwrap(), *noise(1, SEGMENT), "not filled");
        drives.put(id(1, 2), &noise(3, SEGMENT)).unwrap();
        assert!(drives.segments.is_known_filled(id(1, 2)));
        assert!(!drives.segments.is_known_filled(id(0, 1)));
        assert_eq!(*drives.get(id(1, 2), 0, SEGMENT).unwrap(), *noise(3, SEGMENT));
        // The new place has it: others may be lost.
        let lost = drives.strips(1)[1].place.drive;
        drives.lose(lost);
        assert_eq!(*drives.get(id(1, 2), 0, SEGMENT).unwrap(), *noise(3, SEGMENT));
        assert_eq!(*drives.get(id(0, 1), 0, SEGMENT).unwrap(), *noise(1, SEGMENT));
    }
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
fn put_to_old_places() {
    assert_found(Bug::PutToOldPlaces, || {
        let mut drives = pool(12, 2, 1);
        drives.put(id(0, 1), &noise(1, SEGMENT)).unwrap();
        drives.move_strip(0, 0);
        drives.put(id(0, 2), &noise(2, SEGMENT)).unwrap();
        let lost = drives.strips(0)[1].place.drive;
        drives.lose(lost);
        // `from` goes once its zone has moved.
        let zone = ZoneIndex(0);
        let expected = drives.tables.view().row(zone).clone();
        let state = RowState::Still(expected.target().unwrap().clone());
        let new = Row { tenancy: expected.tenancy, state };
        drives.change(crate::change::Change::Row { zone, expected, new }).unwrap();
        matches!(drives.get_right(id(0, 2), 0, &noise(2, SEGMENT)), Ok(Some(_)))
    });
}

#[test]
fn degraded_forgotten() {
    assert_found(Bug::DegradedForgotten, || {
        let mut drives = pool(13, 2, 1);
        drives.put(id(0, 1), &noise(1, SEGMENT)).unwrap();
        let lost = drives.strips(0)[1].place.drive;
        drives.lose(lost);
        drives.put(id(1, 1), &noise(2, SEGMENT)).unwrap();
        !drives.segments.take_left_out().is_empty()
    });
}

#[test]
fn absent_is_empty() {
    assert_found(Bug::AbsentIsEmpty, || {
        let mut drives = pool(15, 2, 1);
        drives.put(id(0, 1), &noise(1, SEGMENT)).unwrap();
        for location in drives.strips(0).into_iter().take(2) {
            drives.lose(location.place.drive);
        }
        drives.get(id(0, 0), 0, 4096).is_err()
    });
}

#[test]
fn put_in_part() {
    assert_found(Bug::PutInPart, || {
        let mut drives = pool(14, 2, 1);
        let first = noise(1, SEGMENT);
        let mut second = first.to_vec();
        second[SEGMENT as usize - 1] ^= 1;
        drives.put(id(0, 1), &first).unwrap();
        drives.put(id(0, 2), &BufSlice::copy_from(&second)).unwrap();
        let lost = drives.strips(0)[1].place.drive;
        drives.lose(lost);
        matches!(drives.get_right(id(0, 2), 0, &second), Ok(Some(_)))
    });
}
