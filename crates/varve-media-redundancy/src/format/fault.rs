//! Why stored bytes are not the structure that they should be.

use varve_stdx::DecodeError;

/// What a decoder found. Whoever read the bytes says in its own error which structure of which drive they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FormatFault {
    /// Bytes end early.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// It is something else.
    #[error("wrong magic {found:#018x}")]
    Magic {
        /// What stands there.
        found: u64,
    },
    /// Bytes changed since they were written.
    #[error("checksum mismatch: {found:#018x}, stored is {expected:#018x}")]
    Checksum {
        /// The stored one.
        expected: u64,
        /// That of the bytes.
        found: u64,
    },
    /// A later version wrote it.
    #[error("unknown version {found}")]
    Version {
        /// The stored one.
        found: u16,
    },
    /// It needs features that this version lacks.
    #[error("unknown features {flags:#x}")]
    Features {
        /// Flags of `incompat`, or kinds that are reserved.
        flags: u64,
    },
    /// Reserved bytes are not zero.
    #[error("reserved bytes are not zero")]
    Reserved,
    /// A field is out of range, or does not agree with another one.
    #[error("{field} {value} is out of range")]
    Field {
        /// Which.
        field: &'static str,
        /// What it is.
        value: u64,
    },
    /// It belongs elsewhere: to another pool, shard or page.
    #[error("it belongs to another {owner}")]
    Misplaced {
        /// What tells it.
        owner: &'static str,
    },
}

/// Epochs and positions of journals are below it, so that neither ends and sums of two do not overflow.
const COUNTER_LIMIT: u64 = 1 << 62;

/// Fails with an epoch or a position that nothing can have reached.
pub(super) fn check_counter(field: &'static str, value: u64) -> Result<(), FormatFault> {
    check(field, value, value < COUNTER_LIMIT)
}

/// Fails with the first relation that does not hold.
pub(super) fn check(
    field: &'static str,
    value: impl Into<u64>,
    holds: bool,
) -> Result<(), FormatFault> {
    if holds { Ok(()) } else { Err(FormatFault::Field { field, value: value.into() }) }
}
