//! An open redundant pool of the machine: its drives as they were found, its keeper, which is a task of the same loop,
//! and one thread's worth of handles for each shard.

use std::cell::RefCell;
use std::rc::Rc;

use varve_media::{Media, Result};
use varve_reactor::Reactor;
use varve_types::{SegmentNumber, ShardId};

use crate::census::StripCensus;
use crate::observed::{ObservedSegments, SegmentKnowledge};
use crate::raw_tables::RawLayout;
use crate::world::World;

/// What the caller says to an opening.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct OpeningWish {
    /// To go on although something newer may exist.
    pub is_degraded: bool,
}

/// The pool.
pub(crate) struct RedundantPool {
    world: Rc<World>,
    knowledge: RefCell<Vec<(ShardId, SegmentKnowledge)>>,
}

/// Makes the pool's drives, unless they were made before. Durable on return.
///
/// # Errors
/// The drives'.
pub(crate) async fn make_drives(world: &World, reactor: &Reactor) -> Result<()> {
    todo!()
}

impl RedundantPool {
    /// Opens the pool by the drives that can be found now.
    ///
    /// # Errors
    /// The opening's.
    pub(crate) async fn open(
        world: &Rc<World>,
        reactor: &Reactor,
        wish: &OpeningWish,
    ) -> Result<Self> {
        todo!()
    }

    /// What the thread of a shard works with. Each call is another thread.
    ///
    /// # Errors
    /// The pool's.
    pub(crate) fn media(&self, shard: ShardId) -> Result<Media> {
        todo!()
    }

    /// Counts strips of all that the shards hold; `None` while that changes.
    pub(crate) fn census(&self) -> Option<StripCensus> {
        todo!()
    }
}
