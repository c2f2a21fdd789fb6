//! One thread's media of a redundant pool.

use std::rc::Rc;

use varve_media::{Fence, Media, Result};
use varve_types::ShardId;

use crate::handles::DriveHandles;
use crate::journal::JournalPatience;
use crate::keeper::TablesHandle;
use crate::segments::StripedSegments;

/// What one thread has of a pool.
pub struct RedundantThread {
    handles: Rc<DriveHandles>,
    tables: Rc<TablesHandle>,
    segments: StripedSegments,
    patience: JournalPatience,
}

impl RedundantThread {
    /// Over the drives and tables of this thread. What it writes is fenced by its drives.
    #[must_use]
    pub fn new(
        handles: Rc<DriveHandles>,
        tables: Rc<TablesHandle>,
        patience: JournalPatience,
    ) -> Self {
        todo!()
    }

    /// Segments, as the mover and scrub need them.
    #[must_use]
    pub fn segments(&self) -> &StripedSegments {
        &self.segments
    }

    /// The media of the thread that opens `shard`.
    ///
    /// # Errors
    /// `NoLane` when the pool has no journal for it.
    pub fn media(&self, shard: ShardId) -> Result<Media> {
        todo!()
    }

    /// The drives' fence.
    #[must_use]
    pub fn fence(&self) -> Rc<dyn Fence> {
        todo!()
    }
}
