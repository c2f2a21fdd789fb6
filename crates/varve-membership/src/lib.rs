//! Which nodes serve a pool, and which shard is whose: a table that is replaced as a whole, at the version it was read at.
//!
//! ```text
//!  TableStore (RADOS, memory) ──read──▶ Member ──what to open, what to close──▶ who keeps shards
//!             ◀──replace at a version── proposal        owners of shards ─────▶ who sends requests on
//! ```
//!
//! What the table says is advice: the claim of a shard is what keeps others from writing it. No I/O, no clock: both are handed in.

mod error;
mod format;
mod member;
mod node;
mod store;
mod table;

pub use error::{Error, Result};
pub use member::{BEAT_NS, Member, Orders, SILENCE_NS, Standing};
pub use node::{ADDRESS_BYTES_MAX, Fingerprint, Node, NodeId};
pub use store::{MemoryTable, StoreFuture, TableStore};
pub use table::{NODES_MAX, NodeEntry, ShardEntry, Table};
