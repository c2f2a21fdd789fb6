//! Which headers the messages of the transmission phase have: client and server agree on that.

use crate::constant::{EXTENDED_REQUEST_MAGIC, REQUEST_MAGIC};

/// Form of requests and replies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Framing {
    /// Compact requests with 32-bit lengths, each answered by a simple reply.
    #[default]
    Simple,
    /// Compact requests; replies with content, and errors, come in structured chunks.
    Structured,
    /// Extended headers: requests with 64-bit lengths, and every reply in extended chunks.
    Extended,
}

impl Framing {
    /// Whether replies may come in chunks.
    #[must_use]
    pub fn has_chunks(self) -> bool {
        match self {
            Self::Simple => false,
            Self::Structured | Self::Extended => true,
        }
    }

    /// Bytes of a request's header.
    #[must_use]
    #[inline]
    pub fn request_bytes(self) -> usize {
        match self {
            Self::Simple | Self::Structured => 28,
            Self::Extended => 32,
        }
    }

    /// What introduces a request.
    #[must_use]
    #[inline]
    pub fn request_magic(self) -> u32 {
        match self {
            Self::Simple | Self::Structured => REQUEST_MAGIC,
            Self::Extended => EXTENDED_REQUEST_MAGIC,
        }
    }
}
