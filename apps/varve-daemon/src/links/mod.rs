//! Links between nodes: any node takes any client (`front`), and carries its bytes to the node that serves the pool.
//!
//! ```text
//!  client ──▶ node that took it ── link ──▶ node that serves ──▶ the same front-end as for its own clients
//!             `way`, `carry`        │       `door`, `export`, `deliver`
//!                                   └ TLS, hello, questions about exports, frames
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
mod door;
mod export;
mod figures;
mod front_ends;
mod key;
mod limits;
mod link;
mod link_table;
mod state;
#[cfg(test)]
mod tests;
mod view;
mod way;

pub(crate) use self::client::{ClientStream, RelayedClient};
pub(crate) use self::door::RelayListener;
pub(crate) use self::export::{answer, decode_export, encode_export};
pub(crate) use self::figures::{NodeTraffic, RelayMetrics};
pub(crate) use self::front_ends::{LocalFrontEnds, offer};
pub(crate) use self::key::NodeKey;
pub(crate) use self::limits::LinkLimits;
pub(crate) use self::view::{View, Views};
pub(crate) use self::way::{CellRoute, OwnerLink, RETRY_PAUSE, RouteError, Router};
