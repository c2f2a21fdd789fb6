//! Lets tasks of a thread through one at a time.

use std::cell::Cell;

use varve_reactor::Notify;

/// One task at a time is inside.
#[derive(Default)]
pub struct NameGate {
    taken: Cell<bool>,
    left: Notify,
}

/// Being inside; dropping it leaves.
pub struct Entered<'a> {
    gate: &'a NameGate,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.gate.taken.set(false);
        self.gate.left.notify_one();
    }
}

impl NameGate {
    /// Waits until nobody is inside, and enters.
    pub async fn enter(&self) -> Entered<'_> {
        while self.taken.get() {
            self.left.notified().await;
        }
        self.taken.set(true);
        Entered { gate: self }
    }
}
