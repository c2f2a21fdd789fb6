//! Errors of the admin API. Each has a kind, which fixes its HTTP status, and may carry advice for the caller.

use std::io;
use std::path::PathBuf;

use varve_types::{ByteCount, ErrorKind};

use crate::address::ListenAddress;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a request was refused or a listener could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The daemon behind the API refused.
    #[error("{message}")]
    Backend {
        /// Coarse cause.
        kind: ErrorKind,
        /// What, which and where.
        message: String,
        /// What the caller can do.
        hint: Option<String>,
    },
    /// No endpoint has this path.
    #[error("no endpoint {path}")]
    Route {
        /// Path of the request.
        path: String,
    },
    /// The endpoint has no such method.
    #[error("{path} does not support {method}")]
    Method {
        /// Method of the request.
        method: String,
        /// Path of the request.
        path: String,
    },
    /// A request body does not say that it is JSON; this also keeps web pages of other sites out.
    #[error("the body's content-type is not application/json")]
    ContentType,
    /// A request with bodies of objects does not say that it is one.
    #[error("the body's content-type is not application/octet-stream")]
    BulkType,
    /// A request body is larger than the limit, or did not arrive.
    #[error("the request body is longer than {limit_bytes} bytes, or ended early")]
    Body {
        /// Largest body in bytes.
        limit_bytes: usize,
    },
    /// A request body or query is not what the endpoint takes.
    #[error("malformed {part}: {reason}")]
    Malformed {
        /// `body`, `query` or `path`.
        part: &'static str,
        /// What the decoder found.
        reason: String,
    },
    /// A TCP request names a host that is not this machine: a web page reaches for the API through DNS.
    #[error("host `{host}` is not a loopback address or name")]
    Host {
        /// The request's `Host` header.
        host: String,
    },
    /// A TCP request does not show the token of the API.
    #[error("{} the token of the admin API", if *is_shown { "this is not" } else { "the request lacks" })]
    Token {
        /// Whether it shows another one.
        is_shown: bool,
    },
    /// A resize would cut off the end of a volume without being asked to.
    #[error(
        "cannot shrink volume `{name}` from {from} to {to}: data beyond the new end would be lost"
    )]
    Shrink {
        /// Name of the volume.
        name: String,
        /// Size now.
        from: ByteCount,
        /// Size asked for.
        to: ByteCount,
    },
    /// A change of a volume names nothing to change.
    #[error("nothing to change in volume `{name}`")]
    NoChange {
        /// Name of the volume.
        name: String,
    },
    /// A change of a user or bucket names nothing to change.
    #[error("nothing to change in {what} `{name}`")]
    NothingToChange {
        /// `user` or `bucket`.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// The daemon serves no S3.
    #[error("S3 is not served by this daemon")]
    NoS3,
    /// The daemon did not answer in time. The request may still be carried out.
    #[error("no answer from the shards within {limit_ms} ms")]
    Timeout {
        /// The limit.
        limit_ms: u64,
    },
    /// What is stored was not counted in time. The count goes on.
    #[error("counting stored data takes longer than {limit_ms} ms")]
    Counting {
        /// The limit.
        limit_ms: u64,
    },
    /// A listener cannot be opened.
    #[error("listen on {address}: {source}")]
    Listen {
        /// Where.
        address: ListenAddress,
        /// What the system said.
        source: io::Error,
    },
    /// A socket path does not fit the system's address structure.
    #[error("socket path {} is {} bytes long; the system allows {limit_bytes}", path.display(), path.as_os_str().len())]
    SocketPath {
        /// The path.
        path: PathBuf,
        /// Longest path in bytes.
        limit_bytes: usize,
    },
    /// The API has no encryption, so it stays on this machine.
    #[error("admin address {address} is not a loopback address")]
    NotLoopback {
        /// The address.
        address: ListenAddress,
    },
}

impl Error {
    /// Coarse cause; callers act on it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Backend { kind, .. } => *kind,
            Self::Route { .. } => ErrorKind::NotFound,
            Self::Method { .. } | Self::NoS3 => ErrorKind::Unsupported,
            Self::ContentType
            | Self::BulkType
            | Self::Body { .. }
            | Self::Malformed { .. }
            | Self::Shrink { .. }
            | Self::NoChange { .. }
            | Self::NothingToChange { .. }
            | Self::SocketPath { .. } => ErrorKind::Invalid,
            Self::Host { .. } | Self::Token { .. } | Self::NotLoopback { .. } => ErrorKind::Denied,
            Self::Timeout { .. } | Self::Counting { .. } | Self::Listen { .. } => {
                ErrorKind::Unavailable
            }
        }
    }

    /// What the caller can do about it, as a sentence fragment.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Backend { hint, .. } => return hint.clone(),
            Self::Route { .. } | Self::Method { .. } => "GET /v1/openapi.json lists the endpoints",
            Self::ContentType => "send the header `content-type: application/json`",
            Self::BulkType => "send the header `content-type: application/octet-stream`",
            Self::Body { .. } => "no request of this API needs so much",
            Self::Malformed { .. } => "GET /v1/openapi.json describes every request",
            Self::Host { .. } => "address the API as 127.0.0.1, [::1] or localhost",
            Self::Token { .. } => {
                "name the file with the token, admin.token in the daemon's data directory, with --token-file or VARVE_TOKEN_FILE, or send \
                 `authorization: Bearer TOKEN`"
            }
            Self::Shrink { .. } => {
                "shrink its file system first, then repeat with --shrink (`allow_shrink` in the API)"
            }
            Self::NoChange { .. } => {
                "set at least one of `size_bytes`, `dedup`, `compression` and `forget_origin`"
            }
            Self::NothingToChange { .. } => "GET /v1/openapi.json tells what can be changed",
            Self::NoS3 => {
                "start it with `--s3 127.0.0.1:9000`, or set `s3.listen` in its configuration"
            }
            Self::Timeout { .. } => "GET /v1/status shows each shard; the request may yet complete",
            Self::Counting { .. } => {
                "ask again: the count goes on, and a later request gets the result"
            }
            Self::Listen { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                "the file system of the socket is full: remove something there"
            }
            Self::Listen { .. } => "see whether another process holds the address",
            Self::SocketPath { .. } => "choose a shorter or a relative data directory",
            Self::NotLoopback { .. } => {
                "listen on 127.0.0.1 or a unix socket and forward from there"
            }
        };
        Some(text.to_owned())
    }
}
