//! The client: a handshake that blocks, a table of requests without I/O, and a connection that blocks over both. Who
//! runs on a loop drives the table by itself.

mod connection;
mod handshake;
mod request_table;
mod stream;

pub use connection::{FoundData, NbdConnection};
pub use handshake::{AttachRequest, ServedExport, shake_hands};
pub use request_table::{
    FinishedRequest, NewRequest, REPLY_HEAD_BYTES_MAX, ReplyData, ReplyStep, RequestTable,
    StartedRequest,
};
pub use stream::{NbdAddress, NbdStream};
