//! What a specification of data or accesses may have wrong, and the kind callers act on.

use varve_types::ErrorKind;

/// Result of what takes a specification.
pub type Result<T> = std::result::Result<T, Error>;

/// A specification that nothing can be made from.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The size of a block is no whole number of address units.
    #[error("block size {block_bytes} is not a positive multiple of 512")]
    BlockBytes {
        /// Size asked for.
        block_bytes: usize,
    },
    /// A share is above 100 %.
    #[error("{share} of {percent} % is more than 100 %")]
    Percent {
        /// Which share.
        share: &'static str,
        /// Its value.
        percent: u8,
    },
    /// Zero and duplicate blocks together are more than all blocks.
    #[error("{zero_percent} % zero and {duplicate_percent} % duplicate blocks are more than 100 %")]
    Shares {
        /// Share of zero blocks.
        zero_percent: u8,
        /// Share of duplicate blocks.
        duplicate_percent: u8,
    },
    /// Duplicates are asked for, and no blocks that they are copies of.
    #[error("{duplicate_percent} % duplicate blocks come from a stock of 0 blocks")]
    EmptyStock {
        /// Share of duplicate blocks.
        duplicate_percent: u8,
    },
    /// The compression ratio cannot be met.
    #[error("compression ratio {ratio}: must be from 1 to {ratio_max}")]
    CompressionRatio {
        /// Ratio asked for.
        ratio: f64,
        /// Highest for blocks of this size.
        ratio_max: f64,
    },
    /// The exponent of a Zipf law is out of range.
    #[error("zipf exponent {theta} must be above 0 and at most {theta_max}")]
    Theta {
        /// Exponent asked for.
        theta: f64,
        /// The highest.
        theta_max: f64,
    },
    /// There are no blocks to choose from, or more than can be told apart.
    #[error("{blocks} blocks: must be from 1 to {blocks_max}")]
    Blocks {
        /// Number asked for.
        blocks: u64,
        /// The highest.
        blocks_max: u64,
    },
    /// Runs of a fleet's overwrites are empty, or longer than the golden volume.
    #[error("runs of {run_blocks} blocks do not fit a golden volume of {golden_blocks} blocks")]
    RunBlocks {
        /// Length of a run.
        run_blocks: u64,
        /// Blocks of the golden volume.
        golden_blocks: u64,
    },
    /// An operation has no size that targets take.
    #[error("operations of {block_bytes} bytes: must be a multiple of 4096, at most {bytes_max}")]
    OperationBytes {
        /// Size asked for.
        block_bytes: usize,
        /// The highest.
        bytes_max: usize,
    },
    /// A number of something is none, or too high.
    #[error("{count} {what}: must be from 1 to {count_max}")]
    Count {
        /// Of what.
        what: &'static str,
        /// Number asked for.
        count: u32,
        /// The highest.
        count_max: u32,
    },
    /// Parts of a mixture are none or too many, or not the whole.
    #[error(
        "{parts} parts with {percent} % of operations: up to {parts_max} parts are 100 % together"
    )]
    Mixture {
        /// Number of parts.
        parts: usize,
        /// Most parts.
        parts_max: usize,
        /// Their shares together.
        percent: u32,
    },
    /// A rate is none, or too high.
    #[error("{rate} operations per second: must be above 0 and at most {rate_max}")]
    Rate {
        /// Rate asked for, a second.
        rate: f64,
        /// The highest.
        rate_max: f64,
    },
    /// A target is too small for a load.
    #[error("the load needs {needed_bytes} bytes, the target has {size_bytes}")]
    TargetSize {
        /// Bytes of the target that may be used.
        size_bytes: u64,
        /// Bytes that the load needs.
        needed_bytes: u64,
    },
    /// What is named is no target.
    #[error("invalid target `{target}`: {reason}")]
    Target {
        /// As it was written.
        target: String,
        /// Why.
        reason: String,
    },
    /// A selector of numbers cannot be read.
    #[error("selector `{selector}`: {reason}")]
    Selector {
        /// As it was written.
        selector: String,
        /// Why.
        reason: &'static str,
    },
    /// A workload's XML says what cannot be done.
    #[error("{place}: {reason}")]
    Workload {
        /// Element or name.
        place: String,
        /// Why.
        reason: String,
    },
    /// A job file of fio says what cannot be done.
    #[error("line {line}: {reason}")]
    Fio {
        /// Which line.
        line: usize,
        /// What is wrong there.
        reason: String,
    },
    /// fio cannot do what a load asks for.
    #[error("fio does not know {what}")]
    FioCannot {
        /// What it would do otherwise.
        what: &'static str,
    },
    /// What fio printed is no result.
    #[error("{reason}")]
    FioOutput {
        /// Why.
        reason: String,
    },
    /// A server does not give its export.
    #[error("cannot open {target}: {reason}")]
    Handshake {
        /// The target.
        target: String,
        /// Why.
        reason: String,
    },
    /// There is no erasure code for so many strips.
    #[error(transparent)]
    Parity(#[from] varve_parity::Error),
    /// A target failed an operation.
    #[error(transparent)]
    Media(#[from] varve_media::Error),
    /// A read found something else than what was written.
    #[error("byte {offset} does not match write {writes} to its block")]
    Mismatch {
        /// The first wrong byte of the target.
        offset: u64,
        /// Writes to its block so far.
        writes: u64,
    },
}

impl Error {
    /// What callers act on.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::BlockBytes { .. }
            | Self::Percent { .. }
            | Self::Shares { .. }
            | Self::EmptyStock { .. }
            | Self::CompressionRatio { .. }
            | Self::Theta { .. }
            | Self::Blocks { .. }
            | Self::RunBlocks { .. }
            | Self::OperationBytes { .. }
            | Self::Count { .. }
            | Self::Mixture { .. }
            | Self::Rate { .. }
            | Self::TargetSize { .. }
            | Self::Selector { .. }
            | Self::Workload { .. }
            | Self::Fio { .. }
            | Self::FioOutput { .. }
            | Self::FioCannot { .. }
            | Self::Target { .. } => ErrorKind::Invalid,
            Self::Handshake { .. } => ErrorKind::Unavailable,
            Self::Media(error) => error.kind(),
            Self::Parity(error) => error.kind(),
            Self::Mismatch { .. } => ErrorKind::Corrupt,
        }
    }
}

/// That the share called `share` is one.
pub(crate) fn check_percent(share: &'static str, percent: u8) -> Result<()> {
    if percent > 100 {
        return Err(Error::Percent { share, percent });
    }
    Ok(())
}
