//! What a shard knows of its drain, apart from what it does.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use varve_logstore::format::frame::LogPosition;
use varve_logstore::format::root::ShardRoot;
use varve_logstore::lane::JournalFrame;
use varve_logstore::segment_writer::{SealedSegment, SegmentWriter};
use varve_reactor::{JoinHandle, Notify};

use crate::Result;

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
#[derive(Default)]
pub(crate) struct DataPuts {
    /// Whether each has ended, in the order of the chain from the witness on.
    pub(super) ended: RefCell<VecDeque<bool>>,
    /// A put ended, or none will.
    pub(crate) changed: Notify,
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
    pub(crate) drain_upto: Cell<u64>,
    /// Frames may have become due.
    pub(crate) drain_requested: Notify,
    /// A frame was drained.
    pub(crate) advanced: Notify,
    pub(crate) puts: DataPuts,
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
            puts: DataPuts::default(),
            samples_only: Cell::new(false),
            blocks_this_turn: Cell::new(0),
        }
    }

    /// The open segment has what puts so many updates into maps.
    pub(super) fn add_settles(&self, count: usize) {
        self.settles.set(self.settles.get() + count);
    }
}
