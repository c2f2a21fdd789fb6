//! What goes wrong between a client and its server.

use std::io;

use varve_types::ErrorKind;

/// Result of the client.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an export cannot be had, or a connection is of no more use.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody takes the connection.
    #[error("{0}")]
    Connect(io::Error),
    /// The connection ended, or does not move.
    #[error("{0}")]
    Stream(io::Error),
    /// The name of the export does not fit an option.
    #[error("the name is too long")]
    NameTooLong,
    /// The server has none of this name.
    #[error("it has no such export")]
    NoExport,
    /// The server speaks with clients of TLS only.
    #[error("it wants TLS, which is not spoken")]
    TlsRequired,
    /// The server refuses an option.
    #[error("it refuses with {kind:#x}: {message:?}")]
    OptionRefused {
        /// Type of its reply.
        kind: u32,
        /// The text of its reply, for people.
        message: String,
    },
    /// The server sends what the protocol does not allow here.
    #[error("{0}")]
    Protocol(&'static str),
    /// The server failed a request.
    #[error("the request at byte {offset} failed: {source}")]
    Request {
        /// Where its range begins.
        offset: u64,
        /// As the server says.
        source: io::Error,
    },
}

impl Error {
    /// The kind that callers act on.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Connect(_) | Self::Stream(_) => ErrorKind::Unavailable,
            Self::NameTooLong => ErrorKind::Invalid,
            Self::NoExport => ErrorKind::NotFound,
            Self::TlsRequired | Self::OptionRefused { .. } | Self::Protocol(_) => {
                ErrorKind::Unsupported
            }
            Self::Request { source, .. } => match source.kind() {
                io::ErrorKind::PermissionDenied => ErrorKind::Denied,
                io::ErrorKind::InvalidInput => ErrorKind::Invalid,
                io::ErrorKind::StorageFull => ErrorKind::NoSpace,
                io::ErrorKind::Unsupported => ErrorKind::Unsupported,
                _ => ErrorKind::Internal,
            },
        }
    }
}
