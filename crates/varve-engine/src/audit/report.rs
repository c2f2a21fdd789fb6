//! What an audit found, and how those of several shards are compared.

use roaring::RoaringTreemap;
use varve_types::{ChunkId, ShardId};

use crate::peers::ForeignNames;
use crate::trees::DataUsage;

/// Differences reported by name; more are only counted.
const DIFFERENCES_MAX: usize = 32;

/// What an audit found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditReport {
    /// Blocks of maps that name chunks of data, those of what several maps have in common once.
    pub chunks: u64,
    /// Stored map and key pages.
    pub pages: u64,
    /// Stored pages of the chunk table.
    pub table_pages: u64,
    /// Stored bytes that something names or that wait to be freed.
    pub live_bytes: u64,
    /// Chunks of data in the table, without the dead.
    pub data_chunks: u64,
    /// Bytes that these take.
    pub data_bytes: u64,
    /// Chunks that were overwritten and wait to be taken out of the table.
    pub dead_chunks: u64,
    /// Bytes that these take.
    pub dead_bytes: u64,
    /// Chunks and pages that nothing names: the next mark pass frees them.
    pub unreachable: u64,
    /// Chunks of other shards that are named.
    pub foreign: ForeignNames,
    /// Chunks of other shards that pages name, under updates that wait too: they may be there.
    pub hidden: ForeignNames,
    /// Chunks of data that are shared: others may name them.
    pub shared: RoaringTreemap,
    /// The chunks of data among what nothing names.
    pub unreachable_data: RoaringTreemap,
    /// How many things contradict each other.
    pub difference_count: u64,
    /// The first of them, in words.
    pub differences: Vec<String>,
}

impl AuditReport {
    /// Compares what shards name of each other with what they have: what another one names is not unreachable, and has
    /// to be there and shared, and on one of the pool's `shard_count` shards.
    pub fn compare(reports: &mut [(ShardId, Self)], shard_count: u16) {
        let mut all = ForeignNames::default();
        let mut hidden = ForeignNames::default();
        for (_, report) in &mut *reports {
            all.merge(&report.foreign);
            hidden.merge(&report.hidden);
            let beyond: Vec<_> =
                report.foreign.homes().filter(|(home, _)| home.0 >= shard_count).collect();
            for (home, chunks) in beyond {
                report.differs(|| {
                    format!(
                        "{chunks} chunks of shard {home} are named, and the pool has {shard_count} shards"
                    )
                });
            }
        }
        for (shard, report) in reports {
            assert!(report.unreachable >= report.unreachable_data.len(), "data are a part of it");
            for named in [all.of(*shard), hidden.of(*shard)].into_iter().flatten() {
                report.unreachable -= report.unreachable_data.intersection_len(named);
                report.unreachable_data -= named;
            }
            let Some(named) = all.of(*shard) else { continue };
            for missing in named - &report.shared {
                report.differs(|| {
                    format!("chunk {missing} is named by another shard and not here, or not shared")
                });
            }
        }
    }

    /// Whether a chunk of data is in the table and shared.
    #[must_use]
    pub fn is_shared(&self, chunk: ChunkId) -> bool {
        self.shared.contains(chunk.get())
    }

    /// Compares what was counted with what the shard believes.
    pub(super) fn compare_usage(&mut self, believed: DataUsage) {
        let counted = DataUsage {
            chunks: self.data_chunks + self.dead_chunks,
            bytes: self.data_bytes + self.dead_bytes,
        };
        if counted != believed {
            self.differs(|| {
                format!("{counted:?} of data are in the chunk table, {believed:?} were counted")
            });
        }
    }

    pub(super) fn differs(&mut self, what: impl FnOnce() -> String) {
        assert!(self.differences.len() as u64 <= self.difference_count, "all are counted");
        self.difference_count += 1;
        if self.differences.len() < DIFFERENCES_MAX {
            self.differences.push(what());
        }
    }
}
