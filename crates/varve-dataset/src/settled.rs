//! Completes what an earlier life left, before names change.
//!
//! U1. Names change only while nothing is left of earlier lives: an intent that waits for a damaged shard could otherwise bring back, once that
//!     shard is mended, what was deleted meanwhile (I3 of `intent.rs`).

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::intent::settle_all;
use crate::{Datasets, Error, Result};

/// Pause before it is tried again, in ns: a damaged shard is looked at that often.
const RETRY_PAUSE_NS: u64 = 60_000_000_000;

/// What of earlier lives could not be completed, if anything.
#[derive(Default)]
pub(crate) struct Unsettled(Mutex<Option<String>>);

/// What [`Datasets::settle`] completed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Settled {
    /// Groups of snapshots.
    pub groups: usize,
    /// Reservations that belonged to no volume, taken back.
    pub reservations: usize,
}

impl Unsettled {
    fn reason(&self) -> MutexGuard<'_, Option<String>> {
        // A panic under the lock leaves it whole: each change is one assignment.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses while something is left (U1).
    pub(crate) fn check(&self) -> Result<()> {
        match &*self.reason() {
            None => Ok(()),
            Some(reason) => Err(Error::Unsettled { reason: reason.clone() }),
        }
    }
}

impl Datasets {
    /// Completes the groups of snapshots that an earlier life was storing when it ended, clears what it had not begun to, and takes back what
    /// it had promised and no record says. To be called after a start, before names are served; while it fails, names do not change.
    ///
    /// # Errors
    /// `Unavailable` when a shard does not serve, `Corrupt` when names cannot be read.
    pub async fn settle(&self) -> Result<Settled> {
        let settled = async {
            let groups = settle_all(&self.dispatch).await?;
            let reservations = self.settle_reservations().await?;
            Ok(Settled { groups, reservations })
        };
        let settled = settled.await;
        *self.shared.unsettled.reason() = settled.as_ref().err().map(Error::to_string);
        settled
    }

    /// Repeats [`Self::settle`] until it succeeds.
    pub async fn keep_settling(&self) {
        loop {
            self.dispatch.reactor().sleep(RETRY_PAUSE_NS).await;
            match self.settle().await {
                Ok(Settled { groups, reservations }) => {
                    tracing::info!(groups, reservations, "names may change again");
                    return;
                }
                Err(error) => tracing::warn!(%error, "names cannot be changed yet"),
            }
        }
    }
}
