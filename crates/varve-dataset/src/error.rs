//! Causes of failure of dataset operations, and the kind callers act on.

use varve_stdx::DecodeError;
use varve_types::{ByteCount, ErrorKind};

use crate::volume_move::{Move, MoveState};

/// Result of a dataset operation.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure of a dataset operation.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// A shard failed or cannot be reached.
    #[error(transparent)]
    Dispatch(#[from] varve_dispatch::Error),
    /// The register of names refused or failed, or another cell has the name.
    #[error(transparent)]
    Register(#[from] varve_register::Error),
    /// A group of snapshots, or what an earlier life began, is not completed, so that names must not change.
    #[error("names cannot be changed before what was left incomplete is completed: {reason}")]
    Unsettled {
        /// What keeps it from being completed.
        reason: String,
    },
    /// No volume of that name.
    #[error("no volume `{name}`")]
    NotFound {
        /// The name.
        name: String,
    },
    /// A volume of that name exists.
    #[error("volume `{name}` already exists")]
    Exists {
        /// The name.
        name: String,
    },
    /// No snapshot of that name.
    #[error("no snapshot `{name}`")]
    NoSnapshot {
        /// The name.
        name: String,
    },
    /// A snapshot of that name exists.
    #[error("snapshot `{name}` already exists")]
    SnapshotExists {
        /// The name.
        name: String,
    },
    /// The snapshot must not be deleted.
    #[error("snapshot `{name}` is protected")]
    Protected {
        /// The name.
        name: String,
    },
    /// The volume has snapshots, which would go with it.
    #[error("volume `{name}` has snapshots")]
    HasSnapshots {
        /// The name.
        name: String,
    },
    /// A snapshot does not change.
    #[error("snapshot `{name}` is read-only")]
    ReadOnly {
        /// The name.
        name: String,
    },
    /// Snapshots cannot be taken together.
    #[error("these snapshots cannot be taken at one instant: {reason}")]
    BadGroup {
        /// Why.
        reason: &'static str,
    },
    /// Two streams that have no blocks in common cannot be compared by their maps.
    #[error("`{name}` and `{other}` are not snapshots of the same volume")]
    Unrelated {
        /// One.
        name: String,
        /// The other.
        other: String,
    },
    /// A volume is receiving another snapshot.
    #[error("volume `{name}` has received a part of snapshot {identity}")]
    Receiving {
        /// The volume.
        name: String,
        /// What it receives.
        identity: String,
    },
    /// A volume is not receiving this snapshot.
    #[error("volume `{name}` is not receiving snapshot {identity}")]
    NotReceiving {
        /// The volume.
        name: String,
        /// What it should receive.
        identity: String,
    },
    /// The snapshot that changes count from is not there.
    #[error(
        "volume `{name}` has no snapshot with identity {identity}, from which the changes count"
    )]
    NoBase {
        /// The volume.
        name: String,
        /// Identity of the snapshot.
        identity: String,
    },
    /// A volume is not what its snapshot holds.
    #[error("volume `{name}` was changed after snapshot `{snapshot}`")]
    ChangedSince {
        /// The volume.
        name: String,
        /// The snapshot.
        snapshot: String,
    },
    /// The volume moves to another pool, or from it, or did.
    #[error("volume `{name}` {moves}")]
    Moves {
        /// The name.
        name: String,
        /// Where it is on its way.
        moves: Move,
    },
    /// The same of a volume that is open, whose record is not looked at.
    #[error(
        "volume `{name}` {} to another pool: `varve volume show` says which",
        if *.state == MoveState::Left { "moved" } else { "moves" }
    )]
    Moving {
        /// The name.
        name: String,
        /// Leaving or left.
        state: MoveState,
    },
    /// The volume's move is not where the caller takes it to be.
    #[error("volume `{name}` {}", at_rest(.moves))]
    MovesOtherwise {
        /// The name.
        name: String,
        /// Where it is on its way.
        moves: Option<Move>,
    },
    /// The volume's newest snapshot is not the one with which it is to arrive, or behind which it is to leave.
    #[error("the newest snapshot of volume `{name}` is not {identity}")]
    NotNewest {
        /// The name.
        name: String,
        /// Identity of the snapshot that it should be.
        identity: String,
    },
    /// The name is that of another snapshot by now.
    #[error("snapshot `{name}` is not {identity} any more")]
    OtherSnapshot {
        /// The name.
        name: String,
        /// Identity of the snapshot that it should be.
        identity: String,
    },
    /// The name is that of another volume by now, or the volume was rolled back.
    #[error("volume `{name}` is not number {id} any more")]
    OtherVolume {
        /// The name.
        name: String,
        /// Number of the volume that it should be.
        id: u64,
    },
    /// Writes are under way that do not end.
    #[error("writes to volume `{name}` have not ended in time")]
    StillChanging {
        /// The name.
        name: String,
    },
    /// A move has no such step.
    #[error(
        "volume `{name}` cannot go on like that: a volume is leaving before it has left, and arrives before it is there"
    )]
    BadMove {
        /// The name.
        name: String,
    },
    /// The volume is in use.
    #[error("volume `{name}` is in use by {openers} client{}", if *.openers == 1 { "" } else { "s" })]
    InUse {
        /// The name.
        name: String,
        /// How many clients have it open.
        openers: usize,
    },
    /// The name cannot be used.
    #[error("invalid name `{name}`: {reason}")]
    BadName {
        /// The name.
        name: String,
        /// Why.
        reason: &'static str,
    },
    /// The size cannot be used.
    #[error("invalid size {}: must be a multiple of 512 B, from {min} to {max}", .size.exact())]
    BadSize {
        /// The size.
        size: ByteCount,
        /// Smallest.
        min: ByteCount,
        /// Largest.
        max: ByteCount,
    },
    /// The block size cannot be used.
    #[error("invalid block size {}: must be a power of two from 512 B to 64 KiB", .block_size.exact())]
    BadBlockSize {
        /// The block size.
        block_size: ByteCount,
    },
    /// The volume would hold more than it may.
    #[error("volume `{name}` would hold more than its quota of {quota}")]
    OverQuota {
        /// The name.
        name: String,
        /// What it may hold.
        quota: ByteCount,
    },
    /// The quota cannot be used.
    #[error("invalid quota {}: must be from 4 KiB to {max}", .quota.exact())]
    BadQuota {
        /// The quota.
        quota: ByteCount,
        /// Largest.
        max: ByteCount,
    },
    /// A request reaches beyond the volume.
    #[error("{len} bytes at offset {offset} are beyond the end of the volume ({size_bytes} bytes)")]
    OutOfRange {
        /// Byte position.
        offset: u64,
        /// Length in bytes.
        len: u64,
        /// Size of the volume in bytes.
        size_bytes: u64,
    },
    /// An archive is not what was written, or not one at all.
    #[error("cannot read the archive at record {record}: {cause}")]
    BadArchive {
        /// Number of the record, from 1 on; 0 is the header.
        record: u64,
        /// What is wrong.
        cause: DecodeError,
    },
    /// A stored record does not decode.
    #[error("record of `{name}` is damaged: {cause}")]
    BadRecord {
        /// Which dataset.
        name: String,
        /// What is wrong.
        cause: DecodeError,
    },
}

impl Error {
    /// What a caller can act on.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Dispatch(error) => error.kind(),
            Self::Register(error) => error.kind(),
            Self::NotFound { .. } | Self::NoSnapshot { .. } | Self::NoBase { .. } => {
                ErrorKind::NotFound
            }
            Self::Exists { .. } | Self::SnapshotExists { .. } => ErrorKind::Exists,
            Self::InUse { .. }
            | Self::Protected { .. }
            | Self::HasSnapshots { .. }
            | Self::Receiving { .. }
            | Self::NotReceiving { .. }
            | Self::MovesOtherwise { .. }
            | Self::NotNewest { .. }
            | Self::OtherSnapshot { .. }
            | Self::OtherVolume { .. }
            | Self::ChangedSince { .. } => ErrorKind::Conflict,
            Self::Moves { .. } | Self::Moving { .. } => ErrorKind::Fenced,
            Self::StillChanging { .. } | Self::Unsettled { .. } => ErrorKind::Unavailable,
            Self::ReadOnly { .. } => ErrorKind::Denied,
            Self::BadName { .. }
            | Self::BadGroup { .. }
            | Self::Unrelated { .. }
            | Self::BadSize { .. }
            | Self::BadBlockSize { .. }
            | Self::BadMove { .. }
            | Self::BadQuota { .. }
            | Self::OutOfRange { .. } => ErrorKind::Invalid,
            Self::OverQuota { .. } => ErrorKind::NoSpace,
            Self::BadRecord { .. } | Self::BadArchive { .. } => ErrorKind::Corrupt,
        }
    }
}

fn at_rest(moves: &Option<Move>) -> String {
    moves.as_ref().map_or_else(|| "does not move".to_owned(), ToString::to_string)
}
