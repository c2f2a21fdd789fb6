//! Runs mark passes: after deletions and large trims, when much that was shared was overwritten, and once after the
//! start.
//!
//! DATASET-MARK-1. One pass is under way at a time: a second one would end the first, as each begins anew on all
//!     shards.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hashbrown::HashSet;
use varve_dispatch::{MarkProof, MarkWish};
use varve_types::{ErrorKind, StreamId};

use crate::catalog::owned_streams;
use crate::datasets::SharedDatasets;
use crate::{Datasets, Result};

/// Pause between looks at whether a pass is wanted, in ns.
const LOOK_PAUSE_NS: u64 = 500_000_000;

/// Pause between looks at whether another pass has ended, in ns.
const TURN_PAUSE_NS: u64 = 5_000_000;

/// Pause after a pass that failed, in ns: a shard may be reopening.
const FAILED_PAUSE_NS: u64 = 5_000_000_000;

/// A pass pauses for as long as it took before the next one, unless writes wait for it: passes take half of the time at
/// most.
const PAUSE_PER_PASS: u64 = 1;

/// What a mark pass did, over all shards.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MarkSummary {
    /// Chunks and pages that are named.
    pub marked: u64,
    /// Chunks and pages that were freed.
    pub freed: u64,
    /// Stored bytes of those.
    pub freed_bytes: u64,
    /// Of those, what is still there; looked at by [`Datasets::check_online`] only.
    pub leaked: u64,
}

/// The turn of a mark pass (DATASET-MARK-1).
struct Turn(Arc<SharedDatasets>);

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.is_marking.store(false, Ordering::Release);
    }
}

impl Datasets {
    /// Runs one mark pass now, or behind the one that is under way.
    ///
    /// # Errors
    /// When a shard failed or was reopened meanwhile; the pass may be run again.
    pub async fn mark(&self) -> Result<MarkSummary> {
        self.mark_proving(MarkProof::None).await
    }

    pub(crate) async fn mark_proving(&self, proof: MarkProof) -> Result<MarkSummary> {
        let _turn = self.take_turn().await;
        let owned = async {
            let in_flight = self.shared.in_flight.now(); // IN-FLIGHT-1
            let mut streams: HashSet<StreamId> = in_flight.into_iter().collect();
            streams.extend(owned_streams(&self.dispatch).await?);
            Ok::<_, crate::Error>(streams)
        };
        let reports = self.dispatch.mark(owned, proof).await?;
        let mut summary = MarkSummary::default();
        for report in reports {
            summary.marked += report.marked;
            summary.freed += report.freed;
            summary.freed_bytes += report.freed_bytes;
            summary.leaked += report.leaked;
        }
        Ok(summary)
    }

    async fn take_turn(&self) -> Turn {
        let reactor = self.dispatch.reactor();
        while self.shared.is_marking.swap(true, Ordering::AcqRel) {
            reactor.sleep(TURN_PAUSE_NS).await;
        }
        Turn(Arc::clone(&self.shared))
    }

    /// Runs mark passes when they are wanted, for as long as the pool is open. One thread does this.
    pub async fn keep_marking(&self) {
        let reactor = self.dispatch.reactor().clone();
        let mut done = self.shared.marks_wanted.load(Ordering::Acquire);
        let mut pause_end = 0;
        loop {
            reactor.sleep(LOOK_PAUSE_NS).await;
            let wanted = self.shared.marks_wanted.load(Ordering::Acquire);
            // A shard may be opening; when the pool ends, this task ends with its thread.
            let Ok(wish) = self.dispatch.mark_wish().await else {
                let _ending = self.dispatch.release_mark_waiters().await;
                continue;
            };
            let is_due = wish == MarkWish::Wanted || wanted != done;
            let begin = reactor.now();
            if wish != MarkWish::Urgent && (!is_due || begin.0 < pause_end) {
                continue;
            }
            match self.mark().await {
                Ok(summary) => {
                    done = wanted;
                    tracing::info!(
                        marked = summary.marked,
                        freed = summary.freed,
                        freed_bytes = summary.freed_bytes,
                        "mark pass"
                    );
                    let end = reactor.now();
                    pause_end = end.0 + (end.0 - begin.0) * PAUSE_PER_PASS;
                }
                Err(error) if error.kind() == ErrorKind::Closed => {
                    tracing::debug!(%error, "mark pass given up"); // The pool is closing.
                    reactor.sleep(FAILED_PAUSE_NS).await;
                }
                Err(error) => {
                    tracing::warn!(%error, "mark pass given up");
                    reactor.sleep(FAILED_PAUSE_NS).await;
                }
            }
        }
    }
}
