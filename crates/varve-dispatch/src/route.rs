//! The dispatcher of one thread: splits requests at region boundaries and takes each part to its shard.
//!
//! ROUTE-1. A part for a shard of this thread is a call; for another it is one message there and one back.
//! ROUTE-2. Parts of one request run at the same time; the request is done when all are.

use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use futures_util::future::{LocalBoxFuture, join_all, try_join_all};
use hashbrown::{HashMap, HashSet};
use varve_engine::{
    BLOCK_BYTES, ForeignNames, KeyValue, MarkReport, MarkWish, OpenPool, ReadPart, Shard,
    ShardStats,
};
use varve_reactor::Reactor;
use varve_stdx::BufSlice;
use varve_types::limits::REGION_BYTES;
use varve_types::{ByteOffset, ByteRange, Reduction, ShardId, StreamId};

use crate::gate::NameLock;
use crate::host::ShardHost;
use crate::job::{JobSender, PoolLinks};
use crate::placement::{Placement, StreamPlacement};
use crate::{Error, Result};

pub(crate) type ShardFuture<T> = LocalBoxFuture<'static, varve_engine::Result<T>>;

/// A stream and where its bytes are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route {
    /// The stream.
    pub stream: StreamId,
    /// Its placement.
    pub placement: StreamPlacement,
}

/// What a mark pass proves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MarkProof {
    /// Nothing.
    None,
    /// That what it freed is gone.
    Gone,
}

struct DispatchInner {
    reactor: Reactor,
    placement: Placement,
    links: PoolLinks,
    pool: Option<Rc<OpenPool>>,
    hosts: RefCell<HashMap<ShardId, Rc<ShardHost>>>,
    names: RefCell<HashMap<ShardId, Rc<NameLock>>>,
    locals: RefCell<HashMap<TypeId, Rc<dyn Any>>>,
}

/// Takes requests of one thread to the shards. Cheap to clone.
#[derive(Clone)]
pub struct Dispatch(Rc<DispatchInner>);

/// A dispatcher that this keeps nothing of alive.
#[derive(Clone)]
pub struct WeakDispatch(Weak<DispatchInner>);

impl WeakDispatch {
    /// The dispatcher, while it lives.
    #[must_use]
    pub fn upgrade(&self) -> Option<Dispatch> {
        self.0.upgrade().map(Dispatch)
    }
}

impl Dispatch {
    /// The same for what a layer above keeps on this thread.
    #[must_use]
    pub fn downgrade(&self) -> WeakDispatch {
        WeakDispatch(Rc::downgrade(&self.0))
    }

    /// The dispatcher of a thread. `pool` is given on the thread that owns the pool's root.
    #[must_use]
    pub fn new(
        reactor: Reactor,
        placement: Placement,
        links: PoolLinks,
        pool: Option<Rc<OpenPool>>,
    ) -> Self {
        let hosts = RefCell::default();
        let (names, locals) = (RefCell::default(), RefCell::default());
        Self(Rc::new(DispatchInner { reactor, placement, links, pool, hosts, names, locals }))
    }

    /// Adds a shard of this thread.
    pub fn add_host(&self, shard: ShardId, host: Rc<ShardHost>) {
        let before = self.0.hosts.borrow_mut().insert(shard, host);
        assert!(before.is_none(), "a shard has one host");
    }

    /// The thread's loop.
    #[must_use]
    pub fn reactor(&self) -> &Reactor {
        &self.0.reactor
    }

    /// The pool's root, on its thread.
    #[must_use]
    pub fn pool(&self) -> Option<Rc<OpenPool>> {
        self.0.pool.clone()
    }

    /// The gate through which changes of names with a home pass one after another; on the home's thread.
    pub(crate) fn name_gate(&self, home: ShardId) -> Rc<NameLock> {
        Rc::clone(self.0.names.borrow_mut().entry(home).or_default())
    }

    /// What a layer above keeps on this thread: one value of each type, empty when it is first asked for. What it holds
    /// of this dispatcher keeps both alive.
    #[must_use]
    pub fn local<T: Default + 'static>(&self) -> Rc<T> {
        let mut locals = self.0.locals.borrow_mut();
        let local = locals.entry(TypeId::of::<T>()).or_insert_with(|| Rc::new(T::default()));
        Rc::clone(local).downcast().expect("kept by its type")
    }

    /// Where streams and names are.
    #[must_use]
    pub fn placement(&self) -> &Placement {
        &self.0.placement
    }

    /// The threads of all shards.
    pub(crate) fn links(&self) -> &PoolLinks {
        &self.0.links
    }

    /// The host of a shard of this thread.
    #[must_use]
    pub fn host(&self, shard: ShardId) -> Option<Rc<ShardHost>> {
        self.0.hosts.borrow().get(&shard).cloned()
    }

    fn link(&self, shard: ShardId) -> Result<&JobSender> {
        self.0.links.threads.get(usize::from(shard.0)).ok_or(Error::ShuttingDown)
    }

    /// Runs `work` on the thread of a shard.
    ///
    /// # Errors
    /// [`Error::ShuttingDown`] when the thread is gone.
    pub async fn at<T: Send + 'static>(
        &self,
        shard: ShardId,
        work: impl FnOnce(&Dispatch) -> LocalBoxFuture<'static, T> + Send + 'static,
    ) -> Result<T> {
        if self.host(shard).is_some() {
            return Ok(work(self).await);
        }
        self.link(shard)?.call(&self.0.reactor, work).await
    }

    /// Runs `work` on the thread that owns the pool's root.
    ///
    /// # Errors
    /// [`Error::ShuttingDown`] when the thread is gone.
    pub async fn at_root<T: Send + 'static>(
        &self,
        work: impl FnOnce(Rc<OpenPool>) -> ShardFuture<T> + Send + 'static,
    ) -> Result<T> {
        let home = ShardId(0); // The root lives with the first shard.
        let there = move |dispatch: &Dispatch| -> ShardFuture<T> {
            match dispatch.pool() {
                Some(pool) => work(pool),
                None => Box::pin(async { Err(varve_engine::Error::Closed) }),
            }
        };
        self.at(home, there).await?.map_err(|error| Error::Shard { shard: home, error })
    }

    /// Runs `work` with a shard, on its thread, once it serves (ROUTE-1).
    ///
    /// # Errors
    /// What `work` yields, or that the shard does not open.
    pub async fn on_shard<T: Send + 'static>(
        &self,
        shard: ShardId,
        work: impl FnOnce(Rc<Shard>) -> ShardFuture<T> + Send + 'static,
    ) -> Result<T> {
        self.at(shard, move |dispatch| {
            let host = dispatch.host(shard);
            Box::pin(async move {
                let shard_now = host.ok_or(Error::ShuttingDown)?.shard().await?;
                work(shard_now).await.map_err(|error| Error::Shard { shard, error })
            })
        })
        .await?
    }

    /// Reads `len` bytes at `offset`; parts in order.
    ///
    /// # Errors
    /// `Corrupt` for damaged data; never wrong bytes.
    pub async fn read(
        &self,
        route: Route,
        offset: ByteOffset,
        len: usize,
    ) -> Result<Vec<ReadPart>> {
        let (start, end) = (offset.0, offset.0 + len as u64);
        if within_region(start, end) {
            return self.read_part(route, offset, len).await;
        }
        let parts = split(start, end).map(|part| {
            let len = usize::try_from(part.len()).expect("inside the request");
            self.read_part(route, ByteOffset(part.start), len)
        });
        Ok(try_join_all(parts).await?.into_iter().flatten().collect())
    }

    async fn read_part(
        &self,
        route: Route,
        offset: ByteOffset,
        len: usize,
    ) -> Result<Vec<ReadPart>> {
        let shard = self.0.placement.shard_of(route.placement, offset.0);
        let stream = route.stream;
        if let Some(host) = self.host(shard) {
            let here = host.shard().await?;
            return here
                .read(stream, offset, len)
                .await
                .map_err(|error| Error::Shard { shard, error });
        }
        self.on_shard(shard, move |shard| {
            Box::pin(async move { shard.read(stream, offset, len).await })
        })
        .await
    }

    /// Writes `data` at `offset`; its blocks are reduced as `reduction` says. Durable on return.
    ///
    /// # Errors
    /// `NoSpace`, or `Unavailable` when it may or may not have happened.
    pub async fn write(
        &self,
        route: Route,
        offset: ByteOffset,
        data: BufSlice,
        reduction: Reduction,
    ) -> Result<()> {
        let (start, end) = (offset.0, offset.0 + data.len() as u64);
        if within_region(start, end) {
            return self.write_part(route, offset, data, reduction).await;
        }
        let parts = split(start, end).map(|part| {
            let cut = |at: u64| usize::try_from(at - start).expect("inside the request");
            let data = data.slice(cut(part.start)..cut(part.end));
            self.write_part(route, ByteOffset(part.start), data, reduction)
        });
        all_ended(parts).await
    }

    async fn write_part(
        &self,
        route: Route,
        offset: ByteOffset,
        data: BufSlice,
        reduction: Reduction,
    ) -> Result<()> {
        let shard = self.0.placement.shard_of(route.placement, offset.0);
        let stream = route.stream;
        if let Some(host) = self.host(shard) {
            let here = host.shard().await?;
            // Said with every write: a shard that was reopened has forgotten it.
            here.set_reduction(stream, reduction);
            return here
                .write(stream, offset, data)
                .await
                .map_err(|error| Error::Shard { shard, error });
        }
        self.on_shard(shard, move |shard| {
            shard.set_reduction(stream, reduction);
            Box::pin(async move { shard.write(stream, offset, data).await })
        })
        .await
    }

    /// Makes bytes read as zeros and gives their space back. Durable on return; costs a message a shard, whatever the
    /// length.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub async fn trim(&self, route: Route, range: ByteRange) -> Result<()> {
        self.clear(route, range, None).await
    }

    /// Makes bytes read as zeros; with `keep_allocated` they stay allocated in the eyes of the client. Durable on
    /// return.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub async fn write_zeroes(
        &self,
        route: Route,
        range: ByteRange,
        keep_allocated: bool,
    ) -> Result<()> {
        self.clear(route, range, Some(keep_allocated)).await
    }

    async fn clear(&self, route: Route, range: ByteRange, zero: Option<bool>) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        if within_region(range.start, range.end) {
            let shard = self.0.placement.shard_of(route.placement, range.start);
            return self.clear_on(shard, route.stream, range, zero).await;
        }
        // Parts of blocks go to the shard that has the block; whole blocks to all shards at once, as each knows only
        // its own.
        let block = BLOCK_BYTES as u64;
        let whole = ByteRange {
            start: range.start.next_multiple_of(block),
            end: range.end / block * block,
        };
        let head = ByteRange { start: range.start, end: whole.start };
        let tail = ByteRange { start: whole.end, end: range.end };
        let mut parts = Vec::new();
        for part in [head, tail].into_iter().filter(|part| !part.is_empty()) {
            let shard = self.0.placement.shard_of(route.placement, part.start);
            parts.push(self.clear_on(shard, route.stream, part, zero));
        }
        for shard in self.0.placement.shards_of(route.placement) {
            parts.push(self.clear_on(shard, route.stream, whole, zero));
        }
        all_ended(parts).await
    }

    async fn clear_on(
        &self,
        shard: ShardId,
        stream: StreamId,
        range: ByteRange,
        zero: Option<bool>,
    ) -> Result<()> {
        self.on_shard(shard, move |shard| {
            Box::pin(async move {
                match zero {
                    None => shard.trim(stream, range).await,
                    Some(keep_allocated) => shard.write_zeroes(stream, range, keep_allocated).await,
                }
            })
        })
        .await
    }

    /// The value of a key on a shard.
    ///
    /// # Errors
    /// `Corrupt` when the tree cannot be read.
    pub async fn key_get(&self, shard: ShardId, key: Vec<u8>) -> Result<Option<Vec<u8>>> {
        self.on_shard(shard, |shard| Box::pin(async move { shard.key_get(&key).await })).await
    }

    /// Keys on a shard that begin with `prefix`, after `after`, in order.
    ///
    /// # Errors
    /// `Corrupt` when the tree cannot be read.
    pub async fn key_scan(
        &self,
        shard: ShardId,
        prefix: Vec<u8>,
        after: Option<Vec<u8>>,
        max: usize,
    ) -> Result<Vec<KeyValue>> {
        self.on_shard(shard, move |shard| {
            Box::pin(async move { shard.key_scan(&prefix, after.as_deref(), max).await })
        })
        .await
    }

    /// Forgets a stream on every shard. Durable on return.
    ///
    /// # Errors
    /// `Unavailable` when a shard does not serve.
    pub async fn drop_stream(&self, stream: StreamId) -> Result<()> {
        let drops = self.0.placement.shards().map(|shard| {
            self.on_shard(shard, move |shard| {
                Box::pin(async move { shard.drop_stream(stream).await })
            })
        });
        all_ended(drops).await
    }

    /// Blocks of a stream that hold data, over all shards. Costs a walk over its map; what was just acknowledged may be
    /// missing.
    ///
    /// # Errors
    /// `Corrupt` when a map cannot be read, `Unavailable` when a shard does not serve.
    pub async fn count_blocks(&self, stream: StreamId) -> Result<u64> {
        let counts = self.0.placement.shards().map(|shard| {
            self.on_shard(shard, move |shard| {
                Box::pin(async move { shard.count_blocks(stream).await })
            })
        });
        Ok(try_join_all(counts).await?.into_iter().sum())
    }

    /// Reports of every shard's state.
    ///
    /// # Errors
    /// `Unavailable` when a shard does not serve.
    pub async fn stats(&self) -> Result<Vec<ShardStats>> {
        let stats =
            self.0.placement.shards().map(|shard| {
                self.on_shard(shard, |shard| Box::pin(async move { Ok(shard.stats()) }))
            });
        try_join_all(stats).await
    }

    /// How much the shard that wants a mark pass most wants one.
    ///
    /// # Errors
    /// `Unavailable` when a shard does not serve.
    pub async fn mark_wish(&self) -> Result<MarkWish> {
        let wants = self.0.placement.shards().map(|shard| {
            self.on_shard(shard, |shard| Box::pin(async move { Ok(shard.mark_wish()) }))
        });
        Ok(try_join_all(wants).await?.into_iter().max().unwrap_or(MarkWish::None))
    }

    /// Lets writes go on, to be refused, that wait for the room of a mark pass while a shard is damaged, or closed for
    /// long: no pass can end.
    ///
    /// # Errors
    /// `Unavailable` when a thread is gone.
    pub async fn release_mark_waiters(&self) -> Result<()> {
        let is_out = |shard| {
            self.at(shard, move |dispatch| {
                let is_out = dispatch.host(shard).is_some_and(|host| host.is_out());
                Box::pin(async move { is_out })
            })
        };
        let out = try_join_all(self.0.placement.shards().map(is_out)).await?;
        if !out.contains(&true) {
            return Ok(());
        }
        let release = |shard| {
            self.at(shard, move |dispatch| {
                if let Some(shard) = dispatch.host(shard).and_then(|host| host.now()) {
                    shard.release_mark_waiters();
                }
                Box::pin(async {})
            })
        };
        try_join_all(self.0.placement.shards().map(release)).await?;
        Ok(())
    }

    /// One mark pass over all shards: begin on all, then walk on all, then sweep on all with what all walks found named
    /// on other shards. `owned` is asked for once all began.
    ///
    /// # Errors
    /// When a shard failed or was reopened meanwhile: the pass is void and may be run again.
    pub async fn mark<E: From<Error>>(
        &self,
        owned: impl Future<Output = std::result::Result<HashSet<StreamId>, E>>,
        proof: MarkProof,
    ) -> std::result::Result<Vec<MarkReport>, E> {
        let shards: Vec<ShardId> = self.0.placement.shards().collect();
        let begin = |shard: &ShardId| {
            self.on_shard(*shard, |shard| Box::pin(async move { shard.mark_begin().await }))
        };
        let tickets = try_join_all(shards.iter().map(begin)).await?;
        let passes = || shards.iter().copied().zip(tickets.iter().copied());
        let owned = owned.await?;
        let walk = |(shard, ticket)| {
            let owned = owned.clone();
            self.on_shard(shard, move |shard| {
                Box::pin(async move { shard.mark_walk(ticket, &owned).await })
            })
        };
        let walked = try_join_all(passes().map(walk)).await?;
        let mut named = ForeignNames::default();
        walked.iter().for_each(|(_, names)| named.merge(names));
        let named = Arc::new(named);
        let sweep = |(shard, ticket)| {
            let named = Arc::clone(&named);
            self.on_shard(shard, move |shard| {
                Box::pin(async move {
                    match proof {
                        MarkProof::None => shard.mark_sweep(ticket, &named).await,
                        MarkProof::Gone => shard.mark_sweep_proved(ticket, &named).await,
                    }
                })
            })
        };
        let swept = try_join_all(passes().map(sweep)).await?;
        let joined = walked.into_iter().zip(swept).map(|((walked, _), swept)| MarkReport {
            dropped_streams: walked.dropped_streams,
            ..swept
        });
        Ok(joined.collect())
    }
}

/// Waits until all parts of a change have ended, also after one has failed: what is answered must not happen any more,
/// as it could come behind what the client does next (ROUTE-2).
pub(crate) async fn all_ended(
    parts: impl IntoIterator<Item = impl Future<Output = Result<()>>>,
) -> Result<()> {
    join_all(parts).await.into_iter().collect()
}

fn within_region(start: u64, end: u64) -> bool {
    end <= start || start / REGION_BYTES == (end - 1) / REGION_BYTES
}

/// Parts of a range that lie in one region each.
pub(crate) fn split(start: u64, end: u64) -> impl Iterator<Item = ByteRange> {
    let mut at = start;
    std::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let part = ByteRange { start: at, end: end.min((at / REGION_BYTES + 1) * REGION_BYTES) };
        at = part.end;
        Some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_meet_and_stay_in_their_regions() {
        let (start, end) = (REGION_BYTES - 5, 3 * REGION_BYTES + 7);
        let parts: Vec<ByteRange> = split(start, end).collect();
        assert_eq!(parts.len(), 4);
        assert_eq!((parts[0].start, parts[3].end), (start, end));
        assert!(parts.windows(2).all(|pair| pair[0].end == pair[1].start));
        assert!(parts.iter().all(|part| within_region(part.start, part.end)));
        assert!(!within_region(start, end));
    }
}
