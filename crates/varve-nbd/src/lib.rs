//! The NBD protocol without a server: its numbers, the headers of requests, and the client. Everything is big-endian.
//! The server is `varve-access-nbd`.
//!
//! Reference: `doc/proto.md` of <https://github.com/NetworkBlockDevice/nbd>; of extended headers, that of its branch
//! `extension-ext-header`.

mod client;
pub mod constant;
mod error;
mod framing;
mod request;

pub use client::{
    AttachRequest, FinishedRequest, FoundData, NbdAddress, NbdConnection, NbdStream, NewRequest,
    REPLY_HEAD_BYTES_MAX, ReplyData, ReplyStep, RequestTable, ServedExport, StartedRequest,
    shake_hands,
};
pub use error::{Error, Result};
pub use framing::Framing;
pub use request::{DecodedHeader, RequestHeader};
