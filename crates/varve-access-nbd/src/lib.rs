//! NBD server: sans-IO protocol, and a driver that runs it on the loop of a shard thread.
//!
//! Bytes flow `listener` → `connection` → `agree` → `handshake`, then `transmission` → `serve` → an
//! [`Export`](varve_access_block::Export).

mod agree;
mod budget;
mod carried;
mod channel;
mod client;
mod command;
mod connection;
mod connection_limit;
mod errno;
mod error;
pub mod fuzz;
mod handshake;
mod inbox;
mod inflight;
pub mod limits;
mod link;
mod listener;
mod outbox;
mod pipe;
mod refusal;
mod serve;
mod service;
mod shutdown;
mod tls;
mod transmission;
mod transport;
mod usage;
mod wire;

pub use agree::{AgreedTerms, Agreement, AgreementStep, KnownExport};
pub use carried::{QuiesceGuard, RelayProgress};
pub use client::NbdClient;
pub use command::{CheckedCommand, Contexts, admit};
pub use connection::{ClosedConnection, ConnectionEnd};
pub use connection_limit::{ConnectionLimit, Permit, TooMany};
pub use errno::Errno;
pub use error::{Error, Result};
pub use handshake::{
    CloseReason, Event, FoundExport, Handshake, NegotiatedExport, OpenRequest, Since, TlsMode,
};
pub use listener::{
    Address, Answer, ConnectionBalancer, Listener, StdListener, WorkHandoff, deal_connections,
    serve_connections,
};
pub use pipe::{PipeEnd, PipeOptions, pipe};
pub use service::{Service, ServiceOptions};
pub use shutdown::Shutdown;
pub use tls::{TlsConfig, TlsFiles, TlsSession};
pub use transport::{SendPart, Transport};
pub use usage::ClientUsage;
