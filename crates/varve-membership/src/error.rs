//! Causes of failure of membership.

use varve_stdx::DecodeError;
use varve_types::{ErrorKind, PoolId};

/// Result of an operation on the table of nodes.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure of an operation on the table of nodes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The table's bytes are not what was written.
    #[error("the table of nodes is damaged: {0}")]
    Damaged(#[from] DecodeError),
    /// The table was written by another version.
    #[error("the nodes' format is {found}, known is {known}")]
    Format {
        /// Of the table.
        found: u16,
        /// Of this program.
        known: u16,
    },
    /// The table that was there is gone, or an older one is in its place.
    #[error("the table of nodes had version {known}, and has version {found} now")]
    WentBack {
        /// The version that was seen before.
        known: u64,
        /// The one found; 0 when there is none.
        found: u64,
    },
    /// It is the table of another pool.
    #[error("the table of nodes is of pool {pool}")]
    OfAnother {
        /// Whose it is.
        pool: PoolId,
    },
    /// It speaks of another number of cells than the pool has.
    #[error("the table of nodes is of a pool of {found} cells, this one has {known}")]
    OtherCells {
        /// In the table.
        found: usize,
        /// Of the pool.
        known: usize,
    },
    /// The table is full.
    #[error("the pool has {limit} nodes, as many as it can")]
    TooManyNodes {
        /// How many there can be.
        limit: usize,
    },
    /// A place that cannot be kept.
    #[error("the place of a node has {len} bytes, at most {limit} can be kept")]
    PlaceTooLong {
        /// Its length.
        len: usize,
        /// The longest.
        limit: usize,
    },
    /// The store refused or failed.
    #[error("table of nodes: {reason}")]
    Store {
        /// What the caller can act on.
        kind: ErrorKind,
        /// Why.
        reason: String,
    },
}

impl Error {
    /// What a caller can act on.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Damaged(_)
            | Self::WentBack { .. }
            | Self::OfAnother { .. }
            | Self::OtherCells { .. } => ErrorKind::Corrupt,
            Self::Format { .. } => ErrorKind::Unsupported,
            Self::TooManyNodes { .. } => ErrorKind::Conflict,
            Self::PlaceTooLong { .. } => ErrorKind::Invalid,
            Self::Store { kind, .. } => *kind,
        }
    }
}
