//! What a shard is told when it is opened: its identity and its share of memory.

use varve_types::{Dedup, PoolId, Reduction, ShardId};

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
    /// Bytes of cached map, key and table pages, of which the two sets below take theirs as they grow, half of them at
    /// most.
    pub page_cache_bytes: usize,
    /// Bytes of the set of overwritten chunks that are still in the chunk table.
    pub deaths_bytes: usize,
    /// Bytes of map updates that wait; 0 if none shall.
    pub deltas_bytes: usize,
    /// Updates wait once of a thousand that are applied so many have to read a page.
    pub deltas_from_per_mille: u64,
    /// Bytes of cached data blocks.
    pub block_cache_bytes: usize,
    /// Bytes of the index of stored blocks, by which equal ones are found.
    pub dedup_index_bytes: usize,
    /// How streams are reduced that ask for nothing else, as those of which a lane has records when a shard opens.
    pub reduction: Reduction,
    /// Summary entries applied since a checkpoint before the next one begins: bounds replay.
    pub checkpoint_entries: u64,
    /// Percent of the shard's segments that reclaim keeps free.
    pub free_target_percent: u32,
    /// Open the shard although its journal lane, or a part of it, was lost: what it alone held is gone.
    pub accept_lost_journal: bool,
    /// Give segments with metadata pages second copies, and write anew what of them is damaged. Either way what is
    /// damaged is read from the copy, if there is one.
    pub mends_pages: bool,
    /// Refuse every change once it is open, as what is written is not kept (READ-ONLY-1). Recovery writes, and nothing
    /// else does.
    pub is_read_only: bool,
}

/// What becomes of a shard's memory.
///
/// Open segments, frames in flight and the process itself take [`Self::FIXED_BYTES`], however large the caches are. Of
/// the rest, 1/16 is left to the allocator: pages come and go in no order, so a part of what it holds is never in use.
#[derive(Clone, Copy, Debug)]
pub struct MemoryShares {
    /// For writes that are not drained yet, in bytes.
    pub buffer_bytes: u64,
    /// For pages of map, keys and table, and what is noted beside them, in bytes.
    pub page_cache_bytes: usize,
    /// Of these for the set of overwritten chunks, in bytes.
    pub deaths_bytes: usize,
    /// Of these for map updates that wait, in bytes.
    pub deltas_bytes: usize,
    /// For data blocks, in bytes.
    pub block_cache_bytes: usize,
    /// For the index of stored blocks, in bytes.
    pub dedup_index_bytes: usize,
    /// For requests of connections, in bytes.
    pub request_bytes: usize,
    /// For buffers that were dropped and wait for their next use, in bytes.
    pub spare_bytes: usize,
}

impl MemoryShares {
    /// Memory that is not divided: 3 open segments of 2 MiB, 7 in flight and a victim of reclaim, 4 frames of 1 MiB,
    /// the program and the allocator's own.
    const FIXED_BYTES: u64 = 96 << 20;

    /// Spare memory for four segments: a new one costs a page fault every 4 KiB.
    const SPARE_BYTES_MIN: usize = 8 << 20;

    /// The shares of a shard that has `memory_bytes`; of little memory at least half is divided.
    #[must_use]
    pub fn of(memory_bytes: u64) -> Self {
        let divided = memory_bytes - Self::FIXED_BYTES.min(memory_bytes / 2);
        let share = |sixteenths: u64| divided / 16 * sixteenths;
        let cache = |sixteenths| usize::try_from(share(sixteenths)).unwrap_or(usize::MAX);
        let sets = cache(2) + cache(2);
        assert!(sets <= cache(8) / 2, "the sets leave half of the page cache"); // DEATHS-5, DELTAS-7
        assert!(share(3 + 8 + 1 + 1 + 1) <= memory_bytes, "no more is shared than there is");
        Self {
            buffer_bytes: share(3),
            page_cache_bytes: cache(8),
            deaths_bytes: cache(2),
            deltas_bytes: cache(2),
            block_cache_bytes: cache(1),
            dedup_index_bytes: cache(1),
            request_bytes: cache(1),
            spare_bytes: cache(1).max(Self::SPARE_BYTES_MIN),
        }
    }
}

impl ShardConfig {
    /// A shard with its [`MemoryShares`] of `memory_bytes`.
    #[must_use]
    pub fn with_memory(pool: PoolId, shard: ShardId, memory_bytes: u64) -> Self {
        let MemoryShares {
            buffer_bytes,
            page_cache_bytes,
            deaths_bytes,
            deltas_bytes,
            block_cache_bytes,
            dedup_index_bytes,
            ..
        } = MemoryShares::of(memory_bytes);
        Self {
            pool,
            shard,
            buffer_bytes,
            page_cache_bytes,
            deaths_bytes,
            deltas_bytes,
            deltas_from_per_mille: 125,
            block_cache_bytes,
            dedup_index_bytes,
            reduction: Reduction { dedup: Dedup::Off, ..Reduction::default() }, // What may share nothing must not.
            checkpoint_entries: 1_000_000,
            free_target_percent: 2,
            accept_lost_journal: false,
            mends_pages: true,
            is_read_only: false,
        }
    }
}
