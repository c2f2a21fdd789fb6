//! How large a pool is, and how much it takes: fixed, or by the zones that it has now. Called by all who say something
//! of a pool's space.

use varve_engine::ShardConfig;

use crate::stack::ShardReport;

/// Zones of a pool that grows and shrinks while it is served, in segments. Told by the thread that has its root.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PoolSegments {
    /// Those that shards have or can get.
    pub(crate) segments: u64,
    /// Of them, those that nobody has and that are no shard's standing minimum.
    pub(crate) spare: u64,
    /// Segments of a zone.
    pub(crate) of_zone: u64,
}

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
        let now = reports.iter().find_map(|report| report.pool);
        now.map_or(self.segments, |pool| pool.segments)
    }
}
