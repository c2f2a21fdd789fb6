//! Counts media writes under way, so that a shard that failed is reopened only when none of its own can still land.

use std::cell::Cell;
use std::rc::Rc;

use varve_reactor::Notify;

#[derive(Default)]
struct State {
    count: Cell<usize>,
    ended: Notify,
}

/// Media writes of one shard that were started and have not ended.
#[derive(Clone, Default)]
pub(crate) struct WritesUnderWay {
    state: Rc<State>,
}

/// One write under way; dropping it ends it.
pub(crate) struct UnderWay {
    state: Rc<State>,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.state.count.set(self.state.count.get() - 1);
        self.state.ended.notify_all();
    }
}

impl WritesUnderWay {
    /// Counts a write from now until the result is dropped.
    pub(crate) fn begin(&self) -> UnderWay {
        self.state.count.set(self.state.count.get() + 1);
        UnderWay { state: Rc::clone(&self.state) }
    }

    /// Waits until none is under way.
    pub(crate) async fn ended(&self) {
        while self.state.count.get() > 0 {
            self.state.ended.notified().await;
        }
    }
}
