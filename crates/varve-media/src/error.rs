//! Causes of failure of media, and the kind callers act on.

use varve_types::{ErrorKind, PoolId, SegmentNumber, ShardId, UnixMillis};

/// Result of a media operation.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure of media. Definite: the operation was answered, and with a no.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The operating system refused or failed an operation.
    #[error("{operation} of {len} bytes at {offset} of {path} failed: {reason}")]
    Io {
        /// Which operation: `read`, `write`, `flush`, `discard`.
        operation: &'static str,
        /// File or device.
        path: String,
        /// Byte position in it.
        offset: u64,
        /// Bytes asked for.
        len: u64,
        /// The system's words.
        reason: String,
    },
    /// A file or device cannot be opened or prepared.
    #[error("cannot open {path}: {reason}")]
    Open {
        /// File or device.
        path: String,
        /// Why.
        reason: String,
    },
    /// Another process owns the pool.
    #[error("{path} is in use by another process")]
    InUse {
        /// File or device.
        path: String,
    },
    /// This process lost the pool to another owner.
    #[error("another owner has taken over the pool")]
    Fenced,
    /// No pool was ever made here.
    #[error("no pool in {path}")]
    NoPool {
        /// File or device.
        path: String,
    },
    /// A drive that is a directory lacks one of its files.
    #[error("the file {file} of drive {drive} is missing")]
    FileMissing {
        /// Its name in the directory.
        file: String,
        /// The directory.
        drive: String,
    },
    /// The making of a pool was cut off, so there is none yet.
    #[error(
        "the creation of pool {pool} on {path} was cut off before its end, so it holds nothing"
    )]
    Unfinished {
        /// File or device.
        path: String,
        /// The pool that was being made.
        pool: PoolId,
    },
    /// A drive that has left its pool, which needs nothing of it.
    #[error("{path} has left pool {pool}, and is free for other use")]
    FormerDrive {
        /// File or device.
        path: String,
        /// The pool that it left.
        pool: PoolId,
    },
    /// A pool exists where a new one should be made.
    #[error("{path} already holds a pool")]
    PoolExists {
        /// File or device.
        path: String,
    },
    /// Something else is stored where a pool should be made.
    #[error("{path} contains other data{}", .found.map_or_else(String::new, |it| format!(" ({it})")))]
    NotEmpty {
        /// File or device.
        path: String,
        /// What it is, where it is known.
        found: Option<&'static str>,
    },
    /// The file system writes each change to a new place.
    #[error("{path} lies on a file system that copies on write and cannot be told not to")]
    CopiedOnWrite {
        /// File.
        path: String,
    },
    /// Stored bytes of the drive's own structures are damaged.
    #[error("{what} of {path} is damaged: {reason}")]
    Corrupt {
        /// Which structure.
        what: &'static str,
        /// File or device.
        path: String,
        /// What was found.
        reason: String,
    },
    /// The format needs a newer version.
    #[error("{path} needs features this version lacks: incompat flags {flags:#x}")]
    Unsupported {
        /// File or device.
        path: String,
        /// Unknown incompatible feature flags.
        flags: u64,
    },
    /// A root was replaced by somebody else since it was read.
    #[error("root {key} is at version {found}, not {expected}")]
    RootConflict {
        /// Which root.
        key: String,
        /// Version the caller expected.
        expected: u64,
        /// Version found.
        found: u64,
    },
    /// The caller asked for something outside the media.
    #[error("{len} bytes at {offset} lie outside segment {segment}")]
    OutOfRange {
        /// Which segment.
        segment: SegmentNumber,
        /// Byte offset in it.
        offset: u64,
        /// Bytes asked for.
        len: u64,
    },
    /// A disk is too small for what it should hold.
    #[error("{path} has {have} bytes, needs {need}")]
    TooSmall {
        /// File or device.
        path: String,
        /// Its size in bytes.
        have: u64,
        /// Bytes needed.
        need: u64,
    },
    /// The pool's figures make no sense.
    #[error("cannot create the pool: {field} {value} is out of range")]
    Spec {
        /// Which figure.
        field: &'static str,
        /// What was asked for.
        value: u64,
    },
    /// The drives handed in are not the drives of one pool.
    #[error(
        "{path} is drive {index} of {count} of pool {pool}: a drive is missing, extra or of another pool"
    )]
    DriveSet {
        /// File or device.
        path: String,
        /// Number of this drive in its pool, from 0.
        index: u16,
        /// Drives of its pool.
        count: u16,
        /// Its pool.
        pool: PoolId,
    },
    /// A drive is one of another pool.
    #[error("{path} is a drive of another pool, {pool}")]
    OtherPool {
        /// File or device.
        path: String,
        /// Its pool.
        pool: PoolId,
    },
    /// The pool was made for fewer shards.
    #[error("the pool has {lanes} lanes, none for shard {shard}")]
    NoLane {
        /// Which shard.
        shard: ShardId,
        /// Lanes of the pool.
        lanes: u16,
    },
    /// A root does not fit its place.
    #[error("root {key} of {len} bytes exceeds {max}")]
    RootTooLong {
        /// Which root.
        key: String,
        /// Its length in bytes.
        len: u64,
        /// Most bytes of a root.
        max: u64,
    },
    /// Writes that are kept in memory only exceed their bound.
    #[error("writes kept in memory exceed {bytes_max} bytes")]
    OverlayFull {
        /// The bound in bytes.
        bytes_max: u64,
    },
    /// The medium under the files is full.
    #[error("no space left under {path}")]
    NoSpace {
        /// File or device.
        path: String,
    },
    /// More drives are missing than what is stored can lose.
    #[error(
        "{present} of {needed} drives that are needed{} are there",
        .zone.map_or_else(String::new, |it| format!(" for zone {it}"))
    )]
    TooFewDrives {
        /// The zone that lacks them; `None`: the pool's tables do.
        zone: Option<u32>,
        /// Drives that answer.
        present: usize,
        /// Drives without which nothing goes on.
        needed: usize,
    },
    /// A drive missed changes of its pool, which went on without it.
    #[error("{path} is stale: its pool went on without it")]
    Stale {
        /// File or device.
        path: String,
    },
    /// The drives handed in went on apart from each other.
    #[error("the drives of the pool went two ways: {histories}")]
    HistorySplit {
        /// Each history with its epoch and drives, as text.
        histories: String,
    },
    /// Drives are missing that may know of something newer.
    #[error(
        "{missing}, and those that are there may be older than they are (epoch {epoch}, of {})",
        UnixMillis(*since_unix_ms)
    )]
    DegradedOpening {
        /// Which drives, as text.
        missing: String,
        /// Epoch of the newest table that was found.
        epoch: u64,
        /// When it was written, in ms since 1970.
        since_unix_ms: u64,
    },
    /// Tables of a redundant pool cannot become what they were asked to be.
    #[error("the tables of the pool are not changed: {reason}")]
    TableChange {
        /// Why.
        reason: String,
    },
    /// The pool is open for reading only, as drives are missing.
    #[error("the pool is open for reading only: drives are missing")]
    ReadOnly,
    /// A drive of the pool failed, and is not used any more.
    #[error("drive {drive} failed: {reason}")]
    DriveFailed {
        /// Its number.
        drive: u8,
        /// Why, as text.
        reason: String,
    },
    /// The drive is one of a redundant pool, which is opened in another way.
    #[error("{path} is drive {number} of the redundant pool {pool}, and cannot be opened alone")]
    RedundantDrive {
        /// File or device.
        path: String,
        /// Number of the drive in its pool.
        number: u16,
        /// Its pool.
        pool: PoolId,
    },
    /// The file system under a drive has no files of that size.
    #[error("{path} cannot be {size_bytes} bytes long: its file system has a lower limit")]
    FileTooLarge {
        /// File.
        path: String,
        /// Its size.
        size_bytes: u64,
    },
}

impl Error {
    /// What a caller can act on.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Io { .. } | Self::DriveFailed { .. } => ErrorKind::Internal,
            Self::Open { .. }
            | Self::NoPool { .. }
            | Self::FileMissing { .. }
            | Self::Unfinished { .. }
            | Self::FormerDrive { .. } => ErrorKind::NotFound,
            Self::InUse { .. }
            | Self::RootConflict { .. }
            | Self::Stale { .. }
            | Self::HistorySplit { .. } => ErrorKind::Conflict,
            Self::Fenced => ErrorKind::Fenced,
            Self::PoolExists { .. } | Self::NotEmpty { .. } => ErrorKind::Exists,
            Self::Corrupt { .. } => ErrorKind::Corrupt,
            Self::Unsupported { .. } | Self::CopiedOnWrite { .. } | Self::RedundantDrive { .. } => {
                ErrorKind::Unsupported
            }
            Self::TooFewDrives { .. } | Self::DegradedOpening { .. } => ErrorKind::Unavailable,
            Self::ReadOnly => ErrorKind::Denied,
            Self::OutOfRange { .. }
            | Self::Spec { .. }
            | Self::DriveSet { .. }
            | Self::OtherPool { .. }
            | Self::NoLane { .. }
            | Self::FileTooLarge { .. }
            | Self::TableChange { .. }
            | Self::RootTooLong { .. } => ErrorKind::Invalid,
            Self::NoSpace { .. } | Self::TooSmall { .. } | Self::OverlayFull { .. } => {
                ErrorKind::NoSpace
            }
        }
    }
}
