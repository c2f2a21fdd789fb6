//! What a shard knows of sealed segments on their way to the trees, apart from how it applies them.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use varve_logstore::format::frame::LogPosition;
use varve_logstore::format::root::{ChainHead, ShardRoot};
use varve_reactor::Notify;
use varve_types::{ChunkId, WriteSeq};

use crate::admission::Semaphore;
use crate::drain::SealedData;

/// What a shard knows of sealed segments on their way to the trees.
pub(crate) struct Apply {
    /// In the order of the chain. Of the one that is being applied only the place is left.
    queue: RefCell<VecDeque<Option<SealedData>>>,
    /// Entries of the segments in the queue.
    entries: Cell<usize>,
    /// A segment was put in.
    filled: Notify,
    /// A segment was applied, or none will be.
    pub(crate) advanced: Notify,
    /// Held by who changes the trees, or needs them unchanged.
    pub(crate) tree_gate: Semaphore,
    /// Where the lane continues behind what is applied.
    pub(super) lane: Cell<LogPosition>,
    /// The last record of the lane that is applied.
    pub(super) wseq: Cell<WriteSeq>,
    /// The last chunk of data that is applied.
    pub(super) chunk: Cell<ChunkId>,
    /// The last segment that is applied.
    pub(super) chain: Cell<ChainHead>,
    /// The last applied segment needed pages that were not cached.
    pub(super) prefetch_wanted: Cell<bool>,
}

impl Apply {
    pub(crate) fn new(root: &ShardRoot) -> Self {
        Self {
            queue: RefCell::default(),
            entries: Cell::new(0),
            filled: Notify::new(),
            advanced: Notify::new(),
            tree_gate: Semaphore::new(1),
            lane: Cell::new(root.lane),
            wseq: Cell::new(root.applied_wseq),
            chunk: Cell::new(ChunkId::new(root.next_chunk.get() - 1)),
            chain: Cell::new(root.data_chain),
            prefetch_wanted: Cell::new(true),
        }
    }

    /// Puts a segment behind those that wait.
    pub(crate) fn enqueue(&self, sealed: SealedData) {
        assert!(!sealed.sealed.entries.is_empty(), "an empty segment is never sealed");
        assert!(sealed.sealed.link.seq > self.chain.get().seq, "what is applied was sealed before"); // APPLY-1
        self.entries.set(self.entries.get() + sealed.sealed.entries.len());
        self.queue.borrow_mut().push_back(Some(sealed));
        self.filled.notify_one();
    }

    /// Takes the next segment, whose place stays taken, once there is one.
    pub(super) async fn dequeue(&self) -> SealedData {
        loop {
            let next = self.queue.borrow_mut().front_mut().and_then(Option::take);
            if let Some(sealed) = next {
                return sealed;
            }
            self.filled.notified().await;
        }
    }

    /// So many entries of the segment that was taken are not on their way any more.
    pub(super) fn forget_entries(&self, count: usize) {
        assert!(self.entries.get() >= count, "entries of segments in the queue are counted once");
        self.entries.set(self.entries.get() - count);
    }

    /// Frees the place of the segment that was taken.
    pub(super) fn free_place(&self) {
        let place = self.queue.borrow_mut().pop_front();
        assert!(matches!(place, Some(None)), "the segment in it was taken");
        self.advanced.notify_all();
    }

    /// Segments on their way.
    pub(crate) fn segments(&self) -> usize {
        self.queue.borrow().len()
    }

    /// Entries of these.
    pub(crate) fn entries(&self) -> usize {
        self.entries.get()
    }

    /// Whether somebody has the tree gate.
    pub(crate) fn is_gated(&self) -> bool {
        self.tree_gate.taken() > 0
    }

    /// Where the lane continues behind what is applied.
    pub(crate) fn lane(&self) -> LogPosition {
        self.lane.get()
    }

    /// The last record of the lane that is applied.
    pub(crate) fn wseq(&self) -> WriteSeq {
        self.wseq.get()
    }

    /// The last chunk of data that is applied.
    pub(crate) fn chunk(&self) -> ChunkId {
        self.chunk.get()
    }

    /// The last segment that is applied.
    pub(crate) fn chain(&self) -> ChainHead {
        self.chain.get()
    }

    /// Whether pages are to be loaded before they are needed: the last applied segment needed some that were not
    /// cached.
    pub(crate) fn wants_prefetch(&self) -> bool {
        self.prefetch_wanted.get()
    }

    /// The lane continues there behind a segment that recovery applied.
    pub(crate) fn continue_lane(&self, at: LogPosition) {
        self.lane.set(at);
    }

    /// Recovery is through: the lane continues there, and no chunk up to `chunk` is on its way.
    pub(crate) fn resume(&self, lane: LogPosition, chunk: ChunkId) {
        assert!(lane.frame_seq >= self.lane.get().frame_seq, "the lane only goes on");
        assert!(chunk >= self.chunk.get(), "ids only grow");
        self.lane.set(lane);
        self.chunk.set(chunk);
    }
}
