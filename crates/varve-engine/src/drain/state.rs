//! What a shard knows of its drain, apart from what it does.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use varve_logstore::format::frame::LogPosition;
use varve_logstore::format::root::{ChainHead, ShardRoot};
use varve_logstore::lane::JournalFrame;
use varve_logstore::segment_writer::{SealedSegment, SegmentWriter};
use varve_reactor::{JoinHandle, Notify};

use crate::Result;
use crate::admission::Semaphore;
use crate::bypass::Bypass;

/// A sealed data segment on its way to the map.
pub(crate) struct SealedData {
    pub(crate) sealed: SealedSegment,
    pub(crate) put: JoinHandle<Result<()>>,
    pub(crate) frames: Vec<Rc<JournalFrame>>,
    /// Bytes that bypassed the lane, in credits.
    pub(crate) bypassed_bytes: u64,
    /// Where the lane continues once this segment is applied.
    pub(crate) lane: LogPosition,
}

/// Puts of data segments that are under way, or have ended while an earlier one is.
pub(crate) struct DataPuts {
    /// Up to this one all segments of the data chain are durable.
    witness: Cell<u64>,
    /// Whether each has ended, in the order of the chain from the witness on.
    ended: RefCell<VecDeque<bool>>,
    /// A put ended, or none will.
    pub(crate) changed: Notify,
}

impl DataPuts {
    fn behind(witness: u64) -> Self {
        Self { witness: Cell::new(witness), ended: RefCell::default(), changed: Notify::new() }
    }

    /// Up to this one all segments of the data chain are durable.
    pub(crate) fn witness(&self) -> u64 {
        self.witness.get()
    }

    /// The put of the segment behind all others begins.
    pub(super) fn begin(&self, seq: u64) {
        let mut ended = self.ended.borrow_mut();
        // DRAIN-6
        assert_eq!(place_behind(self.witness.get(), seq), ended.len(), "puts follow the chain");
        ended.push_back(false);
    }

    /// The put of a segment ended well.
    pub(super) fn end(&self, seq: u64) {
        let mut ended = self.ended.borrow_mut();
        let mut witness = self.witness.get();
        let was_ended = std::mem::replace(&mut ended[place_behind(witness, seq)], true);
        assert!(!was_ended, "a put ends once");
        while ended.pop_front_if(|ended| *ended).is_some() {
            witness += 1;
        }
        self.witness.set(witness);
        assert!(ended.front() != Some(&true), "the witness stands before a put that is under way"); // DRAIN-6
    }

    /// Whether none is under way.
    pub(super) fn are_none(&self) -> bool {
        self.ended.borrow().is_empty()
    }

    /// Whether a segment and all before it are durable.
    pub(super) fn is_durable(&self, seq: u64) -> bool {
        seq <= self.witness.get()
    }

    /// Whether the put of a segment that is not durable ended, though one before it may be under way.
    pub(super) fn has_ended(&self, seq: u64) -> bool {
        self.ended.borrow().get(place_behind(self.witness.get(), seq)) == Some(&true)
    }
}

/// The place of a segment among those behind the witness.
fn place_behind(witness: u64, seq: u64) -> usize {
    assert!(seq > witness, "up to the witness all puts have ended");
    usize::try_from(seq - witness - 1).expect("bounded by the segments in flight")
}

/// The drain's own state.
pub(crate) struct Drain {
    pub(crate) writer: RefCell<SegmentWriter>,
    /// Frames whose last record lies in the open segment.
    pub(crate) frames: RefCell<Vec<Rc<JournalFrame>>>,
    /// Bytes in the open segment that bypassed the lane.
    pub(crate) bypassed_bytes: Cell<u64>,
    /// Start of the first frame that is not wholly drained.
    pub(crate) point: Cell<LogPosition>,
    /// Mount whose frames stand at `point`.
    pub(crate) lane_mount: Cell<u64>,
    /// The open segment holds trims: what they free is free once it is applied.
    pub(crate) frees: Cell<bool>,
    /// Data were refused since it was opened.
    pub(crate) refused: Cell<bool>,
    /// Other shards' grants need credits that only the open segment gives back.
    pub(crate) grants_wait: Cell<bool>,
    /// Such credits did not come back in time, and there were none since.
    pub(crate) grant_credit_timeout: Cell<bool>,
    /// Map updates that cuts and promises in the open segment put into maps, about.
    pub(crate) settles: Cell<usize>,
    /// Frames taken from the lane and not drained: their blocks may be asked of other shards.
    pub(crate) taken: Cell<usize>,
    /// Frames before this one do not linger.
    pub(super) drain_upto: Cell<u64>,
    /// Frames may have become due.
    pub(super) drain_requested: Notify,
    /// A frame was drained.
    pub(crate) advanced: Notify,
    pub(crate) puts: DataPuts,
    /// Held for a frame as a whole by who puts into the open segment (DRAIN-5).
    pub(crate) gate: Semaphore,
    /// What bypasses the lane.
    pub(crate) bypass: Bypass,
    /// Blocks of the open segment have no fingerprint because they were not in a sample.
    pub(super) samples_only: Cell<bool>,
    pub(super) blocks_this_turn: Cell<usize>,
}

impl Drain {
    pub(crate) fn new(writer: SegmentWriter, root: &ShardRoot) -> Self {
        Self {
            writer: RefCell::new(writer),
            frames: RefCell::default(),
            bypassed_bytes: Cell::new(0),
            point: Cell::new(root.lane),
            lane_mount: Cell::new(root.lane_mount),
            frees: Cell::new(false),
            refused: Cell::new(false),
            grants_wait: Cell::new(false),
            grant_credit_timeout: Cell::new(false),
            settles: Cell::new(0),
            taken: Cell::new(0),
            drain_upto: Cell::new(0),
            drain_requested: Notify::new(),
            advanced: Notify::new(),
            puts: DataPuts::behind(root.data_chain.seq),
            gate: Semaphore::new(1),
            bypass: Bypass::default(),
            samples_only: Cell::new(false),
            blocks_this_turn: Cell::new(0),
        }
    }

    /// Frames may have become due.
    pub(crate) fn request(&self) {
        self.drain_requested.notify_one();
    }

    /// Frames before this one do not linger from now on.
    pub(crate) fn request_upto(&self, frame_seq: u64) {
        self.drain_upto.set(frame_seq.max(self.drain_upto.get()));
        self.request();
    }

    /// Goes on behind the last data segment that recovery applied.
    pub(crate) fn resume(&self, chain: ChainHead) {
        assert!(chain.seq >= self.puts.witness(), "chains only grow");
        assert!(self.puts.are_none(), "recovery ends before anything is put");
        self.puts.witness.set(chain.seq);
        self.writer.borrow_mut().resume(chain);
    }

    /// The open segment has what puts so many updates into maps.
    pub(super) fn add_settles(&self, count: usize) {
        self.settles.set(self.settles.get() + count);
    }
}
