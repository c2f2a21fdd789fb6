//! Labels of every wrong kind, zeroed, swapped and old strips: what is decoded is what was put, or nothing.

use varve_media::SimMedium;
use varve_media::planted::{Bug, plant};
use varve_types::PoolId;

use super::*;
use crate::change::Change;
use crate::format::RowState;
use crate::ids::{Tenancy, UnitNumber};
use crate::test_drives::{TestDrives, id, noise};

const SEGMENT: u32 = 256 << 10;
const STRIP: u64 = 4096 + (128 << 10);

/// A pool of 2+1 with slot 0 at generation 5.
fn pool() -> TestDrives {
    let mut drives = TestDrives::new(1, 2, 1, 4);
    drives.put(id(0, 5), &noise(5, SEGMENT)).unwrap();
    drives
}

/// Replaces the label of a strip by what `change` makes of it.
fn relabel(drives: &TestDrives, location: &StripLocation, change: impl FnOnce(&mut StripLabel)) {
    let medium = drives.medium_of(location);
    let bytes = medium.durable(location.offset..location.offset + 4096).unwrap();
    let mut label = StripLabel::decode(&bytes).unwrap();
    change(&mut label);
    let mut encoded = vec![0; StripLabel::LEN];
    label.encode(&mut encoded);
    write_durably(medium, location.offset, &encoded);
}

/// Has a medium hold bytes, as a write does that nobody knows of.
fn write_durably(medium: &SimMedium, offset: u64, bytes: &[u8]) {
    let donor = SimMedium::new("donor", bytes.len() as u64);
    let mut sim = varve_reactor::SimLoop::new(1);
    let disk = donor.open(&sim.handle(), varve_media::SimLatency::default());
    let bytes = BufSlice::copy_from(bytes);
    let len = bytes.len() as u64;
    let write = async move {
        varve_media::Disk::write(&disk, 0, bytes, varve_media::Persist::Durable).await.unwrap();
    };
    sim.run_until(write);
    medium.transplant(offset..offset + len, &donor, 0);
}

#[test]
fn labels_of_something_else_do_not_count() {
    type Change = fn(&mut StripLabel);
    let changes: [(&str, Change); 8] = [
        ("pool", |label| label.pool = PoolId([3; 16])),
        ("drive", |label| label.drive = DriveNumber::new(9).unwrap()),
        ("slot", |label| label.slot.0 += 1),
        ("place", |label| label.place = UnitNumber(label.place.0 + 1)),
        ("tenancy", |label| label.tenancy = Tenancy::new(label.tenancy.get() + 1).unwrap()),
        ("generation", |label| label.generation = Generation::new(4)),
        ("sums", |label| label.strip_checksums[2] ^= 1),
        ("own sum", |label| {
            let own = usize::from(label.strip);
            label.strip_checksums[own] ^= 1;
        }),
    ];
    for (what, change) in changes {
        for strip in 0..3 {
            let mut drives = pool();
            let strips = drives.strips(0);
            relabel(&drives, &strips[strip], change);
            for attempt in 0..2 {
                let bytes = drives.contents(id(0, 5), attempt).unwrap();
                assert_eq!(bytes.as_deref(), Some(&*noise(5, SEGMENT)), "{what} of strip {strip}");
            }
            // With another one lost, too few are right.
            drives.lose(strips[(strip + 1) % 3].place.drive);
            let bytes = drives.contents(id(0, 5), 1).unwrap();
            assert!(bytes.is_none(), "{what} of strip {strip}");
        }
    }
}

#[test]
fn swapped_strips_do_not_count() {
    let mut drives = pool();
    let strips = drives.strips(0);
    let (one, other) = (&strips[0], &strips[2]);
    let first = drives.medium_of(one).copy();
    let range = |location: &StripLocation| location.offset..location.offset + STRIP;
    drives.medium_of(one).transplant(range(one), drives.medium_of(other), other.offset);
    drives.medium_of(other).transplant(range(other), &first, one.offset);
    assert!(drives.contents(id(0, 5), 1).unwrap().is_none(), "only one is where it belongs");
}

#[test]
fn strips_of_an_older_put_do_not_mix_with_newer_ones() {
    let mut drives = pool();
    let strips = drives.strips(0);
    let old = drives.medium_of(&strips[0]).copy();
    drives.put(id(0, 6), &noise(6, SEGMENT)).unwrap();
    let range = strips[0].offset..strips[0].offset + STRIP;
    drives.medium_of(&strips[0]).transplant(range, &old, strips[0].offset);
    assert_eq!(*drives.contents(id(0, 6), 0).unwrap().unwrap(), *noise(6, SEGMENT));
    assert_eq!(*drives.contents(id(0, 0), 0).unwrap().unwrap(), *noise(6, SEGMENT));
    assert!(drives.contents(id(0, 5), 0).unwrap().is_none());
}

#[test]
fn each_further_attempt_leaves_out_another_strip() {
    let mut drives = pool();
    for attempt in 0..=4 {
        let bytes = drives.contents(id(0, 5), attempt).unwrap();
        assert_eq!(bytes.as_deref(), Some(&*noise(5, SEGMENT)), "attempt {attempt}");
    }
    assert!(drives.contents(id(0, 5), 5).unwrap().is_none(), "three strips, three choices");
}

/// Wrong labels and strips that this thread has counted against the drive of a strip.
fn counted(drives: &TestDrives, location: &StripLocation) -> u64 {
    drives.handles.get(location.place.drive).unwrap().counts().checksum_errors()
}

#[test]
fn labels_that_are_zeroed_or_damaged_are_counted_against_their_drives() {
    let mut drives = pool();
    let strips = drives.strips(0);
    drives.medium_of(&strips[1]).erase(strips[1].offset..strips[1].offset + 4096);
    assert!(is_right(&mut drives, 5));
    assert_eq!([0, 1, 2].map(|strip| counted(&drives, &strips[strip])), [0, 1, 0]);
    let mut drives = pool();
    drives.medium_of(&strips[2]).flip_bit(strips[2].offset + 20, 3);
    assert!(is_right(&mut drives, 5));
    assert_eq!([0, 1, 2].map(|strip| counted(&drives, &strips[strip])), [0, 0, 1]);
}

#[test]
fn what_a_move_left_blank_is_not_counted_against_the_drive_that_came_in() {
    let mut drives = pool();
    drives.move_strip(0, 1);
    let expected = drives.tables.view().row(ZoneIndex(0)).clone();
    let RowState::Moving { to, .. } = expected.state.clone() else { panic!("it moves") };
    let new = Row { tenancy: expected.tenancy, state: RowState::Still(to) };
    drives.change(Change::Row { zone: ZoneIndex(0), expected, new }).unwrap();
    let strips = drives.strips(0);
    assert!(is_right(&mut drives, 5));
    assert_eq!([0, 1, 2].map(|strip| counted(&drives, &strips[strip])), [0, 0, 0]);
}

#[test]
fn what_a_move_has_not_written_yet_is_counted_against_nobody() {
    let mut drives = TestDrives::new(1, 2, 1, 5);
    drives.put(id(0, 5), &noise(5, SEGMENT)).unwrap();
    drives.move_strip(0, 1);
    assert!(is_right(&mut drives, 5));
    let strips = drives.strips(0);
    assert!(strips.iter().all(|strip| counted(&drives, strip) == 0), "its label is blank");
}

/// Runs `scene` without the bug, where it must hold, and with it, where it must not.
fn assert_found(bug: Bug, scene: impl Fn() -> bool) {
    assert!(scene(), "it holds without {bug:?}");
    plant(Some(bug));
    let holds = scene();
    plant(None);
    assert!(!holds, "{bug:?} shows");
}

fn is_right(drives: &mut TestDrives, generation: u64) -> bool {
    let bytes = drives.contents(id(0, generation), 1).unwrap();
    bytes.is_some_and(|bytes| *bytes == *noise(generation, SEGMENT))
}

#[test]
fn generations_mixed() {
    assert_found(Bug::GenerationsMixed, || {
        let mut drives = pool();
        let strips = drives.strips(0);
        let old = drives.medium_of(&strips[0]).copy();
        drives.put(id(0, 6), &noise(6, SEGMENT)).unwrap();
        let range = strips[0].offset..strips[0].offset + STRIP;
        drives.medium_of(&strips[0]).transplant(range, &old, strips[0].offset);
        is_right(&mut drives, 6)
    });
}

#[test]
fn index_twice() {
    assert_found(Bug::IndexTwice, || {
        let mut drives = pool();
        let lost = drives.strips(0)[0].place.drive;
        drives.lose(lost);
        is_right(&mut drives, 5)
    });
}

#[test]
fn needs_one_more() {
    assert_found(Bug::NeedsOneMore, || {
        let mut drives = pool();
        let lost = drives.strips(0)[0].place.drive;
        drives.lose(lost);
        is_right(&mut drives, 5)
    });
}

#[test]
fn zeroed_strip_believed() {
    assert_found(Bug::ZeroedStripBelieved, || {
        let mut drives = pool();
        let location = drives.strips(0)[0];
        drives.medium_of(&location).erase(location.offset + 4096..location.offset + STRIP);
        is_right(&mut drives, 5)
    });
}

#[test]
fn tenancy_ignored() {
    assert_found(Bug::TenancyIgnored, || {
        let mut drives = pool();
        let strips = drives.strips(0);
        // The place had another row, and what is there is of that.
        relabel(&drives, &strips[0], |label| {
            label.tenancy = Tenancy::new(label.tenancy.get() + 1).unwrap();
        });
        drives.lose(strips[1].place.drive);
        drives.contents(id(0, 5), 1).unwrap().is_none() // PLACE-1
    });
}
