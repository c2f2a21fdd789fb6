//! Torn and damaged sides, healing, and what a replacement that was cut off leaves.

use futures_util::FutureExt;
use varve_reactor::SimLoop;
use varve_stdx::{BufSlice, Rng};
use varve_types::ErrorKind;

use super::*;
use crate::mem::MemDisk;
use crate::sim::{SimLatency, SimMedium};

const POOL: PoolId = PoolId([3; 16]);

/// Sides far from each other, as those of a table are.
const ROOT: SidedRoot =
    SidedRoot { number: LAYOUT_PAGE_NUMBER + 5, sides: [8192, 64 << 10], slot_bytes: 4096 };

/// Bytes of the disks below.
const DISK_BYTES: u64 = 128 << 10;

fn now<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("memory answers at once")
}

fn write(disk: &MemDisk, version: u64, bytes: &[u8]) {
    now(ROOT.write(disk, POOL, RootVersion(version), bytes)).unwrap();
}

fn made() -> MemDisk {
    let disk = MemDisk::new("disk", DISK_BYTES);
    now(ROOT.reset(&disk, POOL)).unwrap();
    disk
}

#[test]
fn a_root_that_was_reset_is_one_that_was_never_written() {
    let disk = made();
    assert_eq!(now(ROOT.read(&disk, POOL)).unwrap(), (RootVersion(0), Vec::new()));
    write(&disk, 7, b"seven");
    assert_eq!(now(ROOT.read(&disk, POOL)).unwrap(), (RootVersion(7), b"seven".to_vec()));
    now(ROOT.reset(&disk, POOL)).unwrap();
    let empty = || Some((RootVersion(0), Vec::new()));
    assert_eq!(now(ROOT.look(&disk, POOL)).unwrap(), [empty(), empty()]);
}

#[test]
fn a_damaged_side_is_healed_by_a_read_and_not_by_a_look() {
    for side in ROOT.sides {
        let disk = made();
        write(&disk, 1, b"one");
        disk.flip_bit(side + 65, 2);
        let looked = now(ROOT.look(&disk, POOL)).unwrap();
        assert_eq!(looked.iter().flatten().count(), 1);
        assert_eq!(now(ROOT.look(&disk, POOL)).unwrap(), looked, "nothing was written");
        assert_eq!(now(ROOT.read(&disk, POOL)).unwrap(), (RootVersion(1), b"one".to_vec()));
        let healed = now(ROOT.look(&disk, POOL)).unwrap();
        assert!(healed[0].is_some() && healed[0] == healed[1]);
    }
}

#[test]
fn sides_of_one_version_that_differ_become_alike() {
    let disk = made();
    write(&disk, 4, b"one");
    now(ROOT.write_side(&disk, POOL, 1, RootVersion(4), b"two")).unwrap();
    let read = now(ROOT.read(&disk, POOL)).unwrap();
    let looked = now(ROOT.look(&disk, POOL)).unwrap();
    assert!(looked.iter().all(|side| side.as_ref() == Some(&read)), "{looked:?}");
}

#[test]
fn a_root_damaged_on_both_sides_is_an_error_until_it_is_written() {
    let disk = made();
    write(&disk, 1, b"one");
    ROOT.sides.iter().for_each(|side| disk.flip_bit(side + 3, 0));
    let damaged = now(ROOT.read(&disk, POOL)).unwrap_err();
    assert_eq!(damaged.kind(), ErrorKind::Corrupt);
    assert!(damaged.to_string().contains("root of layout page 5"), "{damaged}");
    assert_eq!(now(ROOT.look(&disk, POOL)).unwrap(), [None, None]);
    write(&disk, 9, b"from elsewhere");
    assert_eq!(now(ROOT.read(&disk, POOL)).unwrap().0, RootVersion(9));
}

#[test]
fn other_roots_and_pools_and_lengths_are_refused() {
    let disk = made();
    let other = SidedRoot { number: ROOT.number + 1, ..ROOT };
    assert_eq!(now(other.read(&disk, POOL)).unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(now(ROOT.read(&disk, PoolId([4; 16]))).unwrap_err().kind(), ErrorKind::Corrupt);
    let longest = vec![7; 4032];
    write(&disk, 1, &longest);
    assert_eq!(now(ROOT.read(&disk, POOL)).unwrap().1, longest);
    let long = now(ROOT.write(&disk, POOL, RootVersion(2), &[7; 4033])).unwrap_err();
    assert!(matches!(long, Error::RootTooLong { len: 4033, max: 4032, .. }), "{long}");
    assert_eq!(now(ROOT.read(&disk, POOL)).unwrap().0, RootVersion(1));
}

/// Ends one replacement by power loss after `steps` events; what a new opening reads.
fn cut_off_after(seed: u64, steps: u64) -> (RootVersion, Vec<u8>) {
    let medium = SimMedium::new("medium", DISK_BYTES);
    let mut before = SimLoop::new(seed);
    let disk = medium.open(&before.handle(), SimLatency::default());
    before.run_until(async move {
        ROOT.reset(&disk, POOL).await.unwrap();
        ROOT.write(&disk, POOL, RootVersion(1), b"old").await.unwrap();
    });
    let mut during = SimLoop::new(seed + 1);
    let disk = medium.open(&during.handle(), SimLatency::default());
    let cut = async move { ROOT.write(&disk, POOL, RootVersion(2), &[2; 3000]).await.unwrap() };
    during.try_run_until(cut, steps);
    drop(during);
    medium.crash(&mut Rng::new(seed));
    let mut after = SimLoop::new(seed + 2);
    let disk = medium.open(&after.handle(), SimLatency::default());
    let read = after.run_until(async move { ROOT.read(&disk, POOL).await.unwrap() });
    drop(after);
    // What was returned survives the decay of either side, and another power loss.
    medium.crash(&mut Rng::new(seed + 3));
    medium.flip_bit(ROOT.sides[usize::from(seed % 2 == 1)] + 64, 1);
    let mut last = SimLoop::new(seed + 4);
    let disk = medium.open(&last.handle(), SimLatency::default());
    let again = last.run_until(async move { ROOT.read(&disk, POOL).await.unwrap() });
    assert_eq!(again, read, "seed {seed}, {steps} steps");
    read
}

#[test]
fn a_replacement_cut_off_anywhere_leaves_the_old_or_the_new_contents() {
    let (mut old, mut new) = (0, 0);
    for seed in 0..200 {
        let (version, bytes) = cut_off_after(seed * 10, seed % 30);
        match version {
            RootVersion(1) => assert_eq!(bytes, b"old"),
            RootVersion(2) => assert_eq!(bytes, [2; 3000]),
            other => panic!("version {other:?}"),
        }
        *(if version == RootVersion(1) { &mut old } else { &mut new }) += 1;
    }
    assert!(old > 20 && new > 20, "{old} old, {new} new");
}

#[test]
fn a_side_of_a_process_that_was_killed_is_made_durable_before_the_other_is_written() {
    for seed in 0..300 {
        let medium = SimMedium::new("medium", DISK_BYTES);
        let mut rng = Rng::new(seed);
        let mut before = SimLoop::new(seed);
        let disk = medium.open(&before.handle(), SimLatency::default());
        before.run_until(async move {
            ROOT.reset(&disk, POOL).await.unwrap();
            ROOT.write(&disk, POOL, RootVersion(1), b"one").await.unwrap();
        });
        drop(before);
        for version in [2, 3] {
            let mut sim = SimLoop::new(seed * 7 + version);
            let disk = medium.open(&sim.handle(), SimLatency::default());
            let write = async move {
                let bytes = vec![2; 3000];
                ROOT.write(&disk, POOL, RootVersion(version), &bytes).await.unwrap();
            };
            sim.try_run_until(write, rng.below(40));
            drop(sim);
            if version == 2 {
                medium.kill(&mut rng);
            } else {
                medium.crash(&mut rng);
            }
        }
        let mut after = SimLoop::new(seed + 9);
        let disk = medium.open(&after.handle(), SimLatency::default());
        let read = after.run_until(async move { ROOT.read(&disk, POOL).await });
        assert!(read.is_ok_and(|(version, _)| version >= RootVersion(1)), "seed {seed}");
    }
}

#[test]
fn a_disk_that_cannot_be_read_is_not_a_root_that_is_not_there() {
    let medium = SimMedium::new("medium", DISK_BYTES);
    let mut sim = SimLoop::new(5);
    let disk = medium.open(&sim.handle(), SimLatency::default());
    sim.run_until(async move {
        ROOT.reset(&disk, POOL).await.unwrap();
        ROOT.write(&disk, POOL, RootVersion(1), b"one").await.unwrap();
        medium.fail_reads(ROOT.sides[0]..ROOT.sides[0] + 4096);
        let looked = ROOT.look(&disk, POOL).await.unwrap();
        assert_eq!(looked, [None, Some((RootVersion(1), b"one".to_vec()))]);
        medium.fail_reads(0..DISK_BYTES);
        let failed = ROOT.look(&disk, POOL).await.unwrap_err();
        assert!(matches!(failed, Error::Io { operation: "read", .. }), "{failed}");
        medium.heal_reads();
        let garbage = BufSlice::copy_from(&[9; 4096]);
        for side in ROOT.sides {
            disk.write(side, garbage.clone(), Persist::Durable).await.unwrap();
        }
        assert_eq!(ROOT.look(&disk, POOL).await.unwrap(), [None, None]);
    });
}
