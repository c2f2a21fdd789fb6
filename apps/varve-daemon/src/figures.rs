//! How many datasets there are, and what was done with them, under the names that Prometheus reads.

use varve_access_admin::MetricKind::{self, Counter, Gauge};
use varve_access_admin::{Metric, Result, Sample};
use varve_dataset::{DatasetFigures, Datasets};

use crate::engine_stack::refused;

type Row = (&'static str, MetricKind, &'static str, fn(&DatasetFigures) -> u64);

/// Every metric of the datasets: name, kind, meaning, value.
const ROWS: &[Row] = &[
    ("varve_dataset_volumes", Gauge, "Volumes.", |f| f.volumes),
    ("varve_dataset_snapshots", Gauge, "Snapshots.", |f| f.snapshots),
    ("varve_dataset_clones", Gauge, "Volumes that remember what they were cloned from.", |f| {
        f.clones
    }),
    ("varve_dataset_quotas", Gauge, "Volumes with a quota.", |f| f.volumes_with_quota),
    ("varve_dataset_quota_bytes", Gauge, "Sum of the quotas of volumes.", |f| f.quota_bytes),
    ("varve_dataset_reservations", Gauge, "Volumes with a reservation.", |f| f.volumes_reserved),
    ("varve_dataset_reserved_bytes", Gauge, "Sum of the reservations of volumes.", |f| {
        f.reserved_bytes
    }),
    ("varve_dataset_over_quota_writes_total", Counter, "Writes refused for a quota.", |f| {
        f.writes_over_quota
    }),
    ("varve_dataset_snapshots_taken_total", Counter, "Snapshots taken.", |f| f.snapshots_taken),
    (
        "varve_dataset_snapshots_taken_seconds_total",
        Counter,
        "Time that taking snapshots took, a group once.",
        |f| f.snapshot_us,
    ),
    ("varve_dataset_snapshots_deleted_total", Counter, "Snapshots deleted.", |f| {
        f.snapshots_deleted
    }),
    ("varve_dataset_clones_made_total", Counter, "Clones made.", |f| f.clones_made),
    ("varve_dataset_clones_made_seconds_total", Counter, "Time that making clones took.", |f| {
        f.clone_us
    }),
    ("varve_dataset_rollbacks_total", Counter, "Volumes that went back to a snapshot.", |f| {
        f.rollbacks
    }),
];

/// The metrics now.
pub(super) async fn of(datasets: &Datasets) -> Result<Vec<Metric>> {
    let figures = datasets.figures().await.map_err(refused)?;
    let metric = |(name, help, kind, value)| {
        let mut metric = Metric::new(name, help, kind);
        metric.samples.push(Sample { labels: Vec::new(), value });
        metric
    };
    let rows = ROWS.iter().map(|(name, kind, help, value)| (*name, *help, *kind, value(&figures)));
    Ok(rows.map(metric).collect())
}
