//! The pool's files: made at the first start, opened at every one, with redundancy over drives or without.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use varve_access_admin::v1::{Drive, JournalStatus};
use varve_client::age::now_unix_ms;
use varve_client::{Failure, Result};
use varve_media::{DiskDelay, DriveOptions, DriveSpec, Error, NewDrive, PoolFiles};
use varve_media_redundancy::format::MoveReason;
use varve_media_redundancy::{
    DriveId, FilesOptions, HistoryId, NewRedundantDrive, NewRedundantPool, UnusableDrive,
};
use varve_reactor::{Loop, LoopConfig};
use varve_types::limits::SEGMENT_BYTES_DEFAULT;
use varve_types::{ByteCount, ShardId};

use crate::backend::PoolFacts;
use crate::condition::DriveConditions;
use crate::config::Settings;
use crate::drives::{DriveEntry, Drives};
use crate::engine_stack::EngineSource;
use crate::event_loop;
use crate::last_scrub::LastScrub;
use crate::lock::take_lock;
use crate::pool_media::PoolMedia;
use crate::pool_size::PoolSize;
use crate::random::{random_bytes, random_id};
use crate::redundancy::{self, DriveRedundancy};
use crate::redundant_pool::{OpenFailure, RedundantPool};
use crate::wiping::wiping;

/// Least memory of a shard: one request of the largest size, its buffers, and pages enough to walk a map.
const SHARD_MEMORY_MIN: u64 = 64 << 20;

/// Memory of a shard below which more shards are not worth their thread.
const SHARD_MEMORY_GOOD: u64 = 128 << 20;

/// Opens the pool, which is made first where the data directory remembers none. Blocks, for seconds when it is made.
pub(crate) fn open(settings: &Settings, drives: &Drives) -> Result<PoolMedia> {
    if settings.redundancy.is_read_only && !(drives.has_pool && drives.is_redundant) {
        return Err(Failure::misuse("--read-only serves pools with redundancy over drives")
            .hint("`varve salvage` copies what can be read of others"));
    }
    if !drives.has_pool {
        make(settings, drives)?;
    }
    if drives.is_redundant {
        return open_redundant(settings, drives);
    }
    let paths: Vec<PathBuf> = drives.entries.iter().map(|drive| drive.path.clone()).collect();
    let open = || PoolFiles::open(&paths, DriveOptions { discard: false });
    let files = take_lock(open, is_in_use);
    let files = files.map_err(|error| explain(&error, settings))?;
    check_memory(settings, files.lane_count(), 1)?;
    Ok(PoolMedia::Files(Arc::new(files.delayed(settings.media_delay_us * 1000))))
}

/// Opens a pool of which some drives may be missing.
fn open_redundant(settings: &Settings, drives: &Drives) -> Result<PoolMedia> {
    let redundancy = &settings.redundancy;
    let options = FilesOptions {
        pool: drives.pool,
        knows_all: drives.remembered,
        is_degraded: redundancy.is_degraded,
        is_read_only: redundancy.is_read_only,
        history: redundancy.history,
        new_history: HistoryId(random_bytes()?),
        drive_patience_nanos: u64::from(redundancy.drive_patience_s) * 1_000_000_000,
        journal_patience_nanos: u64::from(redundancy.journal_patience_ms) * 1_000_000,
        missing_wait_nanos: u64::from(redundancy.missing_wait_s) * 1_000_000_000,
        delay: media_delay(settings),
        repair_percent: u8::try_from(redundancy.repair_percent).unwrap_or(u8::MAX),
        hedge_percent: u8::try_from(redundancy.hedge_percent).unwrap_or(u8::MAX),
    };
    let open = || {
        let drives = drives.clone();
        RedundantPool::open(move || drives.located(), &settings.data, &options)
    };
    let pool = match take_lock(open, OpenFailure::is_in_use).map_err(OpenFailure::of_thread) {
        Ok(pool) => pool,
        Err(Ok(error)) => return Err(explain(&error, settings)),
        Err(Err(failure)) => return Err(failure),
    };
    if !redundancy.rebalances {
        pool.files().control().cancel(MoveReason::Rebalance);
    }
    pool.files().control().set_scrub_days(u16::try_from(redundancy.scrub_days).unwrap_or(u16::MAX));
    if let Some(last) = LastScrub::of(&settings.data) {
        pool.files().control().set_last_scrub(last.since_unix_ms);
    }
    let opened = pool.files().opened();
    if opened.is_read_only {
        tracing::warn!("the pool is open for reading only: nothing is written to its drives");
        if let Some(age) = opened.may_be_older {
            tracing::warn!(%age, "the drives that are there may be older than those that are missing: what is read may be old");
        }
    }
    for drive in &opened.missing {
        let drive = drive.get();
        match opened.is_read_only {
            true => tracing::warn!(drive, "a drive is missing: what only it has cannot be read"),
            false => tracing::warn!(drive, "a drive is missing: the pool goes on without it"),
        }
    }
    for path in &opened.stale {
        tracing::warn!(path, "the drive is not used: the pool went on without it");
    }
    for UnusableDrive { path, reason, .. } in &opened.unusable {
        tracing::warn!(
            path,
            reason,
            "the drive is not used, and nothing is written to it: `varve drive replace` puts another one in its place"
        );
    }
    check_memory(settings, pool.files().lane_count(), 1)?;
    Ok(PoolMedia::Redundant(Arc::new(pool)))
}

/// Slow media, for tests.
fn media_delay(settings: &Settings) -> Option<DiskDelay> {
    let delay = DiskDelay {
        nanos: settings.media_delay_us * 1000,
        after_nanos: u64::from(settings.media_delay_after_s) * 1_000_000_000,
        drive: settings.media_delay_drive,
    };
    (delay.nanos > 0).then_some(delay)
}

/// Makes the pool, unless the drives hold one: a start that was cut off before the drives were remembered.
fn make(settings: &Settings, drives: &Drives) -> Result<()> {
    let shards = shard_count(settings);
    check_memory(settings, shards, 1)?;
    // Nothing is created where nothing could be served.
    drop(event_loop::start()?);
    let (pool, created) = if drives.is_redundant {
        let new = new_redundant(settings, drives)?;
        (new.pool, take_lock(|| create_redundant(&new), is_in_use))
    } else {
        let new_drives: Vec<NewDrive> = drives.entries.iter().map(new_drive).collect();
        let mut spec = DriveSpec::new(random_id()?, shards);
        spec.created_unix_ms = now_unix_ms();
        spec.lane_bytes = settings.lane.0;
        (spec.pool, take_lock(|| PoolFiles::create(&new_drives, &spec), is_in_use))
    };
    match created {
        Ok(()) => {
            let (protect, count) = (drives.protect, drives.entries.len());
            tracing::info!(%pool, shards, %protect, "pool made");
            if count > 1 && !protect.is_redundant() {
                tracing::warn!(
                    drives = count,
                    "the pool has no redundancy: the loss of one drive loses the pool"
                );
            }
        }
        Err(Error::PoolExists { path }) => tracing::info!(path, "drive holds a pool already"),
        Err(error) => return Err(explain(&error, settings)),
    }
    Ok(())
}

fn new_drive(drive: &DriveEntry) -> NewDrive {
    NewDrive {
        path: drive.path.clone(),
        kind: None,
        capacity_bytes: drive.size_bytes,
        replace_pool: false,
    }
}

/// A pool with redundancy as the settings want it on these drives.
pub(crate) fn new_redundant(settings: &Settings, drives: &Drives) -> Result<NewRedundantPool> {
    let new = |drive: &DriveEntry| -> Result<NewRedundantDrive> {
        let (id, kind) = (DriveId(random_bytes()?), settings.redundancy.drive_class);
        Ok(NewRedundantDrive { place: new_drive(drive), id, kind })
    };
    Ok(NewRedundantPool {
        pool: random_id()?,
        created_unix_ms: now_unix_ms(),
        lane_count: shard_count(settings),
        lane_bytes: settings.lane.0,
        segment_bytes: SEGMENT_BYTES_DEFAULT,
        shape: drives.protect.shape(),
        drives: drives.entries.iter().map(new).collect::<Result<_>>()?,
        history: HistoryId(random_bytes()?),
    })
}

fn create_redundant(new: &NewRedundantPool) -> varve_media::Result<()> {
    let failed = |error: std::io::Error| Error::Open {
        path: "an event loop".to_owned(),
        reason: error.to_string(),
    };
    let mut event_loop = Loop::new(LoopConfig::default()).map_err(failed)?;
    let (reactor, new) = (event_loop.handle(), new.clone());
    event_loop.run(async move { new.create(&reactor).await }).map(|_| ())
}

/// What stays the same while the pool is open.
pub(crate) fn facts(
    settings: &Settings,
    source: &EngineSource,
    drives: Vec<Drive>,
    journal: JournalStatus,
) -> Result<PoolFacts> {
    let media = &source.media;
    let geometry = media.geometry().map_err(|error| explain(&error, settings))?;
    let segments = u64::from(media.usable_segments().map_err(|error| explain(&error, settings))?);
    let size = PoolSize {
        shards: media.lane_count().into(),
        segment_bytes: geometry.segment_bytes,
        segments,
        shard: source.shard_config(ShardId(0)),
    };
    let (redundancy, journal) = match media {
        PoolMedia::Redundant(pool) => {
            (DriveRedundancy::Over(Arc::clone(pool)), redundancy::journal(pool, journal))
        }
        PoolMedia::Files(_) => (DriveRedundancy::None, journal),
        PoolMedia::Rados(_) => (DriveRedundancy::Elsewhere, journal),
    };
    Ok(PoolFacts {
        id: media.pool().to_string(),
        created_unix_ms: media.created_unix_ms(),
        shards: media.lane_count(),
        segment_size_bytes: geometry.segment_bytes.into(),
        size,
        drives,
        redundancy,
        journal,
        nodes: None,
        conditions: DriveConditions::new(settings),
        memory_budget_bytes: settings.memory.0,
        thresholds: settings.thresholds,
    })
}

/// Shards of a new pool: as set, or one for two cores, as clients on the machine take about as much CPU as their
/// server, as far as the memory suffices.
pub(crate) fn shard_count(settings: &Settings) -> u16 {
    if settings.shards > 0 {
        return settings.shards;
    }
    let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let affordable = (settings.shard_memory(1) / SHARD_MEMORY_GOOD).max(1);
    let shards = u64::try_from(cores.div_ceil(2)).unwrap_or(u64::MAX).min(affordable);
    u16::try_from(shards).unwrap_or(u16::MAX).min(ShardId::COUNT_MAX)
}

/// Refuses memory that does not suffice for as many cells of `shards` as this node may serve.
pub(crate) fn check_memory(settings: &Settings, shards: u16, cells: u16) -> Result<()> {
    let shards = u32::from(shards) * u32::from(cells);
    if settings.shard_memory(shards) >= SHARD_MEMORY_MIN {
        return Ok(());
    }
    let (memory, cache) = (settings.memory, settings.read_cache);
    let needed = ByteCount(u64::from(shards) * SHARD_MEMORY_MIN + cache.0);
    let beside =
        if cache.0 > 0 { format!(" beside memory.read_cache {cache}") } else { String::new() };
    Err(Failure::misuse(format!(
        "memory.budget {memory} is too little for {shards} shards{beside}"
    ))
    .hint(format!("at least {needed}, or fewer --shards for a new pool")))
}

fn is_in_use(error: &Error) -> bool {
    matches!(error, Error::InUse { .. })
}

pub(crate) fn explain(error: &Error, settings: &Settings) -> Failure {
    let failure = Failure::new(format!("pool of {}: {error}", settings.data.display()));
    match error {
        Error::InUse { .. } => failure.hint(
            "another daemon serves this pool, perhaps under another --data; end that one first",
        ),
        Error::NotEmpty { path, .. } => failure.hint(wiping(path)),
        Error::CopiedOnWrite { .. } => {
            failure.hint("choose a block device, or a directory on another file system")
        }
        Error::NoSpace { .. } => failure.hint("make room on the file system under it"),
        Error::FileTooLarge { .. } => failure.hint("give the drive a smaller size: `--drive PATH=SIZE`"),
        Error::DriveSet { .. } | Error::OtherPool { .. } => failure.hint("name all drives of the pool, and no others, with --drive"),
        Error::NoPool { .. } => {
            failure.hint("connect it, or see whether it is the right one and its contents are mounted")
        }
        Error::FileMissing { .. } => {
            failure.hint("put it back where it was, or restore the drive from a copy: no pool opens without it, and no other file can stand in for it")
        }
        Error::TooSmall { .. } => {
            failure.hint("for a new pool, give the drive more room, or make journal.lane_size smaller; a drive of a pool was cut short: give it back its size")
        }
        Error::DegradedOpening { .. } => {
            failure.hint("connect another drive of the pool. Until then `varve serve --read-only` shows what is there and changes nothing; --degraded goes on from it, and what the others have later is lost")
        }
        Error::TooFewDrives { .. } | Error::ReadOnly => {
            failure.hint("connect more of its drives: nothing was written to those that are there. What can be read without the others is served with --read-only, and copied by `varve salvage`")
        }
        Error::HistorySplit { .. } => {
            failure.hint("start with --history ID to keep one; the drives of the others are not read then")
        }
        Error::Stale { .. } => {
            failure.hint("the other drives of the pool know what it missed: connect them")
        }
        Error::RedundantDrive { .. } => {
            failure.hint("if an upgrade of the pool was cut off, `varve pool upgrade` goes on with it")
        }
        Error::Open { .. } => {
            failure.hint("see whether the path exists and this user may read and write it")
        }
        _ => failure,
    }
}

#[cfg(test)]
mod tests {
    use varve_media_redundancy::Protection;

    use varve_types::PoolId;

    use super::*;

    fn settings(data: &std::path::Path) -> Settings {
        let drive = crate::config::DriveSetting {
            path: data.join("drive"),
            size: Some(ByteCount(64 << 20)),
        };
        let lane = ByteCount(16 << 20);
        Settings {
            data: data.to_owned(),
            drives: vec![drive],
            shards: 2,
            lane,
            ..Settings::default()
        }
    }

    #[test]
    fn a_pool_is_made_once_and_belongs_to_one_process() {
        let dir = tempfile::tempdir().unwrap();
        let settings = settings(dir.path());
        let drives = Drives::choose(&settings).unwrap();
        let files = open(&settings, &drives).unwrap();
        assert_eq!(files.lane_count(), 2);
        let id = files.pool();
        let refused = open(&settings, &drives).map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains("in use by another process"), "{refused}");
        drop(files);
        let again = open(&settings, &drives).unwrap();
        assert_eq!(again.pool(), id, "a start that was cut off finds what it made");
        drop(again);
        drives.remember(dir.path(), id).unwrap();
        let drives = Drives::choose(&settings).unwrap();
        assert_eq!(open(&settings, &drives).unwrap().pool(), id);
    }

    #[test]
    fn a_remembered_pool_that_is_gone_is_never_made_anew() {
        let dir = tempfile::tempdir().unwrap();
        let settings = settings(dir.path());
        Drives::choose(&settings).unwrap().remember(dir.path(), PoolId([7; 16])).unwrap();
        let refused = Drives::choose(&settings).unwrap_err().to_string();
        assert!(refused.contains("is not at"), "{refused}");
        assert!(!dir.path().join("drive").exists());
    }

    #[test]
    fn a_drive_is_found_where_it_is_now_and_known_without_its_directory() {
        let [dir, elsewhere, lost] = std::array::from_fn(|_| tempfile::tempdir().unwrap());
        let first = settings(dir.path());
        let drives = Drives::choose(&first).unwrap();
        let id = open(&first, &drives).unwrap().pool();
        drives.remember(dir.path(), id).unwrap();
        std::fs::rename(dir.path().join("drive"), dir.path().join("renamed")).unwrap();
        let found = Drives::choose(&first).unwrap();
        assert_eq!(found.entries[0].path, dir.path().join("renamed"));
        assert_eq!(open(&first, &found).unwrap().pool(), id);
        found.remember(dir.path(), id).unwrap();
        let moved = elsewhere.path().join("d");
        std::fs::rename(dir.path().join("renamed"), &moved).unwrap();
        let unnamed = Settings { drives: Vec::new(), ..first };
        let refused = Drives::choose(&unnamed).unwrap_err().to_string();
        assert!(
            refused.contains("drive 1 of 1 of pool") && refused.contains("renamed"),
            "{refused}"
        );
        let drive = |size| crate::config::DriveSetting { path: moved.clone(), size };
        let named = Settings { drives: vec![drive(None)], ..unnamed };
        assert_eq!(open(&named, &Drives::choose(&named).unwrap()).unwrap().pool(), id);
        let new = Settings { data: lost.path().to_owned(), ..named };
        let found = Drives::choose(&new).unwrap();
        assert!(found.has_pool && !found.remembered);
        assert_eq!(open(&new, &found).unwrap().pool(), id);
        for (size, fits) in [(64 << 20, true), (96 << 20, false)] {
            let sized = Settings { drives: vec![drive(Some(ByteCount(size)))], ..new.clone() };
            assert_eq!(Drives::choose(&sized).is_ok(), fits, "{size}");
        }
    }

    #[test]
    fn a_copy_of_a_drive_is_taken_only_when_it_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let first = settings(dir.path());
        let drives = Drives::choose(&first).unwrap();
        let id = open(&first, &drives).unwrap().pool();
        drives.remember(dir.path(), id).unwrap();
        let [drive, copy] = ["drive", "copy"].map(|name| dir.path().join(name));
        std::fs::create_dir(&copy).unwrap();
        for file in std::fs::read_dir(&drive).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), copy.join(file.file_name())).unwrap();
        }
        std::fs::rename(&drive, dir.path().join("aside")).unwrap();
        let found = Drives::choose(&first).unwrap();
        assert_eq!(found.entries[0].path, dir.path().join("aside"), "the drive, not its copy");
        std::fs::remove_dir_all(dir.path().join("aside")).unwrap();
        let unnamed = Settings { drives: Vec::new(), ..first };
        let refused = Drives::choose(&unnamed).unwrap_err().to_string();
        assert!(refused.contains("perhaps an older copy") && refused.contains("copy"), "{refused}");
        let setting = crate::config::DriveSetting { path: copy.clone(), size: None };
        let named = Settings { drives: vec![setting], ..unnamed };
        let found = Drives::choose(&named).unwrap();
        found.remember(dir.path(), id).unwrap();
        assert_eq!(open(&named, &found).unwrap().pool(), id);
        let renamed = dir.path().join("renamed");
        std::fs::rename(&copy, &renamed).unwrap();
        let unnamed = Settings { drives: Vec::new(), ..named };
        assert_eq!(Drives::choose(&unnamed).unwrap().entries[0].path, renamed);
    }

    #[test]
    fn what_is_missing_of_several_drives_is_named_and_none_is_added() {
        let dir = tempfile::tempdir().unwrap();
        let drive = |name: &str| crate::config::DriveSetting {
            path: dir.path().join(name),
            size: Some(ByteCount(64 << 20)),
        };
        let mut two = Settings { drives: vec![drive("a"), drive("b")], ..settings(dir.path()) };
        two.redundancy.protect = Some(Protection::NONE);
        let drives = Drives::choose(&two).unwrap();
        let id = open(&two, &drives).unwrap().pool();
        let refused = |drives: &[&str]| {
            let drives = drives.iter().map(|name| drive(name)).collect();
            Drives::choose(&Settings { drives, ..two.clone() }).unwrap_err().to_string()
        };
        let one = refused(&["b"]);
        assert!(
            one.contains("b is drive 2 of 2") && one.contains("1 of its drives are missing"),
            "{one}"
        );
        let added = refused(&["a", "b", "c"]);
        assert!(added.contains("c of no pool"), "{added}");
        assert!(!dir.path().join("c").exists());
        drives.remember(dir.path(), id).unwrap();
        let swapped = Settings { drives: vec![drive("b"), drive("a")], ..two.clone() };
        assert_eq!(open(&two, &Drives::choose(&swapped).unwrap()).unwrap().pool(), id);
        std::fs::remove_dir_all(dir.path().join("b")).unwrap();
        let missing = refused(&[]);
        assert!(missing.contains("drive 2 of 2 of pool"), "{missing}");
    }

    #[test]
    fn a_destroyed_drive_is_gone_without_where_nobody_remembers_the_pool() {
        let [dir, lost] = std::array::from_fn(|_| tempfile::tempdir().unwrap());
        let drive = |name: &str| crate::config::DriveSetting {
            path: dir.path().join(name),
            size: Some(ByteCount(256 << 20)),
        };
        let drives = vec![drive("a"), drive("b"), drive("c")];
        let mut three = Settings { drives, ..settings(dir.path()) };
        three.redundancy.missing_wait_s = 0;
        three.redundancy.protect = Some("mirror:2".parse().unwrap());
        let id = open(&three, &Drives::choose(&three).unwrap()).unwrap().pool();
        std::fs::write(dir.path().join("b/meta"), vec![0xA5; 8 << 20]).unwrap();
        let again = Settings { data: lost.path().to_owned(), ..three.clone() };
        let found = Drives::choose(&again).unwrap();
        assert!(found.has_pool && found.is_redundant && found.pool == Some(id));
        let PoolMedia::Redundant(pool) = open(&again, &found).unwrap() else { panic!("a mirror") };
        assert_eq!(pool.missing().len(), 1);
        let [unusable] = &pool.files().opened().unusable[..] else { panic!("{pool:?}") };
        assert!(unusable.reason.contains("no pool in"), "{unusable:?}");
        drop(pool);
        let other = Settings { drives: vec![drive("x"), drive("y")], ..again.clone() };
        let other = Settings { data: dir.path().join("other"), ..other };
        open(&other, &Drives::choose(&other).unwrap()).unwrap();
        let mixed = ["a", "c", "x"].map(drive).to_vec();
        let mixed = Settings { drives: mixed, ..again.clone() };
        assert_eq!(Drives::choose(&mixed).unwrap().pool, Some(id), "two of three are its drives");
        let mixed = Settings { drives: ["a", "c", "x", "y"].map(drive).to_vec(), ..again };
        let refused = Drives::choose(&mixed).unwrap_err().to_string();
        assert!(refused.contains("of pool"), "nobody knows which is meant: {refused}");
    }

    #[test]
    fn shards_follow_cores_and_memory() {
        let mut settings = Settings { memory: ByteCount(128 << 20), ..Settings::default() };
        assert_eq!(shard_count(&settings), 1);
        settings.shards = 3;
        assert_eq!(shard_count(&settings), 3);
        assert!(check_memory(&settings, 2, 1).is_ok());
        let refused = check_memory(&settings, 3, 1).unwrap_err().to_string();
        assert!(refused.contains("128 MiB is too little for 3 shards"), "{refused}");
        settings.read_cache = ByteCount(80 << 20);
        assert!(check_memory(&settings, 1, 1).is_err(), "48 MiB are left");
        settings.memory = ByteCount(144 << 20);
        assert!(check_memory(&settings, 1, 1).is_ok());
    }
}
