//! What two nodes say to each other on a link, which carries one connection of a client. Little-endian; no I/O.
//!
//! ```text
//!  who carries ── hello ──▶ who serves        once, after both have shown their keys
//!              ◀─ answer ──
//!              ◀ questions▶                  of volumes only: which there are, and with which one to begin
//!              ◀─ frames ─▶                   data, its end, and the question how far the client's data has come
//! ```

mod export;
mod frame;
mod hello;

pub use export::{BeginExport, ExportQuestion, ExportReply, LinkExport};
pub use frame::{DATA_BYTES_MAX, FRAME_HEAD_BYTES, FrameHead, LinkFrame};
pub use hello::{
    ANSWER_BYTES, FrontEnd, FrontEndNumber, HELLO_BYTES, Hello, HelloReply, LINK_VERSION,
};
