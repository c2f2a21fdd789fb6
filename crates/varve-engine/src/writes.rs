//! Counts media writes under way, so that a shard that failed is reopened only when none of its own can still land.
//!
//! WRITES-1. Once the shard has ended no write begins: its tasks and callers may go on for a while, beside the shard
//!     that was opened instead, whose segments they would overwrite. So the number only falls, and once it is 0 it
//!     stays so.

use std::cell::Cell;
use std::rc::Rc;

use varve_reactor::Notify;

#[derive(Default)]
struct State {
    count: Cell<usize>,
    refused: Cell<bool>,
    ended: Notify,
}

/// Media writes of one shard that were started and have not ended.
#[derive(Clone, Default)]
pub(crate) struct WritesUnderWay {
    state: Rc<State>,
}

/// One write under way; dropping it ends it.
pub(crate) struct WriteGuard {
    state: Rc<State>,
}

impl Drop for WriteGuard {
    fn drop(&mut self) {
        assert!(self.state.count.get() > 0, "the write was counted"); // WRITES-1
        self.state.count.set(self.state.count.get() - 1);
        self.state.ended.notify_all();
    }
}

impl WritesUnderWay {
    /// Counts a write from now until the result is dropped; `None` after [`Self::refuse`].
    pub(crate) fn begin(&self) -> Option<WriteGuard> {
        if self.state.refused.get() {
            return None; // WRITES-1
        }
        self.state.count.set(self.state.count.get() + 1);
        Some(WriteGuard { state: Rc::clone(&self.state) })
    }

    /// Lets none begin from now on.
    pub(crate) fn refuse(&self) {
        self.state.refused.set(true);
    }

    /// Waits until none is under way.
    pub(crate) async fn ended(&self) {
        while self.state.count.get() > 0 {
            self.state.ended.notified().await;
        }
    }
}
