//! What is known of all drives now, for the API, health and metrics.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use varve_access_admin::v1::{Drive, DriveCondition, DriveState, HealthReason, HealthState};
use varve_access_admin::{Metric, MetricKind, Sample};

use crate::config::Settings;

/// How much longer than its interval a look may take before it is overdue: drives are asked one after another, and each
/// within its limit.
const OVERDUE: Duration = Duration::from_secs(300);

/// The conditions of a pool's drives, by their paths. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct DriveConditions {
    /// How often drives are asked; never where it is absent.
    interval: Option<Duration>,
    /// Whether a drive with a critical warning is to leave.
    leaves_on_warning: bool,
    /// The last looks; held for moments.
    looks: Arc<Mutex<BTreeMap<String, DriveLook>>>,
}

#[derive(Clone, Debug)]
struct DriveLook {
    condition: DriveCondition,
    /// From when on it is overdue.
    until: Instant,
}

impl DriveConditions {
    /// Nothing is known yet.
    pub(crate) fn new(settings: &Settings) -> Self {
        let interval_s = settings.redundancy.condition_s;
        Self {
            interval: (interval_s > 0).then(|| Duration::from_secs(interval_s.into())),
            leaves_on_warning: settings.redundancy.leaves_on_warning,
            looks: Arc::default(),
        }
    }

    pub(super) const fn interval(&self) -> Option<Duration> {
        self.interval
    }

    pub(super) const fn leaves_on_warning(&self) -> bool {
        self.leaves_on_warning
    }

    fn looks(&self) -> MutexGuard<'_, BTreeMap<String, DriveLook>> {
        self.looks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// These are the drives now.
    pub(super) fn begin(&self, paths: &[String]) {
        let mut looks = self.looks();
        looks.retain(|path, _| paths.contains(path));
        for path in paths {
            looks.entry(path.clone()).or_insert_with(|| DriveLook {
                condition: unknown("it was not asked yet".to_owned()),
                until: Instant::now() + OVERDUE,
            });
        }
    }

    /// A look at a drive; returns the one before.
    pub(super) fn set(&self, path: &str, condition: DriveCondition) -> Option<DriveCondition> {
        let until = Instant::now() + self.interval.unwrap_or_default() + OVERDUE;
        let mut looks = self.looks();
        let look = looks.get_mut(path)?; // It may have left.
        look.until = until;
        Some(std::mem::replace(&mut look.condition, condition))
    }

    /// What is known of a drive (CONDITION-3).
    pub(crate) fn of(&self, path: &str) -> Option<DriveCondition> {
        let look = self.looks().get(path)?.clone();
        Some(if Instant::now() < look.until {
            look.condition
        } else {
            let reason = "the last look at it has not ended: a drive hangs".to_owned();
            let DriveCondition { device, below_file_system, asked_unix_ms, .. } = look.condition;
            DriveCondition { device, below_file_system, asked_unix_ms, ..unknown(reason) }
        })
    }

    /// The same drives with their conditions.
    pub(crate) fn with(&self, drives: Vec<Drive>) -> Vec<Drive> {
        let with = |drive: Drive| Drive { condition: self.of(&drive.path), ..drive };
        drives.into_iter().map(with).collect()
    }
}

/// That a drive does not say anything (CONDITION-1).
pub(super) fn unknown(reason: String) -> DriveCondition {
    DriveCondition { known: false, unknown_reason: Some(reason), ..DriveCondition::default() }
}

/// What people call a drive: its number where it has one.
pub(super) fn title(drive: &Drive) -> String {
    match drive.number {
        Some(number) => format!("drive {number} ({})", drive.path),
        None => format!("drive {}", drive.path),
    }
}

/// What is wrong with drives by their own words, for health. What is not known is no reason: it says nothing of data.
pub(crate) fn reasons(drives: &[Drive]) -> Vec<HealthReason> {
    let of_drive = |drive: &Drive| {
        let warnings = drive.condition.iter().flat_map(|it| it.warnings.clone());
        let title = title(drive);
        warnings
            .map(|warning| HealthReason {
                state: HealthState::Attention,
                message: format!("{title}: {}", warning.message),
                advice: warning.advice,
            })
            .collect::<Vec<_>>()
    };
    // What a drive says that nothing is read from any more is of no use.
    let is_used =
        |drive: &&Drive| !matches!(drive.state, Some(DriveState::Failed | DriveState::Gone));
    drives.iter().filter(is_used).flat_map(of_drive).collect()
}

/// A figure of a drive: its name, what it is, and where it stands.
type ConditionFigure = (&'static str, &'static str, fn(&DriveCondition) -> Option<u64>);

/// What monitoring gets of the conditions. What a drive does not tell has no sample.
pub(crate) fn metrics(drives: &[Drive]) -> Vec<Metric> {
    const GAUGES: [ConditionFigure; 5] = [
        (
            "varve_drive_wear_ratio",
            "How much of the drive's rated life is used, by itself; may exceed 1.",
            |it| it.wear_percent,
        ),
        ("varve_drive_spare_ratio", "How much of the drive's spare flash is left.", |it| {
            it.spare_percent
        }),
        ("varve_drive_temperature_celsius", "Temperature of the drive; 0 below 0.", |it| {
            it.temperature_celsius.map(|celsius| u64::try_from(celsius).unwrap_or(0))
        }),
        ("varve_drive_pending_sectors", "Sectors of the drive that cannot be read.", |it| {
            it.pending_sectors
        }),
        ("varve_drive_power_on_hours", "Hours for which the drive had power.", |it| {
            it.power_on_hours
        }),
    ];
    const COUNTERS: [ConditionFigure; 2] = [
        (
            "varve_drive_media_errors_total",
            "Reads and writes that the drive could not carry out in its life, by itself.",
            |it| it.media_errors,
        ),
        (
            "varve_drive_written_bytes_total",
            "Bytes written to the drive in its life, by itself.",
            |it| it.written_bytes,
        ),
    ];
    let asked = || drives.iter().filter_map(|it| it.condition.as_ref().map(|known| (it, known)));
    let mut known = Metric::new(
        "varve_drive_condition_known",
        "Whether the drive says how it is: 1, or 0 where it cannot be asked.",
        MetricKind::Gauge,
    );
    let mut warning = Metric::new(
        "varve_drive_warning",
        "1 for each thing that the drive warns of now, or that follows from what it says; no sample for others.",
        MetricKind::Gauge,
    );
    for (drive, condition) in asked() {
        let label = || ("drive", label(drive));
        known.samples.push(Sample { labels: vec![label()], value: condition.known.into() });
        let warnings = condition.warnings.iter();
        warning.samples.extend(
            warnings
                .map(|it| Sample { labels: vec![label(), ("kind", it.kind.clone())], value: 1 }),
        );
    }
    let of = |name, help, kind, value: fn(&DriveCondition) -> Option<u64>| {
        let mut metric = Metric::new(name, help, kind);
        let samples = asked().filter_map(|(drive, condition)| {
            let labels = vec![("drive", label(drive))];
            value(condition).map(|value| Sample { labels, value })
        });
        metric.samples.extend(samples);
        metric
    };
    let gauges = GAUGES.map(|(name, help, value)| of(name, help, MetricKind::Gauge, value));
    let counters = COUNTERS.map(|(name, help, value)| of(name, help, MetricKind::Counter, value));
    let all = [known, warning].into_iter().chain(gauges).chain(counters);
    all.filter(|metric| !metric.samples.is_empty()).collect()
}

fn label(drive: &Drive) -> String {
    drive.number.map_or_else(|| drive.path.clone(), |number| number.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conditions(interval_s: u32) -> DriveConditions {
        let mut settings = Settings::default();
        settings.redundancy.condition_s = interval_s;
        DriveConditions::new(&settings)
    }

    #[test]
    fn a_drive_is_not_known_before_it_was_asked_and_when_a_look_is_overdue() {
        let table = conditions(600);
        let paths = ["/a".to_owned(), "/b".to_owned()];
        table.begin(&paths);
        assert!(!table.of("/a").unwrap().known);
        let well = DriveCondition { known: true, ..DriveCondition::default() };
        assert!(!table.set("/a", well.clone()).unwrap().known);
        assert!(table.of("/a").unwrap().known);
        assert_eq!(table.set("/c", well), None, "it is no drive of the pool");
        for look in table.looks().values_mut() {
            look.until = Instant::now();
        }
        let late = table.of("/a").unwrap();
        assert!(!late.known && late.unknown_reason.unwrap().contains("hangs"), "CONDITION-3");
        table.begin(&paths[1..]);
        assert_eq!(table.of("/a"), None);
        assert_eq!(conditions(0).interval(), None);
    }

    #[test]
    fn what_is_not_known_is_neither_a_reason_nor_a_figure() {
        let drive = |number: u8, condition| Drive {
            path: format!("/srv/{number}"),
            number: Some(number),
            condition: Some(condition),
            ..Drive::default()
        };
        let warning = varve_access_admin::v1::DriveWarning {
            kind: "read_only".to_owned(),
            is_critical: true,
            message: "it takes no more writes".to_owned(),
            advice: "replace it".to_owned(),
        };
        let failing = DriveCondition {
            known: true,
            wear_percent: Some(97),
            warnings: vec![warning],
            ..DriveCondition::default()
        };
        let drives = [drive(0, failing), drive(1, unknown("no permission".to_owned()))];
        let reasons = reasons(&drives);
        assert_eq!(reasons.len(), 1);
        assert_eq!(reasons[0].message, "drive 0 (/srv/0): it takes no more writes");
        let failed = Drive { state: Some(DriveState::Failed), ..drives[0].clone() };
        assert_eq!(super::reasons(&[failed]), [], "nothing is read from it any more");
        let metrics = metrics(&drives);
        let samples = |name: &str| {
            let metric = metrics.iter().find(|it| it.name == name);
            metric.map(|it| it.samples.iter().map(|it| it.value).collect::<Vec<_>>())
        };
        assert_eq!(samples("varve_drive_condition_known"), Some(vec![1, 0]));
        assert_eq!(samples("varve_drive_wear_ratio"), Some(vec![97]));
        assert_eq!(samples("varve_drive_warning"), Some(vec![1]));
        assert_eq!(samples("varve_drive_spare_ratio"), None);
    }
}
