//! One thread's media of a redundant pool.

use std::rc::Rc;
use std::sync::Arc;

use varve_media::{Fence, Media, Result};
use varve_types::ShardId;

use crate::handles::DriveHandles;
use crate::journal::{JournalPatience, MirroredJournal};
use crate::mover::Mover;
use crate::pool_sizer::{PoolSizer, ZoneRoot};
use crate::repair::{RepairControl, RepairMedia, UnownedZones};
use crate::roots::MirroredRoots;
use crate::segments::StripedSegments;
use crate::tables::TablesHandle;
use crate::watch;

/// What one thread has of a pool.
pub struct RedundantThread {
    handles: Rc<DriveHandles>,
    tables: Rc<TablesHandle>,
    segments: StripedSegments,
    roots: Rc<MirroredRoots>,
    patience: JournalPatience,
    /// `None` where nothing is moved: for a look, or while the pool is made.
    control: Option<Arc<RepairControl>>,
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
        Self { handles, tables, segments, roots, patience, control: None }
    }

    /// Has the zones of shards that open on this thread moved and scrubbed, and its drives watched.
    #[must_use]
    pub fn with_repair(self, control: Arc<RepairControl>) -> Self {
        watch::start(&self.handles, &self.tables, &control);
        Self { control: Some(control), ..self }
    }

    /// Starts to move the rows of zones that nobody has, where zones of shards are moved too. On one thread of a pool.
    #[must_use]
    pub fn move_unowned(&self, zones: UnownedZones) -> Option<Mover> {
        let control = self.control.as_ref()?;
        // Segments of its own: what puts of shards leave out is for their movers.
        let (handles, tables) = (Rc::clone(&self.handles), Rc::clone(&self.tables));
        let segments = StripedSegments::new(Rc::clone(&handles), Rc::clone(&tables));
        let media = RepairMedia { handles, tables, segments };
        Some(Mover::start_unowned(media, zones, Arc::clone(control)))
    }

    /// Starts to have the pool grow and shrink, where its root is. On one thread of a pool.
    #[must_use]
    pub fn size_pool(&self, root: Rc<dyn ZoneRoot>) -> Option<PoolSizer> {
        let control = Arc::clone(self.control.as_ref()?);
        Some(PoolSizer::start(self.handles.reactor(), Rc::clone(&self.tables), root, control))
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
        let segments = match &self.control {
            Some(control) => self.segments.of_shard(shard, control),
            None => self.segments.clone(),
        };
        Ok(Media {
            segments: Rc::new(segments),
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
