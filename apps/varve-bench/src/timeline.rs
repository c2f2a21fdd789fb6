//! What a machine did from moment to moment within the windows of a result: `usage.json` beside its report, and curves
//! of it.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use varve_tool_bench::MachineUsage;

use super::chart::Curve;
use super::outcome::RunOutcome;
use super::sampler::Timeline;
use super::saved::{REPORT, SavedResult};

/// Name of the file.
pub(super) const USAGE: &str = "usage.json";

/// Of each run, and of each of its repeats, what was used from moment to moment. Fields are added over time, never
/// renamed.
#[derive(Clone, Default, Serialize, Deserialize, Debug)]
pub struct Timelines {
    runs: Vec<Vec<Vec<Moment>>>,
}

/// Use since the moment before.
#[derive(Clone, Serialize, Deserialize, Debug)]
struct Moment {
    /// Since the beginning of the window.
    at_ms: u64,
    usage: MachineUsage,
}

/// What is drawn of a moment; nothing where there is nothing of it.
type Drawn = fn(&MachineUsage) -> Option<f64>;

impl Timelines {
    /// Those of runs.
    pub fn of(outcomes: &[RunOutcome]) -> Self {
        let windows =
            |run: &RunOutcome| run.repeats.iter().map(|one| one.timeline.clone()).collect();
        Self::of_windows(outcomes.iter().map(windows).collect())
    }

    /// Those of the windows of runs.
    pub(super) fn of_windows(runs: Vec<Vec<Timeline>>) -> Self {
        let moment = |(at, usage): (Duration, MachineUsage)| Moment {
            at_ms: u64::try_from(at.as_millis()).unwrap_or(u64::MAX),
            usage,
        };
        let window = |moments: Vec<_>| moments.into_iter().map(moment).collect();
        let windows = |run: Vec<_>| run.into_iter().map(window).collect();
        Self { runs: runs.into_iter().map(windows).collect() }
    }

    /// Reads those of a result. They are there for pictures alone: a file of JSON has none, and what cannot be read is
    /// none.
    pub(crate) fn read(path: &Path) -> Self {
        let is_report = path.file_name().is_some_and(|name| name == REPORT);
        let folder = if path.is_dir() { Some(path) } else { path.parent().filter(|_| is_report) };
        let text = folder.and_then(|folder| fs::read_to_string(folder.join(USAGE)).ok());
        text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
    }

    /// Shares of what there is, in percent, over the time of all windows.
    pub(super) fn shares(&self, name: &str, saved: &SavedResult) -> Vec<Curve> {
        let all: [(&str, Drawn); 3] = [
            ("processors", |usage| Some(usage.cpus_busy / f64::from(usage.cpus.max(1)) * 100.0)),
            ("busiest disk", |usage| most(usage.disks.iter().map(|disk| disk.busy_percent))),
            ("busiest network", |usage| {
                let shares = usage.nets.iter().filter_map(|net| {
                    let moved = net.received_bytes_per_second.max(net.sent_bytes_per_second);
                    Some(moved / net.bytes_per_second_max? as f64 * 100.0)
                });
                most(shares)
            }),
        ];
        let mut curves = self.curves(name, saved, &all);
        // Counters and clocks are not read at one moment: what comes out beyond the whole is that.
        for (_, share) in curves.iter_mut().flat_map(|curve| &mut curve.points) {
            *share = share.min(100.0);
        }
        curves
    }

    /// MiB a second of the disk and of the network that move most, both ways together.
    pub(super) fn bytes(&self, name: &str, saved: &SavedResult) -> Vec<Curve> {
        let all: [(&str, Drawn); 2] = [
            ("disk", |usage| {
                let disks = usage.disks.iter();
                most(disks.map(|disk| disk.read_bytes_per_second + disk.write_bytes_per_second))
                    .map(mib)
            }),
            ("network", |usage| {
                let nets = usage.nets.iter();
                most(nets.map(|net| net.received_bytes_per_second + net.sent_bytes_per_second))
                    .map(mib)
            }),
        ];
        self.curves(name, saved, &all)
    }

    /// Those that have a point.
    fn curves(&self, name: &str, saved: &SavedResult, all: &[(&str, Drawn)]) -> Vec<Curve> {
        let moments = self.moments(saved);
        let curves = all.iter().map(|(what, drawn)| Curve {
            name: format!("{name}: {what}"),
            points: moments.iter().filter_map(|(at, usage)| Some((*at, drawn(usage)?))).collect(),
        });
        curves.filter(|curve| !curve.points.is_empty()).collect()
    }

    /// All moments, with the time of all windows until then, in s.
    fn moments(&self, saved: &SavedResult) -> Vec<(f64, &MachineUsage)> {
        let mut all = Vec::new();
        let mut begin_ms = 0_u64;
        for (run, repeats) in saved.runs.iter().zip(&self.runs) {
            for (window, moments) in run.repeats.iter().zip(repeats) {
                let at_s = |moment: &Moment| begin_ms.saturating_add(moment.at_ms) as f64 / 1000.0;
                all.extend(moments.iter().map(|moment| (at_s(moment), &moment.usage)));
                begin_ms = begin_ms.saturating_add(window.window_ms);
            }
        }
        all
    }
}

fn most(all: impl Iterator<Item = f64>) -> Option<f64> {
    all.max_by(f64::total_cmp)
}

fn mib(bytes: f64) -> f64 {
    bytes / f64::from(1 << 20)
}
