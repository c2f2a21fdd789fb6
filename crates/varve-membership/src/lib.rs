//! Which nodes can serve a pool, and which of them serves which of its cells: a table that is replaced as a whole, at
//! the version it was read at.
//!
//! ```text
//!  TableStore (RADOS, memory) ──read──▶ Member ──standing──▶ who opens a cell, or closes it
//!             ◀──replace at a version── proposal
//! ```
//!
//! Nobody decides which cell goes where: every replacement makes the same of the table before, whoever makes it. A pool
//! of one cell has one owner.
//!
//! What the table says is advice: the claims of a pool's shards are what keeps others from writing them. No I/O, no
//! clock: both are handed in.

mod error;
mod format;
mod member;
mod node;
mod store;
mod table;

pub use error::{Error, Result};
pub use member::{BEAT_NS, JoinRequest, Member, MemberState, SILENCE_NS};
pub use node::{Fingerprint, Node, NodeAddress, NodeId, PLACE_BYTES_MAX};
pub use store::{MemoryTable, StoreFuture, TableStore};
pub use table::{CellEntry, MemberTable, NODES_MAX, NodeEntry, SETTLED_BEATS};
