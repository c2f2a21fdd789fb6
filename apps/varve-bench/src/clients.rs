//! Several client processes of one load: this program started again for each, phases that all begin together, and their
//! results as one.
//!
//! ```text
//!  parent ── spawns ──▶ client 1 … client N     each with its part of jobs, target and rate
//!         ◀── "ready" of all, before each load
//!         ──▶ "go" to all
//!         ◀── "measured" of all, after its windows
//!         ◀── "tried" with a load's report of all, where a number of jobs is looked for
//!         ──▶ "jobs" of the next load, for each; "enough" when the number is known
//!         ◀── "no room" of one that the target does not take with its jobs, again and again
//!         ──▶ "enough" to all, whatever they said, until all of them say so; then "go"
//!         ◀── report of each as JSON
//! ```
//!
//! From "go" to "measured" the parent looks at what the machine does; clients do not, so that nothing is counted twice.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use varve_client::age::now_unix_ms;
use varve_client::{Client, Failure, Result};
use varve_tool_bench::{MachineUsage, Point, next_volumes};

use super::figures::{ResultOrigin, Window};
use super::health::{Health, HealthWatch};
use super::page::NamedResult;
use super::plan::RunPlan;
use super::report::{BenchReport, json};
use super::sampler::{Sampler, Timeline};
use super::saved::SavedResult;
use super::timeline::Timelines;

/// What a client says when it could begin, what it is told then, and what it says when it has measured.
const READY: &str = "ready";
const GO: &str = "go";
const MEASURED: &str = "measured";

/// What a client says of a load that is part of a search, and what it is told then.
const TRIED: &str = "tried ";
const JOBS: &str = "jobs ";
const ENOUGH: &str = "enough";

/// What a client says when it cannot have the next load of a search.
const NO_ROOM: &str = "no room";

/// Flags that the parent has for itself, and whether a value follows each.
const OWN: [(&str, bool); 7] = [
    ("--clients", true),
    ("--save", true),
    ("--json", false),
    ("--process", true),
    ("--server", false),
    ("--ceph", true),
    ("--healthy", true),
];

/// A client.
struct ClientProcess {
    process: Child,
    told: ChildStdin,
    says: BufReader<ChildStdout>,
    line: String,
}

/// In a client: says that a load could begin, and waits until all can; whether they can.
pub(super) fn step() -> Result<bool> {
    match exchange(READY)?.as_str() {
        GO => Ok(true),
        ENOUGH => Ok(false),
        _ => Err(others_ended()),
    }
}

/// In a client: says that the windows of a load are over.
pub(super) fn measured() -> Result<()> {
    say(MEASURED)
}

fn say(word: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{word}").and_then(|()| out.flush()).map_err(lost)
}

#[expect(clippy::needless_pass_by_value, reason = "map_err passes it so")]
fn lost(error: io::Error) -> Failure {
    Failure::new(format!("the other clients are gone: {error}"))
}

/// In a client: says that the next load of a search cannot be had, until all say so.
pub(super) fn give_up() -> Result<()> {
    loop {
        match exchange(NO_ROOM)?.as_str() {
            GO => return Ok(()),
            ENOUGH => {}
            _ => return Err(others_ended()),
        }
    }
}

/// In a client: says what a load of a search measured, and hears with how many jobs of its own it goes on; none when it
/// does not.
pub(super) fn next_jobs(report: &BenchReport) -> Result<Option<u32>> {
    let answer = exchange(&format!("{TRIED}{}", json(report)?.trim_end()))?;
    match answer.strip_prefix(JOBS).map(str::parse) {
        Some(Ok(jobs)) => Ok(Some(jobs)),
        None if answer == ENOUGH => Ok(None),
        Some(Err(_)) | None => Err(others_ended()),
    }
}

fn others_ended() -> Failure {
    Failure::new("the other clients ended")
}

/// Says something, and waits for what is said to it.
fn exchange(said: &str) -> Result<String> {
    say(said)?;
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line).map_err(lost)?;
    if read == 0 {
        return Err(others_ended());
    }
    Ok(line.trim_end().to_owned())
}

/// Starts `count` clients with the arguments of this process, and merges what they measure of `plans`, with what the
/// machine did meanwhile.
pub fn run_clients(
    count: u32,
    plans: &[RunPlan],
    client: &Client,
) -> Result<(SavedResult, Timelines)> {
    let plan = plans.first().expect("there is a load");
    let p99_ms = plans.iter().find_map(|plan| plan.search_p99_ms);
    let failed = |error: io::Error| Failure::new(format!("start a client: {error}"));
    let program = std::env::current_exe().map_err(failed)?;
    let arguments = arguments(std::env::args().skip(1));
    let mut clients = Vec::new();
    for number in 0..count {
        let mut command = Command::new(&program);
        command.args(&arguments).args(["--json", "--client", &format!("{number}/{count}")]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().map_err(failed)?;
        let (told, says) = (process.stdin.take(), process.stdout.take());
        let (Some(told), Some(says)) = (told, says) else {
            return Err(Failure::new("start a client: it has no pipes"));
        };
        clients.push(ClientProcess {
            process,
            told,
            says: BufReader::new(says),
            line: String::new(),
        });
    }
    let processes: Vec<u32> = clients.iter().map(|client| client.process.id()).collect();
    let observe = || LoadObservation::start(plan, processes.clone(), client);
    let conducted = conduct(&mut clients, p99_ms, &observe);
    for client in &mut clients {
        if conducted.is_err() {
            // It may have ended already.
            let _it_is_gone = client.process.kill();
        }
        let _its_report_says_more = client.process.wait();
    }
    let (reports, loads) = conducted?;
    let reports = reports
        .into_iter()
        .enumerate()
        .map(|(index, saved)| NamedResult::new(format!("client {} of {count}", index + 1), saved));
    let mut saved = SavedResult::merged(&reports.collect::<Vec<_>>())?;
    let runs = saved.runs.iter_mut().zip(&loads);
    let timelines = runs.map(|(run, seen)| {
        run.told_health(seen.health.clone());
        run.observe(|window| seen.within(window))
    });
    let timelines = timelines.collect();
    // A run on a degraded system scores nothing.
    Ok((saved.scored(), Timelines::of_windows(timelines)))
}

/// What the machine did during a load, and how the system was.
struct LoadObservation {
    sampler: Sampler,
    health_watch: Option<HealthWatch>,
    health: Option<Health>,
    began: Instant,
    began_unix_ms: u64,
}

impl LoadObservation {
    fn start(plan: &RunPlan, clients: Vec<u32>, client: &Client) -> Result<Self> {
        let health_watch = HealthWatch::begin(plan, client)?;
        let sampler = Sampler::start(plan, clients, client)?;
        let (began, began_unix_ms) = (Instant::now(), now_unix_ms());
        Ok(Self { sampler, health_watch, health: None, began, began_unix_ms })
    }

    fn end(&mut self) {
        self.sampler.end();
        let health = self.health_watch.take().map(HealthWatch::end);
        self.health = health.or(self.health.take());
    }

    /// In a window of the clients, which have the same clock.
    fn within(&self, window: &Window) -> (Option<MachineUsage>, Timeline) {
        let after_ms = window.began_unix_ms.saturating_sub(self.began_unix_ms);
        let begin = self.began + Duration::from_millis(after_ms);
        let end = begin + Duration::from_millis(window.window_ms);
        (self.sampler.within(begin, end), self.sampler.timeline(begin, end))
    }
}

/// Lets all begin each load together, until they report; what `observe` begins is kept for each load.
fn conduct(
    clients: &mut [ClientProcess],
    p99_ms: Option<u32>,
    observe: &dyn Fn() -> Result<LoadObservation>,
) -> Result<(Vec<SavedResult>, Vec<LoadObservation>)> {
    let mut loads: Vec<LoadObservation> = Vec::new();
    let mut tried: Vec<Point> = Vec::new();
    loop {
        hear(clients)?;
        let says = |what: &str| clients.iter().filter(|one| one.line.trim_end() == what).count();
        let answer = if says(MEASURED) == clients.len() {
            loads.iter_mut().for_each(LoadObservation::end);
            continue;
        } else if says(READY) == clients.len() {
            loads.push(observe()?);
            GO.to_owned()
        } else if says(NO_ROOM) == clients.len() {
            GO.to_owned()
        } else if says(NO_ROOM) > 0 {
            ENOUGH.to_owned()
        } else if let (Some(p99_ms), Some(point)) = (p99_ms, tried_by(clients)?) {
            tried.retain(|before| before.read_percent == point.read_percent);
            tried.push(point);
            let count = u32::try_from(clients.len()).expect("there are few clients");
            next_volumes(&tried, p99_ms, count)
                .map_or_else(|| ENOUGH.to_owned(), |jobs| format!("{JOBS}{}", jobs / count))
        } else {
            let reports = clients.iter().map(|client| SavedResult::of_json(&client.line));
            return reports.collect::<Result<_>>().map(|reports| (reports, loads));
        };
        for client in clients.iter_mut() {
            let told = writeln!(client.told, "{answer}").and_then(|()| client.told.flush());
            told.map_err(|error| Failure::new(format!("a client is gone: {error}")))?;
        }
    }
}

/// Waits until each has said something.
fn hear(clients: &mut [ClientProcess]) -> Result<()> {
    for client in clients.iter_mut() {
        client.line.clear();
        let read = client.says.read_line(&mut client.line);
        if read.ok().is_none_or(|bytes| bytes == 0) {
            return Err(Failure::new("a client ended without a result"));
        }
    }
    Ok(())
}

/// The load of a search that all clients tried together, if that is what they say.
fn tried_by(clients: &[ClientProcess]) -> Result<Option<Point>> {
    let said = clients.iter().map(|client| client.line.strip_prefix(TRIED));
    let Some(said) = said.collect::<Option<Vec<&str>>>() else { return Ok(None) };
    let read = |text: &&str| {
        let no_report = |error| Failure::new(format!("a client process gave no report: {error}"));
        serde_json::from_str::<BenchReport>(text).map_err(no_report)
    };
    let reports = said.iter().map(read).collect::<Result<Vec<BenchReport>>>()?;
    let origin = ResultOrigin { name: "client", machine: None };
    let parts: Vec<_> = reports.iter().map(|report| (origin, report)).collect();
    Ok(Some(BenchReport::merged(&parts)?.point()))
}

/// Those of a client: without what the parent does.
fn arguments(mut all: impl Iterator<Item = String>) -> Vec<String> {
    let mut kept = Vec::new();
    while let Some(argument) = all.next() {
        let (flag, has_value) = match argument.split_once('=') {
            Some((flag, _)) => (flag, true),
            None => (argument.as_str(), false),
        };
        match OWN.iter().find(|(own, _)| *own == flag) {
            None => kept.push(argument),
            Some((_, takes_value)) => {
                if *takes_value && !has_value {
                    all.next();
                }
            }
        }
    }
    kept
}

/// Which of how many clients one is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClientPart {
    /// Counts from 0.
    pub number: u32,
    /// How many clients there are.
    pub count: u32,
}

impl std::str::FromStr for ClientPart {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let parts = text.split_once('/');
        let read = parts.and_then(|(one, all)| Some((one.parse().ok()?, all.parse().ok()?)));
        match read {
            Some((number, count)) if number < count => Ok(Self { number, count }),
            _ => Err(format!("`{text}` must be NUMBER/COUNT")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_get_everything_but_what_the_parent_does() {
        let all = "bench run --target x --clients 4 --save dir --json --depth 8 --save=other --server --ceph a --ceph=b --process c --healthy x";
        let kept = arguments(all.split(' ').map(str::to_owned));
        assert_eq!(kept.join(" "), "bench run --target x --depth 8");
        assert_eq!("1/4".parse(), Ok(ClientPart { number: 1, count: 4 }));
        for wrong in ["", "4/4", "1", "a/b"] {
            assert!(wrong.parse::<ClientPart>().is_err(), "{wrong}");
        }
    }
}
