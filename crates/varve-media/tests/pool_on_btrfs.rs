//! Goal: on a file system that copies on write, a pool's files are overwritten in place, so that a full host takes
//! nothing away. Method: a pool on btrfs on a loop device, which is then filled: roots and lanes are written on. Where
//! the machine lets us mount none, the test says so and checks nothing.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{IFlags, ioctl_getflags};
use varve_media::{DriveOptions, DriveSpec, NewDrive, PoolFiles, RootKey, RootVersion};
use varve_reactor::{Loop, LoopConfig};
use varve_types::{PoolId, ShardId};

/// A mounted file system that goes away with the value.
struct Mount(PathBuf);

impl Mount {
    fn btrfs(image: &Path, at: &Path) -> Option<Self> {
        File::create(image)
            .expect("create the image")
            .set_len(160 << 20)
            .expect("create the image");
        let run = |command: &mut Command| command.output().is_ok_and(|done| done.status.success());
        fs::create_dir(at).expect("create the image");
        let is_mounted = run(Command::new("mkfs.btrfs").arg("-q").arg(image))
            && run(Command::new("mount").args(["-o", "loop"]).arg(image).arg(at));
        is_mounted.then(|| Self(at.to_owned()))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("-l").arg(&self.0).status();
        assert!(
            unmounted.is_ok_and(|status| status.success()),
            "cannot unmount {}",
            self.0.display()
        );
    }
}

#[test]
fn roots_are_replaced_on_a_full_host() {
    let directory = tempfile::tempdir().unwrap();
    let (image, at) = (directory.path().join("image"), directory.path().join("at"));
    let Some(mount) = Mount::btrfs(&image, &at) else {
        eprintln!("no btrfs to be had: nothing checked");
        return;
    };
    let spec = DriveSpec {
        segment_bytes: 1 << 20,
        lane_bytes: 1 << 20,
        root_bytes_max: 9000,
        ..DriveSpec::new(PoolId([5; 16]), 2)
    };
    let drive = mount.0.join("drive");
    PoolFiles::create(&[NewDrive::directory(&drive, 64 << 20)], &spec).unwrap();
    for entry in fs::read_dir(&drive).unwrap() {
        let path = entry.unwrap().path();
        let flags = ioctl_getflags(File::open(&path).unwrap()).unwrap();
        assert!(flags.contains(IFlags::NOCOW), "{} is copied on write", path.display());
    }
    let pool = PoolFiles::open(&[drive], DriveOptions::default()).unwrap();
    let mut real = Loop::new(LoopConfig::default()).unwrap();
    let media = pool.drive(&real.handle()).unwrap().media(ShardId(1)).unwrap();
    let key = RootKey::Shard(ShardId(1));
    let mut replace = |expected: RootVersion| {
        let roots = media.roots.clone();
        real.run(async move { roots.replace(key, expected, vec![7; 5000]).await }).unwrap()
    };
    let mut version = replace(RootVersion(0));
    let mut ballast = File::create(mount.0.join("ballast")).unwrap();
    for len in [1 << 20, 64 << 10, 4096] {
        while ballast.write_all(&vec![1; len]).and_then(|()| ballast.sync_data()).is_ok() {}
    }
    for _ in 0..50 {
        version = replace(version);
    }
    drop((ballast, pool));
}
