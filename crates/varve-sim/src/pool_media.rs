//! The open media of the machine's pool: drives that are joined to one, or redundant ones with their keeper.

use varve_media::{Drive, Media, Result};
use varve_types::ShardId;

use crate::redundant_pool::RedundantPool;

/// The media, for one life.
pub(crate) enum PoolMedia {
    /// Drives joined to one.
    Joined(Drive),
    /// Redundant drives.
    Redundant(Box<RedundantPool>),
}

impl PoolMedia {
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
