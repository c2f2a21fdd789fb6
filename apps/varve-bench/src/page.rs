//! Results as one page: figures, latency curves, rates over time, the machine.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::path::PathBuf;

use varve_client::Result;
use varve_tool_bench::Score;
use varve_tool_plan::report::{Document, ReportTable};

use super::apart::told_apart;
use super::chart::{Axes, Curve, svg};
use super::compared::compare;
use super::figures::RepeatFigures;
use super::figures::ResultOrigin;
use super::report::{BenchReport, COLUMNS};
use super::result_name::result_names;
use super::saved::SavedResult;
use super::timeline::Timelines;

/// Title, unit, and the point of a load.
type Sweep = (&'static str, &'static str, fn(&BenchReport) -> (f64, f64));

/// Pictures at the top of loads that differ in how much they are: what is asked for, against what comes of it.
const SWEEPS: [Sweep; 2] = [
    ("Rate by load", "operations/s", |report| {
        (offered_load(report), report.both.operations_per_second)
    }),
    ("Mean latency by load", "mean latency, µs", |report| {
        (offered_load(report), report.both.latency_us.mean)
    }),
];

/// How much a load asks for: operations a second, or, as fast as they are answered, operations under way.
fn offered_load(report: &BenchReport) -> f64 {
    let (under_way, rate) = report.load.amount();
    if rate > 0.0 { rate } else { f64::from(under_way) }
}

/// A result, with the name that it has on the page.
pub struct NamedResult {
    pub(crate) name: String,
    pub(crate) saved: SavedResult,
    /// What its machine did from moment to moment, where that is known.
    pub(crate) timelines: Timelines,
}

impl NamedResult {
    /// Reads results, and names them apart.
    pub fn read_all(paths: &[PathBuf]) -> Result<Vec<Self>> {
        let names = result_names(paths.iter().map(PathBuf::as_path));
        let read = |(path, name): (&PathBuf, String)| {
            Ok(Self {
                timelines: Timelines::read(path),
                ..Self::new(name, SavedResult::read(path)?)
            })
        };
        paths.iter().zip(names).map(read).collect()
    }

    /// A result without that.
    pub(crate) fn new(name: String, saved: SavedResult) -> Self {
        Self { name, saved, timelines: Timelines::default() }
    }

    /// Whose it is, among several.
    pub(super) fn origin(&self) -> ResultOrigin<'_> {
        ResultOrigin { name: &self.name, machine: self.saved.system.boot_id.as_deref() }
    }
}

/// One of the runs of all results.
struct ResultRun<'a> {
    name: String,
    report: &'a BenchReport,
}

/// A page of results; several of the same loads are compared with the first one.
pub fn page(results: &[NamedResult]) -> Result<Document> {
    let (runs, common) = runs(results);
    let names: Vec<&str> = results.iter().map(|result| result.name.as_str()).collect();
    let mut document = Document::new(names.join(", ")).table("Scores", scores(results));
    for (heading, y, of) in SWEEPS {
        let curves: Vec<Curve> = results.iter().flat_map(|result| sweeps(result, of)).collect();
        let axes = Axes { x: "under way, or operations/s asked for", y, is_log: true, y_max: None };
        document = document.picture(heading, svg(axes, &curves)?);
    }
    document = document.table("Figures", figures(&runs));
    let common = Some(common).filter(|_| runs.len() > 1);
    let common = common.filter(|common| !common.is_empty());
    document = document.notes("All loads", common.into_iter().collect());
    document = document.notes("Not to be used", invalid(&runs));
    let within = results.iter().filter_map(|result| {
        result.saved.within.as_ref().map(|within| format!("{}: {}", result.name, within.text()))
    });
    document = document.notes("Within a bound", within.collect());
    let latency =
        Axes { x: "latency, µs", y: "operations within it, %", is_log: true, y_max: Some(100.0) };
    let curves: Vec<Curve> = runs
        .iter()
        .map(|run| Curve { name: run.name.clone(), points: distribution(&run.report.both) })
        .collect();
    document = document.picture("Latency", svg(latency, &curves)?);
    let time = Axes { x: "time of all windows, s", y: "operations/s", is_log: false, y_max: None };
    let curves: Vec<Curve> = runs
        .iter()
        .map(|run| Curve { name: run.name.clone(), points: timeline(run.report) })
        .collect();
    document = document.picture("Rate over time", svg(time, &curves)?);
    document = used(document, results)?;
    let curves = results.iter().flat_map(|result| {
        sweeps(result, |report| (report.both.operations_per_second, report.both.latency_us.p99))
    });
    let curves: Vec<Curve> = curves.collect();
    let axes = Axes { x: "operations/s", y: "p99, µs", is_log: false, y_max: None };
    document = document.picture("Latency by rate", svg(axes, &curves)?);
    if let [first, others @ ..] = results {
        for other in others {
            document = compared(document, first, other);
        }
    }
    document = document.table("What the client's machine did", machines(&runs));
    document = document.notes("Bound by", runs.iter().flat_map(bounds).collect());
    for result in results {
        let heading = format!("How {} was measured", result.name);
        document = document.headed_facts(&heading, result.saved.facts());
        for report in &result.saved.runs {
            document = document.facts(report.facts());
        }
    }
    Ok(document)
}

/// What machines did over time, of all loads of each result.
fn used(document: Document, results: &[NamedResult]) -> Result<Document> {
    let axes = |y| Axes { x: "time of all windows, s", y, is_log: false, y_max: None };
    let curves = |of: fn(&Timelines, &str, &SavedResult) -> Vec<Curve>| -> Vec<Curve> {
        results.iter().flat_map(|one| of(&one.timelines, &one.name, &one.saved)).collect()
    };
    let of_all = Axes { y_max: Some(100.0), ..axes("% of what there is") };
    let shares = svg(of_all, &curves(Timelines::shares))?;
    let bytes = svg(axes("MiB/s"), &curves(Timelines::bytes))?;
    Ok(document.picture("Use over time", shares).picture("Bytes over time", bytes))
}

/// All runs, each named by its result and by what tells its load from others; what all loads have in common.
fn runs(results: &[NamedResult]) -> (Vec<ResultRun<'_>>, String) {
    let all = || results.iter().flat_map(|one| one.saved.runs.iter().map(move |run| (one, run)));
    let loads: Vec<String> = all().map(|(_, report)| report.load.text()).collect();
    let (names, common) = told_apart(&loads.iter().map(String::as_str).collect::<Vec<_>>());
    let runs = all().zip(names).map(|((result, report), load)| {
        let has_others = result.saved.runs.len() > 1;
        let name = match (has_others, results.len(), load.as_str()) {
            (false, ..) | (_, _, "") => result.name.clone(),
            (true, 1, _) => load,
            (true, ..) => format!("{}: {load}", result.name),
        };
        ResultRun { name, report }
    });
    (runs.collect(), common)
}

fn scores(results: &[NamedResult]) -> ReportTable {
    let rows = results.iter().flat_map(|result| {
        let row = |score: &Score| vec![result.name.clone(), score.name.clone(), score.text.clone()];
        result.saved.scores.iter().map(row)
    });
    ReportTable { header: vec!["result", "score", ""], rows: rows.collect() }
}

fn figures(runs: &[ResultRun<'_>]) -> ReportTable {
    let titles = COLUMNS.map(|title| if title == "MEAN µs" { "MEAN" } else { title });
    let header = ["run", ""].into_iter().chain(titles).collect();
    let rows = runs.iter().flat_map(|run| {
        run.report.scaled_rows().into_iter().map(|mut row| {
            row.insert(0, run.name.clone());
            row
        })
    });
    ReportTable { header, rows: rows.collect() }
}

fn invalid(runs: &[ResultRun<'_>]) -> Vec<String> {
    let reasons = runs
        .iter()
        .flat_map(|run| run.report.invalid.iter().map(|why| format!("{}: {why}", run.name)));
    reasons.collect()
}

/// Latencies in µs, and the share in percent that took no longer.
fn distribution(figures: &RepeatFigures) -> Vec<(f64, f64)> {
    let all: u64 = figures.histogram_ns.iter().map(|(_, count)| count).sum();
    let mut so_far = 0;
    let points = figures.histogram_ns.iter().map(|(ns, count)| {
        so_far += count;
        (*ns as f64 / 1000.0, so_far as f64 / all as f64 * 100.0)
    });
    points.collect()
}

fn timeline(report: &BenchReport) -> Vec<(f64, f64)> {
    let mut points = Vec::new();
    for window in &report.repeats {
        // The last second of a window may have just begun, and of the one before some operations are not answered yet.
        let whole = usize::try_from(window.window_ms / 1000).unwrap_or(usize::MAX);
        let whole = if whole > 2 { whole - 1 } else { whole };
        for count in window.per_second.iter().take(whole) {
            points.push((points.len() as f64 + 0.5, *count as f64));
        }
    }
    points
}

/// Figures of loads that differ in how much they are: several of one kind, by how much.
fn sweeps(result: &NamedResult, of: fn(&BenchReport) -> (f64, f64)) -> Vec<Curve> {
    let mut kinds: BTreeMap<String, Vec<&BenchReport>> = BTreeMap::new();
    for report in &result.saved.runs {
        kinds.entry(report.load.swept()).or_default().push(report);
    }
    let is_one = kinds.len() == 1;
    let curve = |(kind, mut reports): (String, Vec<&BenchReport>)| {
        let amount = |report: &BenchReport| report.load.amount();
        reports.sort_by(|one, other| {
            amount(one).partial_cmp(&amount(other)).unwrap_or(Ordering::Equal)
        });
        let name = if is_one { result.name.clone() } else { format!("{}: {kind}", result.name) };
        Curve { name, points: reports.iter().map(|report| of(report)).collect() }
    };
    kinds.into_iter().filter(|(_, reports)| reports.len() > 1).map(curve).collect()
}

fn compared(document: Document, first: &NamedResult, other: &NamedResult) -> Document {
    let heading = format!("{} against {}", other.name, first.name);
    match compare(&first.saved, &other.saved, 5.0) {
        Ok(compared) => document.table(&heading, compared.table()),
        Err(why) => document.notes(&heading, vec![format!("cannot be compared: {}", why.what())]),
    }
}

/// Of each run's last window.
fn machines(runs: &[ResultRun<'_>]) -> ReportTable {
    let header =
        vec!["run", "processors busy", "taken by others", "disks", "networks", "processes"];
    let rows = runs.iter().filter_map(|run| {
        let usage = run.report.repeats.last()?.usage.as_ref()?;
        let mib = |bytes: f64| format!("{:.1} MiB/s", bytes / f64::from(1 << 20));
        let disks = usage.disks.iter().map(|disk| {
            let (read, write) = (mib(disk.read_bytes_per_second), mib(disk.write_bytes_per_second));
            format!("{}: {read} read, {write} written, busy {:.0} %", disk.name, disk.busy_percent)
        });
        let nets = usage.nets.iter().map(|net| {
            let (received, sent) =
                (mib(net.received_bytes_per_second), mib(net.sent_bytes_per_second));
            format!("{}: {received} received, {sent} sent", net.name)
        });
        let processes = usage.processes.iter().map(|process| {
            let memory = varve_types::ByteCount(process.resident_bytes);
            format!("{} {}: {:.2} processors, {memory}", process.name, process.id, process.cpus)
        });
        Some(vec![
            run.name.clone(),
            format!("{:.2} of {}", usage.cpus_busy, usage.cpus),
            format!("{:.2}", usage.cpus_stolen),
            disks.collect::<Vec<_>>().join("; "),
            nets.collect::<Vec<_>>().join("; "),
            processes.collect::<Vec<_>>().join("; "),
        ])
    });
    ReportTable { header, rows: rows.collect() }
}

fn bounds(run: &ResultRun<'_>) -> Vec<String> {
    let findings = run.report.repeats.last().into_iter().flat_map(|window| &window.findings);
    let findings = findings.filter(|found| !found.is_contradiction());
    findings.map(|found| format!("{}: {}", run.name, found.text)).collect()
}
