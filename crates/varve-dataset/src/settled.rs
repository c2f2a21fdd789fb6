//! Completes what was left incomplete, before names change: by an earlier life, or by a group of snapshots that a
//! closed shard stopped.
//!
//! SETTLED-1. Names change only while nothing is left: an intent that waits for a closed shard could otherwise bring
//!     back, once that shard serves, what was deleted meanwhile (INTENT-3). A group says that it leaves something
//!     before it lets go of its names, and whoever is let in behind it looks then.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::intent::{Intent, settle_all};
use crate::{Datasets, Error, Result};

/// Pause before it is tried again, in ns: names are changed again soon after a shard is whole.
const RETRY_PAUSE_NS: u64 = 5_000_000_000;

/// What could not be completed, if anything.
#[derive(Default)]
pub(crate) struct UnsettledRest(Mutex<LeftoverState>);

#[derive(Default)]
struct LeftoverState {
    /// Why something is left.
    reason: Option<String>,
    /// Groups that were left incomplete since the start.
    groups: u64,
    /// Whether what earlier lives left is completed.
    has_settled: bool,
}

/// What [`Datasets::settle`] completed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SettleReport {
    /// Groups of snapshots.
    pub groups: usize,
    /// Reservations that belonged to no volume, taken back.
    pub reservations: usize,
}

impl UnsettledRest {
    fn left(&self) -> MutexGuard<'_, LeftoverState> {
        // A panic under the lock leaves it whole: nothing under it panics between two assignments.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses while something is left (SETTLED-1).
    pub(crate) fn check(&self) -> Result<()> {
        match &self.left().reason {
            None => Ok(()),
            Some(reason) => Err(Error::Unsettled { reason: reason.clone() }),
        }
    }

    /// Notes that a group is left incomplete. Whether nothing was before.
    pub(crate) fn leave(&self, reason: String) -> bool {
        let mut left = self.left();
        left.groups += 1;
        left.reason.replace(reason).is_none()
    }

    /// Notes how it went to complete what was left when there were so many groups. Whether nothing is left.
    fn settled<T>(&self, groups: u64, outcome: &Result<T>) -> bool {
        let mut left = self.left();
        match outcome {
            Ok(_) => {
                left.has_settled = true;
                if left.groups == groups {
                    left.reason = None;
                }
            }
            Err(error) => left.reason = Some(error.to_string()),
        }
        left.reason.is_none()
    }
}

impl Datasets {
    /// Why names cannot be changed, while they cannot (SETTLED-1).
    #[must_use]
    pub fn unsettled(&self) -> Option<String> {
        self.shared.unsettled.left().reason.clone()
    }

    /// Completes the groups of snapshots that an earlier life was storing when it ended, clears what it had not begun
    /// to, and takes back what it had promised and no record says. To be called after a start, before names are served;
    /// while it fails, names do not change.
    ///
    /// # Errors
    /// `Unavailable` when a shard does not serve, `Corrupt` when names cannot be read.
    pub async fn settle(&self) -> Result<SettleReport> {
        self.try_settle().await.0
    }

    /// The same, and whether nothing is left.
    async fn try_settle(&self) -> (Result<SettleReport>, bool) {
        let unsettled = &self.shared.unsettled;
        let (left, has_settled) = {
            let left = unsettled.left();
            (left.groups, left.has_settled)
        };
        let settled = async {
            let groups = settle_all(&self.dispatch, &self.shared.in_flight).await?;
            // Once names change, what is promised may be of a record that is about to be stored.
            let reservations = if has_settled { 0 } else { self.settle_reservations().await? };
            Ok(SettleReport { groups, reservations })
        };
        let settled = settled.await;
        let is_all = unsettled.settled(left, &settled);
        (settled, is_all)
    }

    /// Repeats [`Self::settle`] until nothing is left.
    pub async fn keep_settling(&self) {
        let mut told = self.unsettled();
        loop {
            self.dispatch.reactor().sleep(RETRY_PAUSE_NS).await;
            match self.try_settle().await {
                (Ok(SettleReport { groups, reservations }), true) => {
                    tracing::info!(groups, reservations, "names may change again");
                    return;
                }
                (Ok(_), false) => {} // Another group was left meanwhile.
                (Err(error), _) => {
                    let reason = Some(error.to_string());
                    if reason == told {
                        tracing::debug!(%error, "names cannot be changed yet");
                    } else {
                        tracing::warn!(%error, "names cannot be changed yet");
                        told = reason;
                    }
                }
            }
        }
    }

    /// Completes a group of snapshots that was begun here, or clears it; tells whether it exists. When damage, or a
    /// shard that does not open for long, keeps it from that, names do not change from then on until it is done
    /// (SETTLED-1).
    ///
    /// # Errors
    /// [`Error::Unsettled`]: whether it exists is known when it is done.
    pub(crate) async fn settle_group(&self, intent: Intent) -> Result<bool> {
        let error = match intent.settle(&self.dispatch).await {
            Ok(exists) => return Ok(exists),
            Err(error) => error,
        };
        tracing::error!(%error, "names cannot be changed: a group of snapshots is incomplete");
        let reason = format!("a group of snapshots is incomplete: {error}");
        if self.shared.unsettled.leave(reason.clone()) {
            let datasets = self.clone();
            self.dispatch.reactor().spawn(async move { datasets.keep_settling().await });
        }
        Err(Error::Unsettled { reason })
    }
}
