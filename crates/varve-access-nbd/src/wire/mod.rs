//! Bytes of the NBD protocol: constants, decoders, encoders. No I/O. Everything is big-endian.
//!
//! Reference: `doc/proto.md` of <https://github.com/NetworkBlockDevice/nbd>; of extended headers, that of its branch
//! `extension-ext-header`.

pub mod constant;
mod cursor;
pub(crate) mod framing;
pub(crate) mod option;
pub(crate) mod reply;
pub(crate) mod request;

pub(crate) use cursor::Cursor;
pub(crate) use framing::Framing;
