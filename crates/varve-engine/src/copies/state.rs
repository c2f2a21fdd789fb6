//! What a shard knows of copies of segments, apart from what it does with them.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use varve_types::{Generation, SegmentNumber};

/// What is known of damage, and how far the search for segments without a copy got.
#[derive(Default)]
pub(crate) struct CopyState {
    /// Damaged segments with a copy, which reclaim is to empty.
    pub(super) damaged: RefCell<BTreeMap<SegmentNumber, Generation>>,
    /// Whether one of them waits for free segments.
    pub(super) lacks_room: Cell<bool>,
    /// Where the search goes on.
    pub(super) from: Cell<SegmentNumber>,
    /// Segments with pages that had no copy at the last checkpoint.
    pub(crate) lacking: Cell<u64>,
}
