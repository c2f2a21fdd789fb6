//! Links between nodes: any node takes any client's connection, and carries its bytes to the node that serves the pool.
//!
//! ```text
//!  client ──▶ node that stands by ── link: TLS, hello, frames ──▶ node that serves ──▶ the same front-end as for its own clients
//!             `forwarder`, `carry`                                `door`, `deliver`
//! ```
//!
//! K1. Nothing is sent twice: a connection goes by one link to one life of one node, and ends with either. The client connects anew, if it wants to.
//! K2. Both ends know each other by the keys of which the table of nodes has the fingerprints.
//! K3. Memory of a link is that of its buffers; what does not fit waits in the sockets.
//! K4. What a client sent by one node does not happen after what it was told by another: `barrier`.

mod barrier;
mod carry;
mod deliver;
mod door;
mod figures;
mod forwarder;
mod key;
mod link;
mod sockets;
#[cfg(test)]
mod tests;
mod view;

pub(crate) use self::door::{CarriedClient, Door, Fronts, LinkLimits};
pub(crate) use self::figures::Watcher;
pub(crate) use self::forwarder::Forwarder;
pub(crate) use self::key::NodeKey;
pub(crate) use self::sockets::FrontSockets;
pub(crate) use self::view::{View, Views};
