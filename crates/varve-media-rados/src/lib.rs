//! Media on Ceph's RADOS: segments are objects of a data pool, erasure-coded or replicated, written whole; lanes and
//! roots are objects of a replicated pool.
//!
//! ```text
//!  RadosPool ── Segments, RadosJournal, Roots, ShardClaim, NodeTable, NameTable
//!                  └──▶ Objects ─┬─ librados (loaded at run time)
//!                                └─ MemoryCluster (the same rules, in memory)
//! ```

mod claim;
mod failure;
#[cfg(test)]
mod format_examples;
mod lane;
mod layout;
mod librados;
mod local_lane;
mod look;
mod memory;
mod name_table;
mod nodes;
mod objects;
mod pool;
mod roots;
mod segments;

pub use claim::{LEASE_NS, ShardClaim};
pub use librados::{Cluster, ClusterOptions};
pub use local_lane::LocalLane;
pub use look::{EntryAsIs, PoolListing, ShardHolder};
pub use memory::{MemoryClient, MemoryCluster, PoolKind};
pub use objects::{ObjectChange, Objects, RadosFuture, Refusal, Write};
pub use pool::{CellOf, JournalPlace, RadosPool, RadosSpec};
