//! One thread's media of a redundant pool.

use std::rc::Rc;

use varve_media::{Fence, Media, Result};
use varve_types::ShardId;

use crate::handles::DriveHandles;
use crate::journal::{JournalPatience, MirroredJournal};
use crate::roots::MirroredRoots;
use crate::segments::StripedSegments;
use crate::tables::TablesHandle;

/// What one thread has of a pool.
pub struct RedundantThread {
    handles: Rc<DriveHandles>,
    tables: Rc<TablesHandle>,
    segments: StripedSegments,
    roots: Rc<MirroredRoots>,
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
        let segments = StripedSegments::new(Rc::clone(&handles), Rc::clone(&tables));
        let roots = Rc::new(MirroredRoots::new(Rc::clone(&handles), Rc::clone(&tables)));
        Self { handles, tables, segments, roots, patience }
    }

    /// Segments, as the mover and scrub need them.
    #[must_use]
    pub fn segments(&self) -> &StripedSegments {
        &self.segments
    }

    /// The drives of this thread.
    #[must_use]
    pub fn handles(&self) -> &Rc<DriveHandles> {
        &self.handles
    }

    /// The tables as this thread has them.
    #[must_use]
    pub fn tables(&self) -> &Rc<TablesHandle> {
        &self.tables
    }

    /// The media of the thread that opens `shard`.
    ///
    /// # Errors
    /// `NoLane` when the pool has no journal for it.
    pub fn media(&self, shard: ShardId) -> Result<Media> {
        let (handles, tables) = (Rc::clone(&self.handles), Rc::clone(&self.tables));
        let journal = MirroredJournal::new(handles, tables, shard, self.patience)?;
        Ok(Media {
            segments: Rc::new(self.segments.clone()),
            journal: Rc::new(journal),
            roots: Rc::clone(&self.roots) as _,
            fence: self.fence(),
        })
    }

    /// The drives' fence.
    #[must_use]
    pub fn fence(&self) -> Rc<dyn Fence> {
        Rc::new(DrivesFence { handles: Rc::clone(&self.handles) })
    }
}

/// Fails once a drive of this thread was taken over.
struct DrivesFence {
    handles: Rc<DriveHandles>,
}

impl Fence for DrivesFence {
    fn check(&self) -> Result<()> {
        let drives = self.handles.all();
        drives.iter().try_for_each(|drive| {
            drive.meta().check_fence()?;
            drive.disks().space.check_fence()
        })
    }
}
