//! Errors of setting the server up. What goes wrong on a connection ends that connection and is an
//! [`crate::ConnectionEnd`].

use std::io;
use std::path::PathBuf;

use varve_types::ErrorKind;

/// Result of setting up.
pub type Result<T> = std::result::Result<T, Error>;

/// Why the server cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A TLS file cannot be read.
    #[error("read TLS file {}: {source}", path.display())]
    TlsFile {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A TLS file does not hold what it should.
    #[error("TLS file {} contains no {wanted}", path.display())]
    TlsFileEmpty {
        /// The file.
        path: PathBuf,
        /// What was looked for.
        wanted: &'static str,
    },
    /// Key, certificate and protocol do not go together.
    #[error("set up TLS: {0}")]
    TlsSetup(rustls::Error),
    /// Client certificates cannot be verified.
    #[error("set up the check of client certificates: {0}")]
    TlsVerifier(rustls::server::VerifierBuilderError),
    /// An address that is neither `unix:PATH` nor `HOST:PORT`.
    #[error("address `{address}` is neither unix:PATH nor HOST:PORT")]
    Address {
        /// As given.
        address: String,
    },
    /// A socket cannot be opened.
    #[error("listen on {address}: {source}")]
    Listen {
        /// Where.
        address: String,
        /// Why.
        source: io::Error,
    },
}

impl Error {
    /// The kind that callers act on.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::TlsFile { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                ErrorKind::NotFound
            }
            Self::Listen { source, .. }
                if matches!(
                    source.kind(),
                    io::ErrorKind::AddrInUse | io::ErrorKind::ResourceBusy
                ) =>
            {
                ErrorKind::Conflict
            }
            Self::TlsFile { .. }
            | Self::TlsFileEmpty { .. }
            | Self::TlsSetup(_)
            | Self::TlsVerifier(_)
            | Self::Address { .. } => ErrorKind::Invalid,
            Self::Listen { .. } => ErrorKind::Unavailable,
        }
    }
}
