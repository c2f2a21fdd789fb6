//! The one task of a pool that changes its tables. Runs on a loop of its own in the daemon, and as a task in the
//! simulator; called through `TablesHandle`.
//!
//! ```text
//!  Change ─▶ a table in memory ─▶ all drives that it calls live, joining or leaving ─▶ view ─▶ answer
//!                 ▲                           │
//!                 └── without those that fail ◀┘
//! ```
//!
//! KEEPER-1. Nothing is acknowledged without a drive before the table that drops it is durable on all live drives.
//! KEEPER-3. A row is replaced only as it was expected, and so is a journal record.
//! KEEPER-4. That a drive is to go stands in the drive table, before anybody who asked for it is answered. It is gone
//!     once no row and no journal record names it, whoever was stopped meanwhile.
//! KEEPER-5. A drive that leaves is live again only where its tables and roots are as new as those of the others, as
//!     all of them were written on it while it left. One that failed, or is gone, never is.

use std::collections::BTreeMap;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;

use futures_util::future::{Either, select};
use varve_media::planted::{Bug, planted};
use varve_media::{Error, IoFuture, RedundantSuperblock, Result, RootVersion};
use varve_reactor::Reactor;
use varve_reactor::port::PortReceiver;

use crate::change::{Change, NewMember};
use crate::drive_changes::{TableChange, drop_drive, following, has_drops, is_written};
use crate::format::{DriveRoles, DriveTable, FormatFault};
use crate::handles::{DriveHandle, DriveHandles, RedundantDisks};
use crate::ids::DriveNumber;
use crate::opening::Opening;
use crate::plan::Occupancy;
use crate::table_store::{DriveFailure, StoredRoot};
use crate::tables::{TableBoard, TableRequest, Tables};
use crate::view::LayoutView;
use crate::watch::may_go_without;

mod growing;
mod joining;
mod late_writes;
mod membership;
mod rows;

use late_writes::{LateWrites, TableHolder, TableWrite};

/// Opens drives that join, on the keeper's loop.
pub trait DriveOpener {
    /// The disks of a drive that gets this superblock; files have their full size.
    fn open<'a>(
        &'a self,
        member: &'a NewMember,
        superblock: &'a RedundantSuperblock,
    ) -> IoFuture<'a, RedundantDisks>;
}

/// The keeper.
pub struct Keeper {
    reactor: Reactor,
    /// Until it runs: while it holds one, it never ends.
    tables: Option<Tables>,
    board: TableBoard,
    requests: PortReceiver<TableRequest>,
    handles: Rc<DriveHandles>,
    opener: Rc<dyn DriveOpener>,
    /// The tables, durable on all drives that they call live, joining or leaving.
    view: Arc<LayoutView>,
    occupancy: Option<Occupancy>,
    /// Versions of pages and journal records; those that are not here were never written.
    versions: BTreeMap<StoredRoot, u64>,
    /// Pages and records that some drives do not have yet.
    late: LateWrites,
    patience_nanos: u64,
    /// Whether its drives are overlays, for a look: it brings nothing up, and changes what recovery needs.
    is_read_only: bool,
}

impl Keeper {
    /// The keeper of a pool that was opened, with the drives that were opened for it.
    #[must_use]
    pub fn new(reactor: &Reactor, opening: Opening, opener: Rc<dyn DriveOpener>) -> Self {
        let Opening { view, handles, versions, patience_nanos, is_read_only, .. } = opening;
        let (tables, requests) = Tables::new(reactor, view.clone());
        Self {
            reactor: reactor.clone(),
            board: tables.board().clone(),
            tables: Some(tables),
            requests,
            handles,
            opener,
            occupancy: Occupancy::of(&view).ok(),
            view: Arc::new(view),
            versions,
            late: LateWrites::new(reactor),
            patience_nanos,
            is_read_only,
        }
    }

    /// The tables, for all threads.
    ///
    /// # Panics
    /// Never: they are there until it runs.
    #[must_use]
    pub fn tables(&self) -> Tables {
        self.tables.clone().expect("`run` takes the keeper")
    }

    /// The keeper's own drives.
    #[must_use]
    pub fn handles(&self) -> &Rc<DriveHandles> {
        &self.handles
    }

    /// Changes tables as it is asked to. Ends when the loop does, or when nobody asks any more: with the last clone of
    /// its tables.
    pub async fn run(mut self) {
        drop(self.tables.take());
        if !self.is_read_only
            && let Err(error) = self.begin().await
        {
            tracing::error!(%error, "tables of the pool cannot be brought up");
        }
        let mut batch = Vec::new();
        loop {
            let asked = {
                let (asked, failed) = (self.requests.recv_batch(&mut batch), self.late.failed());
                match select(pin!(asked), pin!(failed)).await {
                    Either::Left((count, _)) => Some(count),
                    Either::Right(((), _)) => None,
                }
            };
            match asked {
                Some(0) => break,
                Some(_) => {}
                None => self.drop_late().await,
            }
            for TableRequest { change, answer } in batch.drain(..) {
                let result = self.handle(change).await;
                // Whoever asked may be gone.
                drop(answer.send(result));
            }
        }
        self.late.settle().await; // Who closes the pool waits for what is written.
    }

    /// Drops drives on which late writes failed.
    async fn drop_late(&mut self) {
        let dropped = match self.late.take_failures() {
            Ok(failures) => self.fail_drives(failures).await,
            Err(error) => Err(self.end(error)),
        };
        match dropped {
            Ok(()) => self.follow_up().await,
            Err(error) => tracing::error!(%error, "a drive that failed cannot be dropped"),
        }
    }

    /// What an earlier life left behind.
    async fn begin(&mut self) -> Result<()> {
        self.finish_joins().await?;
        self.grant_roots().await?;
        self.forget_removed().await // KEEPER-4
    }

    async fn handle(&mut self, change: Change) -> Result<Arc<LayoutView>> {
        if self.is_read_only && !is_of_recovery(&change) {
            return Err(Error::ReadOnly);
        }
        if let Some(error) = self.board.failure() {
            return Err(error);
        }
        self.apply(change).await?;
        self.follow_up().await;
        Ok(Arc::clone(&self.view))
    }

    /// What follows from a change that is durable. What fails of it is tried again after the next one.
    async fn follow_up(&mut self) {
        if self.is_read_only {
            return; // What it copied, threads would not see.
        }
        if let Err(error) = self.grant_roots().await {
            tracing::warn!(%error, "no further drive gets tables and roots");
        }
        if let Err(error) = self.forget_removed().await {
            tracing::warn!(%error, "a drive that nothing needs any more does not go");
        }
    }

    async fn apply(&mut self, change: Change) -> Result<()> {
        match change {
            Change::DriveFailed { drive, reason } => self.fail_drive(drive, &reason).await,
            Change::GiveUp { drive, unreadable, reason } => {
                self.give_up(drive, &unreadable, &reason).await
            }
            Change::DriveSlow { drive, slow } => self.set_slow(drive, slow).await,
            Change::Join(member) => self.join(member).await,
            Change::Leave { drive } => self.leave(drive).await,
            Change::Remove { drive, successor } => self.remove(drive, successor).await,
            Change::Stay { drive } => self.stay(drive).await,
            Change::Grow { drive, units } => self.grow(drive, units).await,
            Change::Kind { drive, kind } => self.set_kind(drive, kind).await,
            Change::Place { zone } => self.place(zone).await,
            Change::Move { zone, why, class, avoid, prefer } => {
                self.move_zone(&rows::MoveRequest { zone, why, class, avoid, prefer }).await
            }
            Change::Row { zone, expected, new } => self.replace_row(zone, &expected, new).await,
            Change::JournalCopies { shard, expected, copies } => {
                self.replace_copies(shard, expected, copies).await
            }
            Change::JournalSubstitute { shard, expected, without, until } => {
                let request = rows::SubstituteRequest { shard, expected, without, until };
                self.substitute(&request).await
            }
            Change::Class { shape, kinds } => self.set_class(shape, kinds).await,
            Change::JournalKinds { kinds } => self.set_journal_kinds(kinds).await,
            Change::LowerDrops => self.lower_drops().await,
            Change::Loss => self.replace_drives(|table| table.loss_epoch = table.epoch).await,
            Change::Walked { began_with } => self.note_walk(began_with).await,
            Change::CopyRoot { key } => self.copy_root(key).await,
        }
    }

    fn table(&self) -> &DriveTable {
        self.view.drives()
    }

    fn occupancy(&self) -> Result<&Occupancy> {
        self.occupancy.as_ref().ok_or_else(|| refused("places of the layout table overlap"))
    }

    /// Replaces the drive table. What `edit` makes of the next one is refused where it is not sound; once something was
    /// written, a failure is the pool's end.
    async fn replace_drives(&mut self, edit: impl FnOnce(&mut DriveTable)) -> Result<()> {
        let mut next = following(self.table());
        edit(&mut next);
        next.check().map_err(|fault| refused(&fault.to_string()))?;
        self.view.with_drives(next.clone()).map_err(|fault| refused(&fault.to_string()))?;
        self.write_drives(next).await?;
        // A table that dropped drives is durable on all others now: what may be dropped next counts from here.
        while has_drops(self.table()) {
            self.write_drives(following(self.table())).await?;
        }
        Ok(())
    }

    async fn write_drives(&mut self, mut next: DriveTable) -> Result<()> {
        self.late.settle().await; // LATE-WRITES-2
        for DriveFailure { drive, error } in self.late.take_failures().map_err(|it| self.end(it))? {
            if next.drive(drive).is_some_and(|record| is_written(record.state)) {
                tracing::error!(%drive, %error, "a drive failed");
                drop_drive(&mut next, drive, self.reactor.unix_time_ms());
            }
        }
        let table = if planted(Bug::AckBeforeTable) { Ok(next) } else { self.commit(next).await };
        let before = Arc::clone(&self.view);
        let after = table.and_then(|table| {
            before.with_drives(table).map_err(|fault| refused(&fault.to_string()))
        });
        let after = match after {
            Ok(after) => after,
            Err(error) => return Err(self.end(error)),
        };
        let followed = self.occupancy.as_mut().map(|it| it.replace_drives(&before, &after));
        if !matches!(followed, Some(Ok(()))) {
            self.occupancy = Occupancy::of(&after).ok();
        }
        for drive in self.handles.all() {
            let record = after.drives().drive(drive.number());
            if !record.is_some_and(|record| is_written(record.state)) {
                self.handles.remove(drive.number());
            }
        }
        self.publish(after);
        Ok(())
    }

    async fn commit(&self, next: DriveTable) -> Result<DriveTable> {
        // The table so far is durable everywhere, so only its bound and the next one's count.
        let drops_limit = self.table().drops_max;
        let (view, unix_ms) = (&*self.view, self.reactor.unix_time_ms());
        TableChange { handles: &self.handles, view, drops_limit, unix_ms }.commit(next).await
    }

    fn publish(&mut self, view: LayoutView) {
        self.view = Arc::new(view);
        self.board.publish(Arc::clone(&self.view)); // TABLES-1
    }

    /// Nothing is written any more: what drives hold is no longer what the view says.
    fn end(&self, error: Error) -> Error {
        tracing::error!(%error, "tables cannot be replaced, and nothing is written any more");
        self.board.fail(error.clone());
        error
    }

    /// KEEPER-1: the drive is dropped on all others when this returns.
    async fn fail_drive(&mut self, drive: DriveNumber, reason: &str) -> Result<()> {
        let Some(record) = self.table().drive(drive) else {
            // One that joined goes without a trace.
            let is_former = drive.get() < self.table().next_drive;
            return if is_former { Ok(()) } else { Err(unknown(drive)) };
        };
        if !is_written(record.state) {
            return Ok(());
        }
        tracing::error!(%drive, reason, "a drive failed");
        let unix_ms = self.reactor.unix_time_ms();
        self.replace_drives(|table| drop_drive(table, drive, unix_ms)).await
    }

    /// Drops a drive that cannot be read, where nothing is lost without those (WATCH-3): nobody needs that, so it does
    /// not end the pool as a write that fails may (DROPS-1).
    async fn give_up(
        &mut self,
        drive: DriveNumber,
        unreadable: &[DriveNumber],
        reason: &str,
    ) -> Result<()> {
        self.late.settle().await; // What failed goes with the next table in any case (LATE-WRITES-2).
        let failures = self.late.take_failures().map_err(|error| self.end(error))?;
        self.fail_drives(failures).await?;
        if !may_go_without(&self.view, unreadable) {
            return Err(refused(&format!("what drive {drive} has would be lost with it")));
        }
        self.fail_drive(drive, reason).await
    }

    async fn fail_drives(&mut self, failures: Vec<DriveFailure>) -> Result<()> {
        for failure in failures {
            self.fail_drive(failure.drive, &failure.error.to_string()).await?;
        }
        Ok(())
    }

    /// Drives that hold pages, records and roots, those that join included.
    fn root_drives(&self) -> Vec<Rc<DriveHandle>> {
        let records = self.table().drives.iter();
        let holders = records.filter(|it| is_written(it.state) && it.roles.has(DriveRoles::ROOTS));
        holders.filter_map(|record| self.handles.get(record.number)).collect()
    }

    /// What the table says of a drive that holds tables.
    fn holder(&self, drive: Rc<DriveHandle>) -> TableHolder {
        let record = self.table().drive(drive.number());
        let counts = record.is_some_and(|record| record.state.is_readable());
        let is_slow = record.is_some_and(|record| record.is_slow);
        TableHolder { drive, counts, is_slow }
    }

    /// Replaces a page or a journal record on all drives that hold them. Drives that fail are dropped before this
    /// returns (KEEPER-1), those that are late get it later (LATE-WRITES-1). For reading only the view alone has it: a
    /// drive that cannot take it would fail (FILES-4).
    async fn store(&mut self, which: StoredRoot, bytes: Vec<u8>) -> Result<()> {
        if self.is_read_only {
            return Ok(());
        }
        let version = self.versions.get(&which).copied().unwrap_or(0) + 1;
        self.versions.insert(which, version);
        let holders: Vec<_> = self.root_drives().into_iter().map(|it| self.holder(it)).collect();
        let (tried, needed) = (holders.len(), usize::from(self.table().drops_max) + 1);
        let contents = (RootVersion(version), bytes);
        let write = TableWrite { which, holders, contents, needed };
        let failures = match self.late.write(write).await {
            Ok(failures) => failures,
            Err(error) => return Err(self.end(error)),
        };
        let failed = failures.len();
        self.fail_drives(failures).await?;
        if failed < tried {
            return Ok(());
        }
        // No drive has it, and the table that would say so is none.
        Err(self.end(Error::TooFewDrives { zone: None, present: 0, needed: 1 }))
    }
}

/// Whether recovery asks for a change: places for what it stores, and copies of a journal.
fn is_of_recovery(change: &Change) -> bool {
    match change {
        Change::Place { .. }
        | Change::Move { .. }
        | Change::JournalCopies { .. }
        | Change::JournalSubstitute { .. }
        | Change::CopyRoot { .. } => true,
        Change::DriveFailed { .. }
        | Change::GiveUp { .. }
        | Change::DriveSlow { .. }
        | Change::Join(_)
        | Change::Leave { .. }
        | Change::Remove { .. }
        | Change::Stay { .. }
        | Change::Grow { .. }
        | Change::Kind { .. }
        | Change::Row { .. }
        | Change::Class { .. }
        | Change::JournalKinds { .. }
        | Change::LowerDrops
        | Change::Loss
        | Change::Walked { .. } => false,
    }
}

fn refused(reason: &str) -> Error {
    Error::TableChange { reason: reason.to_owned() }
}

fn unsound(fault: FormatFault) -> Error {
    refused(&fault.to_string())
}

fn unknown(drive: DriveNumber) -> Error {
    refused(&format!("there is no drive {drive}"))
}
