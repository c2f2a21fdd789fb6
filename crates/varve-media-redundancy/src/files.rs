//! Redundant pools on block devices, files and directories: made once, opened by one process, and used by each of its
//! threads through descriptors of its own. Stands beside `PoolFiles` of `varve-media`.
//!
//! ```text
//!  thread of the keeper   create, or open ──▶ Keeper::run
//!                              │
//!  threads of shards       RedundantFiles::thread ──▶ RedundantThread
//! ```
//!
//! FILES-1. All drives that are there are locked before tables are read, and as long as the pool is open: those that
//!     are stale too, so that nobody makes something else of them meanwhile. Who has left is let go (JOINED-FILES-1).
//! FILES-2. What cannot be opened or read is handed on as it is: whether it counts as missing says the opening
//!     (OPEN-5). Only a drive of the pool that another process has is refused here; what is of another pool is let go
//!     of, and what is in use as something else is absent.
//! FILES-3. A drive that is late is waited for, whatever is at its place meanwhile: it does not fail by being slower
//!     than others at a start. Places are looked up again each time.
//! FILES-4. For reading only nothing is written to any drive: drives are opened and locked for reading, the keeper and
//!     each thread have overlays of their own over them, and their writes are seen by nobody else and end with them.
//!     Tables are shared in memory, each shard's segments, journal and root are its own thread's, and the pool's root
//!     is one thread's: so nobody misses what another one wrote. No drive is dropped: what one does not answer is read
//!     from others, and it is asked again the next time.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use futures_util::future::{Either, join_all, select};
use varve_media::{
    DiskDelay, DiskLayers, DiskStats, DriveExtent, DriveFiles, DriveParts, Error, NewDrive,
    OverlayMemory, RedundantSuperblock, Result, SegmentGeometry,
};
use varve_reactor::Reactor;
use varve_types::PoolId;

use crate::change::{Change, NewMember};
use crate::format::DriveRecord;
use crate::handles::{DriveHandles, RedundantDisks};
use crate::histories::since_unix_ms;
use crate::ids::{DriveId, DriveNumber, HistoryId, UNIT_BYTES};
use crate::joined_files::{FilesOpener, PoolDrives, ThreadDrives};
use crate::journal::JournalPatience;
use crate::keeper::Keeper;
use crate::opening::{Opening, TableAge, are_missing};
use crate::places::{FailedPlace, blame, identify, is_absent, open_all, silent};
use crate::pool::RedundantThread;
use crate::repair::RepairControl;
use crate::sizes::PoolSizes;
use crate::survey::{Candidate, FoundDrive, OpeningOptions, Survey, UnusableDrive};
use crate::tables::{Tables, TablesHandle};
use crate::view::LayoutView;

/// Pause between two looks for drives that are missing, in ns.
const LOOK_AGAIN_NANOS: u64 = 500_000_000;

/// What a thread may write to its overlays, in bytes, beside as much as a journal holds: what recovery applies.
const OVERLAY_BYTES: u64 = 1 << 30;

/// How a pool is opened.
#[derive(Clone, Debug)]
pub struct FilesOptions {
    /// Which pool is expected; that of the first drive where it is not known.
    pub pool: Option<PoolId>,
    /// Whether somebody remembers all drives of the pool. If not, one that was not named may be there: without it the
    /// pool opens only degraded.
    pub knows_all: bool,
    /// Go on from the newest table that is there, although a newer one may exist.
    pub is_degraded: bool,
    /// Read what is there, whatever is missing, and write nothing (FILES-4).
    pub is_read_only: bool,
    /// Which of two histories that have split counts.
    pub history: Option<HistoryId>,
    /// Random: what a new history is called, if there must be one.
    pub new_history: HistoryId,
    /// How long a drive may not answer, in ns.
    pub drive_patience_nanos: u64,
    /// How long a copy of a journal may not answer, in ns.
    pub journal_patience_nanos: u64,
    /// How long drives that are missing are waited for, in ns.
    pub missing_wait_nanos: u64,
    /// Slow media, for tests.
    pub delay: Option<DiskDelay>,
    /// Percent of what drives do that repair gets while clients use them.
    pub repair_percent: u8,
    /// Percent of reads that may be made twice, as the first one is late.
    pub hedge_percent: u8,
}

/// A redundant pool that this process has open. It may be shared between threads.
pub struct RedundantFiles {
    drives: Arc<PoolDrives>,
    tables: Tables,
    control: Arc<RepairControl>,
    options: FilesOptions,
    opened: OpenedDrives,
    created_unix_ms: u64,
    lane_count: u16,
}

/// Drives of a pool, locked until this is dropped.
pub struct DriveLocks {
    _drives: Arc<PoolDrives>,
}

/// What came of looking at the drives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenedDrives {
    /// Paths of drives that are not read, as the pool went on without them.
    pub stale: Vec<String>,
    /// Drives that were missing.
    pub missing: Vec<DriveNumber>,
    /// Places with drives that cannot be used, and why.
    pub unusable: Vec<UnusableDrive>,
    /// Whether nothing may be written.
    pub is_read_only: bool,
    /// The table that the pool goes by, where a drive that is missing may know a newer one (OPEN-6).
    pub may_be_older: Option<TableAge>,
}

/// One thread's part of a pool.
pub struct ThreadFiles {
    /// Its media.
    pub thread: RedundantThread,
    /// Its drives, with counts of what they did.
    pub handles: Rc<DriveHandles>,
    /// What its disks do.
    pub stats: Rc<DiskStats>,
}

impl RedundantFiles {
    /// Opens and locks a pool by the drives at these paths, of which some may be missing. Called on the loop that the
    /// keeper is to run on; blocks it for some system calls.
    ///
    /// # Errors
    /// [`Error::InUse`], [`Error::NoPool`], what O1 to O3 say, or the system's.
    pub async fn open(
        reactor: &Reactor,
        paths: &[PathBuf],
        options: &FilesOptions,
    ) -> Result<(Self, Keeper)> {
        Self::open_located(reactor, &|| paths.to_vec(), options).await
    }

    /// As [`Self::open`], with places that are looked up again while drives are waited for (FILES-3). `locate` may
    /// block.
    ///
    /// # Errors
    /// Those of [`Self::open`].
    pub async fn open_located(
        reactor: &Reactor,
        locate: &dyn Fn() -> Vec<PathBuf>,
        options: &FilesOptions,
    ) -> Result<(Self, Keeper)> {
        let (drives, opening) = find(reactor, locate, options).await?;
        let first = opening.drives.first().ok_or_else(|| no_pool(&locate()))?;
        let (created_unix_ms, lane_count) =
            (first.1.superblock.created_unix_ms, first.1.superblock.lanes_of_pool);
        for drive in opening.handles.all().iter().filter(|_| !opening.is_read_only) {
            drive.superblock().heal(drive.meta()).await;
        }
        let drives = Arc::new(PoolDrives::new(drives.drives, &opening.drives));
        let opened = OpenedDrives {
            stale: opening.stale.clone(),
            missing: opening.missing.clone(),
            unusable: opening.unusable.clone(),
            is_read_only: opening.is_read_only,
            may_be_older: opening.may_be_older,
        };
        let opener = FilesOpener::new(reactor, &drives, options.delay);
        let keeper = Keeper::new(reactor, opening, Rc::new(opener));
        let (tables, options) = (keeper.tables(), options.clone());
        // The pool's root counts as many shards as it has journals.
        let control = Arc::new(RepairControl::new(lane_count, options.repair_percent));
        let files = Self { drives, tables, control, options, opened, created_unix_ms, lane_count };
        Ok((files, keeper))
    }

    /// Opens the pool's files once more, for the loop of this thread.
    ///
    /// A drive that has vanished since is left out, and fails.
    ///
    /// # Errors
    /// [`Error::Open`] of a drive that the tables call live, and that is there.
    ///
    /// # Panics
    /// In the simulator, which has no files.
    pub fn thread(&self, reactor: &Reactor) -> Result<ThreadFiles> {
        let (stats, handles) = (DiskStats::new(), DriveHandles::new(reactor));
        handles.limit_hedging(self.options.hedge_percent);
        let overlay = self.options.is_read_only.then(|| OverlayMemory::new(self.overlay_bytes()));
        let (delay, disk_stats) = (self.options.delay, Some(Rc::clone(&stats)));
        let layers = DiskLayers { stats: disk_stats, delay, overlay };
        let tables = self.tables.on(reactor);
        let followed = ThreadDrives {
            handles: Rc::clone(&handles),
            tables: Rc::clone(&tables),
            drives: Arc::downgrade(&self.drives),
            layers,
            patience_nanos: self.options.drive_patience_nanos,
        };
        followed.open_lacking()?;
        reactor.spawn(followed.follow());
        let patience = JournalPatience {
            substitute_nanos: self.options.journal_patience_nanos,
            ..JournalPatience::default()
        };
        let mut thread = RedundantThread::new(Rc::clone(&handles), tables, patience);
        if !self.opened.is_read_only {
            thread = thread.with_repair(Arc::clone(&self.control));
        }
        Ok(ThreadFiles { thread, handles, stats })
    }

    fn overlay_bytes(&self) -> u64 {
        self.drives.figures().map_or(0, |figures| 2 * figures.lane_bytes) + OVERLAY_BYTES
    }

    /// The tables as they are now.
    #[must_use]
    pub fn view(&self) -> Arc<LayoutView> {
        self.tables.view()
    }

    /// What moves and scrubs its zones, and how far that is.
    #[must_use]
    pub const fn control(&self) -> &Arc<RepairControl> {
        &self.control
    }

    /// Why nothing is written any more, where that is so.
    #[must_use]
    pub fn failure(&self) -> Option<Error> {
        self.tables.failure()
    }

    /// What came of looking at the drives when it was opened.
    #[must_use]
    pub const fn opened(&self) -> &OpenedDrives {
        &self.opened
    }

    /// Where a drive lies; `None` of one that was not there, or has left.
    #[must_use]
    pub fn path_of(&self, number: DriveNumber) -> Option<String> {
        self.drives.path_of(number)
    }

    /// Locks and makes the files of a drive that is to join, as [`Change::Join`] needs them.
    /// Blocks. What has no size of its own gets that of the place.
    ///
    /// # Errors
    /// [`Error::PoolExists`], [`Error::NotEmpty`], [`Error::InUse`], [`Error::Spec`] where a size lacks, or the
    /// system's.
    pub fn prepare(&self, place: &NewDrive, id: DriveId) -> Result<NewMember> {
        if self.opened.is_read_only {
            return Err(Error::ReadOnly);
        }
        self.drives.prepare(place, id, &self.view())
    }

    /// What the pool comes to have room for when a drive joins that was prepared.
    ///
    /// # Errors
    /// [`Error::Spec`] where the drive has no room for a unit.
    pub fn sizes_with(&self, member: &NewMember) -> Result<PoolSizes> {
        let view = self.view();
        let units = self.drives.units_of(member)?;
        Ok(PoolSizes::with_another(&view, units, member.kind))
    }

    /// Units that a drive has room for now, of `bytes` at most, to which its file is made longer where it is shorter.
    /// They are its own once [`Change::Grow`] was answered. Blocks.
    ///
    /// # Errors
    /// [`Error::NoPool`] of a drive that is not there, or the system's.
    pub fn room_of(&self, number: DriveNumber, bytes: Option<u64>) -> Result<u32> {
        if self.opened.is_read_only {
            return Err(Error::ReadOnly);
        }
        self.drives.room_of(number, bytes)
    }

    /// Bytes that the file or device of a drive has beyond its units; `None` of one that is not there. Asks the system,
    /// and not the drive.
    #[must_use]
    pub fn growable_bytes(&self, record: &DriveRecord) -> Option<u64> {
        let there = self.drives.bytes_of(record.number)?;
        let units = (there / UNIT_BYTES).saturating_sub(record.units.into());
        Some(units * UNIT_BYTES)
    }

    /// Lets go of drives that were prepared and are none of the pool's, after a change that failed. Nobody may prepare
    /// another one meanwhile.
    pub fn let_go_of_prepared(&self) {
        self.drives.let_go_of_prepared(&self.view());
    }

    /// Lets go of drives that have left the pool: they are free for other use.
    pub fn let_go_of_gone(&self) {
        self.drives.let_go_of_gone(&self.view());
    }

    /// The tables, for whoever changes them.
    #[must_use]
    pub const fn tables(&self) -> &Tables {
        &self.tables
    }

    /// Identity of the pool.
    #[must_use]
    pub fn pool(&self) -> PoolId {
        self.view().drives().pool
    }

    /// Wall clock of the pool's making, in ms since 1970.
    #[must_use]
    pub const fn created_unix_ms(&self) -> u64 {
        self.created_unix_ms
    }

    /// Journals of the pool: shards it can have.
    #[must_use]
    pub const fn lane_count(&self) -> u16 {
        self.lane_count
    }

    /// Sizes of its segment store, with the slots that it may grow to have.
    #[must_use]
    pub fn geometry(&self) -> SegmentGeometry {
        let view = self.view();
        let table = view.drives();
        let segment_count = table.zones_max.saturating_mul(table.zone_segments);
        SegmentGeometry { segment_bytes: table.segment_bytes, segment_count }
    }

    /// Lets go of its tables, and keeps its drives locked (FILES-1).
    #[must_use]
    pub fn into_locks(self) -> DriveLocks {
        DriveLocks { _drives: self.drives }
    }

    /// What its tables promise room for.
    #[must_use]
    pub fn sizes(&self) -> PoolSizes {
        PoolSizes::of_view(&self.view())
    }
}

/// Drives that this process has locked, and places where one was expected (FILES-1).
#[derive(Default)]
struct LockedDrives {
    drives: Vec<LockedDrive>,
    failed: Vec<FailedPlace>,
}

pub(crate) struct LockedDrive {
    pub(crate) files: DriveFiles,
    pub(crate) superblock: RedundantSuperblock,
    pub(crate) path: String,
}

impl LockedDrive {
    /// Reads the superblock of a drive that is locked.
    async fn read(reactor: &Reactor, files: DriveFiles, patience_nanos: u64) -> Result<Self> {
        let disk = files.first_disk(reactor).map_err(|error| blame(files.path(), error))?;
        let read = Box::pin(RedundantSuperblock::read(&*disk));
        let path = files.path().display().to_string();
        let found = match select(read, reactor.sleep(patience_nanos)).await {
            Either::Left((found, _)) => found?,
            Either::Right(((), _)) => return Err(silent(&path, patience_nanos)),
        };
        let superblock = found.ok_or_else(|| Error::NoPool { path: path.clone() })?;
        Ok(Self { files, superblock, path })
    }

    pub(crate) fn disks(&self, reactor: &Reactor, layers: &DiskLayers) -> Result<RedundantDisks> {
        let is_meant = |it: &DiskDelay| it.drive.is_none_or(|it| it == self.superblock.number);
        let layers = &DiskLayers { delay: layers.delay.filter(is_meant), ..layers.clone() };
        let DriveParts { meta, space } =
            self.files.disks(reactor, extent_of(&self.superblock), layers)?;
        self.superblock.check_sizes(&*meta, &*space)?;
        Ok(RedundantDisks { meta, space })
    }
}

impl LockedDrives {
    fn at(&self, path: &str) -> Option<&LockedDrive> {
        self.drives.iter().find(|drive| drive.path == path)
    }

    /// Locks the drives that are there now and were not before (FILES-2), and lets go of places that are none any more;
    /// whether something changed.
    async fn look(
        &mut self,
        reactor: &Reactor,
        paths: &[PathBuf],
        options: &FilesOptions,
    ) -> Result<bool> {
        self.failed.clear();
        let before = self.drives.len();
        let is_place = |name: &str| paths.iter().any(|path| path.display().to_string() == name);
        self.drives.retain(|drive| is_place(&drive.path));
        let mut is_news = self.drives.len() < before;
        let mut new: Vec<PathBuf> = Vec::new();
        for path in paths {
            if self.at(&path.display().to_string()).is_none() && !new.contains(path) {
                new.push(path.clone());
            }
        }
        let patience_nanos = options.drive_patience_nanos;
        let opened = open_all(&new, patience_nanos, options.is_read_only).into_iter().map(
            |opened| async move {
                let files = opened?;
                let path = files.path().display().to_string();
                let drive = LockedDrive::read(reactor, files, patience_nanos).await;
                drive.map_err(|error| FailedPlace { path, error, is_absent: false })
            },
        );
        for (path, drive) in new.iter().zip(join_all(opened).await) {
            match drive {
                Ok(drive) if options.pool.is_some_and(|it| it != drive.superblock.pool) => {
                    let LockedDrive { path, superblock, .. } = drive;
                    let error = Error::OtherPool { path: path.clone(), pool: superblock.pool };
                    self.failed.push(FailedPlace { path, error, is_absent: false });
                }
                Ok(drive) => {
                    drive.files.tighten();
                    self.drives.push(drive);
                    is_news = true;
                }
                Err(FailedPlace { path: name, error: error @ Error::InUse { .. }, .. }) => {
                    let error = self.of_place_in_use(path, error, options)?;
                    self.failed.push(FailedPlace { path: name, error, is_absent: false });
                }
                Err(place) => self.failed.push(place),
            }
        }
        Ok(is_news)
    }

    /// What a place is that somebody else has: [`Error::NoPool`] where it is no drive of the pool.
    ///
    /// # Errors
    /// `in_use` of a drive of the pool, but for one that this process has by another name.
    fn of_place_in_use(&self, path: &Path, in_use: Error, options: &FilesOptions) -> Result<Error> {
        let name = path.display().to_string();
        let identity = match identify(path, options.drive_patience_nanos) {
            Ok(identity) => identity,
            Err(Error::NoPool { .. } | Error::Unfinished { .. } | Error::FormerDrive { .. }) => {
                return Ok(Error::NoPool { path: name });
            }
            Err(_) => return Err(in_use),
        };
        let is_other = options.pool.is_some_and(|pool| identity.pool != pool);
        let is_own = identity.redundant.is_some_and(|own| {
            self.drives.iter().any(|drive| drive.superblock.drive_id == own.drive_id)
        });
        if is_other || is_own { Ok(Error::NoPool { path: name }) } else { Err(in_use) }
    }

    fn candidates(&self, reactor: &Reactor, layers: &DiskLayers) -> Vec<Candidate> {
        let failed = self.failed.iter().map(|place| match place.is_absent {
            true => Candidate::Absent { path: place.path.clone() },
            false => Candidate::Failed { path: place.path.clone(), error: place.error.clone() },
        });
        let found = self.drives.iter().map(|drive| match drive.disks(reactor, layers) {
            Ok(disks) => Candidate::Found(FoundDrive {
                path: drive.path.clone(),
                superblock: drive.superblock.clone(),
                disks,
            }),
            Err(error) => {
                let error = blame(drive.files.path(), error);
                Candidate::Failed { path: drive.path.clone(), error }
            }
        });
        found.chain(failed).collect()
    }
}

/// Locks the drives that are there, waits for those that are missing by the tables (FILES-3), and opens the pool by
/// them.
async fn find(
    reactor: &Reactor,
    locate: &dyn Fn() -> Vec<PathBuf>,
    options: &FilesOptions,
) -> Result<(LockedDrives, Opening)> {
    let opening = OpeningOptions {
        degraded: options.is_degraded,
        history: options.history,
        new_history: options.new_history,
        pool: options.pool,
        patience_nanos: options.drive_patience_nanos,
    };
    let overlay = options.is_read_only.then(|| OverlayMemory::new(OVERLAY_BYTES));
    let layers = DiskLayers { stats: None, delay: options.delay, overlay };
    let (mut drives, began) = (LockedDrives::default(), reactor.now());
    let (mut is_first, mut is_unsettled) = (true, true);
    loop {
        is_unsettled |= drives.look(reactor, &locate(), options).await?;
        let is_over = reactor.now().since(began) >= options.missing_wait_nanos;
        let may_wait = !options.is_degraded && !options.is_read_only && !is_over;
        if is_unsettled || !may_wait {
            let candidates = drives.candidates(reactor, &layers);
            match Survey::take(reactor, candidates, &opening).await {
                Ok(survey) => {
                    check_named(&survey, &drives, options)?;
                    if options.is_read_only {
                        return Ok((drives, survey.look()?)); // FILES-4
                    }
                    if survey.missing().is_empty() || !may_wait {
                        return Ok((drives, survey.open().await?));
                    }
                    // What failed to answer may do so the next time.
                    let mut unusable = survey.unusable.iter();
                    is_unsettled = unusable.any(|it| it.drive.is_some());
                    is_unsettled |= !survey.errors.is_empty();
                }
                Err(error) if !may_wait || is_final(&error) => return Err(error),
                Err(_) => is_unsettled = true,
            }
        }
        if is_first {
            is_first = false;
            let seconds = options.missing_wait_nanos / 1_000_000_000;
            tracing::warn!("a drive is missing: waiting for it for up to {seconds} s");
            for FailedPlace { path, error, .. } in &drives.failed {
                tracing::warn!(path, %error, "a drive is expected there");
            }
        }
        reactor.sleep(LOOK_AGAIN_NANOS).await;
    }
}

/// Refuses to go on without drives of which nobody said where they are, where nobody remembers them: they may be there.
fn check_named(survey: &Survey, drives: &LockedDrives, options: &FilesOptions) -> Result<()> {
    let missing = survey.missing();
    let known = survey.unusable.iter().filter(|it| it.drive.is_some());
    // A drive of another pool does not stand for one of this pool that was not named.
    let of_other = |it: &&FailedPlace| matches!(it.error, Error::OtherPool { .. });
    let strangers = drives.failed.iter().filter(of_other).count();
    let places = drives.failed.len() - strangers + known.count();
    let is_told = options.knows_all || options.is_degraded || options.is_read_only;
    if is_told || missing.len() <= places {
        return Ok(());
    }
    let table = survey.view().drives();
    let missing = format!("not all drives of the pool are named: {}", are_missing(missing));
    let (epoch, since_unix_ms) = (table.epoch.0, since_unix_ms(table));
    Err(Error::DegradedOpening { missing, epoch, since_unix_ms })
}

/// Whether a drive was there when the pool was opened, and is not now.
pub(crate) fn has_vanished(path: &str, error: &Error) -> bool {
    matches!(error, Error::TooSmall { .. }) || is_absent(Path::new(path))
}

/// Has a drive fail that a thread could not open.
pub(crate) async fn report_loss(tables: Rc<TablesHandle>, drive: DriveNumber, error: Error) {
    if let Err(error) =
        tables.change(Change::DriveFailed { drive, reason: error.to_string() }).await
    {
        tracing::error!(%drive, %error, "nobody notes that a drive has vanished");
    }
}

/// Whether more drives would not change what was found, as copies on them may do of what is damaged.
fn is_final(error: &Error) -> bool {
    matches!(
        error,
        Error::HistorySplit { .. }
            | Error::DriveSet { .. }
            | Error::OtherPool { .. }
            | Error::Unsupported { .. }
    )
}

/// Where the parts of a drive lie.
pub(crate) fn extent_of(superblock: &RedundantSuperblock) -> DriveExtent {
    DriveExtent { meta_bytes: superblock.space_offset, space_bytes: superblock.space_bytes() }
}

pub(crate) fn no_pool(paths: &[PathBuf]) -> Error {
    let path = paths.first().map_or_else(String::new, |path| path.display().to_string());
    Error::NoPool { path }
}

pub(crate) fn no_number(path: &str) -> Error {
    let reason = "its number is out of range".to_owned();
    Error::Corrupt { what: "superblock", path: path.to_owned(), reason }
}
