//! Changes of the drives of a pool with redundancy, as the admin API asks for them, and what it says of moves and
//! scrubs.
//!
//! DRIVE-CHANGES-1. A drive is remembered before it joins: a start that does not look at it would take it for lost.
//! DRIVE-CHANGES-2. What was begun goes on when whoever asked for it gives up. One drive is added at a time.
//! DRIVE-CHANGES-3. A drive goes only once nothing names it, which the keeper says. The data directory forgets it then;
//!     one that has failed and is to go it forgets at once, as no start needs it.
//! DRIVE-CHANGES-4. A drive begins to leave while no other one does: each looks whether the drives that stay then have
//!     room for what is stored.

use std::convert::Infallible;
use std::fs;
use std::future::Future;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use varve_access_admin::v1::{
    AddDrive, DriveFaultCount, DriveMoves, ScrubState, ScrubStatus, StartScrub, ZoneMove,
};
use varve_access_admin::{AdminFuture, Error, Result};
use varve_client::Failure;
use varve_media::NewDrive;
use varve_media_redundancy::format::{
    DriveRecord, DriveState as RecordState, MoveReason, Row, RowState,
};
use varve_media_redundancy::{
    Change, DriveId, DriveNumber, LayoutView, MediumKind, MediumKinds, MoveProgress, MoveWait,
    NewMember, PoolSizes, RepairCounts, RepairQueue, ScrubEnd, ScrubProgress, ScrubRequest,
    UNIT_BYTES, ZoneIndex, is_as_new,
};
use varve_types::{ByteCount, ErrorKind};

use crate::drives::{self, DriveEntry};
use crate::last_scrub::LastScrub;
use crate::pool_size::StoredData;
use crate::random::random_bytes;
use crate::redundancy::DriveRedundancy;
use crate::redundant_pool::RedundantPool;
use crate::wiping::wiping;

/// Pause between two looks whether drives have left.
const LOOK_PAUSE: Duration = Duration::from_secs(1);

/// Digits of an identity that name a drive, at least.
const ID_DIGITS_MIN: usize = 4;

/// Changes of the drives of one pool.
#[derive(Debug)]
pub(crate) struct DriveChanges {
    /// The data directory, which remembers the drives; held while its list is changed.
    data: Mutex<PathBuf>,
    /// Held while a drive is added (DRIVE-CHANGES-2).
    adding: Arc<tokio::sync::Mutex<()>>,
    /// Held from the look at the drives that stay until the tables say that one leaves (DRIVE-CHANGES-4).
    leaving: tokio::sync::Mutex<()>,
}

impl DriveChanges {
    pub(crate) fn new(data: &Path) -> Self {
        Self {
            data: Mutex::new(data.to_owned()),
            adding: Arc::default(),
            leaving: tokio::sync::Mutex::default(),
        }
    }

    fn begin(&self) -> Result<tokio::sync::OwnedMutexGuard<()>> {
        let guard = Arc::clone(&self.adding).try_lock_owned();
        guard.map_err(|_| {
            refusal(ErrorKind::Unavailable, "another drive is being added", "try again later")
        })
    }

    /// Changes what the data directory remembers.
    fn with_data(
        &self,
        change: impl FnOnce(&Path) -> varve_client::Result<()>,
    ) -> varve_client::Result<()> {
        change(&self.data.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A drive that is to join.
pub(crate) struct JoiningDrive {
    pub(crate) new: AddDrive,
    /// What the pool has to hold with it; without it that is not looked at.
    pub(crate) stored: Option<StoredData>,
}

/// Has a drive become part of the pool.
pub(crate) fn add(
    pool: &Arc<RedundantPool>,
    joining: JoiningDrive,
) -> AdminFuture<'static, DriveMoves> {
    let pool = Arc::clone(pool);
    to_the_end(async move {
        let _adding = pool.changes().begin()?;
        let view = pool.files().view();
        let live = view.drives().drives.iter().filter(|it| it.state == RecordState::Live);
        let bytes = live.map(bytes_of).min().unwrap_or_default();
        join(&pool, &joining, bytes).await?;
        Ok(moves(&pool))
    })
}

/// Has all of a drive moved elsewhere, where `stored` fits the others; without it that is not looked at.
pub(crate) fn drain(
    pool: &Arc<RedundantPool>,
    name: String,
    stored: Option<StoredData>,
) -> AdminFuture<'static, DriveMoves> {
    let pool = Arc::clone(pool);
    to_the_end(async move {
        let _leaving = pool.changes().leaving.lock().await; // DRIVE-CHANGES-4
        let record = find(&pool, &name)?;
        let drive = record.number;
        if record.state == RecordState::Failed {
            return Err(cannot_be_drained(drive));
        }
        check_others(&pool.files().view(), &record, stored.as_ref())?;
        change(&pool, Change::Leave { drive }).await?;
        Ok(moves(&pool))
    })
}

/// Which drive is to go, and how.
pub(crate) struct DriveRemoval {
    /// Its number, path, or the beginning of its identity.
    pub(crate) name: String,
    /// Whether it has failed.
    pub(crate) is_failed: bool,
    /// What the others have to hold, of one that has not failed.
    pub(crate) stored: Option<StoredData>,
}

/// Has a drive go once all of it was moved elsewhere.
pub(crate) fn remove(
    pool: &Arc<RedundantPool>,
    removal: DriveRemoval,
) -> AdminFuture<'static, DriveMoves> {
    let DriveRemoval { name, is_failed, stored } = removal;
    let pool = Arc::clone(pool);
    to_the_end(async move {
        let _leaving = pool.changes().leaving.lock().await; // DRIVE-CHANGES-4
        let record = find(&pool, &name)?;
        let drive = record.number;
        match (record.state, is_failed) {
            (RecordState::Failed, false) => {
                return Err(cannot_be_drained(drive));
            }
            (RecordState::Live | RecordState::Joining | RecordState::Leaving, true) => {
                let what = format!("drive {drive} has not failed");
                return Err(refusal(ErrorKind::Conflict, &what, "remove it without --failed"));
            }
            (RecordState::Failed | RecordState::Gone, _) => {}
            (RecordState::Live | RecordState::Joining | RecordState::Leaving, false) => {
                check_others(&pool.files().view(), &record, stored.as_ref())?;
            }
        }
        change(&pool, Change::Remove { drive, successor: None }).await?;
        forget_departed(&pool);
        Ok(moves(&pool))
    })
}

fn cannot_be_drained(drive: DriveNumber) -> Error {
    let what = format!("drive {drive} has failed, and cannot be drained");
    let hint = "`varve drive replace` puts another one in its place; `varve drive remove --failed` forgets it once nothing names it";
    refusal(ErrorKind::Conflict, &what, hint)
}

/// Has a drive stay that leaves, for whatever reason. What was moved already stays where it is.
pub(crate) fn keep(pool: &Arc<RedundantPool>, name: String) -> AdminFuture<'static, DriveMoves> {
    let pool = Arc::clone(pool);
    to_the_end(async move {
        let record = find(&pool, &name)?;
        let drive = record.number;
        match record.state {
            RecordState::Leaving => {}
            RecordState::Live | RecordState::Joining => {
                let what = format!("drive {drive} does not leave");
                let hint = "`varve drive list` shows which drives do";
                return Err(refusal(ErrorKind::Conflict, &what, hint));
            }
            RecordState::Failed | RecordState::Gone => {
                let what = format!("drive {drive} has failed, and is not read any more");
                let hint = "clear it, and add it as a new drive: `varve drive add`";
                return Err(refusal(ErrorKind::Conflict, &what, hint));
            }
        }
        pool.files().control().forget_errors(drive);
        change(&pool, Change::Stay { drive }).await?;
        Ok(moves(&pool))
    })
}

/// Has a new drive take the place of another one, which goes then.
pub(crate) fn replace(
    pool: &Arc<RedundantPool>,
    name: String,
    joining: JoiningDrive,
) -> AdminFuture<'static, DriveMoves> {
    let pool = Arc::clone(pool);
    to_the_end(async move {
        let _adding = pool.changes().begin()?;
        let record = find(&pool, &name)?;
        let old = record.number;
        let new = join(&pool, &joining, bytes_of(&record)).await?;
        let _leaving = pool.changes().leaving.lock().await; // DRIVE-CHANGES-4
        if record.state != RecordState::Failed {
            check_others(&pool.files().view(), &record, joining.stored.as_ref())
                .map_err(|error| joined_in_vain(new, error))?;
        }
        let begun = change(&pool, Change::Remove { drive: old, successor: Some(new) }).await;
        begun.map_err(|error| joined_in_vain(new, error))?;
        forget_departed(&pool);
        Ok(moves(&pool))
    })
}

/// Why a drive stays, although another one has joined in its place.
fn joined_in_vain(new: DriveNumber, error: Error) -> Error {
    let what = format!("drive {new} has joined and stays, but nothing leaves for it");
    match error {
        Error::Backend { kind, message, hint } => {
            Error::Backend { kind, message: format!("{what}: {message}"), hint }
        }
        other => other,
    }
}

/// What is moved between drives.
pub(crate) fn moves(pool: &RedundantPool) -> DriveMoves {
    let (control, view) = (pool.files().control(), pool.files().view());
    let RepairCounts { bytes_read, bytes_written, bytes_verified, rows_moved, .. } =
        control.counts();
    let mut zones: Vec<ZoneIndex> = RepairQueue::of(&view).items().map(|it| it.zone).collect();
    let is_moving = |row: &Row| matches!(row.state, RowState::Moving { .. });
    let is_other = |row: &Row| row.sets().any(|set| !is_as_new(view.drives(), set));
    let others = view.rows().filter(|(_, row)| is_moving(row) || is_other(row));
    zones.extend(others.map(|(zone, _)| zone));
    let unconverted = view.rows().filter(|(_, row)| is_other(row)).count() as u64;
    let removing = view.drives().drives.iter().filter(|it| is_to_go(it));
    zones.sort_unstable();
    zones.dedup();
    DriveMoves {
        moves: control.moves().iter().map(zone_move).collect(),
        zones: zones.len() as u64,
        unconverted,
        removing: removing.map(|record| record.number.get()).collect(),
        bytes_read,
        bytes_written,
        bytes_verified,
        zones_moved: rows_moved,
    }
}

/// How far the scrub is.
pub(crate) fn scrub(pool: &RedundantPool) -> ScrubStatus {
    let control = pool.files().control();
    let faults = control.faults();
    let faults = faults.iter().filter(|it| it.total() > 0);
    let faults = faults.map(|it| DriveFaultCount { drive: it.drive.get(), faults: it.total() });
    let faults = faults.collect();
    let Some(progress) = control.scrub() else {
        return ScrubStatus { faults, ..ScrubStatus::default() };
    };
    let ScrubProgress { request, since_unix_ms, segments, bytes, strips_bad, end, .. } = progress;
    ScrubStatus {
        state: match end {
            None => ScrubState::Running,
            Some(ScrubEnd::Clean) => ScrubState::Clean,
            Some(ScrubEnd::Faults) => ScrubState::Faults,
            Some(ScrubEnd::Incomplete) => ScrubState::Incomplete,
            Some(ScrubEnd::Stopped) => ScrubState::Stopped,
        },
        drives: request.drives.iter().map(|drive| drive.get()).collect(),
        deep: request.is_deep,
        since_unix_ms,
        segments,
        bytes,
        strips_bad,
        faults,
    }
}

/// Begins a scrub. It is under way when a shard's thread looks next.
pub(crate) fn start_scrub(pool: &RedundantPool, what: &StartScrub) -> Result<ScrubStatus> {
    let readable = |name: &String| {
        let record = find(pool, name)?;
        if record.state != RecordState::Failed {
            return Ok(record.number);
        }
        let what = format!("drive {} has failed, and is not read", record.number);
        Err(refusal(
            ErrorKind::Conflict,
            &what,
            "`varve drive replace` puts another one in its place",
        ))
    };
    let drives = what.drives.iter().map(readable).collect::<Result<Vec<_>>>()?;
    pool.files().control().start_scrub(ScrubRequest { drives, is_deep: what.deep });
    Ok(scrub(pool))
}

/// Ends the scrub that is under way.
pub(crate) fn stop_scrub(pool: &RedundantPool) -> ScrubStatus {
    pool.files().control().stop_scrub();
    scrub(pool)
}

/// DRIVE-CHANGES-2
pub(crate) fn to_the_end<T: Send + 'static>(
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> AdminFuture<'static, T> {
    let task = tokio::spawn(work);
    let died =
        || refusal(ErrorKind::Internal, "the change of drives panicked", "look into the log");
    Box::pin(async move { task.await.unwrap_or_else(|_| Err(died())) })
}

/// Does to a drive what blocks, on a thread of its own; `doing` is what that is called.
pub(crate) async fn blocking<T: Send + 'static>(
    doing: &'static str,
    work: impl FnOnce() -> varve_media::Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    let died = |_| {
        let what = format!("{doing} the drive panicked");
        refusal(ErrorKind::Internal, &what, "look into the log")
    };
    done.map_err(died)?.map_err(|error| of_media(&error))
}

/// Asks the keeper for a change.
pub(crate) async fn change(pool: &RedundantPool, change: Change) -> Result<Arc<LayoutView>> {
    pool.files().tables().ask(change).await.map_err(|error| of_media(&error))
}

/// What a drive is, where somebody says that.
pub(crate) fn parse_kind(class: Option<&str>) -> Result<Option<MediumKind>> {
    class.map(str::parse::<MediumKind>).transpose().map_err(|fault| {
        refusal(ErrorKind::Invalid, &fault, "give its class, or leave that to the system")
    })
}

/// Adds a drive; one without a size of its own gets `bytes`.
async fn join(
    pool: &Arc<RedundantPool>,
    joining: &JoiningDrive,
    bytes: u64,
) -> Result<DriveNumber> {
    let JoiningDrive { new, stored } = joining;
    let path = std::path::absolute(&new.path).map_err(|error| {
        refusal(ErrorKind::Invalid, &format!("drive {}: {error}", new.path), "give another path")
    })?;
    let kind = parse_kind(new.class.as_deref())?;
    check_is_new(pool, &path)?;
    let has_size =
        fs::metadata(&path).is_ok_and(|it| it.is_file() || it.file_type().is_block_device());
    let size_bytes = new.size_bytes.or((!has_size).then_some(bytes));
    let id = DriveId(random_bytes().map_err(|failure| of_failure(&failure))?);
    let place = NewDrive {
        path: path.clone(),
        kind: None,
        capacity_bytes: size_bytes,
        replace_pool: false,
    };
    let preparing = Arc::clone(pool);
    let prepare = move || preparing.files().prepare(&place, id);
    let mut member = blocking("preparing", prepare).await?;
    member.kind = kind.unwrap_or(member.kind);
    if let Some(stored) = stored {
        check_room_with(pool, &member, stored).inspect_err(|_| {
            pool.files().let_go_of_prepared();
        })?;
    }
    let entry = DriveEntry { path, size_bytes, file: None, id: Some(id.to_string()) };
    let remembered = pool.changes().with_data(|data| drives::add_to_list(data, entry));
    remembered.map_err(|failure| of_failure(&failure))?; // DRIVE-CHANGES-1
    let joined = change(pool, Change::Join(member)).await;
    let view = pool.files().view();
    let is_it = |record: &&DriveRecord| record.id == id;
    match (joined, view.drives().drives.iter().find(is_it)) {
        (Ok(_), Some(record)) => Ok(record.number),
        (Err(error), Some(_)) => Err(error),
        (joined, None) => {
            pool.files().let_go_of_prepared();
            let forgotten =
                pool.changes().with_data(|data| drives::remove_from_list(data, &[id.to_string()]));
            forgotten.map_err(|failure| of_failure(&failure))?;
            let lost = || {
                refusal(
                    ErrorKind::Unavailable,
                    "the drive failed while it joined",
                    "look into the log",
                )
            };
            Err(joined.err().unwrap_or_else(lost))
        }
    }
}

/// Forgets drives that left, and lets go of them, as long as the pool is served; those too that an earlier life forgot
/// in part.
pub(crate) async fn watch(redundancy: DriveRedundancy) -> Infallible {
    let Ok(pool) = redundancy.pool() else { return std::future::pending().await };
    let (mut epoch, mut scrubbed) = (None, None);
    loop {
        remember_scrub(pool, &mut scrubbed);
        let now = pool.files().view().drives().epoch;
        if epoch.replace(now) == Some(now) {
            // Threads have had a pause to end what they began before they saw that a drive left.
            pool.files().let_go_of_gone();
        } else {
            forget_departed(pool);
        }
        tokio::time::sleep(LOOK_PAUSE).await;
    }
}

/// Has the data directory remember when the last scrub of everything began, once it has ended.
fn remember_scrub(pool: &RedundantPool, remembered: &mut Option<u64>) {
    let ended = pool.files().control().scrub().filter(|run| {
        run.request.drives.is_empty() && run.end.is_some_and(|end| end != ScrubEnd::Stopped)
    });
    let Some(since_unix_ms) = ended.map(|run| run.since_unix_ms) else { return };
    if remembered.replace(since_unix_ms) == Some(since_unix_ms) {
        return;
    }
    let last = LastScrub { since_unix_ms };
    if let Err(error) = pool.changes().with_data(|data| last.remember(data)) {
        tracing::warn!(%error, "a restart will not know of the last scrub");
    }
}

/// Has the data directory forget drives that left, and those that no start needs (DRIVE-CHANGES-3).
fn forget_departed(pool: &RedundantPool) {
    let view = pool.files().view();
    let records = view.drives().drives.iter();
    let departed = records.filter(|it| match it.state {
        RecordState::Gone => true,
        RecordState::Failed => it.removal.is_some(),
        RecordState::Live | RecordState::Joining | RecordState::Leaving => false,
    });
    let ids: Vec<String> = departed.map(|record| record.id.to_string()).collect();
    let forgotten = pool.changes().with_data(|data| drives::remove_from_list(data, &ids));
    if let Err(error) = forgotten {
        tracing::warn!(%error, "drives that left are still remembered");
    }
}

/// Whether a drive goes once nothing is on it.
fn is_to_go(record: &DriveRecord) -> bool {
    record.removal.is_some() && record.state != RecordState::Gone
}

/// Whether any drive has failed.
pub(crate) fn has_failed_drives(pool: &RedundantPool) -> bool {
    pool.files().view().drives().drives.iter().any(|it| it.state == RecordState::Failed)
}

/// Whether a drive has failed.
pub(crate) fn has_failed(pool: &RedundantPool, name: &str) -> bool {
    find(pool, name).is_ok_and(|record| record.state == RecordState::Failed)
}

/// The one drive that a number, a path or the beginning of an identity means.
pub(crate) fn find(pool: &RedundantPool, name: &str) -> Result<DriveRecord> {
    let view = pool.files().view();
    let there = || view.drives().drives.iter().filter(|it| it.state != RecordState::Gone);
    let digits = name.to_ascii_lowercase();
    let is_begun =
        |it: &&DriveRecord| digits.len() >= ID_DIGITS_MIN && it.id.to_string().starts_with(&digits);
    let exact = there().find(|it| it.number.to_string() == name);
    if let Some(record) = exact
        .or_else(|| there().find(|it| pool.files().path_of(it.number).as_deref() == Some(name)))
    {
        return Ok(record.clone());
    }
    let mut begun = there().filter(is_begun);
    match (begun.next(), begun.next()) {
        (Some(record), None) => Ok(record.clone()),
        (Some(_), Some(_)) => {
            let what = format!("several drives have an identity that begins with {name}");
            Err(refusal(ErrorKind::Invalid, &what, "give more of its digits, or its number"))
        }
        (None, _) => {
            let what = format!("the pool has no drive {name}");
            Err(refusal(ErrorKind::NotFound, &what, "`varve drive list` shows its drives"))
        }
    }
}

/// Refuses that a drive leaves without which there are too few for the class of new zones, or without which these hold
/// less than what is stored. One that leaves already is not asked for room again: it may be empty.
fn check_others(
    view: &LayoutView,
    record: &DriveRecord,
    stored: Option<&StoredData>,
) -> Result<()> {
    let (table, drive) = (view.drives(), record.number);
    let Some(class) = table.class_of(table.class) else { return Ok(()) };
    let (shape, kinds, needed) = (class.shape, class.kinds, class.shape.strips());
    let is_other = |it: &&DriveRecord| {
        it.state == RecordState::Live && it.number != drive && kinds.has(it.kind)
    };
    let others = table.drives.iter().filter(is_other).count();
    if others >= needed {
        let has_zones = record.state == RecordState::Live && kinds.has(record.kind);
        let stored = stored.filter(|_| has_zones);
        return stored.map_or(Ok(()), |stored| check_room(view, drive, stored));
    }
    let of_class = of_class(kinds);
    let what = format!(
        "drive {drive} cannot leave: {shape} needs {needed} drives{of_class}, and {others} others are live"
    );
    let hint = "add a drive first, or put one in its place: `varve drive replace`";
    Err(refusal(ErrorKind::Conflict, &what, hint))
}

/// Refuses that a drive leaves where the others hold less than what is stored. Of what is less, free zones are
/// withdrawn.
fn check_room(view: &LayoutView, drive: DriveNumber, stored: &StoredData) -> Result<()> {
    let zones = u64::from(PoolSizes::without(view, drive).zones);
    let fit = stored.in_segments(zones * u64::from(view.drives().zone_segments));
    if fit.lacking_bytes() == 0 {
        return Ok(());
    }
    let (capacity, used) = (ByteCount(fit.capacity_bytes), ByteCount(fit.used_bytes));
    let lacking = ByteCount(fit.lacking_bytes());
    let what = format!(
        "drive {drive} cannot leave: the others have room for {capacity}, and {used} are stored"
    );
    let hint = format!(
        "add a drive first, put one in its place: `varve drive replace`, or delete {lacking}"
    );
    Err(refusal(ErrorKind::NoSpace, &what, &hint))
}

/// Refuses a path at which a drive of the pool is. One that failed may have made room there for another one.
fn check_is_new(pool: &RedundantPool, path: &Path) -> Result<()> {
    let same = |other: &str| {
        Path::new(other) == path
            || matches!((fs::canonicalize(other), fs::canonicalize(path)), (Ok(a), Ok(b)) if a == b)
    };
    let view = pool.files().view();
    let is_used = |it: &&DriveRecord| !matches!(it.state, RecordState::Failed | RecordState::Gone);
    let mut used = view.drives().drives.iter().filter(is_used);
    let found = used.find(|it| pool.files().path_of(it.number).is_some_and(|it| same(&it)));
    let Some(record) = found else { return Ok(()) };
    let what = format!("{} is drive {} of this pool", path.display(), record.number);
    Err(refusal(ErrorKind::Conflict, &what, "`varve drive list` shows its drives"))
}

/// Refuses that a drive joins which is so small beside the others that what is stored has no room any more.
fn check_room_with(pool: &RedundantPool, member: &NewMember, stored: &StoredData) -> Result<()> {
    let sizes = pool.files().sizes_with(member).map_err(|error| of_media(&error))?;
    let segments = u64::from(sizes.zones) * u64::from(sizes.zone_segments);
    let fit = stored.in_segments(segments);
    if fit.lacking_bytes() == 0 || sizes.usable_bytes >= pool.files().sizes().usable_bytes {
        return Ok(());
    }
    let (capacity, used) = (ByteCount(fit.capacity_bytes), ByteCount(fit.used_bytes));
    let what = format!(
        "{} is too small beside the drives of the pool: with it there is room for {capacity}, and {used} are stored",
        member.path
    );
    let hint = "add a larger one: where there are more drives than strips, as much as the largest has is kept free for a rebuild";
    Err(refusal(ErrorKind::NoSpace, &what, hint))
}

/// What a message says of the drives that data may lie on, where these are not any.
pub(crate) fn of_class(kinds: MediumKinds) -> String {
    if kinds == MediumKinds::ALL { String::new() } else { format!(" of class {kinds}") }
}

pub(crate) fn bytes_of(record: &DriveRecord) -> u64 {
    u64::from(record.units) * UNIT_BYTES
}

fn zone_move(progress: &MoveProgress) -> ZoneMove {
    ZoneMove {
        zone: progress.zone.0,
        shard: progress.shard.map(|shard| shard.0),
        why: reason(progress.why).to_owned(),
        bytes_done: progress.bytes_done,
        bytes_total: progress.bytes_total,
        bytes_per_s: progress.bytes_per_s,
        since_unix_ms: progress.since_unix_ms,
        waits_for: progress.waits_for.as_ref().map(wait),
    }
}

const fn reason(why: MoveReason) -> &'static str {
    match why {
        MoveReason::Rebuild => "rebuild",
        MoveReason::Drain => "drain",
        MoveReason::Rebalance => "rebalance",
        MoveReason::Conversion => "conversion",
        MoveReason::SlowDrive => "slow_drive",
        MoveReason::CatchUp => "catch_up",
    }
}

fn wait(wait: &MoveWait) -> String {
    match wait {
        MoveWait::Contents => "its shard, which does not serve yet".to_owned(),
        MoveWait::Room => "room on another drive: add one".to_owned(),
        MoveWait::HostRoom(error) => format!("room below a drive: {error}"),
        MoveWait::Error(error) => format!("another try after an error: {error}"),
        MoveWait::Unreadable { segments } => {
            format!("{segments} segments that cannot be read, until what is live in them has left")
        }
    }
}

/// An answer that says what to do.
pub(crate) fn refusal(kind: ErrorKind, message: &str, hint: &str) -> Error {
    Error::Backend { kind, message: message.to_owned(), hint: Some(hint.to_owned()) }
}

fn of_failure(failure: &Failure) -> Error {
    let (message, hint) = (failure.what().to_owned(), failure.advice().map(str::to_owned));
    Error::Backend { kind: ErrorKind::Unavailable, message, hint }
}

/// What the media say, with what to do.
fn of_media(error: &varve_media::Error) -> Error {
    use varve_media::Error as Media;
    let (kind, message) = (error.kind(), error.to_string());
    let hint = match error {
        Media::PoolExists { path } | Media::NotEmpty { path, .. } => {
            Some(format!("choose another drive; {}", wiping(path)))
        }
        Media::InUse { .. } => Some(
            "see which process has it; a drive of this pool that failed is held until the daemon ends: to use it anew, end it, wipe the drive, and start again".to_owned(),
        ),
        Media::Open { .. } => Some("see whether the path is right, and what is there".to_owned()),
        Media::FileTooLarge { .. } => Some("give a smaller size".to_owned()),
        Media::TooSmall { need, .. } => Some(format!("it needs at least {}", ByteCount(*need))),
        Media::TooFewDrives { .. } => {
            let hint = "add a drive first, or put one in its place: `varve drive replace`";
            return refusal(ErrorKind::Conflict, &message, hint);
        }
        Media::ReadOnly => {
            Some("connect the drives that are missing, and start without `--read-only`".to_owned())
        }
        Media::TableChange { .. } => {
            Some("`varve drive list` shows in which state it is".to_owned())
        }
        Media::DriveFailed { .. } => {
            Some("put another one in its place: `varve drive replace`".to_owned())
        }
        _ => None,
    };
    Error::Backend { kind, message, hint }
}
