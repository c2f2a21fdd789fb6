//! Causes of failure of content, and the kind callers act on.

use varve_stdx::DecodeError;
use varve_types::{ErrorKind, StreamId};

/// Result of an operation on content.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure of an operation on content.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No room in the pool; deleting makes some.
    #[error("no space in the pool")]
    NoSpace,
    /// The stream takes no changes any more.
    #[error("stream {}, which is being deleted, is unavailable", .stream.get())]
    Closed {
        /// The stream.
        stream: StreamId,
    },
    /// Whatever had the content is gone, so nothing of it is left to be done.
    #[error("{what} is gone")]
    Gone {
        /// What it was.
        what: String,
    },
    /// Not now: a shard is reopening, or the pool is closing.
    #[error("{what} is unavailable")]
    Unavailable {
        /// What does not answer.
        what: String,
    },
    /// Stored bytes are not what was written.
    #[error("{what} is damaged")]
    Corrupt {
        /// What was read.
        what: String,
    },
    /// A record or key does not decode.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The request contradicts the state it meets.
    #[error("{reason}")]
    State {
        /// Why.
        reason: &'static str,
    },
    /// A failure that callers cannot mend.
    #[error("{what}")]
    Internal {
        /// What failed.
        what: String,
    },
}

impl Error {
    /// What callers act on.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NoSpace => ErrorKind::NoSpace,
            Self::Closed { .. } | Self::Unavailable { .. } => ErrorKind::Unavailable,
            Self::Gone { .. } => ErrorKind::NotFound,
            Self::Corrupt { .. } | Self::Decode(_) => ErrorKind::Corrupt,
            Self::State { .. } => ErrorKind::Conflict,
            Self::Internal { .. } => ErrorKind::Internal,
        }
    }

    /// Stored bytes that are not what was written.
    pub(crate) fn damaged(what: &str) -> Self {
        Self::Corrupt { what: what.to_owned() }
    }
}

impl From<varve_engine::Error> for Error {
    fn from(error: varve_engine::Error) -> Self {
        if let varve_engine::Error::Log(log) = &error
            && log.is_read_failure()
        {
            return Self::Unavailable { what: error.to_string() };
        }
        match error.kind() {
            ErrorKind::NoSpace => Self::NoSpace,
            ErrorKind::Corrupt => Self::Corrupt { what: error.to_string() },
            ErrorKind::Unavailable | ErrorKind::Closed | ErrorKind::Fenced => {
                Self::Unavailable { what: error.to_string() }
            }
            ErrorKind::NotFound
            | ErrorKind::Exists
            | ErrorKind::Invalid
            | ErrorKind::Unsupported
            | ErrorKind::Denied
            | ErrorKind::Conflict
            | ErrorKind::Internal => Self::Internal { what: error.to_string() },
        }
    }
}
