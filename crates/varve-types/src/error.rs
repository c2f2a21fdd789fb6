//! What callers act on: every crate's errors map to one of these kinds.

use std::fmt;

/// Coarse cause of an error. Callers and front-ends act on it, never on the text.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ErrorKind {
    /// What was named does not exist.
    NotFound,
    /// What should be made exists already.
    Exists,
    /// The request makes no sense: out of range, misaligned, malformed.
    Invalid,
    /// Understood, but this version or media cannot do it.
    Unsupported,
    /// Not allowed to this caller.
    Denied,
    /// Another operation is in the way; may succeed later.
    Conflict,
    /// No room; deleting or trimming makes some.
    NoSpace,
    /// Not now: the shard is closed or reopening.
    Unavailable,
    /// Stored bytes are not what was written.
    Corrupt,
    /// Another owner has taken over.
    Fenced,
    /// Shutting down.
    Closed,
    /// A definite failure of media or a broken invariant.
    Internal,
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::NotFound => "not found",
            Self::Exists => "exists",
            Self::Invalid => "invalid",
            Self::Unsupported => "unsupported",
            Self::Denied => "denied",
            Self::Conflict => "conflict",
            Self::NoSpace => "no space",
            Self::Unavailable => "unavailable",
            Self::Corrupt => "corrupt",
            Self::Fenced => "fenced",
            Self::Closed => "closed",
            Self::Internal => "internal",
        };
        f.write_str(text)
    }
}
