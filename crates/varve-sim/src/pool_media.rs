//! The open media of the machine's pool: drives that are joined to one, or redundant ones with their keeper.

use std::rc::Rc;

use varve_media::{Drive, Error, Media, Result};
use varve_reactor::Reactor;
use varve_types::ShardId;

use crate::openings::open_redundant;
use crate::redundant_pool::{RedundantPool, make_drives};
use crate::world::World;

/// The media, for one life.
pub(crate) enum PoolMedia {
    /// Drives joined to one.
    Joined(Drive),
    /// Redundant drives.
    Redundant(Box<RedundantPool>),
}

impl PoolMedia {
    /// Makes the drives, unless they were made before. Durable on return.
    ///
    /// # Errors
    /// The drives'.
    pub(crate) async fn make(world: &Rc<World>, reactor: &Reactor) -> Result<()> {
        if world.on_redundant().is_some() {
            return make_drives(world, reactor).await;
        }
        match Drive::format(&world.disks(reactor), &world.spec()).await {
            Ok(()) | Err(Error::PoolExists { .. }) => Ok(()), // Made before the power was cut.
            Err(error) => Err(error),
        }
    }

    /// Opens them.
    ///
    /// # Errors
    /// The drives'.
    pub(crate) async fn open(world: &Rc<World>, reactor: &Reactor) -> Result<Self> {
        if world.on_redundant().is_some() {
            return Ok(Self::Redundant(Box::new(open_redundant(world, reactor).await?)));
        }
        Ok(Self::Joined(world.drive(reactor).await?))
    }

    /// What a shard works with.
    ///
    /// # Errors
    /// The media's.
    pub(crate) fn media(&self, shard: ShardId) -> Result<Media> {
        match self {
            Self::Joined(drive) => drive.media(shard),
            Self::Redundant(pool) => pool.media(shard),
        }
    }

    /// The redundant pool, where it is one.
    pub(crate) fn redundant(&self) -> Option<&RedundantPool> {
        match self {
            Self::Joined(_) => None,
            Self::Redundant(pool) => Some(pool),
        }
    }
}
