//! The way from one shard to the others: what deduplication across shards sends, as jobs of their threads.
//!
//! DISPATCH-PEERS-1. An answer is given by whoever is there: a thread whose shard does not serve answers from its index
//!     of homes.
//! DISPATCH-PEERS-2. Reads wait for a home that reopens, as requests do; what still fails is that home's trouble, and
//!     an error of these blocks only.
//! DISPATCH-PEERS-3. An index of homes belongs to a thread and outlives its shards, which may reopen.

use std::cell::OnceCell;
use std::rc::Rc;

use futures_util::future::LocalBoxFuture;
use varve_engine::{DedupReply, Error as EngineError, Fingerprint, Homes, Peers, Shard};
use varve_reactor::Reactor;
use varve_stdx::BufSlice;
use varve_types::{ChunkId, ErrorKind, ShardId};

use crate::host::HostConfig;
use crate::job::PoolLinks;
use crate::{Dispatch, Error};

/// The other shards of a pool, for one of them.
pub(crate) struct ThreadPeers {
    reactor: Reactor,
    links: PoolLinks,
    shard: ShardId,
    homes: Rc<Homes>,
    dedup_index_bytes: usize,
}

/// The index of homes of a thread (DISPATCH-PEERS-3).
#[derive(Default)]
struct ThreadHomes(OnceCell<Rc<Homes>>);

impl ThreadHomes {
    fn get(&self, dedup_index_bytes: usize) -> Rc<Homes> {
        Rc::clone(self.0.get_or_init(|| Rc::new(Homes::new(dedup_index_bytes))))
    }
}

type ShardFuture<T> = LocalBoxFuture<'static, varve_engine::Result<T>>;

impl ThreadPeers {
    /// For the shard of a host on the thread of `dispatch`.
    pub(crate) fn new(config: &HostConfig, dispatch: &Dispatch) -> Self {
        let dedup_index_bytes = config.shard.dedup_index_bytes;
        Self {
            reactor: dispatch.reactor().clone(),
            links: dispatch.links().clone(),
            shard: config.shard.shard,
            homes: dispatch.local::<ThreadHomes>().get(dedup_index_bytes),
            dedup_index_bytes,
        }
    }

    /// Runs `work` on the thread of a shard.
    async fn at<T: Send + 'static>(
        &self,
        shard: ShardId,
        work: impl FnOnce(&Dispatch) -> LocalBoxFuture<'static, T> + Send + 'static,
    ) -> crate::Result<T> {
        let link = self.links.threads.get(usize::from(shard.0)).ok_or(Error::ShuttingDown)?;
        link.call(&self.reactor, work).await
    }

    /// Runs `work` with a home, once it serves (DISPATCH-PEERS-2).
    async fn with_home<T: Send + 'static>(
        &self,
        home: ShardId,
        work: impl FnOnce(Rc<Shard>) -> ShardFuture<T> + Send + 'static,
    ) -> varve_engine::Result<T> {
        let there = move |dispatch: &Dispatch| -> LocalBoxFuture<'static, crate::Result<T>> {
            let host = dispatch.host(home);
            Box::pin(async move {
                let shard = host.ok_or(Error::ShuttingDown)?.shard().await?;
                work(shard).await.map_err(|error| Error::Shard { shard: home, error })
            })
        };
        let outcome = self.at(home, there).await.and_then(|outcome| outcome);
        outcome.map_err(|error| {
            let cause = error.to_string();
            match error.kind() {
                ErrorKind::Corrupt => EngineError::HomeDamaged { home, cause },
                _ => EngineError::HomeUnavailable { home, cause },
            }
        })
    }

    /// Sends something that nobody waits for: a thread that is far behind, or gone, does not hear it.
    fn tell(&self, shard: ShardId, news: impl FnOnce(&Dispatch) + Send + 'static) {
        if let Some(link) = self.links.threads.get(usize::from(shard.0)) {
            link.tell(news);
        }
    }
}

impl Peers for ThreadPeers {
    fn count(&self) -> u16 {
        u16::try_from(self.links.threads.len()).expect("shards have 12 bits")
    }

    fn home(&self, fingerprint: Fingerprint) -> Option<ShardId> {
        self.homes.find(fingerprint)
    }

    fn ask(
        &self,
        shard: ShardId,
        fingerprints: Vec<Fingerprint>,
    ) -> LocalBoxFuture<'_, varve_engine::Result<Vec<DedupReply>>> {
        let dedup_index_bytes = self.dedup_index_bytes;
        Box::pin(async move {
            let there = move |dispatch: &Dispatch| -> LocalBoxFuture<'static, Vec<DedupReply>> {
                let homes = dispatch.local::<ThreadHomes>().get(dedup_index_bytes);
                let open = dispatch.host(shard).and_then(|host| host.now()); // DISPATCH-PEERS-1
                Box::pin(async move { homes.answer(open, &fingerprints).await })
            };
            self.at(shard, there).await.map_err(|error| {
                let cause = error.to_string();
                EngineError::HomeUnavailable { home: shard, cause }
            })
        })
    }

    fn tell_stored(&self, owner: ShardId, fingerprints: Vec<Fingerprint>) {
        let (home, dedup_index_bytes) = (self.shard, self.dedup_index_bytes);
        self.tell(owner, move |dispatch| {
            dispatch.local::<ThreadHomes>().get(dedup_index_bytes).learn(home, &fingerprints);
        });
    }

    fn tell_overwritten(&self, home: ShardId, count: u64) {
        self.tell(home, move |dispatch| {
            // One that does not serve looks for what nobody names when it is open again.
            if let Some(shard) = dispatch.host(home).and_then(|host| host.now()) {
                shard.note_foreign_overwritten(count);
            }
        });
    }

    fn read(
        &self,
        home: ShardId,
        chunks: Vec<ChunkId>,
    ) -> LocalBoxFuture<'_, varve_engine::Result<Vec<Option<BufSlice>>>> {
        Box::pin(self.with_home(home, move |shard| {
            Box::pin(async move { shard.read_chunks(&chunks).await })
        }))
    }

    fn stored_bytes(
        &self,
        home: ShardId,
        chunks: Vec<ChunkId>,
    ) -> LocalBoxFuture<'_, varve_engine::Result<Vec<Option<u32>>>> {
        Box::pin(self.with_home(home, move |shard| {
            Box::pin(async move { shard.stored_bytes(&chunks).await })
        }))
    }
}
