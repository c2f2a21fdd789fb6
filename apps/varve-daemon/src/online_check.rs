//! The check of the serving pool: at most one runs, on the catalogue's thread; askers see how far it is.
//!
//! The lock guards the status and is held for one look or change.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use varve_access_admin::v1::{CheckReport, CheckState, CheckStatus};
use varve_access_admin::{AdminFuture, Error, Result};
use varve_dataset::{CheckProgress, Datasets, OnlineReport};

use crate::engine_stack::refused;

/// The check that runs, or the last one.
#[derive(Clone, Default)]
pub(super) struct OnlineCheck(Arc<CheckInner>);

#[derive(Default)]
struct CheckInner {
    status: Mutex<CheckStatus>,
    progress: Mutex<Arc<CheckProgress>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic under the lock leaves the status whole: each change is one assignment.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl OnlineCheck {
    /// How far it is.
    pub(super) fn status(&self) -> CheckStatus {
        let mut status = lock(&self.0.status).clone();
        if status.state == CheckState::Running {
            status.references = lock(&self.0.progress).references.load(Ordering::Relaxed);
        }
        status
    }

    /// Tells a check to end.
    pub(super) fn stop(&self) {
        lock(&self.0.progress).stop.store(true, Ordering::Relaxed);
    }

    /// The progress of a check that is to begin now; `None` when one runs.
    pub(super) fn begin(&self) -> Option<Arc<CheckProgress>> {
        let mut status = lock(&self.0.status);
        if status.state == CheckState::Running {
            return None;
        }
        *status = CheckStatus { state: CheckState::Running, ..CheckStatus::default() };
        let progress = Arc::<CheckProgress>::default();
        *lock(&self.0.progress) = Arc::clone(&progress);
        Some(progress)
    }

    /// Waits for the outcome of a check that has begun, and keeps it.
    pub(super) async fn follow(self, outcome: AdminFuture<'static, OnlineReport>) {
        let outcome = outcome.await;
        let references = lock(&self.0.progress).references.load(Ordering::Relaxed);
        *lock(&self.0.status) = match outcome {
            Ok(found) => {
                let stopped = found.is_stopped;
                let state = if stopped { CheckState::Stopped } else { CheckState::Done };
                let report = Some(report(found));
                CheckStatus { state, references, report, ..CheckStatus::default() }
            }
            Err(error) => {
                let error = Some(error.to_string());
                let state = CheckState::Failed;
                CheckStatus { state, references, error, ..CheckStatus::default() }
            }
        };
    }
}

/// Checks on the catalogue's thread.
pub(super) async fn run(datasets: Datasets, progress: Arc<CheckProgress>) -> Result<OnlineReport> {
    let report = datasets.check_online(progress).await.map_err(refused)?;
    if report.is_damaged() {
        let OnlineReport { dangling, unreadable, leaked, .. } = report;
        tracing::error!(
            dangling,
            unreadable,
            leaked,
            "the check found damage: `varve check --online` shows it"
        );
    }
    if !report.not_checked.is_empty() {
        tracing::warn!(what = report.not_checked.join("; "), "the check left something out");
    }
    Ok::<_, Error>(report)
}

fn report(found: OnlineReport) -> CheckReport {
    CheckReport {
        datasets: found.datasets,
        references: found.references,
        dangling: found.dangling,
        unreadable: found.unreadable + found.unreadable_records,
        leaked: found.leaked,
        unnamed: found.unnamed,
        unnamed_bytes: found.unnamed_bytes,
        findings: found.findings,
        not_checked: found.not_checked,
    }
}
