//! Goal: a pool on a block device conforms and is locked against daemons and mounts. Method: the conformance suite on a
//! loop device; where the machine lets us make none (it takes root), the test says so and checks nothing.

use std::path::{Path, PathBuf};
use std::process::Command;

use varve_media::{
    Disk, DriveKind, DriveOptions, DriveSpec, Error, NewDrive, Persist, PoolFiles, RootKey,
    UringDisk, conformance,
};
use varve_reactor::{Loop, LoopConfig};
use varve_stdx::AlignedBuf;
use varve_types::{ErrorKind, PoolId, ShardId};

/// A loop device that goes away with the value.
struct LoopDevice(PathBuf);

impl LoopDevice {
    fn over(file: &Path) -> Option<Self> {
        let made = Command::new("losetup").args(["--find", "--show"]).arg(file).output().ok()?;
        let device = String::from_utf8(made.stdout).ok()?;
        made.status.success().then(|| Self(device.trim().into()))
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let detached = Command::new("losetup").arg("--detach").arg(&self.0).status();
        assert!(
            detached.is_ok_and(|status| status.success()),
            "cannot detach {}",
            self.0.display()
        );
    }
}

#[test]
fn a_block_device_conforms_and_is_locked() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(32 << 20).unwrap();
    let Some(device) = LoopDevice::over(file.path()) else {
        eprintln!("no loop device to be had: nothing checked");
        return;
    };
    let spec = DriveSpec {
        segment_bytes: 1 << 20,
        lane_bytes: 1 << 20,
        root_bytes_max: 9000,
        ..DriveSpec::new(PoolId([5; 16]), 2)
    };
    let path = device.0.clone();
    let drive = NewDrive {
        path: path.clone(),
        kind: Some(DriveKind::Directory),
        capacity_bytes: None,
        replace_pool: false,
    };
    let wrong = PoolFiles::create(std::slice::from_ref(&drive), &spec).unwrap_err();
    assert!(matches!(wrong, Error::Open { .. }), "{wrong}");
    let drive = NewDrive { kind: None, ..drive };
    PoolFiles::create(std::slice::from_ref(&drive), &spec).unwrap();
    let again = PoolFiles::create(std::slice::from_ref(&drive), &spec).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Exists);

    let pool =
        PoolFiles::open(std::slice::from_ref(&path), DriveOptions { discard: true }).unwrap();
    // 4 MiB of superblocks, 1 MiB of roots, two lanes, rounded up to 8 MiB.
    assert_eq!(pool.geometry().unwrap().segment_count, 24);
    let second = PoolFiles::open(&[path], DriveOptions::default()).err().unwrap();
    assert!(matches!(second, Error::InUse { .. }), "{second}");
    let mut real = Loop::new(LoopConfig::default()).unwrap();
    let media = pool.drive(&real.handle()).unwrap().media(ShardId(1)).unwrap();
    real.run(async move { conformance::all(&media, RootKey::Shard(ShardId(1))).await });
}

#[test]
fn a_device_that_lost_its_end_fails_and_is_not_full() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(32 << 20).unwrap();
    let Some(device) = LoopDevice::over(file.path()) else {
        eprintln!("no loop device to be had: nothing checked");
        return;
    };
    let mut real = Loop::new(LoopConfig::default()).unwrap();
    let disk = UringDisk::open(&real.handle(), &device.0).unwrap();
    file.as_file().set_len(16 << 20).unwrap();
    let shrunk = Command::new("losetup").arg("--set-capacity").arg(&device.0).status();
    assert!(shrunk.is_ok_and(|status| status.success()));
    let written = real.run(async move {
        disk.write(24 << 20, AlignedBuf::zeroed(4096).freeze(), Persist::Durable).await
    });
    let Err(Error::Io { operation, reason, .. }) = &written else { panic!("{written:?}") };
    assert!(*operation == "write" && reason.contains("the device ends"), "{operation}: {reason}");
}
