//! A pool on the cluster in memory, and what claims its shards.

use std::rc::Rc;

use futures_util::future::LocalBoxFuture;
use varve_dispatch::nodes::{Claimed, ShardSource};
use varve_dispatch::{Error, PoolRoot};
use varve_engine::{Pool, PoolSpec, ShardConfig};
use varve_media::Media;
use varve_media_rados::{
    JournalPlace, MemoryClient, MemoryCluster, Objects, PoolKind, RadosPool, RadosSpec,
};
use varve_reactor::Reactor;
use varve_types::{PoolId, ShardId};

pub(crate) const POOL: PoolId = PoolId([7; 16]);
pub(crate) const MS: u64 = 1_000_000;
pub(crate) const SHARDS: u16 = 4;

fn spec() -> RadosSpec {
    RadosSpec {
        pool: POOL,
        created_unix_ms: 5,
        segment_bytes: 256 << 10,
        segment_count: 400,
        lane_bytes: 5 << 20,
        lane_count: SHARDS,
        root_bytes_max: 1 << 20,
        journal: JournalPlace::Rados,
    }
}

pub(crate) async fn open(client: &MemoryClient) -> RadosPool {
    let (data, meta) = (client.objects("data").unwrap(), client.objects("meta").unwrap());
    RadosPool::open(data, meta, POOL).await.unwrap()
}

pub(crate) async fn make(reactor: &Reactor, cluster: &MemoryCluster) {
    cluster.make_pool("data", PoolKind::Erasure { stripe_bytes: 16 << 10 });
    cluster.make_pool("meta", PoolKind::Replicated);
    let client = cluster.client();
    let (data, meta): (Rc<dyn Objects>, Rc<dyn Objects>) =
        (client.objects("data").unwrap(), client.objects("meta").unwrap());
    RadosPool::make(&data, &meta, &spec()).await.unwrap();
    let pool = open(&client).await;
    let mut media: Vec<Media> = Vec::new();
    for shard in (0..SHARDS).map(ShardId) {
        media.push(pool.claim(reactor, shard, None).await.unwrap().0);
    }
    let spec = PoolSpec { pool: POOL, created_unix_ms: 0, shard_count: SHARDS };
    Pool::format(&media, &spec).await.unwrap();
    for media in media {
        media.fence.release().await.unwrap();
    }
}

pub(crate) struct Source {
    pub(crate) reactor: Reactor,
    pub(crate) client: MemoryClient,
}

impl ShardSource for Source {
    fn claim(&self, shard: ShardId) -> LocalBoxFuture<'static, Result<Claimed, Error>> {
        let (reactor, client) = (self.reactor.clone(), self.client.clone());
        Box::pin(async move {
            let failed = |reason: String| Error::ShardClosed { shard, reason };
            let claimed = open(&client).await.claim(&reactor, shard, None).await;
            let (media, claim) = claimed.map_err(|error| failed(error.to_string()))?;
            let pool =
                Pool::open_shared(&media).await.map_err(|error| failed(error.to_string()))?;
            let config = ShardConfig {
                checkpoint_entries: 300,
                ..ShardConfig::with_memory(POOL, shard, 24 << 20)
            };
            Ok(Claimed { media, epoch: claim.epoch(), root: PoolRoot::Here(pool), shard: config })
        })
    }
}
