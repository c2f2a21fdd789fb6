//! What fio prints as JSON of a run.
//!
//! FIO-OUTPUT-1. Percentiles of several jobs, and of reads with writes, come from their histograms added up, which
//! `json+` has and `json` has not; they are never averaged. Without histograms they are not known.
//! FIO-OUTPUT-2. No percentile is above the longest latency, although fio's cells are.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::cells::HistogramCells;
use crate::error::{Error, Result};
use crate::fio::file::FioOption;
use crate::fio::job::{FioJob, fio_told};
use crate::usage::{ClosedLoop, FigureFinding};

/// Percentiles of a result.
const PERCENTILES: [f64; 6] = [50.0, 90.0, 95.0, 99.0, 99.9, 99.99];

/// A run of fio.
#[derive(Clone, PartialEq, Debug)]
pub struct FioOutput {
    /// Version as fio says it.
    pub version: String,
    /// When it ended, in ms since 1970.
    pub unix_ms: u64,
    /// Its jobs; those of one section together.
    pub runs: Vec<FioRun>,
}

/// What the jobs of a section measured.
#[derive(Clone, PartialEq, Debug)]
pub struct FioRun {
    /// The load, as far as options say it.
    pub job: FioJob,
    /// Options that this generator does not know, as `NAME=VALUE`.
    pub options: Vec<String>,
    /// Jobs that were told of, one by one.
    pub jobs: u64,
    /// Time that was measured, in ms; 0 of less than one.
    pub window_ms: u64,
    /// Reads; none when there were none.
    pub reads: Option<FioSide>,
    /// Writes likewise.
    pub writes: Option<FioSide>,
    /// Flushes that jobs wait for, where there were any: what `fsync` and `fdatasync` ask for.
    pub syncs: Option<FioSide>,
    /// Both together.
    pub both: FioSide,
}

/// Reads or writes.
#[derive(Clone, PartialEq, Debug)]
pub struct FioSide {
    /// Operations.
    pub operations: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Mean latency in ns; 0 where it is not known.
    pub mean_ns: f64,
    /// The longest, in ns; 0 where it is not known.
    pub max_ns: u64,
    /// p50, p90, p95, p99, p99.9 and p99.99 in ns; 0 of those that are not known.
    pub percentiles_ns: [u64; 6],
    /// The histogram, where fio was asked for it; values are the middles of fio's cells.
    pub cells: HistogramCells,
}

#[derive(Deserialize)]
struct FioVersion {
    #[serde(rename = "fio version")]
    version: String,
}

#[derive(Deserialize)]
struct Output {
    #[serde(rename = "fio version")]
    version: String,
    #[serde(default)]
    timestamp_ms: u64,
    #[serde(default, rename = "global options")]
    global: BTreeMap<String, String>,
    jobs: Vec<Job>,
}

#[derive(Deserialize)]
struct Job {
    jobname: String,
    #[serde(default)]
    groupid: u64,
    #[serde(default)]
    error: i64,
    #[serde(default, rename = "job options")]
    options: BTreeMap<String, String>,
    #[serde(default)]
    read: FioTotals,
    #[serde(default)]
    write: FioTotals,
    /// Both together, with unified_rw_reporting.
    mixed: Option<FioTotals>,
    trim: Option<FioTotals>,
    sync: Option<FioTotals>,
}

#[derive(Default, Deserialize)]
struct FioTotals {
    #[serde(default)]
    io_bytes: u64,
    total_ios: u64,
    /// In ms.
    #[serde(default)]
    runtime: u64,
    #[serde(default)]
    lat_ns: Latency,
    #[serde(default)]
    clat_ns: Latency,
}

#[derive(Clone, Default, Deserialize)]
struct Latency {
    #[serde(default)]
    max: f64,
    #[serde(default)]
    mean: f64,
    percentile: Option<BTreeMap<String, u64>>,
    bins: Option<BTreeMap<String, u64>>,
}

impl FioOutput {
    /// Reads what `fio --output-format=json` or `json+` printed.
    ///
    /// # Errors
    /// `FioOutput`: it is no such text, or of fio 2, or a job failed.
    pub fn read(text: &str) -> Result<Self> {
        // Complaints of fio stand in front.
        let begin = if text.starts_with('{') { Some(0) } else { text.find("\n{").map(|at| at + 1) };
        let json =
            begin.and_then(|begin| text.get(begin..)).ok_or_else(|| no_output("no object"))?;
        let mut versions = serde_json::Deserializer::from_str(json).into_iter::<FioVersion>();
        if let Some(Ok(FioVersion { version })) = versions.next()
            && (version.starts_with("fio-2.") || version.starts_with("fio-1."))
        {
            let reason =
                format!("it is of {version}, whose units are others: results of fio 3 are read");
            return Err(Error::FioOutput { reason });
        }
        let mut values = serde_json::Deserializer::from_str(json).into_iter::<Output>();
        let output = values.next().ok_or_else(|| no_output("nothing"))?;
        let output = output.map_err(|error| no_output(&error.to_string()))?;
        let mut groups: Vec<Vec<&Job>> = Vec::new();
        for job in &output.jobs {
            if job.error != 0 {
                return Err(refused(&job.jobname, format!("it ended with error {}", job.error)));
            }
            if job.trim.as_ref().is_some_and(|trim| trim.total_ios > 0) {
                return Err(refused(&job.jobname, "it trims, which no result tells".to_owned()));
            }
            let is_same = |group: &Vec<&Job>| {
                let first = group.first();
                first.is_some_and(|first| {
                    (&first.jobname, first.groupid) == (&job.jobname, job.groupid)
                })
            };
            match groups.iter_mut().find(|group| is_same(group)) {
                Some(group) => group.push(job),
                None => groups.push(vec![job]),
            }
        }
        let runs: Vec<FioRun> =
            groups.iter().map(|jobs| run(jobs, &output.global)).collect::<Result<_>>()?;
        if runs.is_empty() {
            return Err(no_output("it has no jobs"));
        }
        Ok(Self { version: output.version, unix_ms: output.timestamp_ms, runs })
    }

    /// The same, if each run has a rate.
    ///
    /// # Errors
    /// `FioOutput`: a run took no time.
    pub fn with_rates(self) -> Result<Self> {
        match self.runs.iter().find(|run| run.window_ms == 0) {
            None => Ok(self),
            Some(run) => {
                let why = "it has a runtime of 0 ms, in which there is no rate".to_owned();
                Err(refused(&run.job.name, why))
            }
        }
    }
}

impl FioRun {
    /// That more operations were under way than can have been; nothing is said where options do not tell how many can.
    #[must_use]
    pub fn inconsistent(&self) -> Option<FigureFinding> {
        let has =
            |name: &str| self.options.iter().any(|option| option.split('=').next() == Some(name));
        let is_unknown = self.both.mean_ns == 0.0;
        if is_unknown || self.job.load.rate.is_some() || has("iodepth") || has("numjobs") {
            return None;
        }
        let jobs = u64::from(self.job.load.jobs).max(self.jobs);
        let seconds = self.window_ms as f64 / 1000.0;
        let figures = ClosedLoop {
            depth: jobs.saturating_mul(u64::from(self.job.load.depth)),
            operations_per_second: self.both.operations as f64 / seconds,
            mean_us: self.both.mean_ns / 1000.0,
            max_us: self.both.max_ns as f64 / 1000.0,
            seconds,
        };
        figures.inconsistent()
    }
}

/// What the jobs of a section did.
fn run(jobs: &[&Job], global: &BTreeMap<String, String>) -> Result<FioRun> {
    let first = jobs.first().expect("a group has a job");
    let name = &first.jobname;
    let mut options = global.clone();
    options.extend(first.options.clone());
    let options: Vec<FioOption> =
        options.into_iter().map(|(name, value)| FioOption { line: 0, name, value }).collect();
    let (mut job, unknown) = fio_told(name, &options);
    let (reads, writes) =
        (side(name, jobs, |job| Some(&job.read))?, side(name, jobs, |job| Some(&job.write))?);
    let syncs = side(name, jobs, |job| job.sync.as_ref())?;
    let mixed = side(name, jobs, |job| job.mixed.as_ref())?;
    let both = match (mixed, &reads, &writes) {
        (Some(mixed), ..) => mixed,
        (None, Some(one), None) | (None, None, Some(one)) => one.clone(),
        (None, Some(reads), Some(writes)) => together(&[reads.clone(), writes.clone()]),
        (None, None, None) => return Err(refused(name, "it measured nothing".to_owned())),
    };
    // Where options do not tell them, operations do.
    let is_unknown = |names: &[&str]| unknown.iter().any(|one| names.contains(&one.name.as_str()));
    if is_unknown(&["bs", "blocksize", "bssplit", "bsrange", "blocksize_range"]) {
        job.load.block_bytes = usize::try_from(both.bytes / both.operations).unwrap_or(usize::MAX);
    }
    if is_unknown(&["rw", "readwrite"]) {
        let read = reads.as_ref().map_or(0, |side| side.operations);
        job.load.read_percent = u8::try_from(read * 100 / both.operations).unwrap_or(100);
    }
    let runtimes = jobs.iter().map(|job| {
        let mixed = job.mixed.as_ref().map_or(0, |side| side.runtime);
        job.read.runtime.max(job.write.runtime).max(mixed)
    });
    let window_ms = runtimes.max().unwrap_or(0);
    let options = unknown.iter().map(|option| format!("{}={}", option.name, option.value));
    let (options, jobs) = (options.collect(), jobs.len() as u64);
    Ok(FioRun { job, options, jobs, window_ms, reads, writes, syncs, both })
}

fn side(name: &str, jobs: &[&Job], of: fn(&Job) -> Option<&FioTotals>) -> Result<Option<FioSide>> {
    let sides = jobs.iter().filter_map(|job| of(job)).filter(|side| side.total_ios > 0);
    let sides = sides.map(|side| one(name, side)).collect::<Result<Vec<FioSide>>>()?;
    Ok(if sides.is_empty() { None } else { Some(together(&sides)) })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "ns of a latency, above 0 and whole"
)]
fn one(name: &str, side: &FioTotals) -> Result<FioSide> {
    let has = |latency: &&Latency| latency.bins.is_some() || latency.percentile.is_some();
    // With gtod_reduce or disable_lat there are none, and rates all the same.
    let latencies = [&side.lat_ns, &side.clat_ns];
    let known = latencies.into_iter().find(has);
    let latency = known.or_else(|| latencies.into_iter().find(|one| one.mean > 0.0));
    let latency = latency.unwrap_or(&side.lat_ns);
    let mut cells = HistogramCells::default();
    for (value, count) in latency.bins.iter().flatten() {
        let value = value.parse().map_err(|_| refused(name, format!("bin `{value}`")))?;
        cells.add([(value, *count)]);
    }
    let mut percentiles_ns = [0; 6];
    for (found, percentile) in percentiles_ns.iter_mut().zip(PERCENTILES) {
        let told = latency.percentile.iter().flatten();
        let mut told = told.filter_map(|(name, ns)| Some((name.parse::<f64>().ok()?, *ns)));
        let told = told.find(|(name, _)| (name - percentile).abs() < 1e-6).map(|(_, ns)| ns);
        let told = cells.quantile(percentile / 100.0).or(told);
        *found = told.unwrap_or(0).min(latency.max as u64); // FIO-OUTPUT-2
    }
    Ok(FioSide {
        operations: side.total_ios,
        bytes: side.io_bytes,
        mean_ns: latency.mean,
        max_ns: latency.max as u64,
        percentiles_ns,
        cells,
    })
}

/// Sides as one (FIO-OUTPUT-1).
fn together(sides: &[FioSide]) -> FioSide {
    if let [only] = sides {
        return only.clone();
    }
    let mut all = FioSide {
        operations: 0,
        bytes: 0,
        mean_ns: 0.0,
        max_ns: 0,
        percentiles_ns: [0; 6],
        cells: HistogramCells::default(),
    };
    for side in sides {
        all.operations += side.operations;
        all.bytes += side.bytes;
        all.mean_ns += side.mean_ns * side.operations as f64;
        all.max_ns = all.max_ns.max(side.max_ns);
        all.cells.add(side.cells.to_vec());
    }
    all.mean_ns /= all.operations as f64;
    if sides.iter().any(|side| side.cells.count() == 0) {
        // A part would pass for all.
        return FioSide { cells: HistogramCells::default(), ..all };
    }
    for (found, percentile) in all.percentiles_ns.iter_mut().zip(PERCENTILES) {
        *found = all.cells.quantile(percentile / 100.0).unwrap_or(0).min(all.max_ns); // FIO-OUTPUT-2
    }
    all
}

fn refused(name: &str, reason: String) -> Error {
    Error::FioOutput { reason: format!("job `{name}`: {reason}") }
}

fn no_output(reason: &str) -> Error {
    let reason = format!("it is not what fio --output-format=json prints: {reason}");
    Error::FioOutput { reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::AccessPattern;
    use serde_json::{Value, json};

    /// A side with that many operations of one latency.
    fn side(operations: u64, latency_ns: u64, has_bins: bool) -> Value {
        let percentiles =
            ["50.000000", "90.000000", "95.000000", "99.000000", "99.900000", "99.990000"];
        let percentile: BTreeMap<&str, u64> =
            percentiles.into_iter().map(|name| (name, latency_ns)).collect();
        let mut clat =
            json!({ "max": latency_ns, "mean": latency_ns as f64, "percentile": percentile });
        if has_bins {
            clat["bins"] = json!({ latency_ns.to_string(): operations });
        }
        json!({
            "io_bytes": operations * 4096, "total_ios": operations, "runtime": 2000,
            "lat_ns": { "max": latency_ns, "mean": latency_ns as f64 }, "clat_ns": clat,
        })
    }

    fn none() -> Value {
        json!({ "io_bytes": 0, "total_ios": 0, "runtime": 0, "lat_ns": {}, "clat_ns": {} })
    }

    fn job(name: &str, read: &Value, write: &Value) -> Value {
        json!({
            "jobname": name, "groupid": 0, "error": 0, "read": read, "write": write,
            "job options": { "rw": "randrw", "bs": "4k", "iodepth": "8", "fsync": "1" },
        })
    }

    fn output(jobs: &[Value]) -> String {
        let value = json!({
            "fio version": "fio-3.33", "timestamp_ms": 5, "global options": { "numjobs": "2" }, "jobs": jobs,
        });
        format!("fio: a complaint\n{value}\n")
    }

    #[test]
    fn histograms_of_jobs_are_added() {
        let jobs = [
            job("a", &side(90, 1000, true), &side(9, 5000, true)),
            job("a", &side(900, 1000, true), &side(1, 80_000, true)),
            job("b", &side(10, 7000, false), &none()),
        ];
        let output = FioOutput::read(&output(&jobs)).unwrap();
        let [a, b] = output.runs.as_slice() else { panic!("{output:?}") };
        assert_eq!((a.both.operations, a.window_ms, a.both.max_ns), (1000, 2000, 80_000));
        // Half-way between 990 of 1 µs, 9 of 5 µs and one of 80 µs; averages would be elsewhere.
        assert_eq!(a.both.percentiles_ns, [1000, 1000, 1000, 1000, 5000, 80_000]);
        assert_eq!(a.writes.as_ref().unwrap().percentiles_ns[0], 5000);
        assert_eq!((a.job.load.jobs, a.job.load.depth, a.job.load.read_percent), (2, 8, 50));
        assert_eq!(a.options, ["fsync=1"]);
        assert_eq!(b.both.percentiles_ns, [7000; 6]);
        assert!(b.writes.is_none() && b.both.cells.count() == 0);
    }

    #[test]
    fn what_options_do_not_tell_operations_do() {
        let mut job = job("a", &side(30, 1000, true), &side(10, 1000, true));
        job["job options"] =
            json!({ "rw": "randrw:4", "bs": "512", "iodepth": "8", "filename": "x" });
        job["read"]["io_bytes"] = json!(30 * 512);
        job["write"]["io_bytes"] = json!(10 * 512);
        let output = FioOutput::read(&output(&[job])).unwrap();
        let load = output.runs[0].job.load;
        assert_eq!((load.block_bytes, load.read_percent, load.depth), (512, 75, 8));
        assert_eq!(load.pattern, AccessPattern::Uniform);
        assert_eq!(output.runs[0].options, ["rw=randrw:4", "bs=512"]);
    }

    #[test]
    fn percentiles_are_never_averaged() {
        let plain = side(10, 1000, false);
        let of = |jobs: &[Value]| FioOutput::read(&output(jobs)).unwrap().runs.remove(0);
        let two_jobs = of(&[job("a", &plain, &none()), job("a", &side(30, 5000, false), &none())]);
        assert_eq!((two_jobs.both.operations, two_jobs.both.mean_ns), (40, 4000.0));
        assert_eq!((two_jobs.both.max_ns, two_jobs.both.percentiles_ns), (5000, [0; 6]));
        // Reads and writes each have theirs, both together have none.
        let mixed = of(&[job("a", &plain, &side(10, 5000, false))]);
        assert_eq!(mixed.both.percentiles_ns, [0; 6]);
        assert_eq!(mixed.reads.unwrap().percentiles_ns, [1000; 6]);
        assert_eq!(mixed.writes.unwrap().percentiles_ns, [5000; 6]);
        // Of two parts one has a histogram: that would be half of the truth.
        let half = of(&[job("a", &side(10, 1000, true), &plain)]);
        assert_eq!((half.both.percentiles_ns, half.both.cells.count()), ([0; 6], 0));
    }

    #[test]
    fn rates_are_read_without_latencies() {
        let bare = json!({ "io_bytes": 40960, "total_ios": 10, "runtime": 2000, "lat_ns": {}, "clat_ns": {} });
        let run = FioOutput::read(&output(&[job("a", &bare, &bare)])).unwrap().runs.remove(0);
        assert_eq!((run.both.operations, run.both.bytes, run.window_ms), (20, 81920, 2000));
        assert_eq!((run.both.mean_ns, run.both.percentiles_ns), (0.0, [0; 6]));
        assert_eq!(run.inconsistent(), None);
    }

    #[test]
    fn reads_and_writes_may_be_one() {
        let mut job = job("a", &none(), &none());
        let object = job.as_object_mut().unwrap();
        object.remove("read");
        object.remove("write");
        object.insert("mixed".to_owned(), side(10, 7000, true));
        let run = FioOutput::read(&output(&[job])).unwrap().runs.remove(0);
        assert!(run.reads.is_none() && run.writes.is_none());
        assert_eq!(
            (run.both.operations, run.both.percentiles_ns, run.window_ms),
            (10, [7000; 6], 2000)
        );
    }

    #[test]
    fn flushes_have_latencies_of_their_own() {
        let mut job = job("etcd", &none(), &side(100, 17_700, true));
        let bins = json!({ "2740000": 99, "9000000": 1 });
        let lat = json!({ "max": 9_000_100, "mean": 2.8e6, "percentile": { "50.000000": 2_740_000 }, "bins": bins });
        job["sync"] = json!({ "total_ios": 100, "lat_ns": lat });
        let run = FioOutput::read(&output(&[job])).unwrap().runs.remove(0);
        let syncs = run.syncs.unwrap();
        assert_eq!((syncs.operations, syncs.bytes, syncs.mean_ns), (100, 0, 2.8e6));
        assert_eq!((syncs.percentiles_ns[0], syncs.percentiles_ns[5]), (2_740_000, 9_000_000));
        assert_eq!(run.both.operations, 100, "flushes are none of the operations");
    }

    #[test]
    fn no_percentile_is_above_the_longest() {
        let mut reads = side(10, 1000, false);
        for latency in ["lat_ns", "clat_ns"] {
            reads[latency] = json!({ "max": 264_369, "mean": 1000.0, "percentile": { "99.990000": 265_290 },
                                     "bins": { "265290": 10 } });
        }
        let read = |jobs: &[Value]| FioOutput::read(&output(jobs)).unwrap().runs.remove(0).both;
        assert_eq!(read(&[job("a", &reads, &none())]).percentiles_ns, [264_369; 6]);
        assert_eq!(read(&[job("a", &reads, &reads)]).percentiles_ns, [264_369; 6]);
    }

    #[test]
    fn results_of_fio_2_are_named() {
        let text = output(&[]).replace("fio-3.33", "fio-2.2.10");
        let error = FioOutput::read(&text).unwrap_err().to_string();
        assert!(error.starts_with("it is of fio-2.2.10, whose units are others"), "{error}");
    }

    #[test]
    fn figures_that_cannot_be_are_told() {
        // Two jobs with a depth of 8 within 2 s.
        let of = |operations, options: Value| {
            let mut job = job("a", &side(operations, 1_000_000, true), &none());
            job["job options"] = options;
            FioOutput::read(&output(&[job])).unwrap().runs[0].inconsistent()
        };
        let depth = json!({ "rw": "randread", "iodepth": "8" });
        assert_eq!(of(32_000, depth.clone()), None);
        let Some(FigureFinding::Inconsistent { under_way, depth: 16 }) = of(36_000, depth) else {
            panic!("18 under way of 16")
        };
        assert_eq!(under_way, 18.0);
        assert_eq!(of(36_000, json!({ "rw": "randread", "iodepth": "8k" })), None, "not known");
    }

    #[test]
    fn what_is_no_result_is_refused() {
        let mut failed = job("a", &side(10, 1000, true), &none());
        failed["error"] = json!(5);
        let mut timeless = side(10, 1000, true);
        timeless["runtime"] = json!(0);
        for (text, what) in [
            (String::new(), "not what fio"),
            ("{\"runs\": []}".to_owned(), "not what fio"),
            (output(&[]), "no jobs"),
            (output(&[failed]), "error 5"),
            (output(&[job("a", &none(), &none())]), "measured nothing"),
            (output(&[job("a", &timeless, &none())]), "a runtime of 0 ms"),
        ] {
            let read = FioOutput::read(&text).and_then(FioOutput::with_rates);
            let error = read.unwrap_err().to_string();
            assert!(error.contains(what), "{text}: {error}");
        }
    }
}
