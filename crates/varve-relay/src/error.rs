//! Causes of failure of links.

use std::net::SocketAddr;

use varve_stdx::DecodeError;
use varve_types::ErrorKind;

/// Result of an operation on a link.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure of a link.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A key for this node could not be created.
    #[error("create the node's key: {reason}")]
    Key {
        /// Why.
        reason: String,
    },
    /// This node cannot take links.
    #[error("listen for other nodes on {address}: {reason}")]
    Listen {
        /// Where it was to listen.
        address: SocketAddr,
        /// Why it does not.
        reason: String,
    },
    /// The link was begun by another version.
    #[error("the other node's format is {found}, known is {known}")]
    Format {
        /// Of the link.
        found: u16,
        /// Of this program.
        known: u16,
    },
    /// What another node sent is no message of a link.
    #[error("malformed message from another node: {0}")]
    Hello(DecodeError),
}

impl Error {
    /// What a caller can act on.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Key { .. } => ErrorKind::Internal,
            Self::Listen { .. } => ErrorKind::Unavailable,
            Self::Format { .. } => ErrorKind::Unsupported,
            Self::Hello(_) => ErrorKind::Invalid,
        }
    }
}
