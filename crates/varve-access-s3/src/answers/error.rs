//! Failures: of the gateway itself, and of the store in terms of the protocol.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use s3s::header::{X_AMZ_DELETE_MARKER, X_AMZ_VERSION_ID};
use s3s::{S3Error, S3ErrorCode, s3_error};
use varve_object::Version;
use varve_stdx::hex;

/// Result of an operation of the gateway.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure of the gateway.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] varve_object::Error),
    /// A file could not be read or written.
    #[error("{what}: {source}")]
    File {
        /// What was done with which file.
        what: String,
        /// Why it failed.
        source: std::io::Error,
    },
    /// The key file is not one, or another one than that secrets were sealed with.
    #[error("{what} does not fit the key file")]
    Key {
        /// What cannot be opened.
        what: String,
    },
    /// Users exist, and the key that their secrets are sealed with is neither in the pool nor in the file.
    #[error(
        "the sealing key is lost: {}, and users exist",
        if *is_other { format!("{} holds another one", path.display()) } else { format!("no file {}", path.display()) }
    )]
    KeyLost {
        /// The file.
        path: std::path::PathBuf,
        /// Whether it holds another key.
        is_other: bool,
    },
    /// The sealing key may be where the store could not read, and no access key that it could read shows that the file
    /// holds it.
    #[error("the sealing key is not known, as no access key shows that {} holds it: {unread}", path.display())]
    KeyUnread {
        /// The file.
        path: std::path::PathBuf,
        /// What could not be read.
        unread: String,
    },
    /// No such user or access key.
    #[error("no {what} `{name}`")]
    NotFound {
        /// User or access key.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// A user or key of that name exists.
    #[error("{what} `{name}` already exists")]
    Exists {
        /// User or access key.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// The user still has buckets.
    #[error("user `{name}` owns {buckets} bucket{}", if *buckets == 1 { "" } else { "s" })]
    OwnsBuckets {
        /// The user.
        name: String,
        /// How many.
        buckets: u64,
    },
    /// Nobody could administer the buckets without this user.
    #[error("user `{name}` is the only administrator")]
    LastAdmin {
        /// The user.
        name: String,
    },
    /// The request contradicts the state it meets.
    #[error("{what}")]
    Conflict {
        /// Why.
        what: String,
    },
    /// A name, policy or certificate makes no sense.
    #[error("{what}")]
    Invalid {
        /// What is wrong.
        what: String,
    },
}

impl Error {
    /// What callers act on.
    pub fn kind(&self) -> varve_types::ErrorKind {
        use varve_types::ErrorKind;
        match self {
            Self::Store(error) => error.kind(),
            Self::File { .. } => ErrorKind::Internal,
            Self::Key { .. } | Self::KeyLost { .. } => ErrorKind::Corrupt,
            Self::KeyUnread { .. } => ErrorKind::Unavailable,
            Self::NotFound { .. } => ErrorKind::NotFound,
            Self::Exists { .. } => ErrorKind::Exists,
            Self::OwnsBuckets { .. } | Self::LastAdmin { .. } | Self::Conflict { .. } => {
                ErrorKind::Conflict
            }
            Self::Invalid { .. } => ErrorKind::Invalid,
        }
    }
}

/// A part named on completion is not there, or is another one.
pub(crate) const NO_PART: &str = "One or more of the specified parts could not be found.  The part may not have been uploaded, or the specified entity tag may not match the part's entity tag.";

/// Carries elements of an error document from where it is made to where it leaves; it never leaves itself.
pub(crate) const ELEMENTS: HeaderName = HeaderName::from_static("x-varve-error-elements");

/// An error whose document has further elements, by name.
pub(crate) fn with_elements(mut error: S3Error, elements: &[(&str, &str)]) -> S3Error {
    let text = elements
        .iter()
        .map(|(name, value)| {
            format!("<{name}>{}</{name}>", crate::request::query::escape_xml(value))
        })
        .collect::<String>();
    let mut headers = error.headers().cloned().unwrap_or_default();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/xml"));
    // What cannot stand in a header is left out: the document is complete without.
    if let Ok(text) = HeaderValue::from_bytes(text.as_bytes()) {
        headers.insert(ELEMENTS, text);
    }
    error.set_headers(headers);
    error
}

/// An argument that makes no sense.
pub(crate) fn invalid_argument(text: &str, name: &str, value: &str) -> S3Error {
    let error = S3Error::with_message(S3ErrorCode::InvalidArgument, text.to_owned());
    with_elements(error, &[("ArgumentName", name), ("ArgumentValue", value)])
}

/// A body that has not the MD5 declared.
pub(crate) fn bad_digest(declared: &[u8], found: &[u8]) -> S3Error {
    let text = "The Content-MD5 you specified did not match what we received.";
    let error = S3Error::with_message(S3ErrorCode::BadDigest, text);
    let (found, declared) = (BASE64_STANDARD.encode(found), hex(declared));
    with_elements(error, &[("CalculatedDigest", &found), ("ExpectedDigest", &declared)])
}

/// A failure of the store as clients see it.
pub(crate) fn of_store(error: varve_object::Error) -> S3Error {
    use varve_object::Error as E;
    let code = match &error {
        E::NoBucket { .. } => S3ErrorCode::NoSuchBucket,
        E::BucketExists { .. } => S3ErrorCode::BucketAlreadyExists,
        E::BucketNotEmpty { .. } => S3ErrorCode::BucketNotEmpty,
        E::NoKey { marker, .. } => return no_key(marker.as_ref()),
        E::NoVersion { .. } => S3ErrorCode::NoSuchVersion,
        E::IsMarker { marker, .. } => return with_marker(s3_error!(MethodNotAllowed), marker),
        E::NoUpload { .. } => S3ErrorCode::NoSuchUpload,
        E::NoPart { .. } => S3ErrorCode::InvalidPart,
        E::Condition { .. } => S3ErrorCode::PreconditionFailed,
        E::Locked { .. } => S3ErrorCode::AccessDenied,
        E::Arrived { .. }
        | E::MovesOtherwise { .. }
        | E::BadMove { .. }
        | E::OtherBucket { .. }
        | E::State { .. } => S3ErrorCode::InvalidBucketState,
        E::Quota { .. } => S3ErrorCode::Custom("QuotaExceeded".into()),
        E::NoSpace => S3ErrorCode::Custom("XMinioStorageFull".into()),
        E::Moves { .. } | E::StillChanging { .. } | E::Unavailable { .. } | E::Unread { .. } => {
            S3ErrorCode::ServiceUnavailable
        }
        E::Body { .. } => S3ErrorCode::IncompleteBody,
        E::Corrupt { .. } | E::Decode(_) | E::Internal { .. } => {
            tracing::error!(%error, "request failed");
            S3ErrorCode::InternalError
        }
    };
    let status = match &error {
        E::Quota { .. } => Some(hyper::StatusCode::FORBIDDEN),
        E::NoSpace => Some(hyper::StatusCode::INSUFFICIENT_STORAGE),
        _ => None,
    };
    let text = match &error {
        E::Locked { .. } => "Access Denied because object protected by object lock.".to_owned(),
        E::NoPart { .. } => NO_PART.to_owned(),
        E::Unread { .. } => format!("{error}: `varve status` shows its operator what to do"),
        _ => error.to_string(),
    };
    let mut mapped = S3Error::with_message(code, text);
    if let Some(status) = status {
        mapped.set_status_code(status);
    }
    mapped
}

/// An error that the protocol library has no name for.
pub(crate) fn named(code: &'static str, status: hyper::StatusCode, text: &'static str) -> S3Error {
    let mut error = S3Error::with_message(S3ErrorCode::Custom(code.into()), text);
    error.set_status_code(status);
    error
}

/// No such object; a delete marker that hides it is named in the answer.
pub(crate) fn no_key(marker: Option<&Version>) -> S3Error {
    let error = s3_error!(NoSuchKey, "The specified key does not exist.");
    match marker {
        Some(marker) => with_marker(error, marker),
        None => {
            let mut error = error;
            error.set_headers(xml_headers("false"));
            error
        }
    }
}

fn xml_headers(marker: &'static str) -> hyper::HeaderMap {
    let mut headers = hyper::HeaderMap::new();
    headers.insert(
        hyper::header::CONTENT_TYPE,
        hyper::header::HeaderValue::from_static("application/xml"),
    );
    headers.insert(X_AMZ_DELETE_MARKER, hyper::header::HeaderValue::from_static(marker));
    headers
}

fn with_marker(mut error: S3Error, marker: &Version) -> S3Error {
    let mut headers = xml_headers("true");
    if let Ok(id) = marker.id().parse() {
        headers.insert(X_AMZ_VERSION_ID, id);
    }
    error.set_headers(headers);
    error
}
