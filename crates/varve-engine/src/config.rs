//! What a shard is told when it is opened: its identity and its share of memory.

use varve_types::{PoolId, ShardId};

/// Bytes of a block: the unit of the map, of drained data and of atomicity.
pub const BLOCK_BYTES: usize = 4096;

/// Identity and resources of one shard.
#[derive(Clone, Debug)]
pub struct ShardConfig {
    /// The pool.
    pub pool: PoolId,
    /// The shard.
    pub shard: ShardId,
    /// Undrained bytes at most; the lane bounds them too.
    pub buffer_bytes: u64,
    /// Bytes of cached map, key and table pages.
    pub page_cache_bytes: usize,
    /// Bytes of cached data blocks.
    pub block_cache_bytes: usize,
    /// Summary entries applied since a checkpoint before the next one begins: bounds replay.
    pub checkpoint_entries: u64,
    /// Percent of the shard's segments that reclaim keeps free.
    pub free_target_percent: u32,
}

impl ShardConfig {
    /// Shares of `memory_bytes` for a shard: 1/4 write buffer, 3/8 pages, 1/8 data cache; the rest is left to open segments, frames
    /// in flight and connections.
    #[must_use]
    pub fn with_memory(pool: PoolId, shard: ShardId, memory_bytes: u64) -> Self {
        let share = |eighths: u64| memory_bytes / 8 * eighths;
        Self {
            pool,
            shard,
            buffer_bytes: share(2),
            page_cache_bytes: usize::try_from(share(3)).unwrap_or(usize::MAX),
            block_cache_bytes: usize::try_from(share(1)).unwrap_or(usize::MAX),
            checkpoint_entries: 1_000_000,
            free_target_percent: 2,
        }
    }
}
