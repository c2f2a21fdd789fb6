//! What a shard knows of cuts under way, apart from what it does with them.

use std::cell::RefCell;
use std::rc::Rc;

use varve_logstore::lane::JournalFrame;
use varve_reactor::Notify;
use varve_types::{StreamId, WriteSeq};

/// Names one cut, on every shard that takes part in it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CutId(pub u64);

/// `copy` shall hold from the cut on what `source` held at it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CutPair {
    /// The stream that is cut.
    pub source: StreamId,
    /// A stream that was never written.
    pub copy: StreamId,
}

/// A cut in the lane or in a segment that is not applied yet.
pub(super) struct PendingCut {
    pub(super) pair: CutPair,
    pub(super) wseq: WriteSeq,
    pub(super) frame: Rc<JournalFrame>,
    pub(super) is_drained: bool,
}

/// What a shard knows of cuts under way.
#[derive(Default)]
pub(crate) struct Cuts {
    /// In the order of their numbers.
    pub(super) pending: RefCell<Vec<PendingCut>>,
    /// Streams whose answers are held back, by cut.
    pub(super) holds: RefCell<Vec<(CutId, StreamId)>>,
    pub(super) released: Notify,
}

impl Cuts {
    /// The oldest cut of a stream that is in the lane (CUT-2).
    pub(crate) fn oldest_in_lane(&self, stream: StreamId) -> Option<WriteSeq> {
        let pending = self.pending.borrow();
        let in_lane = |cut: &&PendingCut| cut.pair.source == stream && !cut.is_drained;
        pending.iter().find(in_lane).map(|cut| cut.wseq)
    }

    /// Whether a cut of or to a stream is in the lane (CUT-3).
    pub(crate) fn is_in_lane(&self, stream: StreamId) -> bool {
        let touches = |cut: &PendingCut| cut.pair.source == stream || cut.pair.copy == stream;
        self.pending.borrow().iter().any(|cut| !cut.is_drained && touches(cut))
    }

    /// The frame of the cut of a copy that its map does not show yet (CUT-4).
    pub(super) fn pending_frame(&self, copy: StreamId) -> Option<Rc<JournalFrame>> {
        let pending = self.pending.borrow();
        pending.iter().find(|cut| cut.pair.copy == copy).map(|cut| Rc::clone(&cut.frame))
    }

    /// Whether a stream is a copy that its map does not show yet (CUT-4).
    pub(crate) fn is_pending(&self, stream: StreamId) -> bool {
        self.pending.borrow().iter().any(|cut| cut.pair.copy == stream)
    }

    /// A cut is in a data segment.
    pub(crate) fn drained(&self, copy: StreamId) {
        for cut in self.pending.borrow_mut().iter_mut().filter(|cut| cut.pair.copy == copy) {
            cut.is_drained = true;
        }
    }

    /// A cut is in the trees.
    pub(crate) fn applied(&self, copy: StreamId) {
        let is_in_order = |cut: &PendingCut| cut.pair.copy != copy || cut.is_drained;
        debug_assert!(self.pending.borrow().iter().all(is_in_order), "what is applied was drained"); // CUT-1
        self.pending.borrow_mut().retain(|cut| cut.pair.copy != copy);
    }

    fn holds(&self, stream: StreamId) -> bool {
        self.holds.borrow().iter().any(|(_, held)| *held == stream)
    }

    /// Waits until no cut holds back answers to a stream's writes.
    pub(crate) async fn wait_released(&self, stream: StreamId) {
        while self.holds(stream) {
            self.released.notified().await;
        }
    }

    /// Holds nothing back any more.
    pub(crate) fn release_all(&self) {
        self.holds.borrow_mut().clear();
        self.released.notify_all();
    }
}
