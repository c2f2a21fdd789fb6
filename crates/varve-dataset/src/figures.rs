//! How many datasets there are, and what was done with them since the start: for metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::catalog::{count_snapshots, list};
use crate::{Datasets, Result};

/// What was done since the start, on all threads.
#[derive(Default)]
pub(crate) struct Activity {
    pub(crate) snapshots_taken: Counter,
    pub(crate) snapshot_us: Counter,
    pub(crate) snapshots_deleted: Counter,
    pub(crate) clones_made: Counter,
    pub(crate) clone_us: Counter,
    pub(crate) rollbacks: Counter,
    pub(crate) writes_over_quota: Counter,
}

/// A number that only grows.
#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How many datasets there are, and what was done with them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DatasetFigures {
    /// Volumes.
    pub volumes: u64,
    /// Of them those that remember what they were cloned from.
    pub clones: u64,
    /// Of them those with a quota.
    pub volumes_with_quota: u64,
    /// Sum of the quotas, in bytes.
    pub quota_bytes: u64,
    /// Of the volumes those with a reservation.
    pub volumes_reserved: u64,
    /// Sum of the reservations, in bytes.
    pub reserved_bytes: u64,
    /// Snapshots.
    pub snapshots: u64,
    /// Snapshots taken since the start.
    pub snapshots_taken: u64,
    /// Time that took, a group once, in µs.
    pub snapshot_us: u64,
    /// Snapshots deleted since the start.
    pub snapshots_deleted: u64,
    /// Clones made since the start.
    pub clones_made: u64,
    /// Time that took, in µs.
    pub clone_us: u64,
    /// Rollbacks since the start.
    pub rollbacks: u64,
    /// Writes refused for a quota since the start.
    pub writes_over_quota: u64,
}

impl Datasets {
    /// How many datasets there are, and what was done with them. Costs a look at every record.
    ///
    /// # Errors
    /// `Unavailable` when a shard does not serve.
    pub async fn figures(&self) -> Result<DatasetFigures> {
        let activity = &self.shared.activity;
        let mut figures = DatasetFigures {
            snapshots: count_snapshots(&self.dispatch).await?,
            snapshots_taken: activity.snapshots_taken.get(),
            snapshot_us: activity.snapshot_us.get(),
            snapshots_deleted: activity.snapshots_deleted.get(),
            clones_made: activity.clones_made.get(),
            clone_us: activity.clone_us.get(),
            rollbacks: activity.rollbacks.get(),
            writes_over_quota: activity.writes_over_quota.get(),
            ..DatasetFigures::default()
        };
        for (_, record) in list(&self.dispatch).await? {
            figures.volumes += 1;
            figures.clones += u64::from(record.origin.is_some());
            figures.volumes_with_quota += u64::from(record.quota_bytes.is_some());
            let quota_bytes = record.quota_bytes.unwrap_or(0);
            figures.quota_bytes = figures.quota_bytes.saturating_add(quota_bytes);
            figures.volumes_reserved += u64::from(record.is_reserved);
            let reserved_bytes = record.reserved_bytes().unwrap_or(0);
            figures.reserved_bytes = figures.reserved_bytes.saturating_add(reserved_bytes);
        }
        Ok(figures)
    }

    /// Monotonic time in µs.
    pub(crate) fn now_us(&self) -> u64 {
        self.dispatch.reactor().now().0 / 1000
    }
}
