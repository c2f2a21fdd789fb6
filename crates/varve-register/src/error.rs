//! Causes of failure of the register.

use varve_stdx::DecodeError;
use varve_types::{CellId, ErrorKind, PoolId};

use crate::Name;

/// Result of an operation on the register.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure of an operation on the register of names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// An entry's bytes are not what was written.
    #[error(
        "the entry of {name} is damaged: {cause}; it may be removed from the metadata pool once no cell has the name"
    )]
    Damaged {
        /// Whose it should be.
        name: Name,
        /// What is wrong.
        cause: DecodeError,
    },
    /// The entry was written by another version.
    #[error("the entry of {name} has format {found}, known is {known}")]
    Format {
        /// Whose it is.
        name: Name,
        /// Of the entry.
        found: u16,
        /// Of this program.
        known: u16,
    },
    /// The entry is of another pool.
    #[error(
        "the entry of {name} is of pool {pool}; it may be removed from the metadata pool once no cell has the name"
    )]
    OfAnother {
        /// Whose it should be.
        name: Name,
        /// The pool that it names.
        pool: PoolId,
    },
    /// Another cell has the name, or keeps it.
    #[error("{name} belongs to cell {cell}")]
    Elsewhere {
        /// The name.
        name: Name,
        /// The cell that may make it.
        cell: CellId,
    },
    /// Others changed the entry since it was seen.
    #[error("{name} is being changed by others")]
    Changed {
        /// The name.
        name: Name,
    },
    /// The store refused or failed.
    #[error("register of names: {reason}")]
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
            Self::Damaged { .. } | Self::OfAnother { .. } => ErrorKind::Corrupt,
            Self::Format { .. } => ErrorKind::Unsupported,
            Self::Elsewhere { .. } => ErrorKind::Exists,
            Self::Changed { .. } => ErrorKind::Conflict,
            Self::Store { kind, .. } => *kind,
        }
    }
}
