//! What the drives that are there say of their pool, and which of it counts. Called before a pool is opened; nothing is
//! written.
//!
//! OPEN-1. A stale drive is not read: one of which the table that counts says that it failed or left, or does not know,
//!     or one that went on apart.
//! OPEN-5. An error to look at a drive is not its absence: what keeps this process from it says nothing of the drive.
//!     One that answers with errors, does not answer in time, or whose superblock is destroyed, is as good as absent:
//!     it takes no other drive with it, and nothing is written to it.

use std::collections::BTreeMap;
use std::rc::Rc;

use futures_util::future::join_all;
use varve_media::planted::{Bug, planted};
use varve_media::{Error, RedundantSuperblock, Result, RootVersion};
use varve_reactor::Reactor;
use varve_types::{PoolId, ShardId};

use crate::format::{
    DriveRecord, DriveRoles, DriveState, DriveTable, FormatFault, JournalRecord, LayoutPage,
};
use crate::handles::{DriveHandle, DriveHandles, RedundantDisks};
use crate::histories::{DriveTables, NoTable, is_of_line, is_read, newest};
use crate::ids::{DriveId, DriveNumber, HistoryId};
use crate::table_store::{RootCensus, RootContents, StoredRoot, census, look};
use crate::view::LayoutView;

/// Pages and journal records that are read at once.
const READS_AT_ONCE: usize = 64;

/// A place where a drive of the pool may be.
pub enum Candidate {
    /// A drive whose superblock was read.
    Found(FoundDrive),
    /// The system says that nothing is there.
    Absent {
        /// Where.
        path: String,
    },
    /// One that could not be looked at. Whether that is the drive's fault, or keeps a pool closed that lacks a drive,
    /// the error says (OPEN-5).
    Failed {
        /// Where.
        path: String,
        /// Why.
        error: Error,
    },
}

/// A drive that is there and cannot be used, by its own fault: as good as absent (OPEN-5).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnusableDrive {
    /// Where.
    pub path: String,
    /// Its number, where its superblock was read.
    pub drive: Option<DriveNumber>,
    /// What is wrong with it.
    pub reason: String,
}

/// A drive whose superblock was read.
#[derive(Clone)]
pub struct FoundDrive {
    /// Where it is.
    pub path: String,
    /// What it says of itself.
    pub superblock: RedundantSuperblock,
    /// Its disks.
    pub disks: RedundantDisks,
}

impl FoundDrive {
    fn number(&self) -> Option<DriveNumber> {
        DriveNumber::new(u8::try_from(self.superblock.number).ok()?)
    }
}

/// How a pool is opened.
#[derive(Clone, Debug)]
pub struct OpeningOptions {
    /// Go on from the newest table that is there, although a newer one may exist, or read what is there where too much
    /// is missing.
    pub degraded: bool,
    /// Which of two histories that have split counts.
    pub history: Option<HistoryId>,
    /// Random, drawn for this opening: what a new history is called, if there must be one.
    pub new_history: HistoryId,
    /// The pool; that of the first drive where it is not known.
    pub pool: Option<PoolId>,
    /// How long a drive may not answer, in ns.
    pub patience_nanos: u64,
}

/// A table or page as it counts, and which drives lack it.
pub(crate) struct SurveyedRoot {
    pub(crate) which: StoredRoot,
    pub(crate) contents: RootContents,
    pub(crate) laggards: Vec<DriveNumber>,
}

/// What drives say, and which of it counts.
pub struct Survey {
    pub(crate) reactor: Reactor,
    pub(crate) options: OpeningOptions,
    /// The tables that count, as they are stored.
    pub(crate) view: LayoutView,
    /// Drives that the table knows and that are used: live, leaving or joining.
    pub(crate) drives: Vec<(DriveNumber, FoundDrive)>,
    pub(crate) handles: Rc<DriveHandles>,
    pub(crate) missing: Vec<DriveNumber>,
    pub(crate) stale: Vec<String>,
    /// Why places could not be looked at that may have a drive (OPEN-5).
    pub(crate) errors: Vec<Error>,
    pub(crate) unusable: Vec<UnusableDrive>,
    pub(crate) roots: Vec<SurveyedRoot>,
    /// Drives that may be dropped since the last table that is durable everywhere.
    pub(crate) drops_limit: u8,
}

impl Survey {
    /// Reads the tables of all candidates. Nothing is written.
    ///
    /// # Errors
    /// [`Error::NoPool`] when no drive has a table that can be read, [`Error::HistorySplit`], [`Error::DriveSet`] for a
    /// drive of another pool or one that is there twice, [`Error::Unsupported`], [`Error::Corrupt`] when what drives
    /// and tables say does not agree.
    pub async fn take(
        reactor: &Reactor,
        candidates: Vec<Candidate>,
        options: &OpeningOptions,
    ) -> Result<Self> {
        let look = look_at_all(reactor, candidates, options).await?;
        let held: Vec<_> = look.present.iter().map(PresentDrive::held).collect();
        let table = match newest(&held, options.history) {
            Ok(table) => table,
            Err(NoTable::Split(histories)) => return Err(Error::HistorySplit { histories }),
            Err(NoTable::None) => return Err(look.no_table()),
        };
        let drops_limit = drops_limit(&table, &held);
        let set = sort_drives(reactor, &table, look)?;
        set.read(reactor, options, table, drops_limit).await
    }

    /// Drives that the table calls live or leaving, and that are not there or cannot be used.
    #[must_use]
    pub fn missing(&self) -> &[DriveNumber] {
        &self.missing
    }

    /// The tables that count, as they are stored.
    #[must_use]
    pub fn view(&self) -> &LayoutView {
        &self.view
    }

    pub(crate) fn table(&self) -> &DriveTable {
        self.view.drives()
    }
}

/// A drive that answered.
struct PresentDrive {
    found: FoundDrive,
    handle: DriveHandle,
    tables: Vec<DriveTable>,
}

impl PresentDrive {
    fn held(&self) -> DriveTables {
        let id = DriveId(self.found.superblock.drive_id);
        DriveTables { id, path: self.found.path.clone(), tables: self.tables.clone() }
    }
}

/// What the places say.
#[derive(Default)]
struct Look {
    present: Vec<PresentDrive>,
    /// Paths where nothing is.
    absent: Vec<String>,
    failures: LookFailures,
}

impl Look {
    fn no_table(self) -> Error {
        let mut paths: Vec<_> = self.present.iter().map(|it| it.found.path.clone()).collect();
        paths.extend(self.absent);
        self.failures.first(|| Error::NoPool { path: paths.join(", ") })
    }
}

/// Places that could not be looked at.
#[derive(Default)]
struct LookFailures {
    /// What may have nothing to do with the drive (OPEN-5).
    errors: Vec<Error>,
    unusable: Vec<UnusableDrive>,
    /// Why the first of those cannot be used.
    fault: Option<Error>,
}

impl LookFailures {
    fn note(&mut self, path: &str, drive: Option<DriveNumber>, error: Error) {
        tracing::warn!(path, %error, "a drive cannot be used");
        if !is_of_drive(&error) {
            self.errors.push(error); // OPEN-5
            return;
        }
        self.unusable.push(UnusableDrive {
            path: path.to_owned(),
            drive,
            reason: error.to_string(),
        });
        let is_empty = matches!(
            error,
            Error::NoPool { .. } | Error::Unfinished { .. } | Error::FormerDrive { .. }
        );
        self.fault = self.fault.take().or_else(|| (!is_empty).then_some(error));
    }

    /// Why there is nothing, where a place says it.
    fn first(mut self, otherwise: impl FnOnce() -> Error) -> Error {
        self.errors.pop().or(self.fault).unwrap_or_else(otherwise)
    }
}

/// Whether an error is a drive's own answer, or its silence, rather than what keeps this process from it (OPEN-5).
fn is_of_drive(error: &Error) -> bool {
    matches!(
        error,
        Error::NoPool { .. }
            | Error::Unfinished { .. }
            | Error::FormerDrive { .. }
            | Error::Io { .. }
            | Error::Corrupt { what: "superblock", .. }
            | Error::OtherPool { .. }
    )
}

async fn look_at_all(
    reactor: &Reactor,
    candidates: Vec<Candidate>,
    options: &OpeningOptions,
) -> Result<Look> {
    let mut look = Look::default();
    let mut found = Vec::new();
    let mut pool = options.pool;
    for candidate in candidates {
        match candidate {
            Candidate::Absent { path } => {
                tracing::warn!(path, "a drive is not there");
                look.absent.push(path);
            }
            Candidate::Failed { path, error } => look.failures.note(&path, None, error),
            Candidate::Found(drive) => {
                let of = *pool.get_or_insert(drive.superblock.pool);
                match check_distinct(&drive, of, &found) {
                    Ok(()) => found.push(drive),
                    Err(error @ Error::OtherPool { .. }) if options.pool.is_some() => {
                        look.failures.note(&drive.path, None, error);
                    }
                    Err(error) => return Err(error),
                }
            }
        }
    }
    let answers = join_all(found.iter().map(|drive| look_at_one(reactor, drive, options))).await;
    for (drive, answer) in found.iter().zip(answers) {
        match answer {
            Ok(drive) => look.present.push(drive),
            Err(error @ (Error::Fenced | Error::Unsupported { .. })) => return Err(error),
            Err(error) => look.failures.note(&drive.path, drive.number(), error),
        }
    }
    Ok(look)
}

/// A copy of a drive, and one of another pool, is none of the pool's.
fn check_distinct(drive: &FoundDrive, pool: PoolId, found: &[FoundDrive]) -> Result<()> {
    let (superblock, path) = (&drive.superblock, drive.path.clone());
    if superblock.pool != pool {
        return Err(Error::OtherPool { path, pool: superblock.pool });
    }
    let is_twice = found.iter().any(|other| other.superblock.drive_id == superblock.drive_id);
    if !is_twice {
        return Ok(());
    }
    Err(Error::DriveSet { path, index: superblock.number, count: 0, pool })
}

/// A drive's tables, of both sides. What is read later is durable since.
async fn look_at_one(
    reactor: &Reactor,
    found: &FoundDrive,
    options: &OpeningOptions,
) -> Result<PresentDrive> {
    let superblock = found.superblock.clone();
    let handle = DriveHandle::new(reactor, superblock, &found.disks, options.patience_nanos);
    let handle = handle.ok_or_else(|| mismatch(found, "its number is out of range"))?;
    handle.superblock().check_sizes(handle.meta(), &*handle.disks().space)?;
    handle.meta().flush().await?;
    let mut tables = Vec::new();
    for (version, bytes) in look(StoredRoot::DriveTable, &handle).await?.into_iter().flatten() {
        if version == RootVersion(0) {
            continue;
        }
        match DriveTable::decode(found.superblock.pool, &bytes) {
            Ok(table) if table.features.is_writable() => tables.push(table),
            Ok(table) => return Err(unsupported(found, table.features.ro_compat)),
            Err(FormatFault::Features { flags }) => return Err(unsupported(found, flags)),
            Err(fault) => {
                tracing::warn!(path = found.path, %fault, "a side of a drive table is damaged");
            }
        }
    }
    Ok(PresentDrive { found: found.clone(), handle, tables })
}

fn unsupported(found: &FoundDrive, flags: u64) -> Error {
    Error::Unsupported { path: found.path.clone(), flags }
}

fn mismatch(found: &FoundDrive, reason: &str) -> Error {
    Error::Corrupt { what: "superblock", path: found.path.clone(), reason: reason.to_owned() }
}

/// Drives that may be dropped: the fewest of what the tables say that are not older than the last one that is known to
/// be durable everywhere, as far as they can be seen.
fn drops_limit(table: &DriveTable, drives: &[DriveTables]) -> u8 {
    let seen = drives.iter().flat_map(|drive| &drive.tables);
    let counts =
        |other: &&DriveTable| is_of_line(table, other) && other.epoch >= table.settled_epoch;
    seen.filter(counts).map(|other| other.drops_max).min().unwrap_or(0).min(table.drops_max)
}

/// The drives by what the table says of them.
struct DriveSet {
    drives: Vec<(DriveNumber, FoundDrive)>,
    handles: Rc<DriveHandles>,
    missing: Vec<DriveNumber>,
    stale: Vec<String>,
    failures: LookFailures,
}

fn sort_drives(reactor: &Reactor, table: &DriveTable, look: Look) -> Result<DriveSet> {
    let handles = DriveHandles::new(reactor);
    let Look { present, mut failures, .. } = look;
    let (mut drives, mut stale) = (Vec::new(), Vec::new());
    for PresentDrive { found, handle, tables } in present {
        let id = DriveId(found.superblock.drive_id);
        let record = table.drives.iter().find(|record| record.id == id);
        let went_apart = tables.iter().any(|held| !is_of_line(table, held));
        let Some(record) =
            record.filter(|it| is_used(it.state) && (!went_apart || planted(Bug::StaleRead)))
        else {
            stale.push(found.path); // OPEN-1
            continue;
        };
        check_figures(table, record, &found)?;
        if tables.is_empty() && record.state.is_readable() {
            let reason = "neither side of the drive table can be read".to_owned();
            tracing::error!(path = found.path, reason);
            let (path, drive) = (found.path, Some(record.number));
            failures.unusable.push(UnusableDrive { path, drive, reason });
            continue;
        }
        handles.insert(handle);
        drives.push((record.number, found));
    }
    drives.sort_by_key(|(number, _)| *number);
    let is_missing = |record: &&DriveRecord| {
        record.state.is_readable() && !drives.iter().any(|(number, _)| *number == record.number)
    };
    let missing = table.drives.iter().filter(is_missing).map(|record| record.number).collect();
    Ok(DriveSet { drives, handles, missing, stale, failures })
}

fn is_used(state: DriveState) -> bool {
    is_read(state) || state == DriveState::Joining
}

fn check_figures(table: &DriveTable, record: &DriveRecord, found: &FoundDrive) -> Result<()> {
    let superblock = &found.superblock;
    if superblock.units < record.units {
        // GROWING-1
        let (has, needs) = (superblock.units, record.units);
        return Err(mismatch(
            found,
            &format!("it has {has} units, and {needs} in the drive table"),
        ));
    }
    let checks = [
        (
            "its number is another one in the drive table",
            superblock.number == u16::from(record.number.get()),
        ),
        ("its segments have another size", superblock.segment_bytes == table.segment_bytes),
        (
            "it has another number of layout pages",
            u64::from(superblock.layout_pages) * u64::from(LayoutPage::ROWS)
                == u64::from(table.zones_max),
        ),
    ];
    match checks.iter().find(|(_, holds)| !holds) {
        None => Ok(()),
        Some((reason, _)) => Err(mismatch(found, reason)),
    }
}

impl DriveSet {
    /// Reads rows and journal records. A drive that fails meanwhile is missing.
    async fn read(
        mut self,
        reactor: &Reactor,
        options: &OpeningOptions,
        table: DriveTable,
        drops_limit: u8,
    ) -> Result<Survey> {
        let Some((_, first)) = self.drives.first() else {
            return Err(self.failures.first(|| too_few(&table)));
        };
        let lanes = (0..first.superblock.lanes_of_pool).map(ShardId);
        let pages = (0..first.superblock.layout_pages).map(StoredRoot::Page);
        let all: Vec<_> = lanes.map(StoredRoot::Journal).chain(pages).collect();
        let mut roots = Vec::new();
        for batch in all.chunks(READS_AT_ONCE) {
            let holders = self.holders(&table);
            if holders.is_empty() {
                return Err(self.failures.first(|| too_few(&table)));
            }
            let looks = batch.iter().map(|which| census(*which, &holders));
            for (which, census) in batch.iter().zip(join_all(looks).await) {
                roots.extend(self.note(*which, census?)?);
            }
        }
        if self.holders(&table).is_empty() {
            return Err(self.failures.first(|| too_few(&table)));
        }
        let view = view_of(table, &roots)?;
        let Self { drives, handles, mut missing, stale, failures } = self;
        let LookFailures { errors, unusable, .. } = failures;
        missing.sort_unstable();
        let (reactor, options) = (reactor.clone(), options.clone());
        Ok(Survey {
            reactor,
            options,
            view,
            drives,
            handles,
            missing,
            stale,
            errors,
            unusable,
            roots,
            drops_limit,
        })
    }

    /// Drives that have tables and roots, and are read (OPEN-1).
    fn holders(&self, table: &DriveTable) -> Vec<Rc<DriveHandle>> {
        let has_roots = |number: DriveNumber| {
            let record = table.drive(number);
            record.is_some_and(|it| is_read(it.state) && it.roles.has(DriveRoles::ROOTS))
        };
        self.handles.all().into_iter().filter(|drive| has_roots(drive.number())).collect()
    }

    fn note(&mut self, which: StoredRoot, census: RootCensus) -> Result<Option<SurveyedRoot>> {
        let RootCensus { newest, laggards, failures } = census;
        for failure in failures {
            if !self.missing.contains(&failure.drive) {
                let found = self.drives.iter().find(|(number, _)| *number == failure.drive);
                let path = found.map(|(_, found)| found.path.clone()).unwrap_or_default();
                self.failures.note(&path, Some(failure.drive), failure.error);
                self.missing.push(failure.drive);
                self.handles.remove(failure.drive);
                self.drives.retain(|(number, _)| *number != failure.drive);
            }
        }
        match newest {
            Some((RootVersion(0), _)) => Ok(None),
            Some(contents) => Ok(Some(SurveyedRoot { which, contents, laggards })),
            // All drives failed meanwhile, and so does the survey.
            None if laggards.is_empty() => Ok(None),
            // ROOTS-3: what was never written can be read, as version 0.
            None => Err(damaged(&format!("no drive has {which:?}"))),
        }
    }
}

fn too_few(table: &DriveTable) -> Error {
    let needed = table.drives.iter().filter(|record| record.state.is_readable()).count();
    Error::TooFewDrives { zone: None, present: 0, needed }
}

fn damaged(reason: &str) -> Error {
    let path = "the drives of the pool".to_owned();
    Error::Corrupt { what: "layout table", path, reason: reason.to_owned() }
}

fn view_of(table: DriveTable, roots: &[SurveyedRoot]) -> Result<LayoutView> {
    let pool = table.pool;
    let (mut pages, mut journals) = (Vec::new(), Vec::new());
    for SurveyedRoot { which, contents: (_, bytes), .. } in roots {
        let fault = |fault: FormatFault| damaged(&format!("{which:?}: {fault}"));
        match *which {
            StoredRoot::Page(page) => {
                pages.push(LayoutPage::decode(pool, page, bytes).map_err(fault)?);
            }
            StoredRoot::Journal(shard) => {
                journals.push(JournalRecord::decode(pool, shard, bytes).map_err(fault)?);
            }
            StoredRoot::DriveTable | StoredRoot::Root(_) => {}
        }
    }
    LayoutView::new(table, pages, journals).map_err(|fault| damaged(&fault.to_string()))
}

/// Versions of what is stored, by what it is.
pub(crate) fn versions_of(roots: &[SurveyedRoot]) -> BTreeMap<StoredRoot, u64> {
    roots.iter().map(|root| (root.which, root.contents.0.0)).collect()
}
