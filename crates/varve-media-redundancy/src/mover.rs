//! Turns rows into others: rebuild, drain, replacement, conversion, rebalance, and their way back. One task for each
//! thread that leases zones, and one for zones that nobody has; started by whoever opens a shard, told by
//! [`RepairControl`].
//!
//! ```text
//!  tables ──▶ WorkList ──next_step──▶ keeper: Move, or Row with `from` and `to` exchanged
//!                 │
//!                 └── a row that moves: for each segment that is held and not filled
//!                       pin ─▶ read k strips ─▶ is_whole ─▶ write what lacks ─▶ read back ─▶ filled
//!                     all filled ──▶ keeper: Row with `to` alone
//! ```
//!
//! MOVER-1. What is moved was whole by its owner's word; else it is moved as it is, by strips of the same class, and
//!     its owner is asked to move what is live.
//! MOVER-2. Strips of parity are computed, written and read back as strips of data are.
//! MOVER-3. A place is free only once a durable row without it is there, and everything held was read back from the
//!     other places, with the label that it should have there.
//! MOVER-4. A row is completed only with every held slot filled, those put meanwhile included: after the row named
//!     `to`, puts that began before are waited for, and then there is a last look.
//! MOVER-5. Every state of a row has an exit: it is filled, gets another place for what was lost, waits for room or for
//!     its owner, or goes back once. Cancel is a move.
//! MOVER-6. Nothing is written to a slot but while its owner serves, and the row is as it was taken up: both are looked
//!     at directly before each write. After [`Mover::ended`] nothing is written at all.
//! MOVER-7. What was put to a place that was lost while its row moved is not at the one that took it, and counts as
//!     missing until the row is still. Tenancies say so: see [`Row::is_replaced`](crate::format::Row::is_replaced).
//!
//! An error leaves the row as it is; it is tried again later, and others come before. What was filled is not stored: a
//! row that is met moving is compared strip by strip with what is read, as a label may be there without its strip.

use std::rc::Rc;
use std::sync::Arc;

use futures_util::future::select;
use varve_media::{Result, ZoneContents};
use varve_reactor::Nanos;
use varve_types::{ErrorKind, ShardId};

use crate::change::Change;
use crate::exposure::RepairQueue;
use crate::ids::ZoneIndex;
use crate::repair::{
    MoveStep, MoveWait, MoveWork, RepairControl, RepairMedia, RepairThread, RowPause, UnownedZones,
    next_step,
};

mod row;
mod segment;

use row::RowEnd;

/// How long a thread without work rests, unless the tables change.
const REST_NANOS: u64 = Nanos::seconds(1);

/// How long a row rests after an error at first, and at most.
const PAUSE_NANOS_MIN: u64 = Nanos::seconds(1);
const PAUSE_NANOS_MAX: u64 = Nanos::seconds(60);

/// Zones of the queue that are looked at before one is taken.
const RANKED_AT_ONCE: usize = 256;

/// Mover and scrub of a thread. Dropped, they end with what is under way.
pub struct Mover {
    state: Rc<RepairThread>,
}

impl Mover {
    /// Starts the task that moves and scrubs the zones of a shard, as soon as `contents` knows what they hold. One for
    /// each opening of a shard.
    #[must_use]
    pub fn start(
        media: RepairMedia,
        shard: ShardId,
        contents: Rc<dyn ZoneContents>,
        control: Arc<RepairControl>,
    ) -> Self {
        Self::spawn(media, Some(shard), contents, control)
    }

    /// Starts the task that moves rows of zones that nobody has, on the thread that knows which those are.
    #[must_use]
    pub fn start_unowned(
        media: RepairMedia,
        zones: UnownedZones,
        control: Arc<RepairControl>,
    ) -> Self {
        Self::spawn(media, None, Rc::new(zones), control)
    }

    fn spawn(
        media: RepairMedia,
        shard: Option<ShardId>,
        contents: Rc<dyn ZoneContents>,
        control: Arc<RepairControl>,
    ) -> Self {
        media.handles.set_repair(&control);
        let state = Rc::new(RepairThread::new(media, shard, contents, control));
        let reactor = state.reactor.clone();
        let task = Rc::clone(&state);
        reactor.spawn(async move { task.run().await });
        if shard.is_some() {
            let task = Rc::clone(&state);
            reactor.spawn(async move { task.examine().await });
        }
        Self { state }
    }

    /// Looks for work at once, as somebody told the control something.
    pub fn wake(&self) {
        self.state.wake.notify_one();
    }

    /// Looks at the thread's queue of repair. Of zones of other threads it knows no contents.
    pub fn with_queue<T>(&self, look: impl FnOnce(&RepairQueue) -> T) -> T {
        look(self.state.works.borrow().queue())
    }
}

impl Mover {
    /// Ends it, and returns once nothing of it is under way any more: who gives the zones to another thread waits for
    /// this (MOVER-6).
    pub async fn ended(self) {
        let state = Rc::clone(&self.state);
        drop(self);
        while !state.is_done.get() {
            let done = state.done.notified();
            if !state.is_done.get() {
                done.await;
            }
        }
    }
}

impl Drop for Mover {
    fn drop(&mut self) {
        self.state.turns.end();
        self.state.wake.notify_one();
    }
}

impl RepairThread {
    /// Moves what is to be moved, then scrubs what is to be scrubbed, until nobody needs it any more.
    async fn run(&self) {
        while !self.is_over() {
            self.follow();
            self.count_losses().await;
            self.tell_facts().await;
            self.end_conversion().await;
            if let Some(work) = self.next_work() {
                let end = self.work_on(&work).await;
                self.note_end(&work, end);
                self.reactor.yield_now().await;
            } else if self.scrub_some().await || self.balance_some().await {
                self.reactor.yield_now().await;
            } else {
                self.rest().await;
            }
        }
        if let Some(shard) = self.shard {
            self.control.forget_shard(shard);
        }
        self.is_done.set(true);
        self.done.notify_all();
    }

    /// Has the pool promise no more than its zones keep, once a conversion to a class that survives less has ended.
    async fn end_conversion(&self) {
        let view = self.media.tables.view();
        let table = view.drives();
        let of_new = table.class_of(table.class).map_or(0, |class| class.shape.parity());
        // One thread of the pool asks for it, and only once it is there to be done: it costs a look at all rows.
        let may_be_over = self.shard.is_none() && self.works.borrow().is_converted();
        if table.drops_max <= of_new || !may_be_over || table.drops_max <= view.parity_of_rows() {
            return;
        }
        if let Err(error) = self.media.tables.change(Change::LowerDrops).await {
            tracing::warn!(%error, "the pool counts on drives that no zone needs any more");
        }
    }

    /// Waits for a while, or for the tables.
    async fn rest(&self) {
        if self.is_over() {
            return;
        }
        let changed = self.media.tables.changed();
        if !Arc::ptr_eq(self.works.borrow().view(), &self.media.tables.view()) {
            return;
        }
        let early = select(changed, self.wake.notified());
        select(early, self.reactor.sleep(REST_NANOS)).await;
    }

    /// The first row of this thread that is not resting, and that something can be done for.
    pub(crate) fn next_work(&self) -> Option<MoveWork> {
        self.rank_some();
        let works = self.works.borrow();
        let now = self.reactor.now();
        let mut pauses = self.pauses.borrow_mut();
        pauses.retain(|_, pause| pause.until + PAUSE_NANOS_MAX > now);
        let rests = |zone: ZoneIndex| pauses.get(&zone).is_some_and(|pause| pause.until > now);
        let mut open = works.works().filter(|work| {
            let step = || next_step(works.view(), work, &self.control);
            !rests(work.zone) && step() != MoveStep::Nothing
        });
        open.find(|work| self.held(work.zone).is_some())
    }

    /// Looks at what zones of the queue hold that came into it.
    fn rank_some(&self) {
        let zones = self.works.borrow().unranked(RANKED_AT_ONCE);
        for zone in zones {
            let holdings = self.holdings(zone);
            self.works.borrow_mut().rank(zone, holdings);
        }
    }

    /// Has a row rest that cannot go on, for longer each time; and lists why.
    fn note_end(&self, work: &MoveWork, end: Result<RowEnd>) {
        let wait = match end {
            Ok(RowEnd::Done) => {
                self.pauses.borrow_mut().remove(&work.zone);
                return;
            }
            Ok(RowEnd::Again) => return,
            Ok(RowEnd::Waits(wait)) => wait,
            Err(error) if error.kind() == ErrorKind::NoSpace => {
                MoveWait::HostRoom(error.to_string())
            }
            Err(error) => {
                tracing::warn!(zone = work.zone.0, %error, "a row cannot be moved now");
                MoveWait::Error(error.to_string())
            }
        };
        let mut pauses = self.pauses.borrow_mut();
        let before = pauses.get(&work.zone).map_or(PAUSE_NANOS_MIN / 2, |pause| pause.nanos);
        let nanos = before.saturating_mul(2).min(PAUSE_NANOS_MAX);
        let until = self.reactor.now() + nanos;
        let is_for_room = wait == MoveWait::Room;
        pauses.insert(work.zone, RowPause { until, nanos, is_for_room });
        self.control.set_wait(work.zone, Some(wait));
    }
}

#[cfg(test)]
mod tests;
