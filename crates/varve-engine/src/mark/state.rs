//! What a shard knows of mark passes, apart from what it does in them.

use std::cell::{Cell, RefCell};

use roaring::RoaringTreemap;
use varve_logstore::planted::{Bug, planted};
use varve_reactor::Notify;
use varve_types::{ChunkId, StreamId};

use crate::peers::ForeignNames;

/// What a shard knows of mark passes.
pub(crate) struct MarkState {
    /// The one under way.
    pub(crate) pass: RefCell<Option<MarkPass>>,
    /// Passes begun since the shard was opened.
    pub(super) passes: Cell<u64>,
    /// Something waits for one.
    pub(crate) wanted: Cell<bool>,
    /// Writes that wait for the room that one may make (MARK-10).
    pub(super) awaiting: Cell<u64>,
    /// The number of the last one that ended.
    pub(super) ended: Cell<u64>,
    pub(crate) has_ended: Notify,
    /// How often it was said that no pass will end soon.
    pub(super) given_up: Cell<u64>,
}

impl MarkState {
    /// A stream was cut off another one (MARK-8).
    pub(crate) fn note_copy(&self, copy: StreamId) {
        if planted(Bug::MarkForgetsCopies) {
            return;
        }
        if let Some(pass) = self.pass.borrow_mut().as_mut() {
            pass.copies.push(copy);
        }
    }

    /// Of a shard that was just opened: what it forgot when it closed, a pass finds.
    pub(crate) fn new() -> Self {
        Self {
            pass: RefCell::new(None),
            passes: Cell::new(0),
            wanted: Cell::new(true),
            awaiting: Cell::new(0),
            ended: Cell::new(0),
            has_ended: Notify::new(),
            given_up: Cell::new(0),
        }
    }
}

impl MarkState {
    /// Counts one more who waits for a pass, until the value is dropped.
    pub(crate) fn await_pass(&self) -> MarkWaiter<'_> {
        MarkWaiter::new(&self.awaiting)
    }
}

/// Counts who waits for a pass.
pub(crate) struct MarkWaiter<'a>(&'a Cell<u64>);

impl<'a> MarkWaiter<'a> {
    pub(crate) fn new(count: &'a Cell<u64>) -> Self {
        count.set(count.get() + 1);
        Self(count)
    }
}

impl Drop for MarkWaiter<'_> {
    fn drop(&mut self) {
        assert!(self.0.get() > 0, "who waits was counted");
        self.0.set(self.0.get() - 1);
    }
}

/// Names a mark pass of one shard: of one opening, and there of one beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MarkTicket {
    pub(super) mount: u64,
    pub(super) number: u64,
}

/// A mark pass under way on one shard.
pub(crate) struct MarkPass {
    pub(super) marked: RoaringTreemap,
    pub(super) chunk_ceiling: ChunkId,
    pub(super) page_ceiling: ChunkId,
    /// Streams that existed when the pass began.
    pub(super) streams: Vec<StreamId>,
    /// Tells it from passes that were begun and forgotten before.
    pub(super) ticket: MarkTicket,
    /// What is named is marked.
    pub(super) is_walked: bool,
    /// Stored bytes of shared chunks that had been overwritten when it began.
    pub(super) kept_bytes: u64,
    /// Streams that were cut off others since it began.
    pub(super) copies: Vec<StreamId>,
    /// Pages of maps that cannot change, with everything below them marked.
    pub(super) finished: RoaringTreemap,
    /// Chunks of other shards that are named here (MARK-11).
    pub(super) foreign: ForeignNames,
}
