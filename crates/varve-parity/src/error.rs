//! Causes of failure of erasure codes.

use varve_types::ErrorKind;

use crate::limits::STRIPS_MAX;

/// Result of what takes a shape or a choice of strips.
pub type Result<T> = std::result::Result<T, Error>;

/// A shape or a choice of strips that there is no code for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No data, no parity, or too many strips.
    #[error("{data}+{parity} strips: must be 1 or more of each, and {STRIPS_MAX} in all at most")]
    Shape {
        /// Data strips asked for.
        data: usize,
        /// Parity strips asked for.
        parity: usize,
    },
    /// Too few strips are there to compute the others.
    #[error("{present} strips are there, {needed} are needed")]
    TooFewStrips {
        /// Strips that are there.
        present: usize,
        /// Strips that any others follow from.
        needed: usize,
    },
    /// A strip is named that the code does not have.
    #[error("strip {strip} of {strips}")]
    NoSuchStrip {
        /// Its index.
        strip: usize,
        /// Strips of the code.
        strips: usize,
    },
    /// A strip is named twice.
    #[error("strip {strip} is named twice")]
    StripTwice {
        /// Its index.
        strip: usize,
    },
}

impl Error {
    /// What callers act on.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Shape { .. } | Self::NoSuchStrip { .. } | Self::StripTwice { .. } => {
                ErrorKind::Invalid
            }
            Self::TooFewStrips { .. } => ErrorKind::Unavailable,
        }
    }
}
