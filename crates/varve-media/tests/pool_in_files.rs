//! Goal: pools on directories and files are made, locked, opened by threads and refused where they must be. Method: the
//! conformance suite and the public API over temporary files.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::path::{Path, PathBuf};

use varve_media::{
    DiskOperation, DriveKind, DriveOptions, DriveSpec, Error, NewDrive, OverlayMemory, PoolFiles,
    PoolInspection, RootKey, conformance,
};
use varve_reactor::{Loop, LoopConfig};
use varve_types::{ErrorKind, PoolId, SegmentNumber, ShardId};

fn spec() -> DriveSpec {
    DriveSpec {
        segment_bytes: 1 << 20,
        lane_bytes: 1 << 20,
        root_bytes_max: 9000,
        ..DriveSpec::new(PoolId([5; 16]), 3)
    }
}

fn new_file(path: &Path) -> NewDrive {
    NewDrive { kind: Some(DriveKind::File), ..NewDrive::directory(path, 8 << 20) }
}

fn run_suite(pool: &PoolFiles, shard: u16) {
    let mut real = Loop::new(LoopConfig::default()).unwrap();
    let drive = pool.drive(&real.handle()).unwrap();
    let media = drive.media(ShardId(shard)).unwrap();
    real.run(async move {
        if shard == 0 {
            conformance::all(&media, RootKey::Shard(ShardId(shard))).await;
        } else {
            conformance::journal(&*media.journal).await;
            conformance::roots(&*media.roots, RootKey::Shard(ShardId(shard))).await;
        }
    });
    let stats = drive.stats().unwrap().of(DiskOperation::WriteDurable);
    assert!(stats.count > 10 && stats.failed == 0 && stats.in_flight == 0);
    assert_eq!(stats.latency_nanos.len(), stats.count);
}

#[test]
fn threads_share_a_pool_of_all_kinds_of_files() {
    let directory = tempfile::tempdir().unwrap();
    let paths: Vec<PathBuf> = ["a", "b", "c"].map(|name| directory.path().join(name)).into();
    let drives = [
        NewDrive::directory(&paths[0], 8 << 20),
        new_file(&paths[1]),
        NewDrive { kind: None, ..NewDrive::directory(&paths[2], 5 << 20) },
    ];
    PoolFiles::create(&drives, &spec()).unwrap();
    let turned: Vec<_> = paths.iter().rev().cloned().collect();
    let pool = PoolFiles::open(&turned, DriveOptions { discard: true }).unwrap();
    assert_eq!((pool.pool(), pool.lane_count()), (spec().pool, 3));
    assert_eq!(pool.geometry().unwrap().segment_count, 21);
    std::thread::scope(|scope| {
        for shard in 0..3 {
            let pool = &pool;
            scope.spawn(move || run_suite(pool, shard));
        }
    });
}

#[test]
fn files_are_their_owners_only_and_earlier_ones_are_tightened() {
    use std::fs::{Permissions, metadata, read_dir, set_permissions};
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &Path| metadata(path).unwrap().permissions().mode() & 0o777;
    let directory = tempfile::tempdir().unwrap();
    let paths: Vec<PathBuf> = ["a", "b"].map(|name| directory.path().join(name)).into();
    let drives = [NewDrive::directory(&paths[0], 8 << 20), new_file(&paths[1])];
    PoolFiles::create(&drives, &spec()).unwrap();
    let mut files: Vec<_> = read_dir(&paths[0]).unwrap().map(|file| file.unwrap().path()).collect();
    files.push(paths[1].clone());
    assert!(files.len() > 3, "meta, segments, lanes and the other drive");
    assert_eq!(mode(&paths[0]), 0o700);
    for file in &files {
        assert_eq!(mode(file), 0o600, "{}", file.display());
        // As earlier versions left them.
        set_permissions(file, Permissions::from_mode(0o644)).unwrap();
    }
    set_permissions(&paths[0], Permissions::from_mode(0o755)).unwrap();
    PoolFiles::open(&paths, DriveOptions { discard: true }).unwrap();
    for file in &files {
        assert_eq!(mode(file), 0o600, "{}", file.display());
    }
    assert_eq!(mode(&paths[0]), 0o755, "a directory that is there may be a mount point");
}

#[test]
fn slots_take_room_when_they_are_allocated() {
    use std::os::unix::fs::MetadataExt;
    let directory = tempfile::tempdir().unwrap();
    let paths: Vec<PathBuf> = ["a", "b"].map(|name| directory.path().join(name)).into();
    let drives = [NewDrive::directory(&paths[0], 8 << 20), NewDrive::directory(&paths[1], 8 << 20)];
    PoolFiles::create(&drives, &spec()).unwrap();
    let pool = PoolFiles::open(&paths, DriveOptions::default()).unwrap();
    let taken =
        || paths.iter().map(|path| path.join("segments").metadata().unwrap().blocks() * 512);
    assert_eq!(taken().sum::<u64>(), 0);
    let mut real = Loop::new(LoopConfig::default()).unwrap();
    let segments = pool.drive(&real.handle()).unwrap().media(ShardId(0)).unwrap().segments;
    real.run(async move {
        segments.allocate(SegmentNumber(6), 5).await.unwrap(); // Two of the first drive, three of the second.
        segments.settle().await.unwrap();
        let beyond = segments.allocate(SegmentNumber(14), 3).await.unwrap_err();
        assert!(matches!(beyond, Error::OutOfRange { .. }), "{beyond}");
    });
    let taken: Vec<u64> = taken().collect();
    assert!(taken[0] >= 2 << 20 && taken[0] < 3 << 20, "{taken:?}");
    assert!(taken[1] >= 3 << 20 && taken[1] < 4 << 20, "{taken:?}");
}

#[test]
fn a_second_opening_is_refused_until_the_first_ends() {
    let directory = tempfile::tempdir().unwrap();
    for drive in [
        NewDrive::directory(&directory.path().join("pool"), 4 << 20),
        new_file(&directory.path().join("file")),
    ] {
        let paths = [drive.path.clone()];
        PoolFiles::create(std::slice::from_ref(&drive), &spec()).unwrap();
        let first = PoolFiles::open(&paths, DriveOptions::default()).unwrap();
        let second = PoolFiles::open(&paths, DriveOptions::default()).err().unwrap();
        assert!(matches!(second, Error::InUse { .. }), "{second}");
        let replaced = NewDrive { replace_pool: true, ..drive.clone() };
        let refused = PoolFiles::create(std::slice::from_ref(&replaced), &spec()).unwrap_err();
        assert!(matches!(refused, Error::InUse { .. }), "{refused}");
        drop(first);
        PoolFiles::open(&paths, DriveOptions::default()).unwrap();
        let exists = PoolFiles::create(std::slice::from_ref(&drive), &spec()).unwrap_err();
        assert_eq!(exists.kind(), ErrorKind::Exists);
        PoolFiles::create(&[replaced], &DriveSpec { pool: PoolId([6; 16]), ..spec() }).unwrap();
        let other = PoolFiles::open(&paths, DriveOptions::default()).unwrap();
        assert_eq!(other.pool(), PoolId([6; 16]));
    }
}

#[test]
fn what_is_no_pool_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let open = |path: &Path| PoolFiles::open(&[path.to_owned()], DriveOptions::default());
    let missing = open(&directory.path().join("missing")).err().unwrap();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    let empty = open(directory.path()).err().unwrap();
    assert!(matches!(empty, Error::NoPool { .. }), "{empty}");
    let circle = directory.path().join("circle");
    std::fs::create_dir(&circle).unwrap();
    std::os::unix::fs::symlink("meta", circle.join("meta")).unwrap();
    let unknown = open(&circle).err().unwrap(); // It cannot be seen whether a pool is there.
    assert!(matches!(unknown, Error::Open { .. }), "{unknown}");
    let unknown = PoolInspection::open(&[circle]).err().unwrap();
    assert!(matches!(unknown, Error::Open { .. }), "{unknown}");
    assert_eq!(
        PoolFiles::open(&[], DriveOptions::default()).err().unwrap().kind(),
        ErrorKind::NotFound
    );
    let blank = directory.path().join("blank");
    std::fs::write(&blank, vec![0; 5 << 20]).unwrap();
    assert!(matches!(open(&blank).err().unwrap(), Error::NoPool { .. }));
    let tiny = NewDrive::directory(&directory.path().join("tiny"), 1000);
    assert_eq!(PoolFiles::create(&[tiny], &spec()).unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn a_missing_drive_or_file_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let paths: Vec<PathBuf> = ["a", "b"].map(|name| directory.path().join(name)).into();
    let drives: Vec<_> = paths.iter().map(|path| NewDrive::directory(path, 4 << 20)).collect();
    PoolFiles::create(&drives, &spec()).unwrap();
    let half = PoolFiles::open(&paths[..1], DriveOptions::default()).err().unwrap();
    assert!(matches!(half, Error::DriveSet { index: 0, count: 2, .. }), "{half}");
    std::fs::File::options()
        .write(true)
        .open(paths[1].join("segments"))
        .unwrap()
        .set_len(4096)
        .unwrap();
    let shrunk = PoolFiles::open(&paths, DriveOptions::default()).err().unwrap();
    assert!(matches!(shrunk, Error::TooSmall { .. }), "{shrunk}");
    std::fs::remove_file(paths[0].join("lane-0001")).unwrap();
    let lost = PoolFiles::open(&paths, DriveOptions::default()).err().unwrap();
    assert!(matches!(lost, Error::FileMissing { .. }), "{lost}");
    let drive = paths[0].display();
    assert_eq!(lost.to_string(), format!("the file lane-0001 of drive {drive} is missing"));
    let missing = PoolInspection::open(&paths).unwrap().missing_files();
    assert_eq!(missing.len(), 1);
    assert_eq!(missing[0].to_string(), lost.to_string());
}

#[test]
fn other_data_is_not_overwritten_unasked() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("precious");
    let mut content = vec![0; 20 << 20];
    content[65_536 + 64] = b'_';
    std::fs::write(&path, &content).unwrap();
    let drive = NewDrive { capacity_bytes: None, ..new_file(&path) };
    let refused = PoolFiles::create(std::slice::from_ref(&drive), &spec()).unwrap_err();
    assert!(matches!(refused, Error::NotEmpty { .. }), "{refused}");
    assert!(std::fs::read(&path).unwrap() == content);
    let drive = NewDrive { replace_pool: true, ..drive };
    PoolFiles::create(std::slice::from_ref(&drive), &spec()).unwrap();
    let pool = PoolFiles::open(&[path], DriveOptions::default()).unwrap();
    assert_eq!(pool.geometry().unwrap().segment_count, 12);
}

#[test]
fn a_file_that_was_cut_short_is_refused_whatever_its_length() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("drive");
    PoolFiles::create(&[new_file(&path)], &spec()).unwrap();
    let whole = std::fs::metadata(&path).unwrap().len();
    let lens =
        (0..48).map(|step| step * (128 << 10)).chain([511, 4095, (3 << 20) + 100, whole - 1]);
    let content = std::fs::read(&path).unwrap();
    for len in lens.filter(|len| *len < whole) {
        std::fs::write(&path, &content[..usize::try_from(len).unwrap()]).unwrap();
        let paths = std::slice::from_ref(&path);
        assert!(PoolFiles::open(paths, DriveOptions::default()).is_err(), "{len} bytes");
        if let Ok(inspection) = PoolInspection::open(paths) {
            let copies = inspection.superblock_copies();
            assert_eq!(copies.count(), 4, "{len} bytes");
        }
    }
}

#[test]
fn files_of_others_in_a_directory_are_not_overwritten() {
    for name in ["segments", "lane-0002", "meta"] {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join(name);
        std::fs::write(&file, "precious").unwrap();
        let drive = NewDrive::directory(directory.path(), 8 << 20);
        let refused = PoolFiles::create(std::slice::from_ref(&drive), &spec()).unwrap_err();
        assert!(matches!(refused, Error::NotEmpty { .. }), "{name}: {refused}");
        assert_eq!(std::fs::read(&file).unwrap(), b"precious", "{name}");
        // What a making left that was cut off before the superblock is no such file.
        std::fs::write(&file, vec![0; 64 << 10]).unwrap();
        PoolFiles::create(&[drive], &spec()).unwrap();
    }
}

#[test]
fn a_directory_with_other_files_or_below_dev_is_no_place_for_a_drive() {
    let directory = tempfile::tempdir().unwrap();
    let drive = NewDrive::directory(directory.path(), 8 << 20);
    let other = directory.path().join("letter.txt");
    std::fs::write(&other, "precious").unwrap();
    let refused = PoolFiles::create(std::slice::from_ref(&drive), &spec()).unwrap_err();
    assert!(matches!(refused, Error::NotEmpty { .. }), "{refused}");
    std::fs::remove_file(&other).unwrap();
    std::fs::create_dir(directory.path().join("lost+found")).unwrap();
    PoolFiles::create(&[drive], &spec()).unwrap();
    let typo = NewDrive { kind: None, ..NewDrive::directory("/dev/nvme77n9".as_ref(), 8 << 20) };
    let refused = PoolFiles::create(&[typo], &spec()).unwrap_err();
    assert!(refused.to_string().contains("no such device"), "{refused}");
    assert!(!std::fs::exists("/dev/nvme77n9").unwrap());
}

#[test]
fn a_pool_is_looked_at_by_several_and_written_by_none() {
    let directory = tempfile::tempdir().unwrap();
    let paths: Vec<PathBuf> = ["a", "b", "c"].map(|name| directory.path().join(name)).into();
    let drives: Vec<_> = paths.iter().map(|path| new_file(path)).collect();
    PoolFiles::create(&drives, &spec()).unwrap();
    let contents = || paths.iter().map(|path| std::fs::read(path).unwrap()).collect::<Vec<_>>();
    let served = PoolFiles::open(&paths, DriveOptions::default()).unwrap();
    assert!(matches!(PoolInspection::open(&paths), Err(Error::InUse { .. })));
    drop(served);
    let before = contents();
    let (one, two) = (PoolInspection::open(&paths).unwrap(), PoolInspection::open(&paths).unwrap());
    assert!(matches!(PoolFiles::open(&paths, DriveOptions::default()), Err(Error::InUse { .. })));
    assert_eq!(two.figures().unwrap().segment_count, 24);
    assert!(one.superblock_copies().all(|copy| copy.agrees && copy.content.is_ok()));
    assert_eq!(one.superblock_copies().count(), 12);
    let mut real = Loop::new(LoopConfig::default()).unwrap();
    let drive = one.drive(&real.handle(), &OverlayMemory::new(64 << 20)).unwrap();
    assert_eq!(
        drive.segment_place(varve_types::SegmentNumber(8)).unwrap().path,
        paths[1].display().to_string()
    );
    assert!(drive.segment_place(varve_types::SegmentNumber(24)).is_none());
    real.run(async move {
        let key = RootKey::Shard(ShardId(0));
        conformance::all(&drive.media(ShardId(0)).unwrap(), key).await;
        let sides = drive.root_sides(key).await.unwrap();
        assert_eq!(sides[0].content, sides[1].content, "what was written above is what is shown");
    });
    assert!(contents() == before, "nothing was written");
}
