//! Lets changes of names through one at a time: a gate a home shard, on its thread, that any thread may hold closed.
//!
//! DISPATCH-GATE-1. Who wants several homes enters their gates in the order of their numbers, so nobody waits in a
//!     circle.
//! DISPATCH-GATE-2. A gate that was asked for is left again whether or not who asked still waits.

use std::cell::Cell;
use std::collections::BTreeSet;

use futures_channel::oneshot;
use varve_reactor::Notify;
use varve_types::ShardId;

use crate::{Dispatch, Error, Result};

/// One task at a time is inside.
#[derive(Default)]
pub(crate) struct NameLock {
    taken: Cell<bool>,
    left: Notify,
}

/// Being inside; dropping it leaves.
struct NameGuard<'a> {
    gate: &'a NameLock,
}

impl Drop for NameGuard<'_> {
    fn drop(&mut self) {
        self.gate.taken.set(false);
        self.gate.left.notify_one();
    }
}

impl NameLock {
    /// Waits until nobody is inside, and enters.
    async fn enter(&self) -> NameGuard<'_> {
        while self.taken.get() {
            self.left.notified().await;
        }
        self.taken.set(true);
        NameGuard { gate: self }
    }
}

/// Nobody else changes names of these homes while this lives: who is inside each gate waits for its sender to be
/// dropped.
#[must_use = "dropping it lets others change names"]
pub struct HeldNames(Vec<oneshot::Sender<()>>);

impl Dispatch {
    /// Waits until nobody changes names of these homes, and keeps others from it (DISPATCH-GATE-1).
    ///
    /// # Errors
    /// [`Error::ShuttingDown`] when a thread is gone.
    pub async fn hold_names(&self, homes: &BTreeSet<ShardId>) -> Result<HeldNames> {
        let mut held = HeldNames(Vec::new());
        for home in homes.iter().copied() {
            let (leave, left) = oneshot::channel();
            let (entered, inside) = oneshot::channel();
            self.at(home, move |there| {
                let gate = there.name_gate(home);
                there.reactor().spawn(async move {
                    let _inside = gate.enter().await;
                    if entered.send(()).is_ok() {
                        // DISPATCH-GATE-2: it ends when the other half is dropped.
                        let _ = left.await;
                    }
                });
                Box::pin(std::future::ready(()))
            })
            .await?;
            inside.await.map_err(|_| Error::ShuttingDown)?;
            held.0.push(leave);
        }
        Ok(held)
    }
}
