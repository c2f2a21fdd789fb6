//! Goal: pools on directories are made once, belong to one process, open without a drive where they may, and do not
//! read what they went on without. Method: real files and a real loop; nothing is tested where there is no io_uring.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use varve_media::planted::{Bug, plant};
use varve_media::{
    DriveFiles, DriveIdentity, Error, NewDrive, OverlayMemory, Persist, Result, RootKey,
};
use varve_media_redundancy::format::DriveState;
use varve_media_redundancy::{
    Change, DriveId, DriveNumber, FilesOptions, HEDGE_PERCENT, HistoryId, Keeper,
    NewRedundantDrive, NewRedundantPool, RedundantFiles, RedundantInspection, StripeShape,
    UNIT_BYTES, ZoneIndex,
};
use varve_reactor::{Loop, LoopConfig, Reactor};
use varve_stdx::BufSlice;
use varve_types::{PoolId, ShardId};

const DRIVE_BYTES: u64 = 256 << 20;

fn paths(dir: &Path, drives: u8) -> Vec<PathBuf> {
    (0..drives).map(|number| dir.join(format!("drive-{number}"))).collect()
}

fn new_pool(paths: &[PathBuf]) -> NewRedundantPool {
    let drives = (1..).zip(paths).map(|(number, path)| NewRedundantDrive {
        place: NewDrive::directory(path, DRIVE_BYTES),
        id: DriveId([number; 16]),
        kind: None,
    });
    NewRedundantPool {
        pool: PoolId([7; 16]),
        created_unix_ms: 5,
        lane_count: 2,
        lane_bytes: 16 << 20,
        segment_bytes: 2 << 20,
        shape: StripeShape::new(1, 1).unwrap(),
        drives: drives.collect(),
        history: HistoryId([1; 16]),
    }
}

fn options(is_degraded: bool) -> FilesOptions {
    FilesOptions {
        pool: None,
        knows_all: true,
        is_degraded,
        is_read_only: false,
        history: None,
        new_history: HistoryId([2; 16]),
        drive_patience_nanos: 10_000_000_000,
        journal_patience_nanos: 300_000_000,
        missing_wait_nanos: 0,
        delay: None,
        repair_percent: 40,
        hedge_percent: HEDGE_PERCENT,
    }
}

/// Runs a test on a loop of its own, if the system lets it have one.
fn on_loop<F: Future<Output = ()> + 'static>(test: impl FnOnce(Reactor) -> F) {
    let Ok(mut event_loop) = Loop::new(LoopConfig::default()) else { return };
    let running = test(event_loop.handle());
    event_loop.run(running);
}

async fn open(
    reactor: &Reactor,
    paths: &[PathBuf],
    is_degraded: bool,
) -> Result<(RedundantFiles, Keeper)> {
    RedundantFiles::open(reactor, paths, &options(is_degraded)).await
}

#[test]
fn a_pool_is_made_once_and_belongs_to_one_opening() {
    let dir = tempfile::tempdir().unwrap();
    let paths = paths(dir.path(), 3);
    on_loop(async move |reactor| {
        let new = new_pool(&paths);
        let planned = new.sizes().unwrap();
        assert_eq!(new.create(&reactor).await.unwrap(), planned, "what was said before is so");
        let again = new.create(&reactor).await.unwrap_err();
        assert!(matches!(again, Error::PoolExists { .. }), "{again}");
        let (files, keeper) = open(&reactor, &paths, false).await.unwrap();
        assert_eq!((files.pool(), files.lane_count(), files.created_unix_ms()), (new.pool, 2, 5));
        assert_eq!(files.sizes(), planned);
        let view = files.view();
        assert!(view.drives().drives.iter().all(|drive| drive.state == DriveState::Live));
        assert!(view.journals().all(|journal| journal.current().count() == 2));
        let second = open(&reactor, &paths, false).await.err().unwrap();
        assert!(matches!(second, Error::InUse { .. }), "{second}");
        let parts = files.thread(&reactor).unwrap();
        assert_eq!(parts.handles.all().len(), 3);
        drop((parts, keeper));
        let locks = files.into_locks();
        let held = open(&reactor, &paths, false).await.err().unwrap();
        assert!(matches!(held, Error::InUse { .. }), "the tables are gone, the locks are not");
        drop(locks);
        open(&reactor, &paths, false).await.unwrap();
    });
}

#[test]
fn a_drive_that_is_away_fails_and_is_stale_when_it_returns() {
    let dir = tempfile::tempdir().unwrap();
    let (paths, aside) = (paths(dir.path(), 3), dir.path().join("aside"));
    on_loop(async move |reactor| {
        new_pool(&paths).create(&reactor).await.unwrap();
        fs::rename(&paths[1], &aside).unwrap();
        let (files, _) = open(&reactor, &paths, false).await.unwrap();
        let missing: Vec<u8> = files.opened().missing.iter().map(|drive| drive.get()).collect();
        assert_eq!((missing, files.opened().is_read_only), (vec![1], false));
        let sizes = files.sizes();
        drop(files);
        fs::rename(&aside, &paths[1]).unwrap();
        let (files, _) = open(&reactor, &paths, false).await.unwrap();
        assert_eq!(files.opened().stale, [paths[1].display().to_string()]);
        assert_eq!(files.sizes(), sizes, "what is promised stays");
        let (view, parts) = (files.view(), files.thread(&reactor).unwrap());
        assert_eq!(view.drives().drives[1].state, DriveState::Failed);
        assert_eq!(parts.handles.all().len(), 2, "it is not read");
    });
}

/// Has the copies of journals on a drive be elsewhere, as shards do.
async fn move_journals(files: &RedundantFiles, drive: DriveNumber) {
    let journals: Vec<_> = files.view().journals().cloned().collect();
    for journal in journals.iter().filter(|it| it.copies.iter().any(|it| it.drive == drive)) {
        let (shard, expected) = (journal.shard, journal.journal_epoch);
        let substitute = Change::JournalSubstitute { shard, expected, without: drive, until: 0 };
        let view = files.tables().ask(substitute).await.unwrap();
        let journal = view.journals().find(|it| it.shard == shard).unwrap();
        let copies = journal.copies.iter().filter(|it| it.drive != drive).copied().collect();
        let expected = journal.journal_epoch;
        let change = Change::JournalCopies { shard, expected, copies };
        files.tables().ask(change).await.unwrap();
    }
}

/// JOINED-FILES-1.
#[test]
fn a_drive_that_left_is_free_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let all = paths(dir.path(), 3);
    let paths = all.clone();
    on_loop(async move |reactor| {
        new_pool(&paths).create(&reactor).await.unwrap();
        let (files, keeper) = open(&reactor, &paths, false).await.unwrap();
        reactor.spawn(keeper.run());
        let parts = files.thread(&reactor).unwrap();
        let drive = DriveNumber::new(1).unwrap();
        let remove = Change::Remove { drive, successor: None };
        files.tables().ask(remove).await.unwrap();
        files.let_go_of_gone();
        let locked = DriveFiles::open(&paths[1]).err().unwrap();
        assert!(matches!(locked, Error::InUse { .. }), "it has copies of journals: {locked}");
        move_journals(&files, drive).await;
        let state = files.view().drives().drive(drive).unwrap().state;
        assert_eq!(state, DriveState::Gone);
        files.let_go_of_gone();
        drop(DriveFiles::open(&paths[1]).unwrap());
        let says = DriveIdentity::read(&paths[1]);
        assert!(matches!(says, Err(Error::FormerDrive { .. })), "{says:?}");
        assert_eq!(files.path_of(drive), None);
        let others = [0, 2].map(|other| DriveNumber::new(other).unwrap());
        assert!(others.iter().all(|other| files.path_of(*other).is_some()));
        drop(parts);
    });
    let paths = all;
    on_loop(async move |reactor| {
        let inspection = RedundantInspection::open(&paths).unwrap();
        assert_eq!(inspection.superblock_copies().count(), 2 * 4, "nothing of it is looked for");
        let survey = inspection.survey(&reactor).await.unwrap();
        assert_eq!(survey.stale, [paths[1].display().to_string()]);
        assert!(survey.errors.is_empty() && survey.missing.is_empty());
        drop(inspection);
        let (files, _keeper) = open(&reactor, &paths, false).await.unwrap();
        let place = NewDrive::directory(&paths[1], DRIVE_BYTES);
        files.prepare(&place, DriveId([9; 16])).unwrap();
    });
}

/// GROWING-1, GROWING-2. A drive is longer than it was when its threads opened it, and they use what it got.
#[test]
fn a_drive_grows_while_it_is_used_and_is_never_smaller() {
    let dir = tempfile::tempdir().unwrap();
    let all = paths(dir.path(), 2);
    let (paths, drive) = (all.clone(), DriveNumber::new(1).unwrap());
    let more = u32::try_from(2 * DRIVE_BYTES / UNIT_BYTES).unwrap();
    on_loop(async move |reactor| {
        new_pool(&paths).create(&reactor).await.unwrap();
        let (files, keeper) = open(&reactor, &paths, false).await.unwrap();
        reactor.spawn(keeper.run());
        let parts = files.thread(&reactor).unwrap();
        let handle = parts.handles.get(drive).unwrap();
        let last = u64::from(more) * UNIT_BYTES - 4096;
        let outside = handle.read(last, 4096).await;
        assert!(matches!(outside, Err(Error::Io { .. })), "it ends before that");
        let grow = |units| files.tables().ask(Change::Grow { drive, units });
        assert!(grow(more).await.is_err(), "GROWING-2");
        let growable = || files.growable_bytes(files.view().drives().drive(drive).unwrap());
        assert_eq!(growable(), Some(0));
        assert_eq!(files.room_of(drive, None).unwrap(), more / 2);
        assert_eq!(files.room_of(drive, Some(2 * DRIVE_BYTES)).unwrap(), more);
        assert_eq!(growable(), Some(DRIVE_BYTES));
        for units in [more, more, more / 2] {
            let view = grow(units).await.unwrap();
            assert_eq!(view.drives().drive(drive).unwrap().units, more);
        }
        let bytes = BufSlice::copy_from(&[7; 4096]);
        handle.write(last, vec![bytes], Persist::Durable).await.unwrap();
        assert_eq!(*handle.read(last, 4096).await.unwrap(), [7; 4096]);
    });
    on_loop(async move |reactor| {
        let segments = File::options().write(true).open(all[1].join("segments")).unwrap();
        segments.set_len(DRIVE_BYTES).unwrap();
        let refused = open(&reactor, &all, false).await.err().unwrap();
        let Error::TooSmall { have, need, .. } = refused else { panic!("{refused}") };
        assert_eq!((have, need), (DRIVE_BYTES, 2 * DRIVE_BYTES));
        segments.set_len(2 * DRIVE_BYTES).unwrap();
        let (files, _) = open(&reactor, &all, false).await.unwrap();
        assert_eq!(files.view().drives().drive(drive).unwrap().units, more);
    });
}

#[test]
fn half_of_a_mirror_goes_on_only_when_it_is_told_to() {
    let dir = tempfile::tempdir().unwrap();
    let (paths, aside) = (paths(dir.path(), 2), dir.path().join("aside"));
    on_loop(async move |reactor| {
        new_pool(&paths).create(&reactor).await.unwrap();
        fs::rename(&paths[0], &aside).unwrap();
        let refused = open(&reactor, &paths, false).await.err().unwrap();
        assert!(matches!(refused, Error::DegradedOpening { .. }), "{refused}");
        let (files, _) = open(&reactor, &paths, true).await.unwrap();
        assert_eq!(files.view().drives().history, HistoryId([2; 16]));
        drop(files);
        open(&reactor, &paths, false).await.unwrap();
    });
}

#[test]
fn for_reading_only_nothing_is_written_whatever_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let (paths, aside) = (paths(dir.path(), 4), dir.path().join("aside"));
    on_loop(async move |reactor| {
        new_pool(&paths).create(&reactor).await.unwrap();
        fs::create_dir(&aside).unwrap();
        for path in &paths[2..] {
            fs::rename(path, aside.join(path.file_name().unwrap())).unwrap();
        }
        for is_degraded in [false, true] {
            let refused = open(&reactor, &paths, is_degraded).await.err().unwrap();
            assert!(matches!(refused, Error::TooFewDrives { .. }), "{refused}");
        }
        let stored = || {
            let files =
                paths[..2].iter().flat_map(|path| [path.join("meta"), path.join("segments")]);
            files.map(|file| fs::read(file).unwrap()).collect::<Vec<_>>()
        };
        let before = stored();
        let options = FilesOptions { is_read_only: true, ..options(false) };
        let (files, keeper) = RedundantFiles::open(&reactor, &paths, &options).await.unwrap();
        assert!(files.opened().is_read_only && files.opened().missing.len() == 2);
        reactor.spawn(keeper.run());
        let parts = files.thread(&reactor).unwrap();
        assert_eq!(parts.handles.all().len(), 2);
        // What recovery needs is changed, and stays in memory; drives neither come nor go.
        let (tables, zone) = (parts.thread.tables(), ZoneIndex(0));
        let view = tables.change(Change::Place { zone }).await.unwrap();
        assert!(view.row(zone).target().is_some());
        let leave = Change::Leave { drive: DriveNumber::new(0).unwrap() };
        let refused = tables.change(leave).await.unwrap_err();
        assert!(matches!(refused, Error::ReadOnly), "{refused}");
        let media = parts.thread.media(ShardId(0)).unwrap();
        let (version, _) = media.roots.read(RootKey::Pool).await.unwrap();
        media.roots.replace(RootKey::Pool, version, vec![7; 100]).await.unwrap();
        assert_eq!(media.roots.read(RootKey::Pool).await.unwrap().1, vec![7; 100]);
        let owner =
            RedundantFiles::open(&reactor, &paths, &self::options(true)).await.err().unwrap();
        assert!(matches!(owner, Error::InUse { .. }), "FILES-4: {owner}");
        drop((media, parts, files));
        assert!(stored() == before, "nothing is written");
    });
}

#[test]
fn a_file_that_is_gone_is_no_absent_drive() {
    let dir = tempfile::tempdir().unwrap();
    let paths = paths(dir.path(), 3);
    on_loop(async move |reactor| {
        new_pool(&paths).create(&reactor).await.unwrap();
        fs::remove_file(paths[2].join("segments")).unwrap();
        let refused = open(&reactor, &paths, false).await.err().unwrap();
        assert!(matches!(refused, Error::FileMissing { .. }), "{refused}");
    });
}

#[test]
fn a_drive_that_is_late_is_waited_for_whatever_is_at_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let (paths, aside) = (paths(dir.path(), 3), dir.path().join("aside"));
    on_loop(async move |reactor| {
        new_pool(&paths).create(&reactor).await.unwrap();
        fs::rename(&paths[1], &aside).unwrap();
        fs::create_dir(&paths[1]).unwrap();
        let place = paths[1].clone();
        let comes = thread::spawn(move || {
            thread::sleep(Duration::from_millis(700));
            fs::remove_dir(&place).unwrap();
            fs::rename(&aside, &place).unwrap();
        });
        let options = FilesOptions { missing_wait_nanos: 60_000_000_000, ..options(false) };
        let (files, _) = RedundantFiles::open(&reactor, &paths, &options).await.unwrap();
        comes.join().unwrap();
        assert_eq!((files.opened().missing.len(), files.opened().stale.len()), (0, 0));
    });
}

#[test]
fn a_drive_that_nobody_named_is_not_gone_without() {
    let dir = tempfile::tempdir().unwrap();
    let paths = paths(dir.path(), 3);
    on_loop(async move |reactor| {
        new_pool(&paths).create(&reactor).await.unwrap();
        let options = FilesOptions { knows_all: false, ..options(false) };
        let refused = RedundantFiles::open(&reactor, &paths[..2], &options).await.err().unwrap();
        assert!(matches!(refused, Error::DegradedOpening { .. }), "{refused}");
        let (files, _) = RedundantFiles::open(&reactor, &paths, &options).await.unwrap();
        assert!(files.opened().missing.is_empty(), "nothing was written before");
    });
}

#[test]
fn a_drive_of_another_pool_at_a_known_place_is_absent() {
    let dir = tempfile::tempdir().unwrap();
    let (paths, other) = (paths(dir.path(), 3), dir.path().join("other"));
    on_loop(async move |reactor| {
        new_pool(&paths).create(&reactor).await.unwrap();
        let others = [other.join("a"), other.join("b")];
        let place = NewRedundantPool { pool: PoolId([8; 16]), ..new_pool(&others) };
        fs::create_dir(&other).unwrap();
        place.create(&reactor).await.unwrap();
        fs::remove_dir_all(&paths[0]).unwrap();
        fs::rename(&others[0], &paths[0]).unwrap();
        let options = FilesOptions { pool: Some(PoolId([7; 16])), ..options(false) };
        let (files, _) = RedundantFiles::open(&reactor, &paths, &options).await.unwrap();
        assert_eq!(files.pool(), PoolId([7; 16]), "never the other one");
        assert_eq!(files.opened().missing.len(), 1);
        let [unusable] = &files.opened().unusable[..] else { panic!("{:?}", files.opened()) };
        assert!(unusable.reason.contains("is a drive of another pool"), "{unusable:?}");
    });
}

/// What may be left of the superblocks of a drive.
const DESTROYED: [fn(&mut [u8]); 3] = [
    |copies| copies.fill(0),
    |copies| copies.fill(0xA5),
    // Each copy says something else.
    |copies| {
        for (copy, at) in (0u8..).zip((0..copies.len()).step_by(COPY_BYTES)) {
            copies[at + 40] ^= copy + 1;
        }
    },
];

/// Bytes from one copy of a superblock to the next one.
const COPY_BYTES: usize = 1 << 20;

fn destroy(meta: &Path, how: fn(&mut [u8])) -> Vec<u8> {
    let mut bytes = fs::read(meta).unwrap();
    how(&mut bytes[..4 * COPY_BYTES]);
    fs::write(meta, &bytes).unwrap();
    bytes
}

#[test]
fn a_drive_whose_superblocks_are_destroyed_is_gone_without_and_never_written() {
    for how in DESTROYED {
        let dir = tempfile::tempdir().unwrap();
        let paths = paths(dir.path(), 3);
        on_loop(async move |reactor| {
            new_pool(&paths).create(&reactor).await.unwrap();
            let meta = paths[1].join("meta");
            let before = destroy(&meta, how);
            let (files, _) = open(&reactor, &paths, false).await.unwrap();
            let missing: Vec<u8> = files.opened().missing.iter().map(|it| it.get()).collect();
            assert_eq!(missing, [1]);
            let [unusable] = &files.opened().unusable[..] else { panic!("{:?}", files.opened()) };
            assert_eq!(unusable.path, paths[1].display().to_string());
            assert!(unusable.reason.contains("drive-1"), "{unusable:?}");
            assert!(files.thread(&reactor).unwrap().handles.all().len() == 2, "it is not read");
            drop(files);
            assert!(fs::read(&meta).unwrap() == before, "nothing is written to it");
        });
    }
}

#[test]
fn half_of_a_mirror_does_not_go_on_because_the_other_one_is_destroyed() {
    let dir = tempfile::tempdir().unwrap();
    let paths = paths(dir.path(), 2);
    on_loop(async move |reactor| {
        new_pool(&paths).create(&reactor).await.unwrap();
        destroy(&paths[1].join("meta"), DESTROYED[2]);
        let refused = open(&reactor, &paths, false).await.err().unwrap();
        assert!(matches!(refused, Error::DegradedOpening { .. }), "{refused}");
        assert!(refused.to_string().contains("is damaged: fewer than two"), "{refused}");
    });
}

/// Appends to a journal as a look does that opens shards; whether the drives are as they were.
async fn leaves_drives_alone(reactor: &Reactor, paths: &[PathBuf]) -> bool {
    let inspection = RedundantInspection::open(paths).unwrap();
    let memory = OverlayMemory::new(64 << 20);
    let probe = inspection.probe(reactor, &memory).await.unwrap();
    let journal = probe.media(ShardId(0)).unwrap().journal;
    let bytes = BufSlice::copy_from(&[7; 4096]);
    let is_appended = journal.append(0, bytes.clone()).await.is_ok();
    let is_read = journal.read(0, 4096).await.is_ok_and(|read| *read == *bytes);
    let look = probe.drives();
    let record = look.view().journals().next().unwrap().clone();
    let mut is_same = true;
    for copy in &record.copies {
        is_same &= *look.read_journal(copy, 0, 4096).await.unwrap() == [0; 4096];
    }
    is_appended && is_read && is_same
}

#[test]
fn look_writes() {
    let dir = tempfile::tempdir().unwrap();
    let paths = paths(dir.path(), 3);
    on_loop(async move |reactor| {
        new_pool(&paths).create(&reactor).await.unwrap();
        assert!(leaves_drives_alone(&reactor, &paths).await, "REDUNDANT-LOOK-1");
        plant(Some(Bug::LookWrites));
        let is_alone = leaves_drives_alone(&reactor, &paths).await;
        plant(None);
        assert!(!is_alone, "the bug shows");
    });
}
