//! Has a pool grow and shrink while it serves: a task where its root is, which withdraws zones that its drives have no
//! room for, empties their rows, and gives zones back when there is room again.
//!
//! ```text
//!  tables, rows that wait ──▶ ZoneTarget ──fewer──▶ shards give back, the root withdraws ──▶ rows are emptied
//!                                  └─────more───▶ rows of withdrawn zones are empty ──▶ the root gives back
//! ```
//!
//! POOL-SIZER-1. A row is emptied only while a durable root has its zone withdrawn, and nothing but this task gives the
//!     zone back: nobody can have put anything there.
//! POOL-SIZER-2. The root comes first in both directions, and a look begins with what an earlier life left: cut off
//!     anywhere, there are rows of withdrawn zones, which are emptied, or free zones without rows, which get some.
//! POOL-SIZER-3. Once rows were emptied, those that wait for room are tried anew, and until then none of them counts as
//!     waiting: no more zones are withdrawn than what finds no room after that needs.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use futures_util::future::select;
use varve_media::planted::{Bug, planted};
use varve_media::{IoFuture, Result};
use varve_reactor::{Nanos, Notified, Notify, Reactor};
use varve_types::ErrorKind;

use crate::change::Change;
use crate::format::{Row, RowState};
use crate::ids::ZoneIndex;
use crate::repair::RepairControl;
use crate::tables::TablesHandle;
use crate::view::LayoutView;
use crate::zone_target::{ZoneTarget, ZoneUse};

/// Pause between two looks, and between two questions whether one is due.
const PAUSE_NANOS: u64 = Nanos::seconds(1);

/// Pauses between two looks where the one before changed nothing: shards may have nothing to give.
const PAUSES_MAX: u32 = 8;

/// Rows that are emptied before there is another look.
const ROWS_AT_ONCE: usize = 256;

/// The root of a pool, as it says whose zones are. On the thread of the sizer.
pub trait ZoneRoot {
    /// Zones that are not withdrawn.
    fn zones(&self) -> u32;

    /// Whether a zone is withdrawn durably, and stays so until a later call of [`Self::resize`]; no where that is not
    /// known.
    fn is_withdrawn(&self, zone: ZoneIndex) -> bool;

    /// Has shards give back so many zones, of those that nobody needs, until another number is given.
    fn ask_back(&self, zones: u32);

    /// Withdraws zones that nobody has, or gives zones back, until so many are not withdrawn, as near as can be.
    /// Durable on return; returns how many there are.
    fn resize(&self, zones: u32) -> IoFuture<'_, u32>;
}

/// The task of one pool. Dropped, it ends with what is under way.
pub struct PoolSizer {
    state: Rc<SizerState>,
}

struct SizerState {
    reactor: Reactor,
    tables: Rc<TablesHandle>,
    root: Rc<dyn ZoneRoot>,
    control: Arc<RepairControl>,
    has_ended: Cell<bool>,
    over: Notify,
}

impl PoolSizer {
    /// Starts the task. One for each opening of a pool.
    #[must_use]
    pub fn start(
        reactor: &Reactor,
        tables: Rc<TablesHandle>,
        root: Rc<dyn ZoneRoot>,
        control: Arc<RepairControl>,
    ) -> Self {
        let (has_ended, over) = (Cell::new(false), Notify::new());
        let reactor = reactor.clone();
        let state = Rc::new(SizerState { reactor, tables, root, control, has_ended, over });
        let task = Rc::clone(&state);
        state.reactor.spawn(async move { task.run().await });
        Self { state }
    }
}

impl Drop for PoolSizer {
    fn drop(&mut self) {
        self.state.has_ended.set(true);
        self.state.over.notify_all();
    }
}

impl SizerState {
    async fn run(&self) {
        let mut pauses = 1;
        while !self.is_over() {
            let (view, waiting) = (self.tables.view(), self.control.rows_without_room());
            let before = self.root.zones();
            let is_busy = match self.look(&view, waiting).await {
                Ok(is_busy) => is_busy,
                Err(error) => {
                    tracing::warn!(%error, "the pool cannot be resized now");
                    true
                }
            };
            let is_same = || {
                Arc::ptr_eq(&view, &self.tables.view())
                    && self.control.rows_without_room() == waiting
            };
            let is_stuck = is_busy && is_same() && self.root.zones() == before;
            pauses = if is_stuck { PAUSES_MAX.min(2 * pauses) } else { 1 };
            self.pause(None).await;
            for _ in 1..pauses {
                if is_same() {
                    self.pause(None).await;
                }
            }
            while !is_busy && is_same() && !self.is_over() {
                self.pause(Some(self.tables.changed())).await;
            }
        }
    }

    /// Waits, until somebody ends the task or another thing happens at the latest.
    async fn pause(&self, early: Option<Notified<'_>>) {
        if self.is_over() {
            return;
        }
        let over = select(self.reactor.sleep(PAUSE_NANOS), self.over.notified());
        match early {
            None => {
                over.await;
            }
            Some(early) => {
                select(early, over).await;
            }
        }
    }

    fn is_over(&self) -> bool {
        self.has_ended.get() || self.tables.tables().failure().is_some()
    }

    /// Brings the pool nearer to what it should be; returns whether something is left to do.
    async fn look(&self, view: &LayoutView, waiting: u32) -> Result<bool> {
        let before = self.root.zones();
        let is_withdrawn = |zone: ZoneIndex| self.root.is_withdrawn(zone);
        let usage = ZoneUse { zones: before, is_withdrawn: &is_withdrawn, waiting };
        let target = ZoneTarget::of(view, &usage);
        let excess = |zones: u32| match target.is_pressing {
            true => zones.saturating_sub(target.zones),
            false => 0,
        };
        self.root.ask_back(excess(before));
        let mut zones = before;
        if target.zones < before {
            zones = self.root.resize(target.zones).await?;
            self.root.ask_back(excess(zones));
        }
        let is_emptied = self.empty_withdrawn(view).await?;
        if target.zones > before && is_emptied {
            zones = self.root.resize(target.zones).await?; // POOL-SIZER-2
        }
        if zones != before {
            tracing::info!(zones, before, "the pool has another number of zones");
        }
        Ok(!is_emptied || excess(zones) > 0 || zones < target.zones)
    }

    /// Empties rows of withdrawn zones; returns whether there are none left.
    async fn empty_withdrawn(&self, view: &LayoutView) -> Result<bool> {
        // POOL-SIZER-1
        let is_meant =
            |zone: ZoneIndex| self.root.is_withdrawn(zone) || planted(Bug::LentRowEmptied);
        let rows = view.rows().filter(|(zone, _)| is_meant(*zone));
        let rows: Vec<(ZoneIndex, Row)> =
            rows.take(ROWS_AT_ONCE + 1).map(|(zone, row)| (zone, row.clone())).collect();
        let mut is_whole = Ok(rows.len() <= ROWS_AT_ONCE);
        let mut has_emptied = false;
        for (zone, row) in rows.into_iter().take(ROWS_AT_ONCE) {
            if self.is_over() {
                is_whole = Ok(false);
                break;
            }
            let new = Row { tenancy: row.tenancy, state: RowState::Empty };
            let change = Change::Row { zone, expected: row, new };
            match self.tables.change(change).await {
                Ok(_) => {
                    self.control.end_move(zone);
                    has_emptied = true;
                }
                // A mover was first (KEEPER-3).
                Err(error) if error.kind() == ErrorKind::Conflict => is_whole = Ok(false),
                Err(error) => {
                    is_whole = Err(error);
                    break;
                }
            }
        }
        if has_emptied {
            self.control.note_room(); // POOL-SIZER-3
        }
        is_whole
    }
}

#[cfg(test)]
mod tests;
