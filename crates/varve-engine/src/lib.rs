//! The engine: what one shard does with reads, writes, trims and keys between the front-ends and the log.

mod admission;
mod allocation;
mod apply;
mod block_cache;
mod buffer;
mod checkpoint;
mod claims;
mod config;
mod counters;
mod drain;
mod error;
mod keys;
mod mark;
mod pages;
mod pending_keys;
mod pool;
mod read;
mod reclaim;
mod recovery;
mod shard;
pub mod tree;
mod trees;
mod write;
mod writes;

pub use allocation::{Zone, ZoneSource};
pub use config::{BLOCK_BYTES, ShardConfig};
pub use counters::ShardStats;
pub use error::{Error, Result};
pub use keys::KeyValue;
pub use pool::{Pool, PoolSpec, PoolZones};
pub use mark::MarkReport;
pub use read::{BlockStatus, ReadPart};
pub use recovery::ShardParts;
pub use shard::Shard;
pub use tree::Mapped;
