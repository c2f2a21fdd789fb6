//! Cuts over shards: each source's shards are cut at the same time, and their answers held until all have cut and the
//! caller lets them go.
//!
//! ```text
//!  cut on all shards → all have answered → (caller drops the cut) → release on all
//! ```
//!
//! DISPATCH-CUT-1. What is answered before the last shard has cut was admitted on its shard before that shard's cut, so
//!     a write that a client sends after an answer is never in a copy without the one that was answered.
//! DISPATCH-CUT-2. A cut is released on every shard, whether it succeeded or not and whether or not its caller still
//!     waits: by the value's drop. A cut that ends on a shard after that is released there at once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_channel::oneshot;
use futures_util::future::try_join_all;
use varve_engine::{CutId, CutPair};
use varve_types::{ShardId, StreamId};

use crate::route::Route;
use crate::{Dispatch, Error, Result};

/// One stream to be cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CutSource {
    /// What is copied.
    pub source: Route,
    /// The stream that holds it from the cut on, with the same placement; never used before.
    pub copy: StreamId,
}

/// A cut whose later writes are not answered yet. Dropping it lets the answers go (DISPATCH-CUT-2).
#[must_use = "dropping it releases the cut"]
pub struct HeldCut {
    dispatch: Dispatch,
    id: CutId,
    shards: Vec<ShardId>,
    released: Arc<AtomicBool>,
}

impl Drop for HeldCut {
    fn drop(&mut self) {
        self.released.store(true, Ordering::Release);
        for shard in self.shards.iter().copied() {
            let (dispatch, id) = (self.dispatch.clone(), self.id);
            self.dispatch.reactor().spawn(async move {
                let release = dispatch.at(shard, move |there| {
                    // A shard that does not serve has forgotten the cut.
                    if let Some(open) = there.host(shard).and_then(|host| host.now()) {
                        open.release_cut(id);
                    }
                    Box::pin(std::future::ready(()))
                });
                // A thread that is gone holds nothing.
                let _ = release.await;
            });
        }
    }
}

impl Dispatch {
    /// Waits until every shard serves. To be done before a cut: nobody's answers should wait for a shard that reopens.
    ///
    /// # Errors
    /// `Unavailable` when one takes too long.
    pub async fn wait_serving(&self) -> Result<()> {
        let serves = |shard| self.on_shard(shard, |_| Box::pin(std::future::ready(Ok(()))));
        try_join_all(self.placement().shards().map(serves)).await.map(|_| ())
    }

    /// Cuts streams at one instant over all their shards. Durable on return; later writes to the sources are answered
    /// once the value that is returned is dropped, so it should be dropped soon. [`Self::wait_serving`] comes first
    /// (DISPATCH-CUT-1).
    ///
    /// # Errors
    /// `Unavailable` when a shard does not serve; copies may then hold something on other shards, and belong to nobody.
    ///
    /// # Panics
    /// Without a source.
    pub async fn cut(&self, sources: &[CutSource]) -> Result<HeldCut> {
        let first = sources.first().expect("a cut has a source");
        let id = CutId(first.copy.get()); // Streams are never reused.
        let mut pairs: BTreeMap<ShardId, Vec<CutPair>> = BTreeMap::new();
        for CutSource { source, copy } in sources {
            for shard in self.placement().shards_of(source.placement) {
                pairs
                    .entry(shard)
                    .or_default()
                    .push(CutPair { source: source.stream, copy: *copy });
            }
        }
        let held = HeldCut {
            dispatch: self.clone(),
            id,
            shards: pairs.keys().copied().collect(),
            released: Arc::default(),
        };
        let cuts = pairs.into_iter().map(|(shard, pairs)| self.cut_shard(shard, &held, pairs));
        try_join_all(cuts).await?;
        Ok(held)
    }

    /// Cuts on one shard, to the end, whether or not anybody waits for it (DISPATCH-CUT-2).
    async fn cut_shard(&self, shard: ShardId, held: &HeldCut, pairs: Vec<CutPair>) -> Result<()> {
        let (id, released) = (held.id, Arc::clone(&held.released));
        let (sender, answer) = oneshot::channel();
        let dispatch = self.clone();
        self.reactor().spawn(async move {
            let cut = dispatch.on_shard(shard, move |open| {
                Box::pin(async move {
                    let outcome = open.cut(id, &pairs).await;
                    if released.load(Ordering::Acquire) {
                        open.release_cut(id);
                    }
                    outcome
                })
            });
            // The caller may have gone.
            let _ = sender.send(cut.await);
        });
        answer.await.map_err(|_| Error::ShuttingDown)?
    }
}
