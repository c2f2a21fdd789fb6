//! How one drive table follows another one: which drives are dropped, how many may be, and what is written where.
//!
//! KEEPER-2. Between two tables that are durable everywhere at most `drops_max` drives are dropped, and one of those
//!     that the first one calls live or leaving, and that has tables and roots, stays: where all of them are there,
//!     they know of all that came later.
//! DROPS-1. No drive is dropped with which a zone would be lost that is not lost yet: the pool writes nothing more
//!     instead. So the drive missed nothing that was acknowledged, and counts when it returns.

use std::rc::Rc;

use varve_media::planted::{Bug, planted};
use varve_media::{Error, Result};

use crate::exposure::{is_readable, lost_without};
use crate::format::{DriveRecord, DriveRoles, DriveState, DriveTable};
use crate::handles::{DriveHandle, DriveHandles};
use crate::ids::{DriveNumber, Epoch};
use crate::table_store::{DriveFailure, StoredRoot, write_next};
use crate::view::LayoutView;

/// A table that is to follow another one.
pub(crate) struct TableChange<'a> {
    /// The drives of this thread.
    pub(crate) handles: &'a DriveHandles,
    /// The tables that count so far.
    pub(crate) view: &'a LayoutView,
    /// Drives that may be dropped since the last table that is durable everywhere.
    pub(crate) drops_limit: u8,
    /// Wall clock, in ms since 1970.
    pub(crate) unix_ms: u64,
}

impl TableChange<'_> {
    /// Writes a table on all drives that it calls live, joining or leaving, side by side. A drive that fails meanwhile
    /// is dropped by a further table. Returns the one that is durable on all of its drives.
    ///
    /// # Errors
    /// [`Error::TooFewDrives`] when more drives would be dropped than may be (KEEPER-2, DROPS-1), and then nobody may
    /// go on; [`Error::Fenced`].
    pub(crate) async fn commit(&self, mut next: DriveTable) -> Result<DriveTable> {
        loop {
            self.check_drops(&next)?; // KEEPER-2
            self.check_zones(&next)?; // DROPS-1
            let (drives, mut failures) = self.drives_of(&next);
            failures.extend(write_next(StoredRoot::DriveTable, &drives, &next.encode()).await?);
            if failures.is_empty() {
                return Ok(next);
            }
            next.epoch.0 += 1;
            for failure in failures {
                tracing::error!(drive = %failure.drive, error = %failure.error, "a drive failed");
                drop_drive(&mut next, failure.drive, self.unix_ms);
                self.handles.remove(failure.drive);
            }
        }
    }

    /// The drives that a table is written on, and those that are not at hand. One that leaves hears of it too: then
    /// nobody has an older table, and it does not count as dropped.
    fn drives_of(&self, next: &DriveTable) -> (Vec<Rc<DriveHandle>>, Vec<DriveFailure>) {
        let (mut drives, mut failures) = (Vec::new(), Vec::new());
        for record in &next.drives {
            if !is_written(record.state) && !self.takes_leave(record) {
                continue;
            }
            match self.handles.get(record.number) {
                Some(handle) => drives.push(handle),
                None => failures.push(DriveFailure {
                    drive: record.number,
                    error: Error::Stale { path: format!("drive {}", record.number) },
                }),
            }
        }
        (drives, failures)
    }

    fn takes_leave(&self, record: &DriveRecord) -> bool {
        let before = self.base().drive(record.number).map(|before| before.state);
        record.state == DriveState::Gone && before == Some(DriveState::Leaving)
    }

    /// KEEPER-2
    fn check_drops(&self, next: &DriveTable) -> Result<()> {
        let counts = |record: &&DriveRecord| is_dropped(next, record) && !self.takes_leave(record);
        let dropped = next.drives.iter().filter(counts).count();
        let present = next.drives.iter().filter(|it| it.state.is_readable()).count();
        let limit = usize::from(self.drops_limit.min(next.drops_max));
        let excess = dropped.saturating_sub(limit);
        let is_allowed = excess == 0 || planted(Bug::DropsUnbounded);
        // Else a drive that joins would be live alone, and those before it would open without it; or nobody would have
        // pages and roots.
        let is_holder =
            |it: &DriveRecord| it.state.is_readable() && it.roles.has(DriveRoles::ROOTS);
        let stays = |record: &DriveRecord| {
            is_holder(record) && self.base().drive(record.number).is_some_and(is_holder)
        };
        if is_allowed && next.drives.iter().any(stays) {
            return Ok(());
        }
        Err(Error::TooFewDrives { zone: None, present, needed: present + excess.max(1) })
    }

    /// DROPS-1
    fn check_zones(&self, next: &DriveTable) -> Result<()> {
        let before = self.base().drives.iter().filter(|record| record.state.is_readable());
        let dropped = before.map(|it| it.number).filter(|number| !is_readable(next, *number));
        let dropped: Vec<DriveNumber> = dropped.collect();
        match lost_without(self.view, &dropped) {
            Some(error) if !dropped.is_empty() && !planted(Bug::DropLosesZone) => Err(error),
            Some(_) | None => Ok(()),
        }
    }

    fn base(&self) -> &DriveTable {
        self.view.drives()
    }
}

/// Whether drives in a state are written when the table changes.
pub(crate) const fn is_written(state: DriveState) -> bool {
    match state {
        DriveState::Live | DriveState::Joining | DriveState::Leaving => true,
        DriveState::Failed | DriveState::Gone => false,
    }
}

/// Whether a drive may have an older table than the last one that is durable everywhere, or may not have that.
fn is_dropped(table: &DriveTable, record: &DriveRecord) -> bool {
    !is_written(record.state) && record.since_epoch > table.settled_epoch
}

/// Whether a table drops drives, so that one should follow that settles it.
pub(crate) fn has_drops(table: &DriveTable) -> bool {
    table.drives.iter().any(|record| is_dropped(table, record))
}

/// The next table after one that is durable everywhere.
pub(crate) fn following(base: &DriveTable) -> DriveTable {
    let mut next = base.clone();
    next.epoch.0 += 1;
    next.settled_epoch = base.epoch;
    next
}

/// Drops a drive in a table that is not written yet. One that joins has nothing, and goes without a trace: its number
/// is not used again.
pub(crate) fn drop_drive(table: &mut DriveTable, drive: DriveNumber, unix_ms: u64) {
    let epoch = table.epoch;
    if is_in_state(table, drive, DriveState::Joining) {
        table.drives.retain(|record| record.number != drive);
        return;
    }
    set_state(table, drive, DriveState::Failed, unix_ms);
    table.loss_epoch = epoch;
}

/// Puts a drive in a state, since the table's epoch.
pub(crate) fn set_state(
    table: &mut DriveTable,
    drive: DriveNumber,
    state: DriveState,
    unix_ms: u64,
) {
    let epoch: Epoch = table.epoch;
    if let Some(record) = table.drives.iter_mut().find(|record| record.number == drive) {
        (record.state, record.since_epoch, record.since_unix_ms) = (state, epoch, unix_ms);
    }
}

/// Drives that hold tables and roots, and will go on doing so.
pub(crate) fn root_holders(table: &DriveTable) -> impl Iterator<Item = &DriveRecord> {
    let is_one =
        |it: &&DriveRecord| it.state == DriveState::Live && it.roles.has(DriveRoles::ROOTS);
    table.drives.iter().filter(is_one)
}

/// Whether a drive is in a state by a table.
pub(crate) fn is_in_state(table: &DriveTable, drive: DriveNumber, state: DriveState) -> bool {
    table.drive(drive).is_some_and(|record| record.state == state)
}
