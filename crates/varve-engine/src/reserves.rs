//! What a shard keeps of its segments, from their number and its configuration alone.
//!
//! Segments are kept for the next checkpoint, for reclaim's output, and free for bursts; what is left may hold data.

use varve_logstore::format::segment::STRIP_HEADER_BYTES;
use varve_logstore::segment_writer::{BLOCK_ALIGN, SegmentWriter};

use crate::config::{BLOCK_BYTES, ShardConfig};
use crate::deltas::{DELTA_BYTES, HIDING_PART, STORED_BYTES};
use crate::tree::PAGE_BYTES;

/// Segments that are open or hold little whatever reclaim does: one of each kind to write, and as many of the last
/// checkpoints.
const OPEN_SEGMENTS: u64 = 8;

/// Segments kept back from data writes for reclaim's output.
pub(crate) const RECLAIM_RESERVE: usize = 4;

/// Pages that applying an entry dirties: a leaf of the map, and one of the table, where the old chunk stands. Pages
/// above them, and those where new chunks come to stand, are shared by many.
pub(crate) const PAGES_OF_ENTRY: usize = 2;

/// What two segments of random writes dirty, which are applied before a due checkpoint begins.
const LATE_DIRTY_BYTES: usize = 16 << 20;

/// Reserves of a shard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reserves {
    /// Bytes of changed pages that make a checkpoint due while no updates wait: three quarters of the page cache, less
    /// where the pages that are changed until the checkpoint begins would not fit beside them, and no more than a small
    /// part of the shard.
    pub(crate) dirty_limit: usize,
    /// Free segments that data writes leave to reclaim and checkpoints.
    pub(crate) data: usize,
    /// Free segments that reclaim aims at.
    pub(crate) free_target: usize,
    /// Bytes of blocks and pages that the shard takes.
    pub(crate) usable_bytes: u64,
}

impl Reserves {
    pub(crate) fn new(config: &ShardConfig, segments: u64, segment_bytes: u32) -> Self {
        assert!(segment_bytes > STRIP_HEADER_BYTES + BLOCK_ALIGN, "a segment holds a block");
        let count = |segments: u64| usize::try_from(segments).unwrap_or(usize::MAX);
        let segment = segment_bytes as usize;
        let small_part = count(segments / 32).max(1).saturating_mul(segment);
        let dirty_limit = dirty_limit(config.page_cache_bytes).min(small_part);
        // Updates of maps that wait.
        let blocks = segments.saturating_mul(u64::from(segment_bytes) / BLOCK_BYTES as u64);
        let updates =
            count(blocks / HIDING_PART).min(config.deltas_bytes / DELTA_BYTES) * STORED_BYTES;
        // What is dirty when a checkpoint becomes due, or half of it and the updates that took the other half of the
        // cache, a quarter for the table pages it changes itself, what the one segment dirties that is applied before
        // it gets the gate, and three that are open.
        let entries = SegmentWriter::entries_max(segment_bytes) as usize;
        let late = (entries * PAGES_OF_ENTRY * PAGE_BYTES).div_ceil(segment);
        let waiting =
            dirty_limit.min(self::dirty_limit(config.page_cache_bytes / 2)) * 5 / 4 + updates;
        let checkpoint = waiting.max(dirty_limit * 5 / 4) / segment + late + 3;
        let data = checkpoint + RECLAIM_RESERVE;
        let share = count(segments * u64::from(config.free_target_percent) / 100);
        let free_target = data + 2 + share;
        // Packed as well as can be, the shard keeps reclaim's target free, the open segments, and some that hold
        // little.
        let slack = (data as u64 + 4 + segments / 32).max(free_target as u64) + OPEN_SEGMENTS;
        // A segment's payload is less than the segment: the header, and what the last unit leaves free.
        let payload = u64::from(segment_bytes - STRIP_HEADER_BYTES - BLOCK_ALIGN);
        let usable_bytes = segments.saturating_sub(slack) * (payload - payload / 64);
        // ALLOCATION-1
        assert!(data > RECLAIM_RESERVE, "data leave something to checkpoints too");
        assert!(free_target > data, "reclaim aims above what data leave");
        assert!(dirty_limit <= config.page_cache_bytes, "what is changed fits the page cache");
        let whole = segments.saturating_mul(u64::from(segment_bytes));
        assert!(usable_bytes <= whole, "a shard takes no more than its segments"); // ALLOCATION-2
        Self { dirty_limit, data, free_target, usable_bytes }
    }
}

/// Bytes of changed pages that make a checkpoint due in a cache of so many bytes.
pub(crate) fn dirty_limit(cache: usize) -> usize {
    (cache / 4 * 3).min(cache.saturating_sub(LATE_DIRTY_BYTES).max(cache / 2))
}

impl ShardConfig {
    /// Bytes that a shard of `segments` segments takes before it is full: blocks, each with 1/50 or so for the pages
    /// that name it.
    #[must_use]
    pub fn usable_bytes(&self, segments: u64, segment_bytes: u32) -> u64 {
        Reserves::new(self, segments, segment_bytes).usable_bytes
    }
}
