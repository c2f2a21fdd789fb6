//! Many short lives of volumes at a time: create, connect, first answer, write and read, disconnect, delete; and
//! whether anything is left.

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::{StreamExt, TryStreamExt, stream};
use hyper::Method;
use serde::Serialize;
use varve_access_admin::v1::{self, CreateVolume};
use varve_access_admin::{percent_encoded, volume_path};
use varve_client::table::{Align, columns, labelled};
use varve_client::{Client, Failure, Progress, Result};
use varve_media::{Disk, Persist};
use varve_reactor::{Loop, LoopConfig};
use varve_stdx::AlignedBuf;
use varve_tool_bench::{DataSpec, Estimate, Score, Target};
use varve_tool_plan::report::{Document, ReportTable};
use varve_types::ByteCount;

use super::system::System;

/// Functions in the order in which a life calls them; `life` is all of them.
const FUNCTIONS: [&str; 7] = ["create", "map", "wait", "io", "unmap", "remove", "life"];

/// Titles of the columns of functions.
const TITLES: [&str; 10] =
    ["", "COUNT", "ERRORS", "MIN s", "MAX", "TOTAL", "MEAN", "MEDIAN", "STD", "p90"];

/// Longest time until the daemon notices that a client has left.
const LEAVING: Duration = Duration::from_secs(10);

/// How often it is asked.
const TICK: Duration = Duration::from_millis(2);

/// Bytes of a block of data.
const UNIT: usize = 4096;

/// What to do.
#[derive(Clone, Serialize, Debug)]
pub struct ScaleSpec {
    /// Volumes in all.
    pub volumes: u32,
    /// Volumes at a time.
    pub at_once: u32,
    /// Bytes of a volume.
    pub size_bytes: u64,
    /// Bytes of a write and of a read.
    pub block_bytes: usize,
    /// Operations under way of a volume.
    pub depth: usize,
    /// Bytes of a volume that are written and read back.
    pub io_bytes: u64,
    /// Begin of the volumes' names.
    pub prefix: String,
}

/// What became of it. Fields are added over time, never renamed.
#[derive(Serialize, Debug)]
pub struct ScaleReport {
    spec: ScaleSpec,
    /// The machine of the clients.
    system: System,
    /// From the first beginning to the last end, in s.
    wall_seconds: f64,
    functions: Vec<Function>,
    /// What was there after the last life and not before the first.
    pub leaks: Vec<String>,
    /// Operations that failed.
    pub errors: u64,
    first_error: Option<String>,
    /// What it came to beside the source of a preset.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    scores: Vec<Score>,
}

/// Times of a function, in s.
#[derive(Serialize, Debug)]
struct Function {
    name: &'static str,
    count: usize,
    errors: u64,
    min: f64,
    max: f64,
    total: f64,
    mean: f64,
    median: f64,
    std_dev: f64,
    p90: f64,
}

/// What all threads have seen.
#[derive(Default)]
struct ScaleTotals {
    seconds: BTreeMap<&'static str, Vec<f64>>,
    errors: BTreeMap<&'static str, u64>,
    first_error: Option<String>,
}

/// Runs them; Ctrl-C begins no more lives.
pub fn scale(client: &Client, spec: &ScaleSpec) -> Result<ScaleReport> {
    let watch = Progress::open_ended();
    let system = System::now();
    let before = LifeLeftovers::now(client, &spec.prefix)?;
    if let Some(name) = before.volumes.first() {
        let what = format!("a volume {name} exists, which this would take for its own");
        return Err(Failure::new(what).hint("choose another --prefix, or delete it"));
    }
    let server = server(client)?;
    let seen = Arc::default();
    let began = Instant::now();
    let lived = live_all(client, spec, &server, &seen, &watch);
    let wall_seconds = began.elapsed().as_secs_f64();
    watch.end();
    lived?;
    let leaks = leaks(client, &spec.prefix, &before)?;
    let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(ScaleReport {
        spec: spec.clone(),
        system,
        wall_seconds,
        functions: FUNCTIONS.map(|name| Function::of(name, &seen)).into(),
        leaks,
        errors: seen
            .errors
            .iter()
            .filter(|(name, _)| **name != "life")
            .map(|(_, count)| count)
            .sum(),
        first_error: seen.first_error.clone(),
        scores: Vec::new(),
    })
}

/// What stays of what was not there before; the daemon may notice a moment later that a client left.
fn leaks(client: &Client, prefix: &str, before: &LifeLeftovers) -> Result<Vec<String>> {
    let began = Instant::now();
    loop {
        let leaks = LifeLeftovers::now(client, prefix)?.beyond(before);
        if leaks.is_empty() || began.elapsed() > LEAVING {
            return Ok(leaks);
        }
        std::thread::sleep(TICK);
    }
}

/// A thread for each volume at a time takes the next number again and again.
fn live_all(
    client: &Client,
    spec: &ScaleSpec,
    server: &(String, String),
    seen: &Arc<Mutex<ScaleTotals>>,
    watch: &Progress,
) -> Result<()> {
    let next = AtomicU32::new(0);
    let live = || -> Result<()> {
        let event_loop = Loop::new(LoopConfig::default());
        let mut event_loop =
            event_loop.map_err(|error| Failure::new(format!("io_uring: {error}")))?;
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= spec.volumes || watch.is_stopped() {
                return Ok(());
            }
            watch.say(format!("volume {number} of {}", spec.volumes));
            Life { spec, client, server, seen, number }.live(&mut event_loop);
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..spec.at_once).map(|_| scope.spawn(live)).collect();
        let ended = threads.into_iter().map(|thread| match thread.join() {
            Ok(ended) => ended,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        ended.collect()
    })
}

/// Where the daemon's exports are, as the URI of one without its name: begin and end.
pub(super) fn server(client: &Client) -> Result<(String, String)> {
    let status = client.get::<v1::Status>("/v1/status")?.value;
    let listener = status.listeners.into_iter().find(|listener| listener.protocol == "nbd");
    let address = listener.ok_or_else(|| Failure::new("the daemon serves no NBD"))?.address;
    Ok(match address.strip_prefix("unix:") {
        Some(path) => ("nbd+unix:///".to_owned(), format!("?socket={}", percent_encoded(path))),
        None => (format!("nbd://{address}/"), String::new()),
    })
}

/// One volume from its creation to its end.
struct Life<'a> {
    spec: &'a ScaleSpec,
    client: &'a Client,
    server: &'a (String, String),
    seen: &'a Arc<Mutex<ScaleTotals>>,
    number: u32,
}

impl Life<'_> {
    fn live(&self, event_loop: &mut Loop) {
        let began = Instant::now();
        let lived = self.functions(event_loop);
        let _told_already = timed("life", self.seen, || lived, began);
    }

    fn functions(&self, event_loop: &mut Loop) -> Result<()> {
        timed("create", self.seen, || self.create(), Instant::now())?;
        let used = self.used(event_loop);
        let unmapped = timed("unmap", self.seen, || self.unmapped(), Instant::now());
        let remove = || self.client.delete(&volume_path(&self.name()));
        let removed = timed("remove", self.seen, remove, Instant::now());
        used.and(unmapped).and(removed)
    }

    fn name(&self) -> String {
        format!("{}{:05}", self.spec.prefix, self.number)
    }

    fn create(&self) -> Result<()> {
        let volume = CreateVolume {
            name: self.name(),
            size_bytes: self.spec.size_bytes,
            block_size_bytes: None,
            dedup: None,
            compression: None,
            quota_bytes: None,
            reservation: None,
            exclusive: None,
            beside: None,
        };
        self.client.send::<v1::Volume>(Method::POST, "/v1/volumes", &volume).map(drop)
    }

    /// Connects, writes, reads, and leaves.
    fn used(&self, event_loop: &mut Loop) -> Result<()> {
        let (begin, end) = self.server;
        let uri = format!("{begin}{}{end}", percent_encoded(&self.name()));
        let target: Target =
            uri.parse().map_err(|error: varve_tool_bench::Error| to_failure(&error))?;
        let (reactor, spec, seen) = (event_loop.handle(), self.spec.clone(), Arc::clone(self.seen));
        let number = self.number;
        event_loop.run(async move {
            let open = || target.open(&reactor).map_err(|error| to_failure(&error));
            let disk = timed("map", &seen, open, Instant::now())?;
            let began = Instant::now();
            let answered = disk.read(0, UNIT).await.map(drop).map_err(|error| to_failure(&error));
            timed("wait", &seen, || answered, began)?;
            let began = Instant::now();
            let done = write_and_read(&*disk, &spec, number).await;
            timed("io", &seen, || done, began)
        })
    }

    /// Waits until the daemon knows of no client of the volume.
    fn unmapped(&self) -> Result<()> {
        let began = Instant::now();
        while began.elapsed() < LEAVING {
            let volume = self.client.get::<v1::Volume>(&volume_path(&self.name()))?.value;
            if volume.openers == 0 {
                return Ok(());
            }
            std::thread::sleep(TICK);
        }
        Err(Failure::new(format!(
            "{} is still open {} s after its client left",
            self.name(),
            LEAVING.as_secs()
        )))
    }
}

/// Writes each block, then reads each and compares.
async fn write_and_read(disk: &dyn Disk, spec: &ScaleSpec, number: u32) -> Result<()> {
    let ScaleSpec { block_bytes, depth, io_bytes, .. } = *spec;
    let offsets = || stream::iter((0..io_bytes).step_by(block_bytes));
    let writes = offsets().map(|offset| async move {
        let bytes = block(number, offset, block_bytes).freeze();
        disk.write(offset, bytes, Persist::Cached).await.map_err(|error| to_failure(&error))
    });
    writes.buffer_unordered(depth).try_collect::<()>().await?;
    let reads = offsets().map(|offset| async move {
        let found = disk.read(offset, block_bytes).await.map_err(|error| to_failure(&error))?;
        if found[..] == block(number, offset, block_bytes)[..] {
            return Ok(());
        }
        Err(Failure::new(format!(
            "byte {offset} and on of volume {number} are not what was written"
        )))
    });
    reads.buffer_unordered(depth).try_collect::<()>().await
}

/// Data of one volume alone.
fn block(number: u32, offset: u64, block_bytes: usize) -> AlignedBuf {
    let data = DataSpec { volume: number, ..DataSpec::default() };
    let mut bytes = AlignedBuf::scratch(block_bytes);
    for (unit, piece) in (offset / UNIT as u64..).zip(bytes.chunks_exact_mut(UNIT)) {
        data.block(unit, 1, piece);
    }
    bytes
}

/// Notes how long a function took since it began, or that it failed.
fn timed<T>(
    name: &'static str,
    seen: &Mutex<ScaleTotals>,
    function: impl FnOnce() -> Result<T>,
    began: Instant,
) -> Result<T> {
    let ended = function();
    let seconds = began.elapsed().as_secs_f64();
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    match &ended {
        Ok(_) => seen.seconds.entry(name).or_default().push(seconds),
        Err(failure) => {
            *seen.errors.entry(name).or_default() += 1;
            seen.first_error.get_or_insert_with(|| format!("{name}: {}", failure.what()));
        }
    }
    ended
}

/// What lives may leave behind.
struct LifeLeftovers {
    volumes: Vec<String>,
    openers: u64,
    descriptors: usize,
}

impl LifeLeftovers {
    fn now(client: &Client, prefix: &str) -> Result<Self> {
        let path = format!("/v1/volumes?after={}&limit=10000", percent_encoded(prefix));
        let page = client.get::<v1::VolumePage>(&path)?.value;
        let names = page.volumes.into_iter().map(|volume| volume.name);
        let openers = client.get::<v1::Status>("/v1/status")?.value.connections;
        let descriptors = fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        Ok(Self {
            volumes: names.filter(|name| name.starts_with(prefix)).collect(),
            openers,
            descriptors,
        })
    }

    fn beyond(&self, before: &Self) -> Vec<String> {
        let mut leaks: Vec<String> =
            self.volumes.iter().map(|name| format!("volume {name}")).collect();
        if self.openers > before.openers {
            leaks.push(format!("{} connections of the daemon", self.openers - before.openers));
        }
        if self.descriptors > before.descriptors {
            leaks.push(format!(
                "{} descriptors of this process",
                self.descriptors - before.descriptors
            ));
        }
        leaks
    }
}

impl Function {
    fn of(name: &'static str, seen: &ScaleTotals) -> Self {
        let mut seconds = seen.seconds.get(name).cloned().unwrap_or_default();
        seconds.sort_by(f64::total_cmp);
        let count = seconds.len();
        let at = |share: usize| seconds.get((count * share / 100).min(count.saturating_sub(1)));
        let at = |share| at(share).copied().unwrap_or(0.0);
        let total = seconds.iter().fold(0.0, |sum, value| sum + value);
        let mean = if count == 0 { 0.0 } else { Estimate::of(&seconds).mean };
        let squares: f64 = seconds.iter().map(|value| (value - mean).powi(2)).sum();
        Self {
            name,
            count,
            errors: seen.errors.get(name).copied().unwrap_or(0),
            min: at(0),
            max: at(100),
            total,
            mean,
            median: at(50),
            std_dev: if count < 2 { 0.0 } else { (squares / (count - 1) as f64).sqrt() },
            p90: at(90),
        }
    }

    fn row(&self) -> Vec<String> {
        let Self { min, max, total, mean, median, std_dev, p90, .. } = *self;
        let mut row = vec![self.name.to_owned(), self.count.to_string(), self.errors.to_string()];
        row.extend(
            [min, max, total, mean, median, std_dev, p90].map(|value| format!("{value:.4}")),
        );
        row
    }
}

impl ScaleReport {
    /// The same beside a source that took so many s.
    pub fn beside(self, source_s: f64) -> Self {
        let lives = self.functions.last().map_or(0, |life| life.count);
        let is_whole =
            self.errors == 0 && self.leaks.is_empty() && lives == self.spec.volumes as usize;
        let scores = vec![Score::wall(is_whole.then_some(self.wall_seconds), source_s)];
        Self { scores, ..self }
    }

    /// For people.
    pub fn text(&self) -> String {
        let align = |title: &'static str| match title {
            "" => (title, Align::Left),
            _ => (title, Align::Right),
        };
        let rows: Vec<_> = self.functions.iter().map(Function::row).collect();
        format!("{}\n{}", labelled(&self.facts()), columns(&TITLES.map(align), &rows))
    }

    /// A page that needs nothing else.
    pub fn page(&self) -> Document {
        let rows = self.functions.iter().map(Function::row).collect();
        Document::new("varve bench scale")
            .facts(self.facts())
            .table("Functions", ReportTable { header: TITLES.to_vec(), rows })
            .headed_facts("How it was measured", self.system.facts())
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let ScaleSpec { volumes, at_once, size_bytes, block_bytes, depth, io_bytes, .. } =
            &self.spec;
        let (size, block) = (ByteCount(*size_bytes), ByteCount(*block_bytes as u64));
        let io = ByteCount(*io_bytes);
        let mut pairs = vec![
            ("volumes", format!("{volumes} of {size}, {at_once} at a time")),
            ("io", format!("{io} of each written and read back, {block} × {depth} under way")),
            ("wall time", format!("{:.1} s", self.wall_seconds)),
        ];
        pairs.extend(self.first_error.iter().map(|error| ("first error", error.clone())));
        let leaks = if self.leaks.is_empty() { "none".to_owned() } else { self.leaks.join("; ") };
        pairs.push(("leaks", leaks));
        pairs.extend(self.scores.iter().map(|score| ("score", score.text.clone())));
        pairs
    }
}

fn to_failure(error: &impl ToString) -> Failure {
    Failure::new(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_runs_stand_beside_the_source() {
        let report = |lives: usize, errors| {
            let spec = ScaleSpec {
                volumes: 2,
                at_once: 1,
                size_bytes: 4096,
                block_bytes: 4096,
                depth: 1,
                io_bytes: 4096,
                prefix: String::new(),
            };
            let seconds = BTreeMap::from([("life", vec![1.0; lives])]);
            let seen = ScaleTotals { seconds, ..ScaleTotals::default() };
            let report = ScaleReport {
                spec,
                system: System::now(),
                wall_seconds: 50.0,
                functions: FUNCTIONS.map(|name| Function::of(name, &seen)).into(),
                leaks: Vec::new(),
                errors,
                first_error: None,
                scores: Vec::new(),
            };
            report.beside(100.0)
        };
        assert_eq!(report(2, 0).scores[0].value, Some(50.0));
        assert!(report(2, 0).text().contains("50.0 s, 0.50 times the source's 100 s"));
        assert_eq!(report(2, 1).scores[0].value, None);
        assert_eq!(report(1, 0).scores[0].value, None, "ended early");
    }
}
