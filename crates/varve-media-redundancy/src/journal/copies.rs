//! The copies of a journal as one thread sees them.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use varve_media::{Error, Result};
use varve_reactor::Reactor;
use varve_types::ShardId;

use super::{flush_all, no_copy};
use crate::change::Change;
use crate::exposure::is_readable;
use crate::format::{JournalCopy, JournalPlaceKind, JournalRecord};
use crate::handles::{DriveHandle, DriveHandles};
use crate::ids::DriveNumber;
use crate::tables::TablesHandle;
use crate::view::LayoutView;
use crate::written_drive::{fail_drive, written_drive};

/// How often it is tried to let a journal begin anew, as others change its record too.
const RESTARTS_MAX: u32 = 8;

/// The copies. Clones share them.
#[derive(Clone)]
pub(super) struct JournalCopies {
    handles: Rc<DriveHandles>,
    tables: Rc<TablesHandle>,
    shard: ShardId,
    lane_bytes: u64,
    /// All that there were since this opening, by the number that callers know them by: replay must not see them change
    /// their numbers.
    known: Rc<RefCell<Vec<JournalCopy>>>,
}

impl JournalCopies {
    pub(super) fn new(
        handles: Rc<DriveHandles>,
        tables: Rc<TablesHandle>,
        shard: ShardId,
    ) -> Result<Self> {
        let view = tables.view();
        let lanes = u16::try_from(view.journals().count()).unwrap_or(u16::MAX);
        let record = record_of(&view, shard).ok_or(Error::NoLane { shard, lanes })?;
        let lane_bytes = record.lane_bytes;
        Ok(Self { handles, tables, shard, lane_bytes, known: Rc::default() })
    }

    pub(super) fn lane_bytes(&self) -> u64 {
        self.lane_bytes
    }

    pub(super) fn shard(&self) -> ShardId {
        self.shard
    }

    pub(super) fn tables(&self) -> &TablesHandle {
        &self.tables
    }

    pub(super) fn reactor(&self) -> &Reactor {
        self.handles.reactor()
    }

    pub(super) fn view(&self) -> Arc<LayoutView> {
        self.tables.view()
    }

    pub(super) fn none(&self) -> Error {
        no_copy()
    }

    /// The epoch of the record, 0 where there is none.
    pub(super) fn journal_epoch(&self) -> u64 {
        let epoch = |view: &LayoutView| record_of(view, self.shard).map(|it| it.journal_epoch);
        self.tables.look(epoch).unwrap_or(0)
    }

    /// All copies on drives that the table calls readable, former ones included: what it calls failed is none.
    fn counted(&self) -> Vec<JournalCopy> {
        self.tables.look(|view| {
            let Some(record) = record_of(view, self.shard) else { return Vec::new() };
            let readable = |copy: &&JournalCopy| is_readable(view.drives(), copy.drive);
            record.copies.iter().filter(readable).copied().collect()
        })
    }

    /// Copies that each append goes to.
    pub(super) fn current(&self) -> Vec<JournalCopy> {
        self.counted().into_iter().filter(JournalCopy::is_current).collect()
    }

    /// The same, and the former ones behind them.
    pub(super) fn in_order(&self) -> Vec<JournalCopy> {
        let mut copies = self.counted();
        copies.sort_by_key(|copy| !copy.is_current());
        copies
    }

    /// All copies by their number: those that were known before, and those that came since. One whose drive failed
    /// keeps its number, and is an error to read.
    pub(super) fn known(&self) -> Vec<JournalCopy> {
        let mut known = self.known.borrow_mut();
        for copy in self.in_order() {
            let is_same = |it: &&mut JournalCopy| it.drive == copy.drive && it.place == copy.place;
            match known.iter_mut().find(is_same) {
                Some(it) => *it = copy,
                None => known.push(copy),
            }
        }
        known.clone()
    }

    /// The handle of a drive that may be read.
    pub(super) fn readable(&self, drive: DriveNumber) -> Result<Rc<DriveHandle>> {
        let state = |view: &LayoutView| view.drives().drive(drive).map(|record| record.state);
        let is_readable = self.tables.look(state).is_some_and(|state| state.is_readable());
        let error =
            |reason: &str| Error::DriveFailed { drive: drive.get(), reason: reason.to_owned() };
        if !is_readable {
            return Err(error("it is not read any more"));
        }
        self.handles.get(drive).ok_or_else(|| error("this thread has not opened it"))
    }

    /// The handle of a drive that is written; `None` where the table says that it is not read any more.
    pub(super) async fn writable(&self, drive: DriveNumber) -> Result<Option<Rc<DriveHandle>>> {
        written_drive(&self.handles, &self.tables, drive).await
    }

    /// Has a drive fail, durably on all others (KEEPER-1).
    pub(super) async fn fail(&self, drive: DriveNumber, error: Error) -> Result<()> {
        fail_drive(&self.tables, drive, error).await
    }

    /// Leaves current copies only, which have what is appended from position 0 on.
    pub(super) async fn restart(&self) -> Result<()> {
        let mut attempt = 0;
        loop {
            let view = self.view();
            let record = record_of(&view, self.shard).ok_or_else(no_copy)?;
            if record.copies.iter().all(|copy| copy.is_current() && copy.since == 0) {
                self.known.borrow_mut().clear(); // What is gone is none.
                return Ok(());
            }
            let copies = record.current().map(|copy| JournalCopy { since: 0, ..*copy }).collect();
            let (shard, expected) = (self.shard, record.journal_epoch);
            let change = Change::JournalCopies { shard, expected, copies };
            if let Err(error) = self.tables.change(change).await {
                // Another change of the record may have come first.
                attempt += 1;
                if attempt == RESTARTS_MAX {
                    return Err(error);
                }
            }
        }
    }

    pub(super) async fn settle(&self) -> Result<()> {
        flush_all(self).await
    }
}

fn record_of(view: &LayoutView, shard: ShardId) -> Option<&JournalRecord> {
    view.journals().find(|record| record.shard == shard)
}

/// Where a copy begins on its drive's space.
pub(super) fn copy_place(copy: &JournalCopy) -> Result<u64> {
    match copy.place {
        JournalPlaceKind::Units(first) => Ok(first.offset()),
        // Pools of an earlier format have those once `pool upgrade` makes them redundant.
        JournalPlaceKind::Lane(_) => Err(Error::Unsupported {
            path: format!("journal copy on drive {}", copy.drive),
            flags: 0,
        }),
    }
}
