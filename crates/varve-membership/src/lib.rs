//! Which nodes can serve a pool, and which one does: a table that is replaced as a whole, at the version it was read at.
//!
//! ```text
//!  TableStore (RADOS, memory) ──read──▶ Member ──standing──▶ who opens the pool, or closes it
//!             ◀──replace at a version── proposal
//! ```
//!
//! What the table says is advice: the claims of a pool's shards are what keeps others from writing them. No I/O, no clock: both are handed in.
//! What nodes say to each other on a link is in [`link`].

mod error;
mod format;
pub mod link;
mod member;
mod node;
mod store;
mod table;

pub use error::{Error, Result};
pub use member::{BEAT_NS, Member, SILENCE_NS, Standing};
pub use node::{Fingerprint, Node, NodeId, PLACE_BYTES_MAX, Reach};
pub use store::{MemoryTable, StoreFuture, TableStore};
pub use table::{NODES_MAX, NodeEntry, Table};
