//! Operations of mover and scrub on drives: paced, measured, and beside clients one after the other on each device.
//! What is under way at once there is what a client's operation waits for: four strips of 1 MiB take as many ms of a
//! disk that does 1 GB/s, however long the pause after them.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::select;
use futures_util::lock::{Mutex, OwnedMutexGuard};
use varve_reactor::{Notified, Notify, Reactor};

use crate::budget::{BudgetRequest, DeviceKey, DriveUse, RepairUrgency};
use crate::repair::RepairControl;

/// The turns of one thread.
pub(crate) struct DeviceTurns {
    reactor: Reactor,
    control: Arc<RepairControl>,
    locks: RefCell<BTreeMap<DeviceKey, Arc<Mutex<()>>>>,
    is_over: Cell<bool>,
    /// Told once nobody is to wait any more.
    over: Notify,
}

impl DeviceTurns {
    pub(crate) fn new(reactor: &Reactor, control: &Arc<RepairControl>) -> Self {
        Self {
            reactor: reactor.clone(),
            control: Arc::clone(control),
            locks: RefCell::default(),
            is_over: Cell::new(false),
            over: Notify::new(),
        }
    }

    /// Has nobody wait any more.
    pub(crate) fn end(&self) {
        self.is_over.set(true);
        self.over.notify_all();
    }

    /// Whether that was so.
    pub(crate) fn are_over(&self) -> bool {
        self.is_over.get()
    }

    /// Told once that is so; who waits for it looks at [`Self::are_over`] first.
    pub(crate) fn ended(&self) -> Notified<'_> {
        self.over.notified()
    }

    /// Does work that uses a drive once it may (REPAIR-BUDGET-1), and measures what the drive does by it.
    pub(crate) async fn run<T>(
        &self,
        urgency: RepairUrgency,
        used: DriveUse,
        work: impl Future<Output = T>,
    ) -> T {
        let (budget, DriveUse { drive, bytes }) = (self.control.budget(), used);
        let _turn = self.take_turn(&used).await;
        let now = self.reactor.boot_time();
        let wait = budget.take(BudgetRequest { drive, bytes, urgency, now });
        if wait > 0 && !self.is_over.get() {
            select(self.reactor.sleep(wait), self.over.notified()).await;
        }
        budget.begin(drive, self.reactor.boot_time());
        let done = work.await;
        budget.end(drive, bytes, self.reactor.boot_time());
        done
    }

    /// Waits for the others of this thread on the same device; not where no client uses it.
    async fn take_turn(&self, used: &DriveUse) -> Option<OwnedMutexGuard<()>> {
        let budget = self.control.budget();
        if !budget.has_clients(used.drive, self.reactor.boot_time()) {
            return None;
        }
        let device = budget.device_of(used.drive);
        let lock = Arc::clone(self.locks.borrow_mut().entry(device).or_default());
        Some(lock.lock_owned().await)
    }
}
