//! What an input may have wrong, and the kind callers act on.

use varve_types::ErrorKind;

/// Result of what reads or computes from inputs.
pub type Result<T> = std::result::Result<T, Error>;

/// An input that nothing can be computed from.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// A text is no amount of the kind that is asked for.
    #[error("invalid {kind} `{text}`: {advice}")]
    Amount {
        /// What was given.
        text: String,
        /// What was asked for.
        kind: &'static str,
        /// How such an amount is written, or what the text is instead.
        advice: String,
    },
    /// A text is no protection.
    #[error("invalid protection `{text}`: give copies, such as 3, or data+parity, such as 4+2")]
    Protection {
        /// What was given.
        text: String,
    },
    /// A catalogue's file is wrong.
    #[error("{file}:{line}:{column}: {what}; {advice}")]
    Catalogue {
        /// The file.
        file: String,
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
        /// What is wrong.
        what: String,
        /// What to do.
        advice: String,
    },
    /// Something is named that the catalogue does not have.
    #[error("unknown {kind} `{name}`; known: {known}")]
    Unknown {
        /// What kind of thing.
        kind: &'static str,
        /// The name.
        name: String,
        /// The names there are.
        known: String,
    },
    /// Something is needed, and there is nothing that supplies it.
    #[error("{what} of one part is {supply}, so no number of them gives {required}")]
    NoSupply {
        /// What is needed.
        what: &'static str,
        /// What one part gives.
        supply: f64,
        /// What is needed in all.
        required: f64,
    },
    /// A figure that the demand needs is not known of a node.
    #[error(
        "{what} by {node} is not known: add a [[measured]] of a cluster of it, or `{field}` of [[drive]] {drive}"
    )]
    Unmeasured {
        /// Which figure.
        what: &'static str,
        /// The node.
        node: String,
        /// Its drive.
        drive: String,
        /// The field of the drive that would tell.
        field: &'static str,
    },
    /// A cluster lacks the measurements that a comparison needs.
    #[error(
        "{cluster} cannot be compared: add [[measured]] of it with read_share \"100%\" and \"0%\""
    )]
    Uncompared {
        /// The cluster.
        cluster: String,
    },
    /// Two copies on drives that take long to rebuild.
    #[error(
        "two copies are for flash, which rebuilds fast; {drive} is a spinning disk: use three, or an erasure code"
    )]
    TwoCopiesOnDisks {
        /// The drive.
        drive: String,
    },
    /// A number is outside its range.
    #[error("{what} is {value}, and must be {allowed}")]
    Range {
        /// Which number.
        what: &'static str,
        /// Its value.
        value: f64,
        /// What it may be.
        allowed: &'static str,
    },
}

impl Error {
    /// What callers act on.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Amount { .. }
            | Self::Protection { .. }
            | Self::Catalogue { .. }
            | Self::NoSupply { .. }
            | Self::TwoCopiesOnDisks { .. }
            | Self::Unmeasured { .. }
            | Self::Uncompared { .. }
            | Self::Range { .. } => ErrorKind::Invalid,
            Self::Unknown { .. } => ErrorKind::NotFound,
        }
    }
}

/// That `value` is a number above 0.
pub(crate) fn positive(what: &'static str, value: f64) -> Result<f64> {
    if value.is_finite() && value > 0.0 {
        return Ok(value);
    }
    Err(Error::Range { what, value, allowed: "above 0" })
}

/// That `value` is a number of at most so many, which is how it is told.
pub(crate) fn at_most(
    what: &'static str,
    value: f64,
    most: f64,
    allowed: &'static str,
) -> Result<()> {
    if value <= most { Ok(()) } else { Err(Error::Range { what, value, allowed }) }
}
