//! What nodes say to each other. Little-endian.
//!
//! ```text
//!  frame    magic 4 B "VNOD" | version u16 = 1 | kind u8 | zero u8 | body length u32 | checksum u64 of the 12 bytes before, and the body | body
//!  1 Hello    pool 16 B | from 16 B | to 16 B | link u64 | versions from u16, to u16
//!  2 Welcome  version u16
//!  3 Closed   connection u64
//!  4 Request  request u64 | connection u64 | epoch u64 | departures u64 | shard u16 | operation u8 | its fields
//!  5 Answer   request u64 | outcome u8 | its fields
//!  6 Goodbye  reason u8
//!  7 Barrier  request u64
//! ```
//!
//! W1. A frame's length is known, and within its limit, before its body is waited for.
//! W2. Bytes of a peer never panic; one frame has one encoding.

mod fields;
mod frame;
mod message;
mod operation;
mod outcome;

pub use frame::{FRAME_BYTES_MAX, HEADER_BYTES, Header, decode, encode};
pub use message::{Farewell, Message};
pub use operation::{DATA_BYTES_MAX, ITEMS_MAX, KEY_BYTES_MAX, Operation};
pub use outcome::{Outcome, Part, TEXT_BYTES_MAX};

/// The version of the protocol that this program speaks.
pub const VERSION: u16 = 1;

/// Why bytes are no frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WireError {
    /// They begin with something else.
    #[error("what a node sends is not the protocol of nodes")]
    Magic,
    /// The sender speaks another version.
    #[error("a node speaks version {found} of the protocol, known is {known}")]
    Version {
        /// Of the frame.
        found: u16,
        /// Of this program.
        known: u16,
    },
    /// The frame is longer than any can be.
    #[error("a frame of {len} bytes, at most {limit} are allowed")]
    TooLong {
        /// Bytes of its body.
        len: u32,
        /// The longest there is.
        limit: u32,
    },
    /// Bytes are not what was sent.
    #[error("checksum mismatch in a frame of {len} bytes")]
    Checksum {
        /// Bytes of its body.
        len: usize,
    },
    /// A field makes no sense.
    #[error("a frame of kind {kind} makes no sense: {what}")]
    Senseless {
        /// Kind of the frame.
        kind: u8,
        /// What is wrong.
        what: &'static str,
    },
}
