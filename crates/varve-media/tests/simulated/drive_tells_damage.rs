//! Goal: damage of a drive's own structures is repaired or reported, never taken for something else. Method: bits are
//! flipped and reads made to fail in superblocks and roots of a simulated drive.

use varve_media::{
    Drive, DriveDisks, DriveOptions, DriveSpec, Error, RootKey, RootVersion, SimLatency, SimMedium,
};
use varve_reactor::SimLoop;
use varve_types::{ErrorKind, PoolId, ShardId};

const MIB: u64 = 1 << 20;
const KEY: RootKey = RootKey::Shard(ShardId(0));
/// Two roots of 12 KiB a side: of the pool and of shard 0.
const SIDES: [u64; 2] = [4 * MIB + 12_288, 4 * MIB + 3 * 12_288];

fn spec() -> DriveSpec {
    DriveSpec {
        segment_bytes: 32 << 10,
        lane_bytes: 64 << 10,
        root_bytes_max: 9000,
        ..DriveSpec::new(PoolId([1; 16]), 1)
    }
}

fn open(sim: &mut SimLoop, medium: &SimMedium) -> Result<Drive, Error> {
    let disk = medium.open(&sim.handle(), SimLatency::default());
    sim.run_until(Drive::open(vec![DriveDisks::one(disk)], DriveOptions::default()))
}

fn formatted() -> (SimLoop, SimMedium) {
    let mut sim = SimLoop::new(1);
    let medium = SimMedium::new("sim0", 16 * MIB);
    let disk = medium.open(&sim.handle(), SimLatency::default());
    sim.run_until(async move { Drive::format(&[DriveDisks::one(disk)], &spec()).await.unwrap() });
    (sim, medium)
}

fn read_root(sim: &mut SimLoop, drive: &Drive) -> Result<(RootVersion, Vec<u8>), ErrorKind> {
    let roots = drive.media(ShardId(0)).unwrap().roots;
    sim.run_until(async move { roots.read(KEY).await.map_err(|error| error.kind()) })
}

fn replace(sim: &mut SimLoop, drive: &Drive, version: u64, bytes: &[u8]) {
    let (roots, bytes) = (drive.media(ShardId(0)).unwrap().roots, bytes.to_vec());
    sim.run_until(async move { roots.replace(KEY, RootVersion(version), bytes).await.unwrap() });
}

#[test]
fn two_superblock_copies_carry_a_drive_and_one_does_not() {
    let (mut sim, medium) = formatted();
    for copy in [0, 1, 3] {
        medium.fail_reads(copy * MIB..copy * MIB + 1);
        let opened = open(&mut sim, &medium);
        assert_eq!(opened.is_ok(), copy < 3, "after copy {copy}");
    }
    assert_eq!(open(&mut sim, &medium).err().unwrap().kind(), ErrorKind::Corrupt);
    medium.heal_reads();
    assert!(open(&mut sim, &medium).is_ok());
}

#[test]
fn opening_heals_damaged_superblock_copies() {
    let (mut sim, medium) = formatted();
    for round in 0..4 {
        // Two copies decay each time: without healing the second round would find none intact.
        medium.flip_bit(round % 4 * MIB + 70, 1);
        medium.flip_bit((round + 1) % 4 * MIB, 0);
        assert!(open(&mut sim, &medium).is_ok(), "round {round}");
    }
}

#[test]
fn an_unreadable_drive_is_not_an_empty_one() {
    let (mut sim, medium) = formatted();
    medium.fail_reads(0..16 * MIB);
    assert_eq!(open(&mut sim, &medium).err().unwrap().kind(), ErrorKind::Corrupt);
    let blank = SimMedium::new("blank", 16 * MIB);
    assert!(matches!(open(&mut sim, &blank), Err(Error::NoPool { .. })));
}

#[test]
fn decay_of_one_side_brings_no_older_root_back() {
    for side in SIDES {
        let (mut sim, medium) = formatted();
        let drive = open(&mut sim, &medium).unwrap();
        replace(&mut sim, &drive, 0, b"one");
        replace(&mut sim, &drive, 1, b"two");
        medium.flip_bit(side + 65, 4);
        assert_eq!(read_root(&mut sim, &drive), Ok((RootVersion(2), b"two".to_vec())));
        // Reading has brought the damaged side up again, so that the other may decay next.
        let other = SIDES[usize::from(side == SIDES[0])];
        medium.flip_bit(other + 65, 4);
        assert_eq!(read_root(&mut sim, &drive), Ok((RootVersion(2), b"two".to_vec())));
    }
}

#[test]
fn a_root_with_both_sides_lost_is_corrupt_and_not_empty() {
    for replaced in [false, true] {
        let (mut sim, medium) = formatted();
        let drive = open(&mut sim, &medium).unwrap();
        if replaced {
            replace(&mut sim, &drive, 0, b"one");
        }
        medium.flip_bit(SIDES[0], 0);
        medium.fail_reads(SIDES[1]..SIDES[1] + 1);
        assert_eq!(read_root(&mut sim, &drive), Err(ErrorKind::Corrupt));
    }
}

#[test]
fn a_taken_over_drive_is_fenced() {
    let (mut sim, medium) = formatted();
    let old = open(&mut sim, &medium).unwrap();
    let new = open(&mut sim, &medium).unwrap();
    let (old, new) = (old.media(ShardId(0)).unwrap(), new.media(ShardId(0)).unwrap());
    assert_eq!(old.fence.check().unwrap_err().kind(), ErrorKind::Fenced);
    new.fence.check().unwrap();
    sim.run_until(async move {
        let late = old.roots.replace(KEY, RootVersion(0), vec![1]).await;
        assert_eq!(late.unwrap_err().kind(), ErrorKind::Fenced);
    });
}
