//! Causes of failure of the log, and the kind callers act on.

use varve_stdx::DecodeError;
use varve_types::ErrorKind;

/// Result of an operation of the log.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure of the log: stored bytes that do not decode, or media that failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// Stored bytes are not the structure that should be there, by what its fields say (FORMAT-1).
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// Stored bytes are not those the checksum was taken of.
    #[error("checksum mismatch in {what}: stored {expected:#018x}, computed {found:#018x}")]
    BadChecksum {
        /// Which structure.
        what: &'static str,
        /// Stored checksum.
        expected: u64,
        /// Checksum of the bytes found.
        found: u64,
    },
    /// Understood, but this version cannot use it.
    #[error("{what} needs features this version lacks: {flags:#x}")]
    Unsupported {
        /// Which structure.
        what: &'static str,
        /// The flags or value that name the features.
        flags: u64,
    },
    /// A frame that was acknowledged cannot be read back.
    #[error(
        "frame {frame_seq} of the journal lane is damaged, and frames up to {newest} follow it"
    )]
    LaneDamaged {
        /// The frame where replay stopped.
        frame_seq: u64,
        /// Newest frame found.
        newest: u64,
    },
    /// The journal lane is not the one that the shard wrote last: it is empty, or an older copy.
    #[error(
        "the journal lane was lost or is an older copy: frame {frame_seq} was written to it, and {}",
        newest_frame(*.newest)
    )]
    LaneLost {
        /// The frame before the replay point.
        frame_seq: u64,
        /// Newest frame found.
        newest: Option<u64>,
    },
    /// Behind the end of the journal lane nothing is, where older frames have to be.
    #[error(
        "a part of the journal lane was lost: it ends before frame {frame_seq} at position {position}, and older frames that have to follow are not there"
    )]
    LaneEndLost {
        /// The frame where replay stopped.
        frame_seq: u64,
        /// Its lane position.
        position: u64,
    },
    /// A segment that is known to be durable is not where its predecessor says.
    #[error(
        "segment {seq} of the {kind} chain is damaged or missing, and segments up to {witness} were durable"
    )]
    ChainBroken {
        /// Which chain.
        kind: &'static str,
        /// Number in the chain.
        seq: u64,
        /// Newest segment known to be durable.
        witness: u64,
    },
    /// An append to the lane failed, so nothing more is written to it until the shard reopens.
    #[error("the journal lane failed")]
    LaneFailed,
    /// The media below failed.
    #[error(transparent)]
    Media(#[from] varve_media::Error),
}

impl Error {
    /// Whether acknowledged records of the journal lane are gone.
    #[must_use]
    pub fn is_lane_lost(&self) -> bool {
        matches!(self, Self::LaneDamaged { .. } | Self::LaneLost { .. } | Self::LaneEndLost { .. })
    }

    /// Whether a drive failed to read, or too many are missing: what was to be read is neither there nor known to be
    /// damaged.
    #[must_use]
    pub fn is_read_failure(&self) -> bool {
        use varve_media::Error as Media;
        matches!(
            self,
            Self::Media(
                Media::Io { operation: "read", .. }
                    | Media::TooFewDrives { .. }
                    | Media::DriveFailed { .. }
            )
        )
    }

    /// What a caller can act on.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Decode(
                DecodeError::BadMagic { .. }
                | DecodeError::Truncated { .. }
                | DecodeError::BadField { .. }
                | DecodeError::NotText { .. }
                | DecodeError::ReservedNotZero { .. }
                | DecodeError::Inconsistent { .. },
            )
            | Self::BadChecksum { .. }
            | Self::LaneDamaged { .. }
            | Self::LaneLost { .. }
            | Self::LaneEndLost { .. }
            | Self::ChainBroken { .. } => ErrorKind::Corrupt,
            Self::Decode(DecodeError::BadVersion { .. } | DecodeError::UnknownKind { .. })
            | Self::Unsupported { .. } => ErrorKind::Unsupported,
            Self::LaneFailed => ErrorKind::Unavailable,
            Self::Media(error) => error.kind(),
        }
    }
}

fn newest_frame(newest: Option<u64>) -> String {
    newest.map_or_else(
        || "no frame of the opening that wrote last is there".to_owned(),
        |newest| format!("the newest is {newest}"),
    )
}
