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
        self.capacity_of(self.segments(reports))
    }

    fn capacity_of(&self, segments: u64) -> u64 {
        let share = segments / self.shards.max(1);
        self.shards.saturating_mul(self.shard.usable_bytes(share, self.segment_bytes))
    }

    fn segments(&self, reports: &[ShardReport]) -> u64 {
        reports.iter().find_map(|report| report.pool_segments).unwrap_or(self.segments)
    }

    /// What is stored now. What a shard has that has not served since the start is not known, and does not count:
    /// nothing is refused for it.
    pub(crate) fn stored(&self, reports: &[ShardReport]) -> StoredData {
        let used_bytes = reports.iter().filter_map(|report| report.space_used_bytes).sum();
        StoredData { size: self.clone(), used_bytes }
    }
}

/// What is stored in a pool, to be compared with what it would hold.
#[derive(Clone, Debug)]
pub(crate) struct StoredData {
    size: PoolSize,
    used_bytes: u64,
}

/// A pool of another size, and what is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct StoredFit {
    /// Bytes of blocks and pages that it would take.
    pub(crate) capacity_bytes: u64,
    /// Those that are stored.
    pub(crate) used_bytes: u64,
}

impl StoredData {
    /// What is stored, beside what a pool of so many segments takes.
    pub(crate) fn in_segments(&self, segments: u64) -> StoredFit {
        let capacity_bytes = self.size.capacity_of(segments);
        StoredFit { capacity_bytes, used_bytes: self.used_bytes }
    }
}

impl StoredFit {
    /// Bytes by which what is stored is too much.
    pub(crate) const fn lacking_bytes(self) -> u64 {
        self.used_bytes.saturating_sub(self.capacity_bytes)
    }
}

#[cfg(test)]
mod tests {
    use varve_types::{PoolId, ShardId};

    use super::*;
    use crate::health::stuck;

    #[test]
    fn what_is_stored_is_compared_with_what_a_pool_of_another_size_takes() {
        let shard = ShardConfig::with_memory(PoolId([0; 16]), ShardId(0), 128 << 20);
        let size = PoolSize { shards: 2, segment_bytes: 2 << 20, segments: 1000, shard };
        let report = |shard, used| ShardReport { space_used_bytes: used, ..stuck(shard, None) };
        let reports = |used| [report(0, Some(used)), report(1, Some(used)), report(2, None)];
        let holds = size.capacity_of(600);
        let full = size.stored(&reports(holds / 2)).in_segments(600);
        assert_eq!((full.capacity_bytes, full.lacking_bytes()), (holds, 0));
        let more = size.stored(&reports(holds / 2 + (1 << 20)));
        assert_eq!(more.in_segments(600).lacking_bytes(), 2 << 20);
        assert_eq!(more.in_segments(1000).lacking_bytes(), 0);
        assert_eq!(
            more.in_segments(0),
            StoredFit { capacity_bytes: 0, used_bytes: holds + (2 << 20) }
        );
    }
}
