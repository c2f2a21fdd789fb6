//! How large a pool is, and how much it takes: fixed, or by the zones that it has now. Called by all who say something
//! of a pool's space.

use varve_engine::ShardConfig;

use crate::stack::ShardReport;

/// What the sizes of a pool follow from.
#[derive(Clone, Debug)]
pub(crate) struct PoolSize {
    /// Shards, which share its segments evenly.
    pub(crate) shards: u64,
    /// Bytes of a segment.
    pub(crate) segment_bytes: u32,
    /// Segments when it was opened.
    pub(crate) segments: u64,
    /// What shards keep of theirs follows from it.
    pub(crate) shard: ShardConfig,
}

impl PoolSize {
    /// Bytes of the segments that shards have or can get.
    pub(crate) fn size_bytes(&self, reports: &[ShardReport]) -> u64 {
        self.segments(reports).saturating_mul(self.segment_bytes.into())
    }

    /// Bytes of blocks, and of the pages that name them, that the pool takes.
    pub(crate) fn capacity_bytes(&self, reports: &[ShardReport]) -> u64 {
        let share = self.segments(reports) / self.shards.max(1);
        self.shards.saturating_mul(self.shard.usable_bytes(share, self.segment_bytes))
    }

    fn segments(&self, reports: &[ShardReport]) -> u64 {
        reports.iter().find_map(|report| report.pool_segments).unwrap_or(self.segments)
    }
}
