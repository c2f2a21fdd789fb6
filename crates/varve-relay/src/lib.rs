//! Links between nodes: any node takes any client, and carries its bytes to the node that serves its cell.
//!
//! ```text
//!  client ──▶ node that took it ── link ──▶ node that serves ──▶ the same front-end as for its own clients
//!             `route`, `carry`      │       `listener`, `export`, `deliver`
//!                                   └ TLS, hello, questions about exports, frames: `wire`
//! ```
//!
//! LINKS-1. Nothing is sent twice: a connection goes by one link to one life of one node, and ends with either. The
//!     client connects anew, if it wants to.
//! LINKS-2. Both ends know each other by the keys of which the table of nodes has the fingerprints.
//! LINKS-3. Memory of a link is that of its buffers; what does not fit waits in the sockets.
//! LINKS-4. What a client sent by one node does not happen after what it was told by another: `barrier`.

mod barrier;
mod carry;
mod client;
mod deliver;
mod error;
mod export;
mod front_ends;
mod key;
mod limits;
mod link;
mod link_table;
mod listener;
mod metrics;
mod route;
mod state;
#[cfg(test)]
mod tests;
mod view;
pub mod wire;

pub use client::{ClientStream, RelayedClient};
pub use error::{Error, Result};
pub use export::{answer, decode_export, encode_export};
pub use front_ends::{LocalFrontEnds, offer};
pub use key::NodeKey;
pub use limits::LinkLimits;
pub use listener::RelayListener;
pub use metrics::{NodeTraffic, RelayMetrics};
pub use route::{CellRoute, OwnerLink, RETRY_PAUSE, RouteError, Router};
pub use view::{View, Views};
