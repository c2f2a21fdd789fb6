//! What the admin API says of drives and their redundancy: by the tables of the pool as they are now, by what shards
//! count, and by what drives answered.
//!
//! REDUNDANCY-1. What nobody counts is not claimed: segments that were written before the last loss count as not
//!     verified since, and a shard that does not serve as silent. So a pool that lost something is not ok again before
//!     it was walked.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use varve_access_admin::v1::{
    Drive, DriveState, Health, HealthReason, HealthState, JournalStatus, ShardState,
};
use varve_access_admin::{Metric, MetricKind, NO_REDUNDANCY_HINT, Sample};
use varve_media_redundancy::format::{
    DriveRecord, DriveRoles, DriveState as RecordState, DriveTable, JournalRecord,
};
use varve_media_redundancy::{
    DriveNumber, DriveSpaces, ERRORS_MAX, Epoch, Exposure, HealthFacts, HealthReport,
    HealthState as ReportState, LayoutView, MediumKinds, MoveWait, Protection, RecentErrors,
    RepairQueue, ShardFacts, StripeShape, UNIT_BYTES, UnusableDrive, journal_kinds, unconverted,
};
use varve_types::{ErrorKind, ShardId};

use crate::condition;
use crate::drive_changes::bytes_of;
use crate::health::{self, errors_of};
use crate::redundant_pool::RedundantPool;
use crate::stack::{DriveFigures, ShardReport};

/// How what a pool holds survives the loss of a drive. Clones share it.
#[derive(Clone, Debug)]
pub(crate) enum DriveRedundancy {
    /// Not at all: each drive has a part of it.
    None,
    /// Over these drives.
    Over(Arc<RedundantPool>),
    /// Somebody else takes care of that, as RADOS does.
    Elsewhere,
}

/// What `Pool` says of it.
pub(crate) struct RedundancySummary {
    pub(crate) protect: Option<String>,
    pub(crate) survives: Option<u8>,
    pub(crate) data_class: Option<String>,
    pub(crate) journal_class: Option<String>,
    pub(crate) journal_class_met: Option<bool>,
    pub(crate) unconverted_zones: Option<u64>,
    pub(crate) usable_bytes: Option<u64>,
    pub(crate) raw_bytes: Option<u64>,
}

impl DriveRedundancy {
    /// The summary of a pool of `size_bytes`.
    pub(crate) fn summary(&self, size_bytes: u64, reports: &[ShardReport]) -> RedundancySummary {
        match self {
            Self::Elsewhere => RedundancySummary {
                protect: None,
                survives: None,
                data_class: None,
                journal_class: None,
                journal_class_met: None,
                unconverted_zones: None,
                usable_bytes: None,
                raw_bytes: None,
            },
            Self::None => RedundancySummary {
                protect: Some(Protection::NONE.to_string()),
                survives: Some(0),
                data_class: None,
                journal_class: None,
                journal_class_met: None,
                unconverted_zones: None,
                usable_bytes: Some(size_bytes),
                raw_bytes: Some(size_bytes),
            },
            Self::Over(pool) => {
                let (sizes, view) = (pool.files().sizes(), pool.files().view());
                let zones = unconverted(&view).into_iter().map(|(_, zones)| u64::from(zones)).sum();
                RedundancySummary {
                    protect: Some(shape_of(view.drives()).to_string()),
                    survives: report_of(pool, reports).survives,
                    data_class: named(view.drives().zone_kinds()),
                    journal_class: named(view.drives().journal_kinds),
                    journal_class_met: are_journals_placed(view.drives()),
                    unconverted_zones: Some(zones).filter(|zones| *zones > 0),
                    usable_bytes: Some(sizes.usable_bytes),
                    raw_bytes: Some(sizes.raw_bytes),
                }
            }
        }
    }

    /// What an acknowledged write survives now; `known` is what was so at the start.
    pub(crate) fn journal(&self, known: &JournalStatus) -> JournalStatus {
        match self {
            Self::None | Self::Elsewhere => known.clone(),
            Self::Over(pool) => journal(pool, known.clone()),
        }
    }

    /// The drives: `known` are those that the data directory remembers.
    pub(crate) fn drives(&self, known: &[Drive], reports: &[ShardReport]) -> Vec<Drive> {
        match self {
            Self::None | Self::Elsewhere => health::drives(known, reports),
            Self::Over(pool) => of_tables(pool, known, reports),
        }
    }

    /// How safe what the pool holds is (REDUNDANCY-1); `drives` have their conditions.
    pub(crate) fn health(&self, reports: &[ShardReport], drives: &[Drive]) -> Health {
        let (mut reasons, survives): (Vec<HealthReason>, _) = match self {
            Self::None => (reports.iter().filter_map(silent).collect(), Some(0)),
            Self::Elsewhere => (reports.iter().filter_map(silent).collect(), None),
            Self::Over(pool) => {
                let report = report_of(pool, reports);
                let failure = pool.files().failure();
                let reasons = report.reasons.iter().map(reason_of).chain(failing(pool));
                let reasons = reasons.chain(unusable(pool, drives)).chain(reading_only(pool));
                let reasons = reasons.chain(misplaced_journals(pool)).chain(without_room(pool));
                (reasons.chain(failure.map(|it| stopped(&it))).collect(), report.survives)
            }
        };
        let trouble = |message: String| HealthReason {
            state: HealthState::Attention,
            message,
            advice: "look into the log, and at the drive".to_owned(),
        };
        reasons.extend(self.troubles(reports).into_iter().map(trouble));
        reasons.extend(condition::reasons(drives));
        reasons.extend(self.wrong_strips());
        reasons.extend(health::damaged(reports));
        let is_lost = reasons.iter().any(|it| it.state == HealthState::Lost);
        Health::of(reasons, survives.filter(|_| !is_lost))
    }

    /// Conditions that need attention; what failed on a drive that has left since is none.
    pub(crate) fn troubles(&self, reports: &[ShardReport]) -> Vec<String> {
        health::troubles(reports, |path| match self {
            Self::None | Self::Elsewhere => true,
            Self::Over(_) => self.paths(&[]).iter().any(|drive| Path::new(path).starts_with(drive)),
        })
    }

    /// Drives of the table on which something was wrong, by what reads met and scrubs found, until a walk has found
    /// nothing: what is wrong is written anew elsewhere.
    pub(crate) fn wrong_strips(&self) -> impl Iterator<Item = HealthReason> + use<> {
        let faults = match self {
            Self::Over(pool) => {
                let view = pool.files().view();
                let mut faults = pool.files().control().open_faults();
                faults.retain(|(drive, _)| {
                    let record = view.drives().drive(*drive);
                    record.is_some_and(|it| it.state != RecordState::Gone)
                });
                faults
            }
            Self::None | Self::Elsewhere => Vec::new(),
        };
        faults.into_iter().map(|(drive, count)| HealthReason {
            state: HealthState::Attention,
            message: format!("drive {drive} had something wrong in {count} places: strips, labels or tables; what is damaged is written anew"),
            advice: "wait for the scrub that follows by itself, or run varve drive scrub; replace the drive if that goes on".to_owned(),
        })
    }

    /// Where the drives are, by the tables of now; `remembered` are those of the data directory.
    pub(crate) fn paths(&self, remembered: &[Drive]) -> Vec<String> {
        match self {
            Self::Elsewhere => Vec::new(),
            Self::None => remembered.iter().map(|drive| drive.path.clone()).collect(),
            Self::Over(pool) => {
                let view = pool.files().view();
                let there = view.drives().drives.iter();
                let there = there.filter(|it| it.state != RecordState::Gone);
                there.map(|record| path_of(pool, remembered, record)).collect()
            }
        }
    }

    /// Numbers and paths of the drives that are live.
    pub(crate) fn live_drives(&self) -> Vec<(u8, String)> {
        let Self::Over(pool) = self else { return Vec::new() };
        let view = pool.files().view();
        let live = view.drives().drives.iter().filter(|it| it.state == RecordState::Live);
        let place = |it: &DriveRecord| Some((it.number.get(), pool.files().path_of(it.number)?));
        live.filter_map(place).collect()
    }

    /// Whether the pool takes no change.
    pub(crate) fn is_read_only(&self) -> bool {
        matches!(self, Self::Over(pool) if pool.files().opened().is_read_only)
    }

    /// The pool whose drives can be changed.
    pub(crate) fn pool(&self) -> varve_access_admin::Result<&Arc<RedundantPool>> {
        match self {
            Self::Over(pool) => Ok(pool),
            Self::None | Self::Elsewhere => Err(varve_access_admin::Error::Backend {
                kind: ErrorKind::Unsupported,
                message: "this pool has no redundancy over drives".to_owned(),
                hint: Some(NO_REDUNDANCY_HINT.to_owned()),
            }),
        }
    }

    /// Of drives and their redundancy; none where there is none.
    pub(crate) fn metrics(&self, reports: &[ShardReport], drives: &[Drive]) -> Vec<Metric> {
        let help =
            "How safe what the pool holds is: 0 ok, 1 attention, 2 at risk, 3 lost, 4 unknown.";
        let state = self.health(reports, drives).state.exit_code();
        let mut metrics = vec![Metric::gauge("varve_health_state", help, state.into())];
        if let Self::Over(pool) = self {
            let view = pool.files().view();
            metrics.extend([
                state_metric(view.drives()),
                error_metric(view.drives(), reports),
                latency_metric(reports),
                exposed_metric(&view),
                copies_metric(&view),
            ]);
        }
        metrics
    }
}

/// What an acknowledged write survives, by copies on drives that can be read.
pub(crate) fn journal(pool: &RedundantPool, plain: JournalStatus) -> JournalStatus {
    let view = pool.files().view();
    let copies = view.journals().map(|journal| copies_of(&view, journal)).min().unwrap_or(0);
    let lost = match copies.saturating_sub(1) {
        0 => "crashes and power loss".to_owned(),
        1 => "crashes, power loss and the loss of a drive".to_owned(),
        drives => format!("crashes, power loss and the loss of {drives} drives"),
    };
    let copies = if copies == 1 { "one copy".to_owned() } else { format!("{copies} copies") };
    JournalStatus { durability: format!("{copies}: survives {lost}"), ..plain }
}

/// Kinds of drives by their names, where they are not any.
fn named(kinds: MediumKinds) -> Option<String> {
    (kinds != MediumKinds::ALL).then(|| kinds.to_string())
}

/// Whether as many drives of the kinds that journals are to be on are there as they have copies; `None` where they are
/// to be on any.
fn are_journals_placed(table: &DriveTable) -> Option<bool> {
    let wanted = table.journal_kinds;
    (wanted != MediumKinds::ALL).then(|| journal_kinds(table) == wanted)
}

/// Journals that are on any drives, although they are to be on some.
fn misplaced_journals(pool: &RedundantPool) -> Option<HealthReason> {
    let view = pool.files().view();
    let table = view.drives();
    if are_journals_placed(table) != Some(false) {
        return None;
    }
    let (wanted, copies) = (table.journal_kinds, usize::from(table.drops_max) + 1);
    let is_there = |it: &&DriveRecord| it.state == RecordState::Live && wanted.has(it.kind);
    let there = table.drives.iter().filter(is_there).count();
    Some(HealthReason {
        state: HealthState::Attention,
        message: format!(
            "journals are to be on drives of class {wanted}, which need {copies} that are live and not slow, and {there} are live: they are on any"
        ),
        advice: "add such a drive, or have journals be on any: varve pool set --journal-class any"
            .to_owned(),
    })
}

/// Strips of new zones.
pub(crate) fn shape_of(table: &DriveTable) -> StripeShape {
    table.class_of(table.class).map_or(StripeShape::NONE, |class| class.shape)
}

/// Zones that are to move, as from a drive that leaves, and find no other place.
fn without_room(pool: &RedundantPool) -> Option<HealthReason> {
    let moves = pool.files().control().moves();
    let below = moves.iter().find_map(|it| match &it.waits_for {
        Some(MoveWait::HostRoom(error)) => Some(error),
        _ => None,
    });
    if let Some(error) = below {
        return Some(HealthReason {
            state: HealthState::Attention,
            message: format!("zones are to move, and there is no room below a drive: {error}"),
            advice:
                "free space on the file system that the drive lies on: moves go on by themselves"
                    .to_owned(),
        });
    }
    let zones = moves.iter().filter(|it| it.waits_for == Some(MoveWait::Room)).count();
    (zones > 0).then(|| HealthReason {
        state: HealthState::Attention,
        message: format!("{zones} zones are to move, and no drive has room for them"),
        advice: "add a drive: `varve drive add`, or delete data; a drive that leaves stays with `varve drive drain --cancel`, and a conversion is turned around with `varve pool set --cancel`".to_owned(),
    })
}

/// A pool that writes nothing any more, as more drives failed than may.
fn stopped(error: &varve_media::Error) -> HealthReason {
    HealthReason {
        state: HealthState::Unknown,
        message: format!("the pool writes nothing any more: {error}"),
        advice: "connect the drives that it lost, and start the daemon again".to_owned(),
    }
}

/// A pool that takes no change, and whose data may be old where a drive that is missing may have newer ones (OPEN-6).
fn reading_only(pool: &RedundantPool) -> Option<HealthReason> {
    let opened = pool.files().opened();
    let missing = opened.missing.len();
    let mut message = format!("the pool is open for reading only, without {missing} of its drives");
    if let Some(age) = opened.may_be_older {
        message += &format!(", and those that are there may be older than these: {age}");
    }
    let state = match opened.may_be_older {
        Some(_) => HealthState::Unknown,
        None => HealthState::Attention,
    };
    opened.is_read_only.then(|| HealthReason {
        state,
        message,
        advice: "copy what is needed; connect the drives that are missing, and start without --read-only".to_owned(),
    })
}

/// Drives that were there at the start, and without which the pool goes on, as they could not be used. What cannot be
/// told from others counts while any drive is failed.
fn unusable(pool: &RedundantPool, drives: &[Drive]) -> Vec<HealthReason> {
    let view = pool.files().view();
    let failed = || view.drives().drives.iter().filter(|it| it.state == RecordState::Failed);
    let at = |path: &str| drives.iter().find(|drive| drive.path == path)?.number;
    let reason = |it: &UnusableDrive| {
        let number = it.drive.map(DriveNumber::get).or_else(|| at(&it.path));
        let is_failed = |number: u8| failed().any(|record| record.number.get() == number);
        let (what, old) = match number {
            Some(number) if !is_failed(number) => return None,
            None if failed().next().is_none() => return None,
            Some(number) => (format!("drive {number}"), number.to_string()),
            None => ("a drive".to_owned(), "DRIVE".to_owned()),
        };
        let UnusableDrive { path, reason, .. } = it;
        Some(HealthReason {
            state: HealthState::Attention,
            message: format!("{what} at {path} could not be used at the start: {reason}"),
            advice: format!(
                "nothing is written to it; varve drive replace {old} PATH puts another one in its place"
            ),
        })
    };
    pool.files().opened().unusable.iter().filter_map(reason).collect()
}

/// Live drives that fail often, and that did not leave by themselves: others have no room, or are not all there.
fn failing(pool: &RedundantPool) -> Vec<HealthReason> {
    let view = pool.files().view();
    let is_live = |drive: DriveNumber| {
        view.drives().drive(drive).is_some_and(|record| record.state == RecordState::Live)
    };
    let errors = pool.files().control().recent_errors();
    let failing = errors.into_iter().filter(|it| it.errors >= ERRORS_MAX && is_live(it.drive));
    let reason = |RecentErrors { drive, errors }| HealthReason {
        state: HealthState::Attention,
        message: format!("{errors} reads of drive {drive} failed or were wrong within 10 minutes"),
        advice: "replace the drive with varve drive replace before it fails".to_owned(),
    };
    failing.map(reason).collect()
}

fn silent(report: &ShardReport) -> Option<HealthReason> {
    let trouble = report.status.trouble.as_deref().unwrap_or("it is being opened");
    let (state, advice) = match report.status.state {
        ShardState::Serving => return None,
        ShardState::Opening => (HealthState::Unknown, "wait, or look into the log"),
        ShardState::Damaged => (
            HealthState::Lost,
            "run varve check to see what it is about, and restore that from a backup",
        ),
    };
    let message = format!("shard {} does not serve: {trouble}", report.status.shard);
    Some(HealthReason { state, message, advice: advice.to_owned() })
}

fn report_of(pool: &RedundantPool, reports: &[ShardReport]) -> HealthReport {
    // Counts before the view: those of an earlier loss prove nothing, and are told apart.
    let control = pool.files().control();
    let (failing, suspects) = (control.failing_drives(), control.suspects());
    let counted = control.shard_facts();
    let view = pool.files().view();
    let view = &*view;
    let serving = reports.iter().filter(|report| report.status.state == ShardState::Serving);
    let shards: Vec<ShardFacts> = serving.map(|report| shard_facts(report, &counted)).collect();
    let has_roots = |drive: &&DriveRecord| {
        drive.state == RecordState::Live && drive.roles.has(DriveRoles::ROOTS)
    };
    // An opening brings all roots to all of them, and a drive that misses a replacement has failed.
    let root_drives: Vec<DriveNumber> =
        view.drives().drives.iter().filter(has_roots).map(|drive| drive.number).collect();
    let report = HealthReport::of(&HealthFacts {
        view,
        queue: &RepairQueue::of(view),
        shard_count: u16::try_from(reports.len()).unwrap_or(u16::MAX),
        shards: &shards,
        root_drives: &root_drives,
        failing: &failing,
        suspects,
    });
    // Of a pool that lost more drives than it may, nobody knows how many are left.
    let survives = report.survives.filter(|_| pool.files().failure().is_none());
    HealthReport { survives, ..report }
}

/// What a shard proves (REDUNDANCY-1): what its mover counts, and before that all it holds, until something was lost.
fn shard_facts(report: &ShardReport, counted: &[ShardFacts]) -> ShardFacts {
    let (shard, journal_tail) = (ShardId(report.status.shard), report.journal_tail);
    if let Some(facts) = counted.iter().find(|facts| facts.shard == shard) {
        return ShardFacts { journal_tail, ..*facts };
    }
    let (held, verified) = (report.used_segments, report.used_segments);
    let (counted_since, damaged, unreadable) = (Epoch(0), 0, 0);
    ShardFacts { shard, journal_tail, counted_since, held, verified, damaged, unreadable }
}

fn reason_of(reason: &varve_media_redundancy::HealthReason) -> HealthReason {
    let state = match reason.state() {
        ReportState::Ok => HealthState::Ok,
        ReportState::Attention => HealthState::Attention,
        ReportState::AtRisk => HealthState::AtRisk,
        ReportState::Unknown => HealthState::Unknown,
        ReportState::Lost => HealthState::Lost,
    };
    HealthReason { state, message: reason.to_string(), advice: reason.advice().to_owned() }
}

/// The drives of the tables, but those that are gone.
fn of_tables(pool: &RedundantPool, known: &[Drive], reports: &[ShardReport]) -> Vec<Drive> {
    let view = pool.files().view();
    let (spaces, sums) = (DriveSpaces::of(&view).ok(), error_sums(reports));
    let there = view.drives().drives.iter().filter(|it| it.state != RecordState::Gone);
    let drive = |record: &DriveRecord| {
        let (id, path) = (record.id.to_string(), path_of(pool, known, record));
        let (read_errors, write_errors) = errors_of(&path, reports);
        let [_, _, checksum_errors, timeouts] =
            sums.get(&record.number).copied().unwrap_or_default();
        let free = spaces.as_ref().and_then(|spaces| spaces.drive(record.number));
        let used = free.map(|free| free.units().saturating_sub(free.total()));
        let growing = Some(record).filter(|it| it.state == RecordState::Live);
        let growable = growing.and_then(|record| pool.files().growable_bytes(record));
        Drive {
            size_bytes: Some(bytes_of(record)),
            read_errors,
            write_errors,
            checksum_errors,
            timeouts,
            number: Some(record.number.get()),
            id: Some(id),
            name: Some(record.name.clone()),
            kind: Some(record.kind.word().to_owned()),
            state: Some(state_of(record.state)),
            since_unix_ms: Some(record.since_unix_ms),
            is_slow: record.is_slow,
            growable_bytes: growable.filter(|bytes| *bytes > 0),
            used_bytes: used.map(|units| u64::from(units) * UNIT_BYTES),
            condition: None,
            path,
        }
    };
    there.map(drive).collect()
}

/// Where a drive is, or was last.
fn path_of(pool: &RedundantPool, remembered: &[Drive], record: &DriveRecord) -> String {
    let id = record.id.to_string();
    let remembered = || remembered.iter().find(|drive| drive.id.as_ref() == Some(&id));
    let path = pool.files().path_of(record.number);
    let path = path.or_else(|| remembered().map(|drive| drive.path.clone()));
    path.unwrap_or_else(|| record.name.clone())
}

const fn state_of(state: RecordState) -> DriveState {
    match state {
        RecordState::Live => DriveState::Live,
        RecordState::Joining => DriveState::Joining,
        RecordState::Leaving => DriveState::Leaving,
        RecordState::Failed => DriveState::Failed,
        RecordState::Gone => DriveState::Gone,
    }
}

fn state_metric(table: &DriveTable) -> Metric {
    let help = "What a drive is to the pool: 1 for its state, 0 for the others.";
    let mut metric = Metric::new("varve_drive_state", help, MetricKind::Gauge);
    for drive in &table.drives {
        for state in DriveState::ALL {
            let labels =
                vec![("drive", drive.number.to_string()), ("state", state.word().to_owned())];
            let value = u64::from(state_of(drive.state) == state);
            metric.samples.push(Sample { labels, value });
        }
    }
    metric
}

/// Current copies of a journal on drives that can be read.
fn copies_of(view: &LayoutView, journal: &JournalRecord) -> usize {
    let is_there = |drive: DriveNumber| {
        view.drives().drive(drive).is_some_and(|record| record.state.is_readable())
    };
    journal.current().filter(|copy| is_there(copy.drive)).count()
}

/// Reads and writes that failed, wrong checksums, and operations without an answer, of each drive on all threads.
fn error_sums(reports: &[ShardReport]) -> BTreeMap<DriveNumber, [u64; 4]> {
    let mut sums = BTreeMap::<_, [u64; 4]>::new();
    for errors in reports.iter().flat_map(|report| &report.drives) {
        let DriveFigures { drive, reads, writes, checksums, timeouts, .. } = *errors;
        let sum = sums.entry(drive).or_default();
        for (sum, count) in sum.iter_mut().zip([reads, writes, checksums, timeouts]) {
            *sum = sum.saturating_add(count);
        }
    }
    sums
}

fn error_metric(table: &DriveTable, reports: &[ShardReport]) -> Metric {
    let help = "Operations that failed on the drive since the start.";
    let mut metric = Metric::new("varve_drive_errors_total", help, MetricKind::Counter);
    let sums = error_sums(reports);
    for drive in table.drives.iter().map(|drive| drive.number) {
        let counts = sums.get(&drive).copied().unwrap_or_default();
        for (kind, value) in ["read", "write", "checksum", "timeout"].into_iter().zip(counts) {
            let labels = vec![("drive", drive.to_string()), ("kind", kind.to_owned())];
            metric.samples.push(Sample { labels, value });
        }
    }
    metric
}

fn latency_metric(reports: &[ShardReport]) -> Metric {
    let help = "What 99 of 100 of the last operations on the drive did not exceed, on the thread where that is most.";
    let mut metric = Metric::new("varve_drive_latency_seconds", help, MetricKind::Gauge);
    let mut most: BTreeMap<DriveNumber, [u64; 2]> = BTreeMap::new();
    for figures in reports.iter().flat_map(|report| &report.drives) {
        let [read, write] = most.entry(figures.drive).or_default();
        (*read, *write) = (figures.read_p99_us.max(*read), figures.write_p99_us.max(*write));
    }
    for (drive, latencies) in most {
        for (kind, value) in ["read", "write"].into_iter().zip(latencies) {
            let labels = vec![("drive", drive.to_string()), ("kind", kind.to_owned())];
            metric.samples.push(Sample { labels, value });
        }
    }
    metric
}

fn exposed_metric(view: &LayoutView) -> Metric {
    let help = "Zones, by how many more drives they survive the loss of.";
    let mut metric = Metric::new("varve_redundancy_exposed_zones", help, MetricKind::Gauge);
    let queue = RepairQueue::of(view);
    let mut counts = BTreeMap::<String, u64>::new();
    counts.insert("lost".to_owned(), 0);
    for left in 0..=view.drives().drops_max {
        counts.insert(left.to_string(), 0);
    }
    for zones in queue.exposed() {
        let label = match zones.exposure {
            Exposure::Lost => "lost".to_owned(),
            Exposure::Survives(left) => left.to_string(),
        };
        *counts.entry(label).or_default() += u64::from(zones.zones);
    }
    for (exposure, value) in counts {
        metric.samples.push(Sample { labels: vec![("exposure", exposure)], value });
    }
    metric
}

fn copies_metric(view: &LayoutView) -> Metric {
    let help = "Current copies of the shard's journal on drives that can be read.";
    let mut metric = Metric::new("varve_redundancy_journal_copies", help, MetricKind::Gauge);
    for journal in view.journals() {
        let copies = copies_of(view, journal) as u64;
        let labels = vec![("shard", journal.shard.to_string())];
        metric.samples.push(Sample { labels, value: copies });
    }
    metric
}
