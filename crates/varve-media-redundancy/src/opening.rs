//! Opening a pool by the drives that are there: whether they may be believed, and what is written before anything else
//! is. The rules O1 to O3 are those of RFC 0026, section 3.6.
//!
//! ```text
//!  Survey ─▶ decide ─▶ the table that counts, as it is ─▶ a table without what is missing ─▶ rows, records ─▶ Keeper
//! ```
//!
//! OPEN-2. A pool is opened with more drives than may be dropped, or with all of them; otherwise only where the
//!     operator says so, and then with a new history.
//! OPEN-6. Where a drive that is missing may know a newer table, the opening tells it, whatever it is for: what is read
//!     then may be older than what was acknowledged.

use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use varve_media::planted::{Bug, planted};
use varve_media::{Error, Result};
use varve_reactor::Reactor;
use varve_types::UnixMillis;

use crate::drive_changes::{TableChange, drop_drive, following, has_drops, is_written};
use crate::exposure::{is_readable, lost_without};
use crate::format::{DriveRecord, DriveState, DriveTable, EarlierHistory, JournalCopy};
use crate::handles::{DriveHandle, DriveHandles};
use crate::histories::since_unix_ms;
use crate::ids::{DriveNumber, Epoch};
use crate::survey::{Candidate, FoundDrive, OpeningOptions, Survey, UnusableDrive, versions_of};
use crate::table_store::{StoredRoot, write_all, write_next};
use crate::view::{LayoutView, ViewFault};

/// A pool that was opened.
pub struct Opening {
    /// Its tables.
    pub view: LayoutView,
    /// Paths of drives that are not read (OPEN-1).
    pub stale: Vec<String>,
    /// Drives that were missing.
    pub missing: Vec<DriveNumber>,
    /// Drives that are there, and are missing by their own fault.
    pub unusable: Vec<UnusableDrive>,
    /// Whether nothing may reach the drives: this is a look at what is there.
    pub is_read_only: bool,
    /// The table that it goes by, where a drive that is missing may know a newer one (OPEN-6).
    pub may_be_older: Option<TableAge>,
    /// Drives that are used.
    pub drives: Vec<(DriveNumber, FoundDrive)>,
    pub(crate) handles: Rc<DriveHandles>,
    pub(crate) versions: BTreeMap<StoredRoot, u64>,
    pub(crate) patience_nanos: u64,
}

/// How old a drive table is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableAge {
    /// Its epoch.
    pub epoch: Epoch,
    /// When the state of a drive changed last in it, in ms since 1970; 0 where that is not known.
    pub since_unix_ms: u64,
}

impl TableAge {
    fn of(table: &DriveTable) -> Self {
        Self { epoch: table.epoch, since_unix_ms: since_unix_ms(table) }
    }
}

impl fmt::Display for TableAge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "epoch {}", self.epoch)?;
        if self.since_unix_ms > 0 {
            write!(f, ", of {}", UnixMillis(self.since_unix_ms))?;
        }
        Ok(())
    }
}

/// How a pool may be opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum OpeningWay {
    /// By an ordinary table, without the drives that are missing, if there are any.
    Ordinary,
    /// By the first table of a new history.
    NewHistory,
}

/// Opens a pool: looks at the drives, and then writes tables, if the rules allow that.
///
/// # Errors
/// Those of [`Survey::take`] and [`Survey::open`].
pub async fn open(
    reactor: &Reactor,
    candidates: Vec<Candidate>,
    options: &OpeningOptions,
) -> Result<Opening> {
    Survey::take(reactor, candidates, options).await?.open().await
}

impl Survey {
    /// Opens the pool. Its tables are durable on all drives that are used when this returns.
    ///
    /// # Errors
    /// [`Error::TooFewDrives`] when too much is missing, and [`Error::DegradedOpening`] without the option to go on
    /// when drives are missing that may know something newer. The error of a place that could not be looked at, when a
    /// drive is missing that may be there (OPEN-5).
    pub async fn open(self) -> Result<Opening> {
        let way = self.decide()?;
        self.write(way).await
    }

    /// What is there, as a pool without the drives that are missing, whatever lacks: for somebody who looks at it, and
    /// whose writes never reach the drives. Nothing is written here.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when the tables do not agree without those drives.
    pub fn look(self) -> Result<Opening> {
        let is_absent = |it: &&DriveRecord| {
            it.state == DriveState::Joining && self.handles.get(it.number).is_none()
        };
        let absent = self.table().drives.iter().filter(is_absent).map(|it| it.number);
        let dropped: Vec<DriveNumber> = absent.chain(self.missing.iter().copied()).collect();
        if dropped.is_empty() {
            let view = self.view.clone();
            return Ok(self.finish(view, true));
        }
        let mut table = self.table().clone();
        table.epoch.0 += 1;
        for drive in dropped {
            drop_drive(&mut table, drive, self.reactor.unix_time_ms());
        }
        // What the look changes counts from here.
        table.settled_epoch = table.epoch;
        let view = self.view.with_drives(table).map_err(|fault| disagreement(&fault))?;
        Ok(self.finish(view, true))
    }

    fn decide(&self) -> Result<OpeningWay> {
        let degraded = self.options.degraded;
        if self.missing.is_empty() {
            return Ok(OpeningWay::Ordinary);
        }
        match self.errors.first() {
            // OPEN-5: what lacks may be there, and this is why nobody can say.
            Some(error) if !degraded && !planted(Bug::ErrorIsAbsence) => return Err(error.clone()),
            Some(_) | None => {}
        }
        if let Some(error) = self.excess() {
            return Err(error); // It can be looked at.
        }
        let is_certain = !self.may_be_older() || planted(Bug::HalfOpens);
        match (is_certain, degraded) {
            (true, _) => Ok(OpeningWay::Ordinary),
            (false, true) => Ok(OpeningWay::NewHistory), // OPEN-2
            (false, false) => Err(self.uncertain()),
        }
    }

    /// Whether a drive that is missing may know a newer table: the one after this may have dropped as many drives as
    /// are there.
    fn may_be_older(&self) -> bool {
        let present = self.readable_count() - self.missing.len();
        !self.missing.is_empty() && present <= usize::from(self.table().drops_max)
    }

    /// Drives that the table calls live or leaving.
    fn readable_count(&self) -> usize {
        self.table().drives.iter().filter(|record| record.state.is_readable()).count()
    }

    /// What lacks too many drives: a zone, a journal, or the tables.
    fn excess(&self) -> Option<Error> {
        let table = self.table();
        let lost_zone = || lost_without(&self.view, &self.missing);
        if let Some(error) = lost_zone().or_else(|| self.lost_journal()) {
            return Some(error);
        }
        let dropped = table.drives.iter().filter(|record| {
            let is_missing = self.missing.contains(&record.number);
            is_missing || !is_written(record.state) && record.since_epoch > table.settled_epoch
        });
        let excess = dropped.count().saturating_sub(usize::from(self.drops_limit));
        let present = self.readable_count() - self.missing.len();
        if present > 0 && (excess == 0 || planted(Bug::DropsUnbounded)) {
            return None;
        }
        Some(Error::TooFewDrives { zone: None, present, needed: present + excess.max(1) })
    }

    /// A journal of which all current copies that can be read are on drives that are missing: what was acknowledged
    /// last is nowhere else.
    fn lost_journal(&self) -> Option<Error> {
        let table = self.table();
        self.view.journals().find_map(|journal| {
            let copies = journal.current().filter(|copy| is_readable(table, copy.drive));
            let (missing, present): (Vec<&JournalCopy>, Vec<&JournalCopy>) =
                copies.partition(|copy| self.missing.contains(&copy.drive));
            let is_lost = present.is_empty() && !missing.is_empty();
            is_lost.then_some(Error::TooFewDrives { zone: None, present: 0, needed: 1 })
        })
    }

    fn uncertain(&self) -> Error {
        let table = self.table();
        let missing = are_missing(&self.missing);
        let mut missing = format!("of {} drives, {missing}", self.readable_count());
        let reasons: Vec<_> = self.unusable.iter().map(|it| it.reason.as_str()).collect();
        if !reasons.is_empty() {
            missing += &format!(" ({})", reasons.join("; "));
        }
        let since_unix_ms = since_unix_ms(table);
        Error::DegradedOpening { missing, epoch: table.epoch.0, since_unix_ms }
    }

    /// Writes the table that counts as it is, then those that follow, and then what some drives lack of the rest.
    async fn write(self, way: OpeningWay) -> Result<Opening> {
        let table = self.table().clone();
        let present: Vec<_> = self.handles.all();
        let written = present.iter().filter(|drive| {
            table.drive(drive.number()).is_some_and(|record| is_written(record.state))
        });
        let written: Vec<_> = written.cloned().collect();
        let failures = write_next(StoredRoot::DriveTable, &written, &table.encode()).await?;
        let mut dropped: Vec<_> = failures.iter().map(|failure| failure.drive).collect();
        for failure in failures {
            tracing::error!(drive = %failure.drive, error = %failure.error, "a drive failed");
            self.handles.remove(failure.drive);
        }
        let joining = table.drives.iter().filter(|record| record.state == DriveState::Joining);
        let absent = joining.map(|it| it.number).filter(|it| self.handles.get(*it).is_none());
        dropped.extend(absent);
        dropped.extend(&self.missing);
        dropped.sort_unstable();
        dropped.dedup();
        let mut view = self.view.clone();
        if way == OpeningWay::NewHistory || !dropped.is_empty() {
            let next = self.without(&table, &dropped, way);
            next.check().map_err(|fault| Error::TableChange { reason: fault.to_string() })?;
            view = self.follow(&view, next).await?;
        }
        view = self.settle(view).await?;
        view = self.level(view).await?;
        Ok(self.finish(view, false))
    }

    /// The first table of this opening.
    fn without(&self, table: &DriveTable, dropped: &[DriveNumber], way: OpeningWay) -> DriveTable {
        let mut next = table.clone();
        next.epoch.0 += 1;
        if way == OpeningWay::NewHistory {
            let earlier = EarlierHistory { history: table.history, ended: table.epoch };
            next.lineage.insert(0, earlier);
            next.lineage.truncate(DriveTable::LINEAGE_MAX);
            next.history = self.options.new_history; // OPEN-2
        }
        for drive in dropped {
            drop_drive(&mut next, *drive, self.reactor.unix_time_ms());
        }
        next
    }

    async fn follow(&self, view: &LayoutView, next: DriveTable) -> Result<LayoutView> {
        // What was raised since is not known to all; what is lowered counts at once.
        let drops_limit = self.drops_limit;
        let unix_ms = self.reactor.unix_time_ms();
        let change = TableChange { handles: &self.handles, view, drops_limit, unix_ms };
        let table = change.commit(next).await?;
        view.with_drives(table).map_err(|fault| disagreement(&fault))
    }

    /// A table that dropped drives is durable on all others now: one that says so is written at once.
    async fn settle(&self, mut view: LayoutView) -> Result<LayoutView> {
        while has_drops(view.drives()) {
            view = self.follow(&view, following(view.drives())).await?;
        }
        Ok(view)
    }

    /// Brings all drives to the newest rows and journal records, before any of them is used.
    async fn level(&self, mut view: LayoutView) -> Result<LayoutView> {
        for root in &self.roots {
            let drives = root.laggards.iter().filter_map(|drive| self.handles.get(*drive));
            let drives: Vec<Rc<DriveHandle>> = drives.collect();
            let failures = write_all(root.which, &drives, &root.contents).await?;
            if failures.is_empty() {
                continue;
            }
            let mut next = following(view.drives());
            for failure in failures {
                tracing::error!(drive = %failure.drive, error = %failure.error, "a drive failed");
                drop_drive(&mut next, failure.drive, self.reactor.unix_time_ms());
                self.handles.remove(failure.drive);
            }
            view = self.follow(&view, next).await?;
            view = self.settle(view).await?;
        }
        Ok(view)
    }

    fn finish(self, view: LayoutView, is_read_only: bool) -> Opening {
        let versions = versions_of(&self.roots);
        let may_be_older = self.may_be_older().then(|| TableAge::of(self.table())); // OPEN-6
        let Self { mut drives, handles, missing, stale, unusable, options, .. } = self;
        drives.retain(|(number, _)| handles.get(*number).is_some());
        let patience_nanos = options.patience_nanos;
        Opening {
            view,
            stale,
            missing,
            unusable,
            is_read_only,
            may_be_older,
            drives,
            handles,
            versions,
            patience_nanos,
        }
    }
}

/// That drives are missing, in words.
pub(crate) fn are_missing(drives: &[DriveNumber]) -> String {
    match drives {
        [drive] => format!("drive {drive} is missing"),
        _ => {
            let names: Vec<_> = drives.iter().map(ToString::to_string).collect();
            format!("drives {} are missing", names.join(", "))
        }
    }
}

fn disagreement(fault: &ViewFault) -> Error {
    let (path, reason) = ("the drives of the pool".to_owned(), fault.to_string());
    Error::Corrupt { what: "drive table", path, reason }
}
