//! Figures, places of parts, and what is read of copies.

use futures_util::FutureExt;
use varve_types::ErrorKind;

use super::*;
use crate::mem::MemDisk;
use crate::parts::DriveDisks;
use crate::{Drive, DriveOptions, RootVersion};

const POOL: PoolId = PoolId([6; 16]);

fn spec() -> RedundantSpec {
    RedundantSpec {
        lane_bytes: 1 << 20,
        segment_bytes: 256 << 10,
        ..RedundantSpec::new(POOL, 3, 40)
    }
}

fn drive(is_directory: bool) -> RedundantDriveSpec {
    RedundantDriveSpec { number: 2, drive_id: [0xD2; 16], is_directory, bytes: 64 << 20 }
}

fn now<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("memory answers at once")
}

/// All sides of all roots and tables, as ranges.
fn sides(superblock: &RedundantSuperblock) -> Vec<std::ops::Range<u64>> {
    let shards = (0..superblock.lanes_of_pool).map(ShardId);
    let mut all = vec![superblock.drive_table(), superblock.root(RootKey::Pool).unwrap()];
    for shard in shards {
        all.push(superblock.journal_record(shard).unwrap());
        all.push(superblock.root(RootKey::Shard(shard)).unwrap());
    }
    all.extend((0..superblock.layout_pages).map(|page| superblock.layout_page(page)));
    let ranges = |root: &SidedRoot| root.sides.map(|side| side..side + u64::from(root.slot_bytes));
    all.iter().flat_map(ranges).collect()
}

#[test]
fn parts_of_a_drive_lie_beside_each_other_and_before_its_units() {
    for is_directory in [false, true] {
        let superblock = RedundantSuperblock::new(&spec(), &drive(is_directory)).unwrap();
        let mut sides = sides(&superblock);
        assert_eq!(sides.len(), 2 * (1 + 1 + 3 + 3 + 1024));
        sides.sort_by_key(|side| side.start);
        assert!(sides.windows(2).all(|two| two[0].end <= two[1].start));
        assert!(sides[0].start >= SUPERBLOCK_COPIES * SUPERBLOCK_STRIDE);
        assert!(sides.last().unwrap().end <= superblock.space_offset);
        let before = if is_directory { 0 } else { superblock.space_offset };
        let rest = (64 << 20) - before;
        assert_eq!(superblock.space_bytes(), rest / UNIT_BYTES * UNIT_BYTES);
    }
}

#[test]
fn tables_lie_where_the_format_says() {
    let superblock = RedundantSuperblock::new(&spec(), &drive(false)).unwrap();
    let at = |offset: u64| superblock.tables_offset + offset;
    let table = superblock.drive_table();
    assert_eq!((table.number, table.slot_bytes), (0x8000_0000, 64 << 10));
    assert_eq!(table.sides, [at(0), at(64 << 10)]);
    let record = superblock.journal_record(ShardId(2)).unwrap();
    assert_eq!((record.number, record.slot_bytes), (0x8100_0002, 4096));
    assert_eq!(record.sides, [at((128 << 10) + 8192), at((128 << 10) + 3 * 4096 + 8192)]);
    let page = superblock.layout_page(1023);
    let pages = (128 << 10) + 8192 * 3;
    assert_eq!((page.number, page.slot_bytes), (0x8200_0000 + 1023, 4096));
    assert_eq!(page.sides, [at(pages + 1023 * 4096), at(pages + (1024 + 1023) * 4096)]);
    assert_eq!(superblock.root(RootKey::Pool).unwrap().sides[0], 4 << 20);
    assert_eq!(superblock.root(RootKey::Shard(ShardId(1))).unwrap().number, 2);
    for refused in
        [superblock.root(RootKey::Shard(ShardId(3))), superblock.journal_record(ShardId(3))]
    {
        assert!(matches!(refused, Err(Error::NoLane { lanes: 3, .. })), "{refused:?}");
    }
}

#[test]
fn tables_have_room_for_growth_and_roots_for_all_owners() {
    let small = RedundantSpec::new(POOL, 4, 1);
    assert_eq!((small.layout_pages, small.zones_max()), (1024, 14_336));
    assert_eq!(small.root_bytes_max, DriveSpec::ROOT_BYTES_MAX_DEFAULT);
    let large = RedundantSpec::new(POOL, 4, 100_000);
    assert_eq!(large.layout_pages, 114_286);
    assert_eq!(large.root_bytes_max, 114_286 * 28 + 4096);
    let largest = RedundantSpec::new(POOL, 4, u32::MAX);
    assert_eq!(largest.layout_pages, 1 << 19);
    for spec in [small, large, largest] {
        spec.validate().unwrap();
    }
}

#[test]
fn figures_out_of_range_are_named() {
    let refused = |spec: RedundantSpec, drive: RedundantDriveSpec| match RedundantSuperblock::new(
        &spec, &drive,
    ) {
        Err(Error::Spec { field, .. }) => field,
        other => panic!("{other:?}"),
    };
    let drive = drive(false);
    assert_eq!(refused(RedundantSpec { lane_count: 0, ..spec() }, drive), "lane_count");
    assert_eq!(refused(RedundantSpec { layout_pages: 0, ..spec() }, drive), "layout_pages");
    assert_eq!(refused(RedundantSpec { root_bytes_max: 4096, ..spec() }, drive), "root_bytes_max");
    assert_eq!(refused(spec(), RedundantDriveSpec { bytes: 4 << 20, ..drive }), "size_bytes");
    assert_eq!(refused(spec(), RedundantDriveSpec { number: 255, ..drive }), "number");
}

#[test]
fn what_is_written_is_read_and_two_copies_suffice() {
    let disk = MemDisk::new("mem", 64 << 20);
    let superblock = RedundantSuperblock::new(&spec(), &drive(false)).unwrap();
    assert_eq!(now(RedundantSuperblock::read(&disk)).unwrap_err().kind(), ErrorKind::NotFound);
    now(superblock.write(&disk)).unwrap();
    assert_eq!(superblock.spec(), spec());
    let read = || now(RedundantSuperblock::read(&disk)).unwrap();
    assert_eq!(read(), Some(superblock.clone()));
    disk.flip_bit(130, 1);
    disk.flip_bit(SUPERBLOCK_STRIDE + 130, 1);
    assert_eq!(read(), Some(superblock.clone()));
    now(superblock.heal(&disk));
    disk.flip_bit(2 * SUPERBLOCK_STRIDE, 1);
    disk.flip_bit(3 * SUPERBLOCK_STRIDE, 1);
    assert_eq!(read(), Some(superblock));
    disk.flip_bit(0, 1);
    let damaged = now(RedundantSuperblock::read(&disk)).unwrap_err();
    assert_eq!(damaged.kind(), ErrorKind::Corrupt);
}

#[test]
fn of_two_agreeing_pairs_the_newer_one_counts() {
    let disk = MemDisk::new("mem", 64 << 20);
    let old = RedundantSuperblock::new(&spec(), &drive(false)).unwrap();
    let new = RedundantSuperblock { revision: 2, units: old.units - 1, ..old.clone() };
    now(old.write(&disk)).unwrap();
    let bytes = encode_superblock(&new.stored());
    now(disk.write(0, bytes.clone(), Persist::Durable)).unwrap();
    assert_eq!(now(RedundantSuperblock::read(&disk)).unwrap(), Some(old));
    now(disk.write(SUPERBLOCK_STRIDE, bytes, Persist::Durable)).unwrap();
    assert_eq!(now(RedundantSuperblock::read(&disk)).unwrap(), Some(new));
}

#[test]
fn drives_of_either_kind_of_pool_are_not_taken_for_the_other() {
    let disk = MemDisk::new("mem", 64 << 20);
    let superblock = RedundantSuperblock::new(&spec(), &drive(false)).unwrap();
    now(superblock.write(&disk)).unwrap();
    let drives = || vec![DriveDisks::one(disk.clone())];
    let refused = now(Drive::open(drives(), DriveOptions::default())).err().unwrap();
    assert!(matches!(refused, Error::RedundantDrive { number: 2, pool: POOL, .. }), "{refused}");
    let exists = now(Drive::format(&drives(), &DriveSpec::new(POOL, 1))).unwrap_err();
    assert!(matches!(exists, Error::PoolExists { .. }), "{exists}");
    assert!(matches!(now(crate::mark_new_drives(&[&disk], POOL)), Err(Error::PoolExists { .. })));
    let other = MemDisk::new("other", 64 << 20);
    let plain = DriveSpec { lane_bytes: 1 << 20, ..DriveSpec::new(POOL, 1) };
    now(Drive::format(&[DriveDisks::one(other.clone())], &plain)).unwrap();
    assert_eq!(now(RedundantSuperblock::read(&other)).unwrap(), None);
}

/// MAKING-3 and MAKING-4.
#[test]
fn a_mark_vouches_for_no_drive_that_was_opened_and_that_of_a_drive_for_itself_alone() {
    let marked = MemDisk::new("marked", 64 << 20);
    now(crate::mark_new_drives(&[&marked], POOL)).unwrap();
    let disk = MemDisk::new("mem", 64 << 20);
    let superblock = RedundantSuperblock::new(&spec(), &drive(false)).unwrap();
    let written = |version: u64| {
        let table = superblock.drive_table();
        now(table.write(&disk, POOL, RootVersion(version), b"table")).unwrap();
        now(superblock.write(&disk)).unwrap();
    };
    let remade = || now(crate::mark_new_drives(&[&disk, &marked], POOL));
    written(2);
    assert!(matches!(remade(), Err(Error::PoolExists { .. })), "it was opened");
    disk.flip_bit(superblock.drive_table().sides[0] + 70, 1);
    disk.flip_bit(superblock.drive_table().sides[1] + 70, 1);
    assert!(matches!(remade(), Err(Error::PoolExists { .. })), "nobody can say");
    written(1);
    remade().unwrap();
    written(1);
    let own = PoolId(superblock.drive_id);
    let other = MemDisk::new("other", 64 << 20);
    now(crate::mark_new_drives(&[&other], PoolId([8; 16]))).unwrap();
    let refused = now(crate::mark_new_drives(&[&disk, &other], POOL));
    assert!(matches!(refused, Err(Error::PoolExists { .. })), "that of another drive");
    for copy in 1..SUPERBLOCK_COPIES {
        let mark = crate::format::encode_making(own);
        now(disk.write(copy * SUPERBLOCK_STRIDE, mark, Persist::Durable)).unwrap();
    }
    now(crate::mark_new_drives(&[&disk], own)).unwrap();
}

/// MAKING-5.
#[test]
fn a_drive_that_left_is_free_and_vouches_for_no_other_one() {
    let left = MemDisk::new("left", 64 << 20);
    now(RedundantSuperblock::new(&spec(), &drive(false)).unwrap().write(&left)).unwrap();
    now(crate::mark_former_drive(&left, POOL)).unwrap();
    let read = now(RedundantSuperblock::read(&left));
    assert!(matches!(read, Err(Error::FormerDrive { pool: POOL, .. })), "{read:?}");
    let disk = MemDisk::new("mem", 64 << 20);
    let superblock = RedundantSuperblock::new(&spec(), &drive(false)).unwrap();
    now(superblock.drive_table().write(&disk, POOL, RootVersion(1), b"table")).unwrap();
    now(superblock.write(&disk)).unwrap();
    let remade = now(crate::mark_new_drives(&[&disk, &left], POOL));
    assert!(matches!(remade, Err(Error::PoolExists { .. })), "{remade:?}");
    now(crate::mark_new_drives(&[&left], PoolId([8; 16]))).unwrap();
}

#[test]
fn disks_that_are_too_short_are_refused() {
    let superblock = RedundantSuperblock::new(&spec(), &drive(false)).unwrap();
    let disk: Rc<dyn Disk> = Rc::new(MemDisk::new("mem", 64 << 20));
    let space = superblock.space_of(&disk).unwrap();
    superblock.check_sizes(&*disk, &space).unwrap();
    let short: Rc<dyn Disk> = Rc::new(MemDisk::new("short", 32 << 20));
    assert!(matches!(superblock.space_of(&short), Err(Error::TooSmall { .. })));
    let (meta, units) = (MemDisk::new("meta", 4 << 20), MemDisk::new("segments", 64 << 20));
    assert!(matches!(superblock.check_sizes(&meta, &units), Err(Error::TooSmall { .. })));
}
