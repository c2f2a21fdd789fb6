//! What a shard has admitted and not applied yet, and what bounds it.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

use varve_logstore::lane::Journal;
use varve_media::Media;
use varve_reactor::Notify;
use varve_stdx::{AlignedBuf, BufSlice};
use varve_types::WriteSeq;

use crate::ShardConfig;
use crate::admission::SemaphoreByUse;
use crate::buffer::WriteBuffer;
use crate::claims::BlockLocks;
use crate::cut::Cuts;
use crate::pending_keys::PendingKeys;

/// What a shard has admitted and not applied yet, and what bounds it.
pub(crate) struct Admission {
    /// What makes records durable; none until recovery is through.
    lane: OnceCell<Rc<Journal>>,
    /// The number that the next record gets.
    next_wseq: Cell<WriteSeq>,
    pub(crate) credits: SemaphoreByUse,
    /// Somebody waits for credits.
    pressure: Notify,
    pub(crate) buffer: RefCell<WriteBuffer>,
    pub(crate) pending_keys: RefCell<PendingKeys>,
    pub(crate) claims: BlockLocks,
    pub(crate) cuts: Cuts,
    empty: BufSlice,
}

impl Admission {
    pub(crate) fn new(
        media: &Media,
        config: &ShardConfig,
        has_others: bool,
        next_wseq: WriteSeq,
    ) -> Self {
        Self {
            lane: OnceCell::new(),
            next_wseq: Cell::new(next_wseq),
            credits: SemaphoreByUse::of(media, config, has_others),
            pressure: Notify::new(),
            buffer: RefCell::default(),
            pending_keys: RefCell::default(),
            claims: BlockLocks::default(),
            cuts: Cuts::default(),
            empty: AlignedBuf::zeroed(0).freeze(),
        }
    }

    /// The lane, once the shard serves.
    pub(crate) fn lane(&self) -> Option<&Rc<Journal>> {
        self.lane.get()
    }

    /// Records are admitted to this lane from now on.
    pub(crate) fn set_lane(&self, lane: Rc<Journal>) {
        assert!(self.lane.set(lane).is_ok(), "a shard has one lane");
    }

    /// The number that the next record gets.
    pub(crate) fn next_wseq(&self) -> WriteSeq {
        self.next_wseq.get()
    }

    /// A number for a record.
    pub(crate) fn fresh_wseq(&self) -> WriteSeq {
        debug_assert!(self.lane.get().is_some(), "numbers are given once recovery is through"); // RECOVERY-4
        let wseq = self.next_wseq.get();
        self.next_wseq.set(wseq.next());
        wseq
    }

    /// The number given last.
    pub(crate) fn last_wseq(&self) -> WriteSeq {
        WriteSeq::new(self.next_wseq.get().get() - 1)
    }

    /// Recovery saw a record with this number: later ones get higher ones.
    pub(crate) fn see_wseq(&self, seen: WriteSeq) {
        assert!(self.lane.get().is_none(), "recovery sees numbers before any is given"); // RECOVERY-4
        self.next_wseq.set(self.next_wseq.get().max(seen.next()));
    }

    /// So many numbers may have been given to records that nobody saw.
    pub(crate) fn skip_wseqs(&self, count: u64) {
        assert!(self.lane.get().is_none(), "recovery skips numbers before any is given"); // RECOVERY-4
        self.next_wseq.set(WriteSeq::new(self.next_wseq.get().get() + count));
    }

    /// Lets the drain look whether the open segment has what somebody waits for.
    pub(crate) fn press(&self) {
        self.pressure.notify_one();
    }

    /// Waits until somebody presses.
    pub(crate) async fn pressed(&self) {
        self.pressure.notified().await;
    }

    /// The payload of a record without one.
    pub(crate) fn no_payload(&self) -> BufSlice {
        self.empty.clone()
    }
}
