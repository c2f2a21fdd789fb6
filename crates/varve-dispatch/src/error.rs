//! Causes of failure between a request and its shard.

use varve_types::{ErrorKind, ShardId};

/// Result of a dispatched operation.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure of a dispatched operation.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The shard refused or failed.
    #[error("shard {shard}: {error}")]
    Shard {
        /// Which shard.
        shard: ShardId,
        /// Why.
        error: varve_engine::Error,
    },
    /// The shard did not open again within the time that requests wait for it.
    #[error("shard {shard} is not open: {reason}")]
    ShardClosed {
        /// Which shard.
        shard: ShardId,
        /// What it waits for.
        reason: String,
        /// Whether it is damaged, which does not pass soon, and another process could not serve it either.
        is_damaged: bool,
    },
    /// The thread of a shard is gone: the daemon is ending.
    #[error("the pool is shutting down")]
    ShuttingDown,
}

impl Error {
    /// Whether acknowledged records of a shard's journal are gone.
    #[must_use]
    pub fn is_lane_lost(&self) -> bool {
        let Self::Shard { error: varve_engine::Error::Log(error), .. } = self else { return false };
        error.is_lane_lost()
    }

    /// Whether the drives of a shard failed to read.
    #[must_use]
    pub fn is_read_failure(&self) -> bool {
        let Self::Shard { error: varve_engine::Error::Log(error), .. } = self else { return false };
        error.is_read_failure()
    }

    /// What a caller can act on.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Shard { error, .. } => error.kind(),
            Self::ShardClosed { .. } => ErrorKind::Unavailable,
            Self::ShuttingDown => ErrorKind::Closed,
        }
    }
}
