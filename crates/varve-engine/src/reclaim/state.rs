//! The writer of survivors and what waits for it, apart from what reclaim does.

use std::cell::{Cell, RefCell};

use varve_logstore::format::root::{ChainHead, ShardRoot};
use varve_logstore::segment_writer::SegmentWriter;
use varve_reactor::Notify;
use varve_types::{ChunkId, Generation, SegmentNumber};

use crate::damage_rests::DamageRests;
use crate::deaths::PurgeRounds;
use crate::hash::HashMap;

/// The writer of survivors and what waits for it.
pub(crate) struct Reclaim {
    /// Somebody asks for it.
    pub(super) wanted: Notify,
    /// The last segment of survivors whose moves are applied.
    pub(super) chain: Cell<ChainHead>,
    /// Up to this one all segments of that chain are durable.
    pub(super) witness: Cell<u64>,
    pub(super) writer: RefCell<SegmentWriter>,
    /// Victims whose last survivor is in the open segment, or which had none.
    pub(super) emptied: RefCell<Vec<SegmentNumber>>,
    /// Chunks of the victim at hand that are dead, and so are not moved.
    pub(super) dead: RefCell<Vec<ChunkId>>,
    /// Such chunks that the next checkpoint folds.
    pub(super) left: RefCell<Vec<ChunkId>>,
    /// Folds that others wait for.
    pub(crate) purge_rounds: PurgeRounds,
    /// The last range that sealed segments or the open one tell.
    pub(super) told: Cell<u64>,
    /// Segments that the next checkpoint empties, unless something in them is lost.
    pub(crate) waiting: RefCell<HashMap<SegmentNumber, Generation>>,
    /// Segments with pages that are emptied one after the other.
    pub(super) batch: RefCell<Vec<SegmentNumber>>,
    /// Segments that could not be emptied, as something in them is lost (RECLAIM-4).
    pub(super) damaged: DamageRests,
    /// Nothing could be emptied when it was last looked for.
    pub(crate) is_starved: Cell<bool>,
    /// Segments given back so far.
    pub(crate) freed_segments: Cell<u64>,
    /// Segments of the chain that the last checkpoint covers.
    checkpointed_seq: Cell<u64>,
    /// As much of the chain of data.
    checkpointed_data_seq: Cell<u64>,
}

impl Reclaim {
    pub(crate) fn new(writer: SegmentWriter, root: &ShardRoot) -> Self {
        Self {
            wanted: Notify::new(),
            chain: Cell::new(root.reclaim_chain),
            witness: Cell::new(root.reclaim_chain.seq),
            writer: RefCell::new(writer),
            emptied: RefCell::default(),
            dead: RefCell::default(),
            left: RefCell::default(),
            purge_rounds: PurgeRounds::default(),
            told: Cell::new(0),
            waiting: RefCell::default(),
            batch: RefCell::default(),
            damaged: DamageRests::default(),
            is_starved: Cell::new(false),
            freed_segments: Cell::new(0),
            checkpointed_seq: Cell::new(root.reclaim_chain.seq),
            checkpointed_data_seq: Cell::new(root.data_chain.seq),
        }
    }
}

impl Reclaim {
    /// Lets reclaim look whether it is due.
    pub(crate) fn request(&self) {
        self.wanted.notify_one();
    }

    /// The last segment of survivors whose moves are applied.
    pub(crate) fn chain(&self) -> ChainHead {
        self.chain.get()
    }

    /// Up to this one all segments of survivors are durable.
    pub(crate) fn witness(&self) -> u64 {
        self.witness.get()
    }

    /// A checkpoint covers the moves that are applied, and the chain of data up to this segment.
    pub(crate) fn note_checkpoint(&self, data_seq: u64) {
        assert!(data_seq >= self.checkpointed_data_seq.get(), "chains only grow");
        assert!(self.chain.get().seq >= self.checkpointed_seq.get(), "chains only grow");
        self.checkpointed_seq.set(self.chain.get().seq);
        self.checkpointed_data_seq.set(data_seq);
    }

    /// Segments of survivors that the last checkpoint does not cover.
    pub(crate) fn uncovered(&self) -> u64 {
        assert!(self.checkpointed_seq.get() <= self.chain.get().seq, "chains only grow");
        self.chain.get().seq - self.checkpointed_seq.get()
    }

    /// As many of a chain of data that ends with this segment.
    pub(super) fn uncovered_data(&self, data_seq: u64) -> u64 {
        assert!(self.checkpointed_data_seq.get() <= data_seq, "chains only grow");
        data_seq - self.checkpointed_data_seq.get()
    }

    /// Slot of the next segment of survivors.
    pub(crate) fn next_slot(&self) -> SegmentNumber {
        self.writer.borrow().slot()
    }

    /// What the next checkpoint is to fold of victims.
    pub(crate) fn take_left(&self) -> Vec<ChunkId> {
        self.left.take()
    }

    pub(super) fn count_freed(&self, count: u64) {
        self.freed_segments.set(self.freed_segments.get() + count);
    }

    /// Goes on behind the end of the chain that recovery found.
    pub(crate) fn resume(&self) {
        assert!(self.emptied.borrow().is_empty(), "recovery empties nothing");
        assert!(self.chain.get().seq >= self.witness.get(), "chains only grow");
        let chain = self.chain.get();
        self.witness.set(chain.seq);
        self.writer.borrow_mut().resume(chain);
    }
}
