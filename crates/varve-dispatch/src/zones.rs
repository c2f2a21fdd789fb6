//! Where the shards of this thread get zones: from the pool's root, on this thread or on another.

use std::rc::Rc;
use std::sync::Arc;

use futures_util::future::LocalBoxFuture;
use varve_engine::{OpenPool, Zone, ZoneCounts, ZoneSource};
use varve_reactor::Reactor;
use varve_types::ShardId;

use crate::Dispatch;
use crate::job::JobSender;

/// The way to the pool's root.
#[derive(Clone)]
pub enum PoolRoot {
    /// It lives on this thread.
    Here(Rc<OpenPool>),
    /// It lives on another.
    Elsewhere {
        /// That thread.
        home: JobSender,
        /// What any thread may know of the pool's zones.
        counts: Arc<ZoneCounts>,
    },
}

/// Zones of one shard.
pub(crate) struct Zones {
    pub(crate) reactor: Reactor,
    pub(crate) root: PoolRoot,
    pub(crate) shard: ShardId,
    counts: Arc<ZoneCounts>,
}

impl Zones {
    pub(crate) fn new(reactor: Reactor, root: PoolRoot, shard: ShardId) -> Self {
        let counts = match &root {
            PoolRoot::Here(pool) => pool.zone_counts(),
            PoolRoot::Elsewhere { counts, .. } => Arc::clone(counts),
        };
        Self { reactor, root, shard, counts }
    }

    /// Runs `work` where the pool's root is.
    async fn at_root<T: Send + 'static>(
        &self,
        work: impl FnOnce(Rc<OpenPool>) -> LocalBoxFuture<'static, varve_engine::Result<T>>
        + Send
        + 'static,
    ) -> varve_engine::Result<T> {
        match &self.root {
            PoolRoot::Here(pool) => work(Rc::clone(pool)).await,
            PoolRoot::Elsewhere { home, .. } => {
                let there = move |dispatch: &Dispatch| -> LocalBoxFuture<'static, _> {
                    match dispatch.pool() {
                        Some(pool) => work(pool),
                        None => Box::pin(async { Err(varve_engine::Error::Closed) }),
                    }
                };
                match home.call(&self.reactor, there).await {
                    Ok(answer) => answer,
                    Err(_) => Err(varve_engine::Error::Closed),
                }
            }
        }
    }

    /// Zones the shard has now.
    pub(crate) async fn owned(&self) -> varve_engine::Result<Vec<Zone>> {
        let shard = self.shard;
        self.at_root(move |pool| Box::pin(async move { pool.zones_of(shard).await })).await
    }
}

impl ZoneSource for Zones {
    fn lease(&self) -> LocalBoxFuture<'_, varve_engine::Result<Option<Zone>>> {
        let shard = self.shard;
        Box::pin(self.at_root(move |pool| Box::pin(async move { pool.lease(shard).await })))
    }

    fn give_back(&self, zone: Zone) -> LocalBoxFuture<'_, varve_engine::Result<()>> {
        let shard = self.shard;
        Box::pin(
            self.at_root(move |pool| Box::pin(async move { pool.give_back(shard, zone).await })),
        )
    }

    fn lendable_segments(&self) -> u64 {
        self.counts.lendable_segments(self.shard)
    }

    fn share_segments(&self) -> u64 {
        self.counts.share_segments()
    }

    fn counts(&self) -> &ZoneCounts {
        &self.counts
    }
}
