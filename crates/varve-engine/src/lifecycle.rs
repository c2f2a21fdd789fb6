//! Whether a shard serves, closes or failed, from one opening to its end, and its writes that are under way meanwhile.

use std::cell::{Cell, RefCell};

use varve_reactor::Notify;

use crate::writes::{WriteGuard, WritesUnderWay};
use crate::{Error, Result};

enum ShardState {
    Serving,
    Closing,
    Failed(Error),
    /// It is as its last checkpoint has it, and only read.
    AtCheckpoint,
}

/// One opening of a shard, from its beginning to its end.
pub(crate) struct Lifecycle {
    mount: u64,
    state: RefCell<ShardState>,
    is_stopped: Cell<bool>,
    stop: Notify,
    pub(crate) writes: WritesUnderWay,
}

impl Lifecycle {
    pub(crate) fn new(mount: u64) -> Self {
        Self {
            mount,
            state: RefCell::new(ShardState::Serving),
            is_stopped: Cell::new(false),
            stop: Notify::new(),
            writes: WritesUnderWay::default(),
        }
    }

    /// The number of the opening.
    pub(crate) fn mount(&self) -> u64 {
        self.mount
    }

    /// Refuses when the shard failed; what was admitted before it began to close still goes on.
    pub(crate) fn check_running(&self) -> Result<()> {
        match &*self.state.borrow() {
            ShardState::Serving | ShardState::Closing | ShardState::AtCheckpoint => Ok(()),
            ShardState::Failed(cause) => Err(Error::Failed { cause: cause.to_string() }),
        }
    }

    /// Refuses when the shard does not serve.
    pub(crate) fn check_open(&self) -> Result<()> {
        match &*self.state.borrow() {
            ShardState::Serving | ShardState::AtCheckpoint => Ok(()),
            ShardState::Closing => Err(Error::Closed),
            ShardState::Failed(cause) => Err(Error::Failed { cause: cause.to_string() }),
        }
    }

    /// Why the shard failed, if it did.
    pub(crate) fn failure(&self) -> Option<Error> {
        match &*self.state.borrow() {
            ShardState::Failed(cause) => Some(cause.clone()),
            ShardState::Serving | ShardState::Closing | ShardState::AtCheckpoint => None,
        }
    }

    /// Whether the shard failed.
    pub(crate) fn has_failed(&self) -> bool {
        matches!(*self.state.borrow(), ShardState::Failed(_))
    }

    /// Whether the shard is as its last checkpoint has it, and only read.
    pub(crate) fn is_at_checkpoint(&self) -> bool {
        matches!(*self.state.borrow(), ShardState::AtCheckpoint)
    }

    /// The shard stays as its last checkpoint has it.
    pub(crate) fn stay_at_checkpoint(&self) {
        assert!(matches!(*self.state.borrow(), ShardState::Serving), "it was just opened"); // ENGINE-SALVAGE-1
        *self.state.borrow_mut() = ShardState::AtCheckpoint;
    }

    /// The shard admits nothing more.
    pub(crate) fn close(&self) {
        assert!(self.check_open().is_ok(), "a shard closes once");
        *self.state.borrow_mut() = ShardState::Closing;
    }

    /// The shard failed.
    pub(crate) fn fail(&self, cause: Error) {
        assert!(!self.has_failed(), "a shard fails once"); // SHARD-2
        assert!(!self.is_stopped.get(), "what has ended does not fail");
        *self.state.borrow_mut() = ShardState::Failed(cause);
    }

    /// The shard has ended: it writes nothing more.
    pub(crate) fn end(&self) {
        self.writes.refuse();
        self.is_stopped.set(true);
        assert!(self.writes.begin().is_none(), "no write begins any more"); // WRITES-1
    }

    /// Tells those who wait for the end.
    pub(crate) fn announce_end(&self) {
        assert!(self.is_stopped.get(), "it has ended");
        self.stop.notify_all();
    }

    /// Whether the shard has ended.
    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped.get()
    }

    /// Waits until the shard has ended.
    pub(crate) async fn stopped(&self) {
        while !self.is_stopped.get() {
            self.stop.notified().await;
        }
    }

    /// Counts a write to the media from now until the result is dropped.
    ///
    /// # Errors
    /// Once the shard has ended: why.
    pub(crate) fn begin_write(&self) -> Result<WriteGuard> {
        let ended = || self.check_running().err().unwrap_or(Error::Closed);
        self.writes.begin().ok_or_else(ended)
    }
}
