//! What a run gave, for people and for programs.

use serde::{Deserialize, Serialize};
use varve_client::table::{Align, columns, labelled};
use varve_client::{Failure, Result};
use varve_tool_bench::fio::{FioRun, FioSide};
use varve_tool_bench::{KindTotals, MachineUsage, Measurement, Point};
use varve_types::ByteCount;

use super::figures::{RepeatFigures, ResultOrigin, Window, both};
use super::health::Health;
use super::load::Load;
use super::outcome::{RunOutcome, Settlement};
use super::plan::{LoadTarget, RunPlan};
use super::rados_terms::in_its_terms;
use super::sampler::Timeline;

/// Titles of the columns of figures.
pub(crate) const COLUMNS: [&str; 11] =
    ["OPS/S", "±", "MiB/s", "MEAN µs", "p50", "p90", "p95", "p99", "p99.9", "p99.99", "MAX"];

/// Names of what else may be said of a run.
const NOTES: [&str; 6] = ["filled", "snapshots", "reduced", "rados bench", "settings", "search"];

/// What clocks and beginnings of hosts may differ by at least, in ms.
const APART_MS: u64 = 250;

/// A report; its fields are added to over time, never renamed.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct BenchReport {
    /// Where the load went.
    pub target: String,
    size_bytes: u64,
    /// The load.
    pub load: Load,
    fill: bool,
    ramp_ms: u64,
    duration_ms: u64,
    /// Time after which the rate had settled, where that was waited for.
    #[serde(default)]
    settled_after_ms: Option<u64>,
    /// Whether it was ended early; then the last repeat is short.
    interrupted: bool,
    /// Whether the measured system was well, where somebody knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    health: Option<Health>,
    /// Why its figures mean nothing; empty when they do.
    #[serde(default)]
    pub invalid: Vec<String>,
    /// Blocks that were read back and found right.
    verified_blocks: Option<u64>,
    /// Objects likewise.
    #[serde(default)]
    verified_objects: Option<u64>,
    /// Operations that failed; a load of blocks ends with the first one.
    #[serde(default)]
    failures: u64,
    /// What else is to be said of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    notes: Vec<(String, String)>,
    pub(crate) repeats: Vec<Window>,
    /// All repeats together.
    pub(crate) reads: Option<RepeatFigures>,
    pub(crate) writes: Option<RepeatFigures>,
    #[serde(default)]
    pub(crate) lists: Option<RepeatFigures>,
    #[serde(default)]
    pub(crate) deletes: Option<RepeatFigures>,
    /// Flushes that writes waited for, where another tool measured them apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) syncs: Option<RepeatFigures>,
    /// Figures of reads and writes together.
    pub both: RepeatFigures,
    not_begun: u64,
}

impl BenchReport {
    /// The report of a run.
    pub fn of(plan: &RunPlan, outcome: &RunOutcome) -> Self {
        let figures =
            |side: &dyn Fn(&Measurement) -> KindTotals| RepeatFigures::of(&outcome.repeats, side);
        let some = |side: &dyn Fn(&Measurement) -> KindTotals| {
            Some(figures(side)).filter(RepeatFigures::is_any)
        };
        let has_objects = matches!(plan.goal, LoadTarget::Objects(_));
        let windows = outcome.repeats.iter().map(|repeat| Window::of(&plan.load, repeat));
        let windows: Vec<Window> = windows.collect();
        let mut report = Self {
            target: plan.goal.to_string(),
            size_bytes: outcome.size_bytes,
            load: Load::of_plan(plan),
            fill: plan.fill,
            ramp_ms: plan.ramp_ms,
            duration_ms: plan.duration_ms,
            settled_after_ms: match outcome.settling {
                Settlement::After { ms } => Some(ms),
                Settlement::NotAsked | Settlement::Never { .. } => None,
            },
            interrupted: outcome.is_interrupted,
            health: outcome.health.clone(),
            invalid: invalid(outcome).into_iter().chain(contradiction(&windows)).collect(),
            verified_blocks: outcome.verified.filter(|_| !has_objects),
            verified_objects: outcome.verified.filter(|_| has_objects),
            failures: outcome.repeats.iter().map(|repeat| repeat.measured.failures).sum(),
            repeats: windows,
            both: figures(&both),
            reads: some(&|window| window.reads.clone()),
            writes: some(&|window| window.writes.clone()),
            lists: some(&|window| window.lists.clone()),
            deletes: some(&|window| window.deletes.clone()),
            syncs: None,
            not_begun: outcome.repeats.iter().map(|repeat| repeat.measured.not_begun).sum(),
            notes: outcome.notes.clone(),
        };
        report.notes.extend(plan.note.iter().map(|text| ("also".to_owned(), text.clone())));
        if matches!(plan.goal, LoadTarget::Rados(_)) {
            let terms = in_its_terms(&report);
            report.notes.extend(terms.map(|text| ("rados bench".to_owned(), text)));
        }
        report
    }

    /// Says of each run under a setting how it stands beside the first one under another that is the same but for that.
    pub fn beside_first(runs: &mut [Self]) {
        let rates: Vec<(Load, f64)> =
            runs.iter().map(|run| (run.load.clone(), run.both.operations_per_second)).collect();
        for (at, run) in runs.iter_mut().enumerate() {
            let first = rates[..at].iter().find_map(|(load, rate)| {
                let setting = run.load.setting_beside(load)?;
                (*rate > 0.0).then(|| (setting, run.both.operations_per_second / rate))
            });
            let text = first.map(|(setting, ratio)| {
                format!("{ratio:.2} times the operations/s under {setting}")
            });
            run.notes.extend(text.map(|text| ("settings".to_owned(), text)));
        }
    }

    /// Says that it was ended early.
    pub fn end_early(&mut self) {
        self.interrupted = true;
    }

    /// What scores are told from.
    pub(crate) fn point(&self) -> Point {
        let p99 = |figures: &RepeatFigures| figures.latency_us.p99;
        let figures = &self.both;
        Point {
            name: self.load.without_setting(),
            setting: self.load.setting.clone(),
            is_valid: self.invalid.is_empty(),
            jobs: self.load.jobs,
            read_percent: self.load.read_percent,
            rate: figures.operations_per_second,
            bytes_rate: figures.bytes_per_second,
            mean_us: figures.latency_us.mean,
            p99_us: figures.latency_us.p99,
            p99_us_by_kind: [self.reads.as_ref().map(p99), self.writes.as_ref().map(p99)],
            max_us: figures.latency_us.max,
            window_ms: self.repeats.iter().map(|window| window.window_ms).min().unwrap_or(0),
        }
    }

    /// The report of what fio ran.
    pub(crate) fn of_fio(run: &FioRun) -> Self {
        let figures = |side: &FioSide| RepeatFigures::of_fio(side, run.window_ms);
        let windows = vec![Window::of_fio(run)];
        Self {
            target: format!("job `{}` of fio", run.job.name),
            size_bytes: run.job.size_bytes.unwrap_or(0),
            load: Load::of_fio(run),
            fill: false,
            ramp_ms: run.job.ramp_ms,
            duration_ms: run.window_ms,
            settled_after_ms: None,
            interrupted: false,
            health: None,
            invalid: contradiction(&windows).into_iter().collect(),
            verified_blocks: None,
            verified_objects: None,
            failures: 0,
            notes: fio_notes(run),
            repeats: windows,
            reads: run.reads.as_ref().map(figures),
            writes: run.writes.as_ref().map(figures),
            lists: None,
            deletes: None,
            syncs: run.syncs.as_ref().map(figures),
            both: figures(&run.both),
            not_begun: 0,
        }
    }

    /// Those of several hosts as one, each with its name.
    pub(crate) fn merged(parts: &[(ResultOrigin<'_>, &Self)]) -> Result<Self> {
        let reports = || parts.iter().map(|(_, report)| *report);
        let loads: Vec<&Load> = reports().map(|report| &report.load).collect();
        let load = Load::merged(&loads).ok_or_else(|| {
            let loads: Vec<String> = loads.iter().map(|load| load.text()).collect();
            Failure::new(format!("the loads differ: {}", loads.join("; ")))
                .hint("hosts may differ in jobs, rate, seed and target alone")
        })?;
        let count = reports().map(|report| report.repeats.len()).min().unwrap_or(0);
        if reports().any(|report| report.repeats.len() != count) {
            return Err(Failure::new("the hosts have different numbers of windows"));
        }
        let without = || {
            let what = "a result has no histogram of each window";
            Failure::new(what)
                .hint("measure again: it is of an earlier version, or of fio without json+")
        };
        let windows = (0..count).map(|at| {
            let parts: Vec<(ResultOrigin<'_>, &Window)> = parts
                .iter()
                .filter_map(|(origin, one)| Some((*origin, one.repeats.get(at)?)))
                .collect();
            Window::merged(&parts).ok_or_else(without)
        });
        let windows: Vec<Window> = windows.collect::<Result<_>>()?;
        let side = |of: fn(&Self) -> Option<&RepeatFigures>| {
            let figures: Vec<&RepeatFigures> = reports().filter_map(of).collect();
            let merged = (!figures.is_empty()).then(|| RepeatFigures::merged(&figures, &[]));
            merged.map(|merged| merged.ok_or_else(without)).transpose()
        };
        let sides: Vec<&RepeatFigures> = reports().map(|report| &report.both).collect();
        let mut targets: Vec<&str> = reports().map(|report| report.target.as_str()).collect();
        targets.dedup();
        let sum = |of: fn(&Self) -> Option<u64>| reports().map(of).sum::<Option<u64>>();
        let health: Vec<_> =
            parts.iter().map(|(origin, one)| (*origin, one.health.as_ref())).collect();
        Ok(Self {
            target: targets.join(", "),
            size_bytes: reports().map(|report| report.size_bytes).sum(),
            load,
            fill: reports().all(|report| report.fill),
            ramp_ms: reports().map(|report| report.ramp_ms).max().unwrap_or(0),
            duration_ms: reports().map(|report| report.duration_ms).max().unwrap_or(0),
            settled_after_ms: None,
            interrupted: reports().any(|report| report.interrupted),
            health: Health::merged(&health),
            invalid: why_invalid(parts, &loads, count),
            verified_blocks: sum(|report| report.verified_blocks),
            verified_objects: sum(|report| report.verified_objects),
            failures: reports().map(|report| report.failures).sum(),
            reads: side(|report| report.reads.as_ref())?,
            writes: side(|report| report.writes.as_ref())?,
            lists: side(|report| report.lists.as_ref())?,
            deletes: side(|report| report.deletes.as_ref())?,
            syncs: side(|report| report.syncs.as_ref())?,
            both: RepeatFigures::merged(&sides, &windows).ok_or_else(without)?,
            not_begun: reports().map(|report| report.not_begun).sum(),
            notes: searched(parts),
            repeats: windows,
        })
    }

    /// Adds how the system of all clients was.
    pub(super) fn told_health(&mut self, health: Option<Health>) {
        self.invalid.extend(health.as_ref().and_then(unwell));
        self.health = health.or(self.health.take());
    }

    /// Adds what the machine of all clients did in each window; what it did from moment to moment.
    pub(super) fn observe(
        &mut self,
        seen: impl Fn(&Window) -> (Option<MachineUsage>, Timeline),
    ) -> Vec<Timeline> {
        let load = &self.load;
        let windows = self.repeats.iter_mut().map(|window| {
            let (usage, timeline) = seen(window);
            window.observe(load, usage);
            timeline
        });
        windows.collect()
    }

    /// For people.
    pub fn text(&self) -> String {
        format!("{}\n{}", labelled(&self.facts()), self.table())
    }

    /// What was done, and what is to be said of the figures.
    pub(crate) fn facts(&self) -> Vec<(&'static str, String)> {
        let fill = if self.fill { ", written once before" } else { "" };
        let seconds = |ms: u64| format!("{} s", ms as f64 / 1000.0);
        let count = self.repeats.len();
        let early = if self.interrupted { ", ended early" } else { "" };
        let time = format!(
            "{count} × {} after {}{early}",
            seconds(self.duration_ms),
            seconds(self.ramp_ms)
        );
        let mut pairs = vec![("target", self.target.clone()), ("load", self.load.text())];
        if self.size_bytes > 0 {
            pairs.insert(1, ("used", format!("{}{fill}", ByteCount(self.size_bytes))));
        }
        if self.load.read_percent < 100 || self.load.objects.is_some() {
            pairs.push(("writes", self.load.data()));
        }
        pairs.push(("time", time));
        if let Some(ms) = self.settled_after_ms {
            pairs.push(("settled", format!("after {}", seconds(ms))));
        }
        pairs.extend(self.health.as_ref().map(|health| ("health", health.text())));
        if self.not_begun > 0 {
            let text = format!(
                "{} operations when time was up: the target is slower than the rate",
                self.not_begun
            );
            pairs.push(("not begun", text));
        }
        if let Some(blocks) = self.verified_blocks {
            pairs.push(("verified", format!("{blocks} blocks hold what was written last")));
        }
        if let Some(objects) = self.verified_objects {
            pairs.push(("verified", format!("{objects} objects hold what was written last")));
        }
        pairs.extend(self.notes.iter().map(|(name, text)| {
            let known = NOTES.into_iter().find(|known| known == name);
            (known.unwrap_or("also"), text.clone())
        }));
        pairs.extend(self.invalid.iter().map(|why| ("INVALID", why.clone())));
        let unsettled = self.repeats.iter().filter(|window| window.settled == Some(false)).count();
        if unsettled > 0 {
            pairs.push((
                "unsteady",
                format!("the rate of {unsettled} of {count} windows was not level"),
            ));
        }
        pairs.extend(self.repeats.last().into_iter().flat_map(|window| window.layers.facts()));
        pairs.extend(self.bound().map(|text| ("bound by", text)));
        pairs
    }

    /// What bounds the last repeat.
    fn bound(&self) -> Option<String> {
        let mut findings = self.repeats.last()?.findings.iter();
        Some(findings.find(|found| !found.is_contradiction())?.text.clone())
    }

    fn table(&self) -> String {
        let titles = COLUMNS.map(|title| (title, Align::Right));
        let header: Vec<(&str, Align)> = std::iter::once(("", Align::Left)).chain(titles).collect();
        columns(&header, &self.rows())
    }

    /// Rows of figures, each with its name in front.
    pub(crate) fn rows(&self) -> Vec<Vec<String>> {
        self.rows_by(RepeatFigures::row)
    }

    /// The same with latencies in units that fit them.
    pub(crate) fn scaled_rows(&self) -> Vec<Vec<String>> {
        self.rows_by(RepeatFigures::scaled_row)
    }

    fn rows_by(&self, row: impl Fn(&RepeatFigures, &str) -> Vec<String>) -> Vec<Vec<String>> {
        let sides = [
            ("reads", self.reads.as_ref()),
            ("writes", self.writes.as_ref()),
            ("lists", self.lists.as_ref()),
            ("deletes", self.deletes.as_ref()),
        ];
        let count = sides.iter().filter(|(_, figures)| figures.is_some()).count();
        let all = if count > 2 { "all" } else { "both" };
        // Where reads and writes were measured as one, that is all there is.
        let all = (all, Some(&self.both).filter(|_| count != 1));
        let rows = sides.into_iter().chain([all, ("syncs", self.syncs.as_ref())]);
        rows.filter_map(|(name, figures)| figures.map(|figures| row(figures, name))).collect()
    }
}

/// What of figures of fio is not what it seems.
fn fio_notes(run: &FioRun) -> Vec<(String, String)> {
    let also = |text: &str| ("also".to_owned(), text.to_owned());
    let mut notes = Vec::new();
    let is_unknown = run.both.percentiles_ns.iter().all(|percentile| *percentile == 0);
    if is_unknown && run.both.mean_ns == 0.0 {
        notes.push(also("latencies were not measured: gtod_reduce or disable_lat"));
    } else if is_unknown {
        notes.push(also(
            "percentiles of all operations are not known: fio --output-format=json+ has the histograms",
        ));
    }
    if run.syncs.is_some() {
        notes
            .push(also("flushes (fsync, fdatasync) are the row syncs: writes do not include them"));
    }
    notes
}

/// Why clients ended their search.
fn searched(parts: &[(ResultOrigin<'_>, &BenchReport)]) -> Vec<(String, String)> {
    let notes = parts.iter().flat_map(|(ResultOrigin { name, .. }, report)| {
        let searched = report.notes.iter().filter(|(kind, _)| kind == "search");
        searched.map(move |(kind, text)| (kind.clone(), format!("{name}: {text}")))
    });
    notes.collect()
}

/// Why the figures of several hosts are not to be believed, each host with its name.
fn why_invalid(
    parts: &[(ResultOrigin<'_>, &BenchReport)],
    loads: &[&Load],
    windows: usize,
) -> Vec<String> {
    let of_host = |(ResultOrigin { name, .. }, one): &(ResultOrigin<'_>, &BenchReport)| {
        one.invalid.iter().map(|why| format!("{name}: {why}")).collect::<Vec<_>>()
    };
    let mut invalid: Vec<String> = parts.iter().flat_map(of_host).collect();
    invalid.extend(apart(parts, windows));
    let is_twice =
        |index: usize, load: &Load| loads.iter().take(index).any(|before| load.writes_what(before));
    if loads.iter().enumerate().any(|(index, load)| is_twice(index, load)) {
        let what = "hosts with one seed write the same data: give each its own --seed";
        invalid.push(what.to_owned());
    }
    invalid
}

/// Whether windows of hosts lie so far from each other that they are none of one time.
fn apart(parts: &[(ResultOrigin<'_>, &BenchReport)], count: usize) -> Option<String> {
    (0..count).find_map(|at| {
        let windows = || parts.iter().filter_map(move |(_, report)| report.repeats.get(at));
        let begins = || windows().map(|window| window.began_unix_ms);
        let (first, last) = (begins().min()?, begins().max()?);
        let shortest_ms = windows().map(|window| window.window_ms).min()?;
        let (apart_ms, most_ms) = (last - first, (shortest_ms / 20).max(APART_MS));
        (apart_ms > most_ms).then(|| {
            let seconds = apart_ms as f64 / 1000.0;
            format!(
                "window {} of the hosts began {seconds} s apart: give all of them one --at",
                at + 1
            )
        })
    })
}

/// Figures of a system that repairs itself are those of another one.
fn unwell(health: &Health) -> Option<String> {
    health.degraded.as_ref().map(|why| format!("the system was not well: {why}"))
}

fn invalid(outcome: &RunOutcome) -> Vec<String> {
    let mut reasons: Vec<String> = outcome.health.iter().filter_map(unwell).collect();
    let failures: u64 = outcome.repeats.iter().map(|repeat| repeat.measured.failures).sum();
    if failures > 0 {
        let first = outcome.complaint.as_deref().unwrap_or_default();
        reasons.push(format!("{failures} operations failed, the first one: {first}"));
    }
    if let Settlement::Never { ms } = outcome.settling {
        reasons.push(format!("the rate did not settle within {} s", ms as f64 / 1000.0));
    }
    reasons
}

/// What the figures of a window say against each other.
fn contradiction(windows: &[Window]) -> Option<String> {
    let mut findings = windows.iter().flat_map(|window| &window.findings);
    findings.find(|found| found.is_contradiction()).map(|found| found.text.clone())
}

/// A line of JSON.
pub fn json(value: &impl Serialize) -> Result<String> {
    let text = serde_json::to_string(value);
    text.map(|text| text + "\n")
        .map_err(|error| Failure::new(format!("print the report as JSON: {error}")))
}
