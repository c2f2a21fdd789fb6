//! Health of the shards: work that hangs and drives that fail, for the log, `varve status` and metrics.
//!
//! HEALTH-1: work that has been under way for [`HUNG`] is logged once, again each time its age has doubled, and once
//!     more when it has ended.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use varve_access_admin::v1::{Drive, HealthReason, HealthState, ShardState, ShardStatus};
use varve_access_admin::{AdminFuture, Metric, MetricKind, Sample};

use crate::stack::{PendingWork, ShardHealth, ShardReport, ShardStack};
use crate::threads::ShardThreads;

/// Age from which on work counts as hung: a busy drive answers within a second, and Linux' SCSI layer gives up after 30
/// s.
pub(super) const HUNG: Duration = Duration::from_secs(5);

/// The trouble of a shard whose thread does not answer.
const STUCK: &str =
    "its thread has not answered for 5 s: a drive hangs, or the machine is overloaded";

/// Pause between two looks at the shards.
const PAUSE: Duration = Duration::from_secs(1);

/// Log of the oldest work of one kind on one thread.
#[derive(Debug, Default)]
struct HangLog {
    /// Hung work that was logged and has not ended: its number and description.
    logged: Option<(u64, String)>,
    /// Age at which it is logged again.
    next_age: Duration,
}

/// A line for the log.
#[derive(PartialEq, Eq, Debug)]
enum HealthLine {
    Hangs { what: String, age: Duration },
    Ended { what: String },
}

impl HangLog {
    /// The line that is due, given the oldest work under way (HEALTH-1).
    fn observe(&mut self, oldest: Option<&PendingWork>) -> Option<HealthLine> {
        let Some(hung) = oldest.filter(|work| work.age >= HUNG) else {
            return self.logged.take().map(|(_, what)| HealthLine::Ended { what });
        };
        let is_logged = self.logged.as_ref().is_some_and(|(number, _)| *number == hung.number);
        if is_logged && hung.age < self.next_age {
            return None;
        }
        self.logged = Some((hung.number, hung.what.clone()));
        self.next_age = hung.age * 2;
        Some(HealthLine::Hangs { what: hung.what.clone(), age: hung.age })
    }
}

/// The logs of a shard's thread.
#[derive(Default)]
struct ShardLog {
    media: HangLog,
    nbd: HangLog,
    s3: HangLog,
    thread: HangLog,
    /// The call that the thread has not answered, and when it was made: a thread that is stuck gets no second one.
    call: Option<(Instant, AdminFuture<'static, ShardHealth>)>,
}

impl ShardLog {
    async fn look<S: ShardStack>(&mut self, threads: &ShardThreads<S>, shard: usize) {
        let (wait, (called, mut call)) = match self.call.take() {
            Some(unanswered) => (Duration::ZERO, unanswered),
            None => {
                let call = threads.ask(shard, |thread| async move { Ok(thread.stack.health()) });
                (HUNG, (Instant::now(), call))
            }
        };
        let Ok(answer) = tokio::time::timeout(wait, &mut call).await else {
            let what = "a call to the shard's thread".to_owned();
            let stuck = PendingWork { what, number: 0, age: called.elapsed() };
            write(shard, self.thread.observe(Some(&stuck)));
            self.call = Some((called, call));
            return;
        };
        write(shard, self.thread.observe(None));
        // A thread that refuses calls is ending.
        if let Ok(health) = answer {
            write(shard, self.media.observe(health.media.as_ref()));
            write(shard, self.nbd.observe(health.nbd.as_ref()));
            write(shard, self.s3.observe(health.s3.as_ref()));
        }
    }
}

/// Logs what hangs for as long as the pool is served.
pub(super) async fn watch<S: ShardStack>(threads: Arc<ShardThreads<S>>) -> Infallible {
    let mut logs: Vec<_> = (0..threads.count()).map(|_| ShardLog::default()).collect();
    loop {
        for (shard, log) in logs.iter_mut().enumerate() {
            log.look(&threads, shard).await;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn write(shard: usize, line: Option<HealthLine>) {
    match line {
        Some(HealthLine::Hangs { what, age }) => {
            tracing::warn!(shard, "{what} has been under way for {} s", age.as_secs());
        }
        Some(HealthLine::Ended { what }) => tracing::warn!(shard, "{what} has ended"),
        None => {}
    }
}

/// A report of a shard whose thread has not answered for [`HUNG`], given the one before: requests to it wait.
pub(super) fn stuck(shard: usize, before: Option<ShardReport>) -> ShardReport {
    let shard = u16::try_from(shard).unwrap_or(u16::MAX);
    let status = ShardStatus {
        shard,
        cell: None,
        state: ShardState::Opening,
        trouble: Some(STUCK.to_owned()),
        undrained_bytes: 0,
        lane_used_bytes: 0,
        lane_size_bytes: 0,
    };
    match before {
        Some(before) => {
            let state = ShardState::Opening;
            let status = ShardStatus { state, trouble: status.trouble, ..before.status };
            ShardReport { status, ..before }
        }
        None => ShardReport {
            status,
            memory_used_bytes: 0,
            space_used_bytes: None,
            room: None,
            used_segments: 0,
            journal_tail: 0,
            pool_segments: None,
            drives: Vec::new(),
            metrics: Vec::new(),
            health: ShardHealth::default(),
        },
    }
}

/// Conditions that need attention, as `varve status` shows them. Failed operations count where a path is still used.
pub(super) fn troubles(reports: &[ShardReport], is_used: impl Fn(&str) -> bool) -> Vec<String> {
    let mut troubles = Vec::new();
    for report in reports {
        let ShardHealth { media, nbd, s3, errors, unsettled, .. } = &report.health;
        let pending = [media, nbd, s3].into_iter().flatten();
        for PendingWork { what, age, .. } in pending.filter(|work| work.age >= HUNG) {
            let (shard, seconds) = (report.status.shard, age.as_secs());
            troubles.push(format!("shard {shard}: {what} has been under way for {seconds} s"));
        }
        for (path, errors) in errors.iter().filter(|(path, _)| is_used(path)) {
            let (reads, writes, last) = (errors.reads, errors.writes, &errors.last);
            troubles.push(format!(
                "{path}: {reads} failed reads and {writes} failed writes since the start; the last: {last}"
            ));
        }
        troubles.extend(
            unsettled.iter().map(|reason| {
                format!("names of volumes and snapshots cannot be changed: {reason}")
            }),
        );
    }
    troubles
}

/// What clients asked for and could not be given, as it is damaged.
pub(super) fn damaged(reports: &[ShardReport]) -> impl Iterator<Item = HealthReason> {
    let damaged = reports.iter().filter(|report| report.health.damaged_reads > 0);
    damaged.map(|report| {
        let (shard, reads) = (report.status.shard, report.health.damaged_reads);
        HealthReason {
            state: HealthState::Lost,
            message: format!(
                "{reads} reads of shard {shard} since the start met data that are damaged"
            ),
            advice: "run varve check to see which volumes and objects that is, and restore these from a backup; what is written anew is right again".to_owned(),
        }
    })
}

/// The drives with their counts of failed operations.
pub(super) fn drives(drives: &[Drive], reports: &[ShardReport]) -> Vec<Drive> {
    let with_errors = |drive: &Drive| {
        let (read_errors, write_errors) = errors_of(&drive.path, reports);
        Drive { read_errors, write_errors, ..drive.clone() }
    };
    drives.iter().map(with_errors).collect()
}

/// Failed reads and writes of a drive: the device itself, or files in the directory.
pub(super) fn errors_of(drive: &str, reports: &[ShardReport]) -> (u64, u64) {
    let errors = reports.iter().flat_map(|report| &report.health.errors);
    let of_drive = errors.filter(|(path, _)| Path::new(path).starts_with(drive));
    of_drive
        .fold((0, 0), |(reads, writes), (_, errors)| (reads + errors.reads, writes + errors.writes))
}

/// Failed operations by drive, and ages of the oldest work by shard; `drives` have their counts.
pub(super) fn metrics(drives: &[Drive], reports: &[ShardReport]) -> Vec<Metric> {
    let help = "Failed operations on the drive since the start, other than for lack of space.";
    let mut errors = Metric::new("varve_media_errors_total", help, MetricKind::Counter);
    for drive in drives {
        for (operation, value) in [("read", drive.read_errors), ("write", drive.write_errors)] {
            let labels = vec![("drive", drive.path.clone()), ("operation", operation.to_owned())];
            errors.samples.push(Sample { labels, value });
        }
    }
    let ages = |name, help, oldest: fn(&ShardHealth) -> Option<&PendingWork>| {
        let mut metric = Metric::new(name, help, MetricKind::Gauge);
        for report in reports {
            let age = oldest(&report.health).map_or(Duration::ZERO, |work| work.age);
            let value = u64::try_from(age.as_micros()).unwrap_or(u64::MAX);
            let labels = vec![("shard", report.status.shard.to_string())];
            metric.samples.push(Sample { labels, value });
        }
        metric
    };
    vec![
        errors,
        ages(
            "varve_media_oldest_operation_seconds",
            "Age of the oldest operation on the drives that is under way.",
            |health| health.media.as_ref(),
        ),
        ages(
            "varve_volume_oldest_request_seconds",
            "Age of the oldest request of NBD clients that is under way.",
            |health| health.nbd.as_ref(),
        ),
        ages(
            "varve_object_oldest_request_seconds",
            "Age of the oldest request of the S3 server to the shard that is under way.",
            |health| health.s3.as_ref(),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::room::used_bytes;

    fn work(number: u64, seconds: u64) -> PendingWork {
        PendingWork { what: format!("read {number}"), number, age: Duration::from_secs(seconds) }
    }

    #[test]
    fn what_a_shard_holds_whose_thread_never_answered_is_not_known() {
        let told = ShardReport { space_used_bytes: Some(100), ..stuck(1, None) };
        assert_eq!(used_bytes(&[stuck(0, None), told.clone()]), 200, "as much as the other");
        assert_eq!(used_bytes(&[stuck(0, Some(told.clone())), told]), 200, "what it last told");
    }

    #[test]
    fn hung_work_is_logged_at_growing_intervals_and_when_it_ends() {
        let mut log = HangLog::default();
        assert_eq!(log.observe(Some(&work(1, 4))), None);
        let mut ages = Vec::new();
        for age in 5..=45 {
            if let Some(HealthLine::Hangs { age, .. }) = log.observe(Some(&work(1, age))) {
                ages.push(age.as_secs());
            }
        }
        assert_eq!(ages, [5, 10, 20, 40]);
        let next = log.observe(Some(&work(2, 6)));
        assert_eq!(next, Some(HealthLine::Hangs { what: "read 2".to_owned(), age: HUNG + PAUSE }));
        let ended = log.observe(Some(&work(3, 1)));
        assert_eq!(ended, Some(HealthLine::Ended { what: "read 2".to_owned() }));
        assert_eq!(log.observe(None), None);
    }
}
