//! Causes of failure of a shard, and the kind callers act on.

use varve_types::{BlockIndex, ByteCount, ChunkId, ErrorKind, SegmentNumber, ShardId, StreamId};

/// Result of an engine operation.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure of an engine operation.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The log or the media below failed.
    #[error(transparent)]
    Log(#[from] varve_logstore::Error),
    /// No room for new data.
    #[error("shard is full: {live_bytes} of {capacity_bytes} bytes are in use")]
    NoSpace {
        /// Stored bytes of live data.
        live_bytes: u64,
        /// Bytes of all segments.
        capacity_bytes: u64,
    },
    /// A promise of space could not be kept.
    #[error(
        "cannot reserve {}: only {} are free and unreserved",
        ByteCount(*needed_bytes),
        ByteCount(*free_bytes)
    )]
    CannotReserve {
        /// What is to be promised beyond what is, with what names it.
        needed_bytes: u64,
        /// What could be.
        free_bytes: u64,
    },
    /// No room for any data beside what each shard keeps free: make the drives larger, or the shards fewer.
    #[error(
        "{segments} segments are too few for {shards} shards: larger drives or fewer shards are needed"
    )]
    TooFewSegments {
        /// Segments of the drives.
        segments: u32,
        /// Shards wanted.
        shards: u16,
    },
    /// The shard closed after a failure and reopens through recovery.
    #[error("shard is closed: {cause}")]
    Failed {
        /// What closed it.
        cause: String,
    },
    /// The shard is shutting down.
    #[error("shard is shutting down")]
    Closed,
    /// Stored data does not match its checksum.
    #[error(
        "checksum mismatch of chunk {chunk} in segment {segment} at {offset}: expected {expected:#010x}, found {found:#010x}"
    )]
    ChunkCorrupt {
        /// Which chunk.
        chunk: ChunkId,
        /// Where.
        segment: SegmentNumber,
        /// Byte offset in the segment.
        offset: u32,
        /// Stored checksum.
        expected: u32,
        /// Checksum of what was read.
        found: u32,
    },
    /// Stored data are what was written, and cannot be decompressed to a block.
    #[error("chunk {chunk} in segment {segment} at {offset} cannot be decompressed")]
    ChunkUnreadable {
        /// Which chunk.
        chunk: ChunkId,
        /// Where.
        segment: SegmentNumber,
        /// Byte offset in the segment.
        offset: u32,
    },
    /// The map names a chunk that the chunk table does not know.
    #[error("block {block} of stream {stream} names chunk {chunk}, which does not exist")]
    ChunkMissing {
        /// Which stream.
        stream: StreamId,
        /// Which block.
        block: BlockIndex,
        /// Which chunk.
        chunk: ChunkId,
    },
    /// A map names a chunk of another shard that this one does not know.
    #[error(
        "block {block} of stream {stream} names chunk {chunk} of shard {home}, which does not exist"
    )]
    ForeignMissing {
        /// Which stream.
        stream: StreamId,
        /// Which block.
        block: BlockIndex,
        /// The other shard.
        home: ShardId,
        /// Which chunk of it.
        chunk: ChunkId,
    },
    /// The shard that holds a chunk cannot be asked.
    #[error("shard {home}, which holds some of the data, does not answer: {cause}")]
    HomeUnavailable {
        /// The shard.
        home: ShardId,
        /// Why.
        cause: String,
    },
    /// Another shard could not read a chunk of its own.
    #[error("shard {home}: {cause}")]
    HomeDamaged {
        /// The shard.
        home: ShardId,
        /// What is wrong there.
        cause: String,
    },
    /// The root calls a chunk dead that the chunk table does not know, or reclaim found one dead that is not.
    #[error("chunk {chunk} is dead by one account and {found} by another")]
    DeathContradicted {
        /// Which chunk.
        chunk: ChunkId,
        /// What the other account says.
        found: &'static str,
    },
    /// A metadata page cannot be used.
    #[error("metadata page {page} is damaged: {reason}")]
    PageCorrupt {
        /// Which page.
        page: String,
        /// What is wrong.
        reason: String,
    },
    /// A segment is not what it was when it was written.
    #[error("segment {segment} is damaged: {reason}")]
    SegmentDamaged {
        /// Which segment.
        segment: SegmentNumber,
        /// What is wrong.
        reason: String,
    },
    /// A pool was made here before.
    #[error("a pool already exists")]
    PoolExists,
    /// No pool was ever made here.
    #[error("no pool found")]
    NoPool,
    /// The pool's root does not fit its media.
    #[error("the pool cannot be opened: {reason}")]
    BadPoolRoot {
        /// What is wrong.
        reason: String,
    },
    /// The shard's root or checkpoint does not fit the rest of the pool.
    #[error("shard {shard} cannot be opened: {reason}")]
    BadRoot {
        /// Which shard.
        shard: varve_types::ShardId,
        /// What is wrong.
        reason: String,
    },
    /// The pool is open for reading only.
    #[error("the pool is open for reading only")]
    ReadOnly,
    /// A step of a mark pass without a beginning: the shard was reopened meanwhile.
    #[error("no mark pass is under way")]
    NoMarkPass,
    /// The request is out of what a stream or key can hold.
    #[error("{what} {value} is over the limit of {limit}")]
    TooLarge {
        /// What.
        what: &'static str,
        /// Found.
        value: u64,
        /// Allowed.
        limit: u64,
    },
}

impl Error {
    /// Whether a metadata page cannot be read: it is damaged, or the drive fails to read it.
    pub(crate) fn is_page_unreadable(&self) -> bool {
        match self {
            Self::PageCorrupt { .. } => true,
            Self::Log(error) => error.is_read_failure(),
            _ => false,
        }
    }

    /// What a caller can act on.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Log(error) => error.kind(),
            Self::NoSpace { .. } | Self::CannotReserve { .. } | Self::TooFewSegments { .. } => {
                ErrorKind::NoSpace
            }
            Self::Failed { .. } | Self::HomeUnavailable { .. } => ErrorKind::Unavailable,
            Self::Closed => ErrorKind::Closed,
            Self::NoMarkPass => ErrorKind::Conflict,
            Self::PoolExists => ErrorKind::Exists,
            Self::NoPool => ErrorKind::NotFound,
            Self::BadPoolRoot { .. } => ErrorKind::Corrupt,
            Self::ChunkCorrupt { .. }
            | Self::ChunkUnreadable { .. }
            | Self::ChunkMissing { .. }
            | Self::ForeignMissing { .. }
            | Self::HomeDamaged { .. }
            | Self::DeathContradicted { .. }
            | Self::PageCorrupt { .. }
            | Self::SegmentDamaged { .. }
            | Self::BadRoot { .. } => ErrorKind::Corrupt,
            Self::TooLarge { .. } => ErrorKind::Invalid,
            Self::ReadOnly => ErrorKind::Denied,
        }
    }
}

impl From<varve_media::Error> for Error {
    fn from(error: varve_media::Error) -> Self {
        Self::Log(error.into())
    }
}
