//! The way from any executor to a shelf: a job for the thread of its shard.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use futures_util::future::LocalBoxFuture;
use hashbrown::HashMap;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use varve_dispatch::{Dispatch, JobHandle, JobSender, Placement, PoolLinks};
use varve_reactor::{Nanos, Notify};
use varve_stdx::PendingEntries;
use varve_types::ShardId;

use super::EngineOptions;
use super::body::{PIECE_BYTES, SMALL_PIECE_BYTES};
use super::buckets::BucketTable;
use crate::shelf::{BucketShard, GiveBack, Reference};
use crate::{BucketId, Error, Result};

/// When requests that are under way on a thread began, by its clock.
#[derive(Default)]
struct Requests(PendingEntries<Nanos>);

/// The request of the object store that has been under way on this thread for longest: its number, and its age in
/// nanoseconds.
#[must_use]
pub fn oldest_request(dispatch: &Dispatch) -> Option<(u64, u64)> {
    let (number, start) = dispatch.local::<Requests>().0.oldest()?;
    Some((number, dispatch.reactor().now() - start))
}

/// Work on a shelf.
pub(super) type ShelfFuture<T> = LocalBoxFuture<'static, Result<T>>;

/// Sends work to shelves.
pub(super) struct ShardClient {
    links: PoolLinks,
    placement: Placement,
    buckets: Arc<BucketTable>,
    /// Large pieces of bodies for which there is memory.
    pieces: Arc<Semaphore>,
}

/// A bucket on a shard.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Address {
    pub(super) shard: ShardId,
    pub(super) bucket: BucketId,
}

/// How long work on a shelf may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum WorkLength {
    Soon,
    AtLength,
}

enum BucketSlot {
    Opening(Rc<Notify>),
    Open(Rc<BucketShard>),
}

/// The shelves of a thread.
#[derive(Default)]
struct BucketShards {
    slots: RefCell<HashMap<(ShardId, BucketId), BucketSlot>>,
}

impl ShardClient {
    pub(super) fn new(
        links: PoolLinks,
        placement: Placement,
        options: EngineOptions,
        buckets: Arc<BucketTable>,
    ) -> Self {
        let pieces = options.bodies_bytes_max / PIECE_BYTES;
        let pieces = Arc::new(Semaphore::new(pieces.min(Semaphore::MAX_PERMITS)));
        Self { links, placement, buckets, pieces }
    }

    /// How large the next piece of a body may be, and its room in memory if it is a large one.
    pub(super) fn piece(&self) -> (usize, Option<OwnedSemaphorePermit>) {
        match Arc::clone(&self.pieces).try_acquire_owned() {
            Ok(memory) => (PIECE_BYTES, Some(memory)),
            Err(_) => (SMALL_PIECE_BYTES, None),
        }
    }

    /// All shards.
    pub(super) fn shards(&self) -> impl Iterator<Item = ShardId> + use<> {
        self.placement.shards()
    }

    /// The shard that has a key of a bucket.
    pub(super) fn home(&self, bucket: BucketId, key: &str) -> ShardId {
        self.placement.home_of(&[&bucket.0.to_be_bytes(), key.as_bytes()].concat())
    }

    fn link(&self, shard: ShardId) -> Result<&JobSender> {
        let link = self.links.threads.get(usize::from(shard.0));
        link.ok_or_else(|| Error::Unavailable { what: format!("shard {shard}") })
    }

    /// Runs `work` on the thread of a shard.
    pub(super) async fn on_thread<T: Send + 'static>(
        &self,
        shard: ShardId,
        work: impl FnOnce(Dispatch) -> LocalBoxFuture<'static, Result<T>> + Send + 'static,
    ) -> Result<T> {
        let there = move |dispatch: &Dispatch| work(dispatch.clone());
        self.link(shard)?.call_from_outside(there).await.map_err(unavailable)?
    }

    /// Runs `work` with a shelf, as a request that should end soon.
    pub(super) async fn on_shelf<T: Send + 'static>(
        &self,
        at: Address,
        work: impl FnOnce(Rc<BucketShard>) -> ShelfFuture<T> + Send + 'static,
    ) -> Result<T> {
        self.begin(at, work).await?.result().await.map_err(unavailable)?
    }

    /// The same, but returns once it is on its way.
    pub(super) async fn begin<T: Send + 'static>(
        &self,
        at: Address,
        work: impl FnOnce(Rc<BucketShard>) -> ShelfFuture<T> + Send + 'static,
    ) -> Result<JobHandle<Result<T>>> {
        self.begin_as(at, WorkLength::Soon, work).await
    }

    /// Runs `work` that takes as long as a bucket is large.
    pub(super) async fn on_shelf_at_length<T: Send + 'static>(
        &self,
        at: Address,
        work: impl FnOnce(Rc<BucketShard>) -> ShelfFuture<T> + Send + 'static,
    ) -> Result<T> {
        let begun = self.begin_as(at, WorkLength::AtLength, work).await?;
        begun.result().await.map_err(unavailable)?
    }

    async fn begin_as<T: Send + 'static>(
        &self,
        at: Address,
        expected: WorkLength,
        work: impl FnOnce(Rc<BucketShard>) -> ShelfFuture<T> + Send + 'static,
    ) -> Result<JobHandle<Result<T>>> {
        let buckets = Arc::clone(&self.buckets);
        let there = move |dispatch: &Dispatch| -> LocalBoxFuture<'static, Result<T>> {
            let dispatch = dispatch.clone();
            Box::pin(async move {
                let requests = dispatch.local::<Requests>();
                let _pending = match expected {
                    WorkLength::Soon => Some(requests.0.begin(dispatch.reactor().now())),
                    WorkLength::AtLength => None,
                };
                let shelves = dispatch.local::<BucketShards>();
                let shelf = shelves.shelf(&dispatch, at, &buckets).await?;
                work(shelf).await
            })
        };
        self.link(at.shard)?.begin_from_outside(there).await.map_err(unavailable)
    }

    /// Forgets a shelf that is cleared.
    pub(super) async fn forget(&self, at: Address) -> Result<()> {
        let forget = move |dispatch: Dispatch| -> ShelfFuture<()> {
            let shelves = dispatch.local::<BucketShards>();
            shelves.slots.borrow_mut().remove(&(at.shard, at.bucket));
            Box::pin(std::future::ready(Ok(())))
        };
        self.on_thread(at.shard, forget).await
    }
}

fn unavailable(error: varve_dispatch::Error) -> Error {
    Error::Unavailable { what: error.to_string() }
}

/// Gives references of a shelf back to other shelves of the bucket.
fn give_back(dispatch: &Dispatch, at: Address, buckets: &Arc<BucketTable>) -> GiveBack {
    let (dispatch, buckets) = (dispatch.downgrade(), Arc::clone(buckets));
    Rc::new(move |reference: Reference| {
        let (dispatch, buckets) = (dispatch.upgrade(), Arc::clone(&buckets));
        let there = move |dispatch: &Dispatch| -> ShelfFuture<()> {
            let dispatch = dispatch.clone();
            Box::pin(async move {
                let home = Address { shard: reference.home(), ..at };
                buckets.get(at.bucket)?; // One that was cleared gets no shelf again.
                let shelves = dispatch.local::<BucketShards>();
                let shelf = shelves.shelf(&dispatch, home, &buckets).await?;
                Ok(shelf.content().give_back(at.shard, reference).await?)
            })
        };
        Box::pin(async move {
            let ending = || Error::Unavailable { what: format!("shard {}", reference.home()) };
            let dispatch = dispatch.ok_or_else(ending)?;
            Ok(dispatch.at(reference.home(), there).await.map_err(unavailable)??)
        })
    })
}

impl BucketShards {
    /// A bucket on a shard of this thread, once that serves. A shard that was reopened gets another shelf.
    async fn shelf(
        &self,
        dispatch: &Dispatch,
        at: Address,
        buckets: &Arc<BucketTable>,
    ) -> Result<Rc<BucketShard>> {
        let host = dispatch
            .host(at.shard)
            .ok_or_else(|| Error::Unavailable { what: format!("shard {}", at.shard) })?;
        let place = (at.shard, at.bucket);
        loop {
            let shard = host.shard().await.map_err(unavailable)?;
            let opening = match self.slots.borrow().get(&place) {
                Some(BucketSlot::Open(shelf)) if Rc::ptr_eq(shelf.shard(), &shard) => {
                    shelf.set_reduction(buckets.reduction(at.bucket));
                    return Ok(Rc::clone(shelf));
                }
                Some(BucketSlot::Opening(opening)) => Some(Rc::clone(opening)),
                Some(BucketSlot::Open(_)) | None => None,
            };
            if let Some(opening) = opening {
                opening.notified().await;
                continue;
            }
            let opening = Rc::new(Notify::new());
            self.slots.borrow_mut().insert(place, BucketSlot::Opening(Rc::clone(&opening)));
            let reactor = dispatch.reactor().clone();
            let reduction = buckets.reduction(at.bucket);
            let give_back = give_back(dispatch, at, buckets);
            let opened = BucketShard::open(reactor, shard, at.bucket, reduction, give_back).await;
            match &opened {
                Ok(shelf) => {
                    self.slots.borrow_mut().insert(place, BucketSlot::Open(Rc::clone(shelf)))
                }
                Err(_) => self.slots.borrow_mut().remove(&place),
            };
            opening.notify_all();
            return opened;
        }
    }
}
