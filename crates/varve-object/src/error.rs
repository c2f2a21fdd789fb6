//! Causes of failure of object operations, and the kind callers act on.

use varve_dataset::Move;
use varve_dataset_content::Error as ContentError;
use varve_stdx::DecodeError;
use varve_types::ErrorKind;

/// Result of an object operation.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure of an object operation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No bucket of that name.
    #[error("no bucket `{name}`")]
    NoBucket {
        /// The name.
        name: String,
    },
    /// A bucket of that name exists.
    #[error("bucket `{name}` already exists")]
    BucketExists {
        /// The name.
        name: String,
    },
    /// The bucket is on its way between two pools, and what was asked for is to be had at the other one, or later.
    #[error("bucket `{name}` {moves}")]
    Moves {
        /// The name.
        name: String,
        /// Where it is.
        moves: Move,
    },
    /// The bucket came from another pool, which has it still.
    #[error("bucket `{name}` {moves}, which has it still")]
    Arrived {
        /// The name.
        name: String,
        /// Where it came from.
        moves: Move,
    },
    /// The bucket is elsewhere on its way than who moves it takes it to be.
    #[error("bucket `{name}` {}", moves.as_ref().map_or_else(|| "does not move".to_owned(), ToString::to_string))]
    MovesOtherwise {
        /// The name.
        name: String,
        /// Where it is.
        moves: Option<Move>,
    },
    /// There is no such step of a move.
    #[error("bucket `{name}` cannot go that step of a move")]
    BadMove {
        /// The name.
        name: String,
    },
    /// A bucket of the name is another one than that which is meant.
    #[error("bucket `{name}` is number {id} by now")]
    OtherBucket {
        /// The name.
        name: String,
        /// The number it has.
        id: u64,
    },
    /// Changes of the bucket do not end, so that it cannot go on with its move.
    #[error("changes of bucket `{name}` are still under way")]
    StillChanging {
        /// The name.
        name: String,
    },
    /// The bucket holds versions or delete markers.
    #[error("bucket `{name}` is not empty")]
    BucketNotEmpty {
        /// The name.
        name: String,
    },
    /// The key has no object, or its newest version is a delete marker.
    #[error("no object `{key}`")]
    NoKey {
        /// The key.
        key: String,
        /// The version of the delete marker that hides it.
        marker: Option<crate::Version>,
    },
    /// The key has no such version.
    #[error("no version {version} of object `{key}`")]
    NoVersion {
        /// The key.
        key: String,
        /// The version, as text.
        version: String,
    },
    /// The version is a delete marker, which cannot be read or changed.
    #[error("a version of object `{key}` is a delete marker")]
    IsMarker {
        /// The key.
        key: String,
        /// The delete marker.
        marker: crate::Version,
    },
    /// No such multipart upload: never begun, completed or aborted.
    #[error("no upload {upload} of object `{key}`")]
    NoUpload {
        /// The key.
        key: String,
        /// The upload, as text.
        upload: String,
    },
    /// A part named on completion was not uploaded, or was replaced since.
    #[error("part {number} is not what was uploaded")]
    NoPart {
        /// Number of the part.
        number: u16,
    },
    /// A condition of the request does not hold.
    #[error("condition `{condition}` does not hold")]
    Condition {
        /// The condition's name, as in the protocol.
        condition: &'static str,
    },
    /// Retention or a legal hold forbids it.
    #[error("version of object `{key}` is locked")]
    Locked {
        /// The key.
        key: String,
    },
    /// The request contradicts the state it meets.
    #[error("{reason}")]
    State {
        /// Why.
        reason: &'static str,
    },
    /// A quota would be exceeded.
    #[error("the quota of {holder} is reached")]
    Quota {
        /// The bucket or user.
        holder: String,
    },
    /// No room in the pool; deleting makes some.
    #[error("no space in the pool")]
    NoSpace,
    /// Not now: a shard is reopening, or the pool is closing.
    #[error("{what} is unavailable")]
    Unavailable {
        /// What does not answer.
        what: String,
    },
    /// It is not known, and may be where the store could not read when it was opened.
    #[error("{what} may be on {shards}, which could not be read when the daemon started")]
    Unread {
        /// What it is.
        what: String,
        /// The shards that could not be read.
        shards: String,
    },
    /// Stored bytes are not what was written.
    #[error("{what} is damaged")]
    Corrupt {
        /// What was read.
        what: String,
    },
    /// A stored record does not decode.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The body ended early, or its sender failed.
    #[error("body ended with an error: {reason}")]
    Body {
        /// What its sender said.
        reason: String,
    },
    /// A failure of the store that callers cannot mend.
    #[error("{what}")]
    Internal {
        /// What failed.
        what: String,
    },
}

impl Error {
    /// What callers act on.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NoBucket { .. }
            | Self::NoKey { .. }
            | Self::NoVersion { .. }
            | Self::NoUpload { .. } => ErrorKind::NotFound,
            Self::BucketExists { .. } => ErrorKind::Exists,
            Self::BucketNotEmpty { .. }
            | Self::Arrived { .. }
            | Self::MovesOtherwise { .. }
            | Self::OtherBucket { .. }
            | Self::Condition { .. }
            | Self::State { .. } => ErrorKind::Conflict,
            Self::BadMove { .. }
            | Self::IsMarker { .. }
            | Self::NoPart { .. }
            | Self::Body { .. } => ErrorKind::Invalid,
            Self::Locked { .. } => ErrorKind::Denied,
            Self::Quota { .. } | Self::NoSpace => ErrorKind::NoSpace,
            Self::Moves { .. }
            | Self::StillChanging { .. }
            | Self::Unavailable { .. }
            | Self::Unread { .. } => ErrorKind::Unavailable,
            Self::Corrupt { .. } | Self::Decode(_) => ErrorKind::Corrupt,
            Self::Internal { .. } => ErrorKind::Internal,
        }
    }
}

impl From<ContentError> for Error {
    fn from(error: ContentError) -> Self {
        match error {
            ContentError::NoSpace => Self::NoSpace,
            ContentError::Closed { stream } => {
                let what = format!("bucket #{}, which is being deleted", stream.get());
                Self::Unavailable { what }
            }
            ContentError::Gone { what } | ContentError::Unavailable { what } => {
                Self::Unavailable { what }
            }
            ContentError::Corrupt { what } => Self::Corrupt { what },
            ContentError::Decode(error) => Self::Decode(error),
            ContentError::State { reason } => Self::State { reason },
            ContentError::Internal { what } => Self::Internal { what },
        }
    }
}

impl From<Error> for ContentError {
    /// A bucket that is gone has nothing that could be given back to it.
    fn from(error: Error) -> Self {
        match error {
            Error::NoBucket { .. } => Self::Gone { what: error.to_string() },
            Error::NoSpace => Self::NoSpace,
            Error::Corrupt { what } => Self::Corrupt { what },
            Error::Decode(error) => Self::Decode(error),
            Error::State { reason } => Self::State { reason },
            Error::Unavailable { what } => Self::Unavailable { what },
            Error::BucketExists { .. }
            | Error::Moves { .. }
            | Error::Arrived { .. }
            | Error::MovesOtherwise { .. }
            | Error::BadMove { .. }
            | Error::OtherBucket { .. }
            | Error::StillChanging { .. }
            | Error::BucketNotEmpty { .. }
            | Error::NoKey { .. }
            | Error::NoVersion { .. }
            | Error::IsMarker { .. }
            | Error::NoUpload { .. }
            | Error::NoPart { .. }
            | Error::Condition { .. }
            | Error::Locked { .. }
            | Error::Quota { .. }
            | Error::Unread { .. }
            | Error::Body { .. }
            | Error::Internal { .. } => Self::Internal { what: error.to_string() },
        }
    }
}

impl From<varve_engine::Error> for Error {
    fn from(error: varve_engine::Error) -> Self {
        ContentError::from(error).into()
    }
}
