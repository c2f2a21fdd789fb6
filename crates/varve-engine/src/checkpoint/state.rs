//! What a shard knows of its checkpoints, apart from how it makes them.

use std::cell::{Cell, RefCell};

use varve_logstore::format::pointer::{Location, PagePtr};
use varve_logstore::format::root::{ChainHead, ShardRoot};
use varve_logstore::segment_writer::SegmentWriter;
use varve_media::{RootVersion, SegmentId};
use varve_reactor::{JoinHandle, Notify};

use crate::Result;
use crate::copies::CopyState;

/// What a shard knows of its checkpoints.
pub(crate) struct Checkpoint {
    /// One may be due.
    pub(super) wanted: Notify,
    /// One is to be made, due or not.
    pub(super) is_forced: Cell<bool>,
    /// The last one's number.
    pub(super) seq: Cell<u64>,
    /// Entries of data segments that were applied since.
    new_entries: Cell<u64>,
    /// Of the root as it is.
    pub(super) root_version: Cell<RootVersion>,
    pub(crate) metadata: Metadata,
    pub(crate) blobs: Blobs,
}

impl Checkpoint {
    pub(crate) fn new(writer: SegmentWriter, root: &ShardRoot, version: RootVersion) -> Self {
        Self {
            wanted: Notify::new(),
            is_forced: Cell::new(false),
            seq: Cell::new(root.checkpoint_seq),
            new_entries: Cell::new(0),
            root_version: Cell::new(version),
            metadata: Metadata::new(writer),
            blobs: Blobs::of(root),
        }
    }

    /// Asks for one, due or not.
    pub(super) fn force(&self) {
        self.is_forced.set(true);
        self.wanted.notify_one();
    }

    /// The number of the last one that is durable.
    pub(crate) fn seq(&self) -> u64 {
        self.seq.get()
    }

    /// Entries of data segments that were applied since the last one.
    pub(crate) fn new_entries(&self) -> u64 {
        self.new_entries.get()
    }

    /// So many more were applied.
    pub(crate) fn add_entries(&self, count: usize) {
        self.new_entries.set(self.new_entries.get() + count as u64);
    }

    /// One was made.
    pub(super) fn forget_entries(&self) {
        self.new_entries.set(0);
    }
}

/// The writer of metadata segments and what a checkpoint has under way.
pub(crate) struct Metadata {
    pub(super) writer: RefCell<SegmentWriter>,
    /// Slot and generation of the open segment, once something is in it.
    pub(super) open: Cell<Option<SegmentId>>,
    /// The pages that are in the open segment.
    pub(super) open_pages: RefCell<Vec<PagePtr>>,
    pub(super) puts: RefCell<Vec<MetadataWrite>>,
    pub(super) written: RefCell<Vec<SegmentId>>,
    /// Second copies of segments.
    pub(crate) copies: CopyState,
}

/// A metadata segment that is being written.
pub(super) struct MetadataWrite {
    pub(super) id: SegmentId,
    pub(super) durable: JoinHandle<Result<()>>,
    /// Its copy, which is written beside it.
    pub(super) copy: Option<JoinHandle<()>>,
    /// The pages in it.
    pub(super) pages: Vec<PagePtr>,
}

impl Metadata {
    fn new(writer: SegmentWriter) -> Self {
        Self {
            writer: RefCell::new(writer),
            open: Cell::new(None),
            open_pages: RefCell::default(),
            puts: RefCell::default(),
            written: RefCell::default(),
            copies: CopyState::default(),
        }
    }
}

impl Metadata {
    /// Slot of the open or next segment.
    pub(crate) fn next_slot(&self) -> varve_types::SegmentNumber {
        self.writer.borrow().slot()
    }

    /// Whether nothing is in the open segment.
    pub(crate) fn is_empty(&self) -> bool {
        self.writer.borrow().is_empty()
    }

    /// Takes another slot for the next segment. Nothing is in the open one, so that nobody names it.
    pub(crate) fn go_on_in(&self, next_slot: varve_types::SegmentNumber) {
        assert_ne!(next_slot, self.next_slot(), "it takes another one");
        assert!(self.open_pages.borrow().is_empty(), "no page is in an empty segment");
        assert!(self.is_empty(), "a segment goes where its units were placed");
        let chain = self.writer.borrow().chain();
        self.writer.borrow_mut().resume(ChainHead { next_slot, ..chain });
        self.open.set(None);
    }

    /// Sets where the first segment goes.
    pub(crate) fn resume(&self, chain: ChainHead) {
        assert!(self.is_empty(), "recovery ends before anything is written");
        self.writer.borrow_mut().resume(chain);
    }
}

/// Where the last checkpoint put what is in no tree.
pub(crate) struct Blobs {
    /// Live bytes of segments.
    pub(crate) usage: RefCell<Vec<Location>>,
    /// Chunks that were overwritten.
    pub(crate) deaths: RefCell<Vec<Location>>,
    /// Map updates that wait.
    pub(crate) deltas: RefCell<Vec<Location>>,
}

impl Blobs {
    fn of(root: &ShardRoot) -> Self {
        Self {
            usage: RefCell::new(root.usage.clone()),
            deaths: RefCell::new(root.deaths.clone()),
            deltas: RefCell::new(root.deltas.clone()),
        }
    }
}
