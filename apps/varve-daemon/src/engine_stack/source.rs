//! What every thread opens its stack from, and the first root of a new pool.

use std::sync::Arc;

use varve_client::{Failure, Result};
use varve_dataset::SharedDatasets;
use varve_engine::{MemoryShares, OpenPool, PoolSpec, ShardConfig};
use varve_types::ShardId;

use crate::config::Settings;
use crate::event_loop;
use crate::pool_media::PoolMedia;

/// Shared by the threads of a pool.
#[derive(Clone)]
pub(crate) struct EngineSource {
    pub(crate) media: PoolMedia,
    pub(crate) shared: Arc<SharedDatasets>,
    shard_memory_bytes: u64,
    /// Bytes for data blocks beside those.
    read_cache_bytes: usize,
    checkpoint_entries: u64,
    free_target_percent: u32,
    accept_lost_journal: bool,
    /// Whether nothing reaches the drives: recovery writes to overlays, and clients write nothing.
    pub(crate) is_read_only: bool,
}

impl EngineSource {
    /// The source of the pool on `media`, with the memory and pace of the settings.
    pub(crate) fn new(settings: &Settings, media: PoolMedia) -> Self {
        let shards = settings.shards_at_once(media.lane_count(), media.cells());
        let read_cache_bytes = settings.read_cache.0 / u64::from(shards.max(1));
        Self {
            media,
            shared: Arc::default(),
            shard_memory_bytes: settings.shard_memory(shards),
            read_cache_bytes: usize::try_from(read_cache_bytes).unwrap_or(usize::MAX),
            checkpoint_entries: settings.checkpoint_entries,
            free_target_percent: settings.reclaim_free_percent,
            accept_lost_journal: settings.accept_lost_journal,
            is_read_only: settings.redundancy.is_read_only,
        }
    }

    /// Bytes of dropped buffers that a shard's thread keeps for its next ones.
    pub(crate) fn spare_bytes(&self) -> usize {
        MemoryShares::of(self.shard_memory_bytes).spare_bytes
    }

    /// What a shard is told.
    pub(crate) fn shard_config(&self, shard: ShardId) -> ShardConfig {
        let config = ShardConfig::with_memory(self.media.pool(), shard, self.shard_memory_bytes);
        ShardConfig {
            block_cache_bytes: config.block_cache_bytes + self.read_cache_bytes,
            checkpoint_entries: self.checkpoint_entries,
            free_target_percent: if self.is_read_only { 0 } else { self.free_target_percent },
            accept_lost_journal: self.accept_lost_journal,
            mends_pages: !self.is_read_only,
            is_read_only: self.is_read_only,
            ..config
        }
    }
}

/// Makes the roots of a pool whose media were just made, or whose making was cut off. Blocks. Durable on return.
pub(crate) fn make_roots(pool: &PoolMedia) -> Result<()> {
    let failed = |error: &dyn std::fmt::Display| Failure::new(format!("create the pool: {error}"));
    let mut event_loop = event_loop::start()?;
    let (reactor, pool) = (event_loop.handle(), pool.clone());
    event_loop.run(async move {
        let mut media = Vec::new();
        for shard in (0..pool.lane_count()).map(ShardId) {
            let opened = pool.media(&reactor, shard).await.map_err(|error| failed(&error))?;
            media.push(opened.media);
        }
        let first = media.first().expect("a pool has a lane");
        if !OpenPool::exists(first).await.map_err(|error| failed(&error))? {
            let spec = PoolSpec {
                pool: pool.pool(),
                created_unix_ms: pool.created_unix_ms(),
                shard_count: pool.lane_count(),
                zones: pool.zones(),
            };
            OpenPool::format(&media, &spec).await.map_err(|error| {
                failed(&error)
                    .hint("a pool needs at least four segments a shard: give it more room")
            })?;
        }
        for media in media {
            media.fence.release().await.map_err(|error| failed(&error))?;
        }
        Ok(())
    })
}
