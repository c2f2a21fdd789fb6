//! Goal: a drive fulfils the contracts over every disk. Method: the conformance suite over one and several drives.

use std::rc::Rc;

use varve_media::{
    Disk, Drive, DriveDisks, DriveOptions, DriveSpec, MemDisk, RootKey, SimLatency, SimMedium,
    conformance,
};
use varve_reactor::SimLoop;
use varve_types::{ErrorKind, PoolId, ShardId};

fn spec() -> DriveSpec {
    DriveSpec {
        segment_bytes: 64 << 10,
        lane_bytes: 256 << 10,
        root_bytes_max: 9000,
        ..DriveSpec::new(PoolId([9; 16]), 3)
    }
}

async fn run_suite(drives: Vec<DriveDisks>, options: DriveOptions) {
    Drive::format(&drives, &spec()).await.unwrap();
    let again = Drive::format(&drives, &spec()).await.unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Exists);
    let drive = Drive::open(drives, options).await.unwrap();
    assert_eq!(drive.pool(), spec().pool);
    let media = drive.media(ShardId(1)).unwrap();
    conformance::all(&media, RootKey::Shard(ShardId(1))).await;
    for shard in [0, 2] {
        let media = drive.media(ShardId(shard)).unwrap();
        conformance::journal(&*media.journal).await;
        conformance::roots(&*media.roots, RootKey::Shard(ShardId(shard))).await;
    }
    assert_eq!(drive.media(ShardId(3)).err().unwrap().kind(), ErrorKind::Invalid);
}

fn directory() -> DriveDisks {
    let disk = |name: &str, size| -> Rc<dyn Disk> { Rc::new(MemDisk::new(name, size)) };
    DriveDisks::Directory {
        meta: disk("meta", 16 << 20),
        lanes: vec![disk("lane-0000", 256 << 10)],
        slots: disk("segments", 1 << 20),
    }
}

#[test]
fn over_memory() {
    let one = vec![DriveDisks::one(MemDisk::new("mem", 64 << 20))];
    SimLoop::new(1).run_until(run_suite(one, DriveOptions::default()));
}

#[test]
fn over_three_drives_of_both_shapes_in_any_order() {
    let mem = |name| DriveDisks::one(MemDisk::new(name, 64 << 20));
    let drives = vec![mem("a"), directory(), mem("b")];
    SimLoop::new(1).run_until(async move {
        Drive::format(&drives, &spec()).await.unwrap();
        let mut turned = drives.clone();
        turned.rotate_left(1);
        let drive = Drive::open(turned, DriveOptions { discard: true }).await.unwrap();
        let media = drive.media(ShardId(2)).unwrap();
        conformance::all(&media, RootKey::Shard(ShardId(2))).await;
        let missing = Drive::open(drives[..2].to_vec(), DriveOptions::default()).await;
        assert_eq!(missing.err().unwrap().kind(), ErrorKind::Invalid);
    });
}

#[test]
fn over_the_simulated_disk() {
    for seed in 0..20 {
        let mut sim = SimLoop::new(seed);
        let medium = SimMedium::new("sim0", 64 << 20);
        let disk = medium.open(&sim.handle(), SimLatency::default());
        let options = DriveOptions { discard: seed % 2 == 0 };
        sim.run_until(run_suite(vec![DriveDisks::one(disk)], options));
    }
}
