//! Several client processes of one load: this program started again for each, phases that all begin together, and their results as one.
//!
//! ```text
//!  parent ── spawns ──▶ client 1 … client N     each with its part of jobs, target and rate
//!         ◀── "ready" of all, before each load
//!         ──▶ "go" to all
//!         ◀── "measured" of all, after its windows
//!         ◀── report of each as JSON
//! ```
//!
//! From "go" to "measured" the parent looks at what the machine does; clients do not, so that nothing is counted twice.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use varve_tool_bench::Usage;

use super::figures::Window;
use super::health::{Health, HealthWatch};
use super::page::Named;
use super::run::Plan;
use super::sampler::{Sampler, Timeline};
use super::saved::Saved;
use super::timeline::Timelines;
use crate::age::now_unix_ms;
use crate::cli::Global;
use crate::failure::{Failure, Result};

/// What a client says when it could begin, what it is told then, and what it says when it has measured.
const READY: &str = "ready";
const GO: &str = "go";
const MEASURED: &str = "measured";

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
struct Client {
    process: Child,
    told: ChildStdin,
    says: BufReader<ChildStdout>,
    line: String,
}

/// In a client: says that a load could begin, and waits until all can.
pub(super) fn step() -> Result<()> {
    say(READY)?;
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line).map_err(lost)?;
    if read == 0 || line.trim_end() != GO {
        return Err(Failure::new("the other clients ended"));
    }
    Ok(())
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

/// Starts `count` clients with the arguments of this process, and merges what they measure, with what the machine did meanwhile; `plan` says what is
/// looked at.
pub(crate) fn run_clients(count: u32, plan: &Plan, global: &Global) -> Result<(Saved, Timelines)> {
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
        clients.push(Client { process, told, says: BufReader::new(says), line: String::new() });
    }
    let processes: Vec<u32> = clients.iter().map(|client| client.process.id()).collect();
    let conducted = conduct(&mut clients, &|| Observed::start(plan, processes.clone(), global));
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
        .map(|(index, saved)| Named::new(format!("client {} of {count}", index + 1), saved));
    let mut saved = Saved::merged(&reports.collect::<Vec<_>>())?;
    let runs = saved.runs.iter_mut().zip(&loads);
    let timelines = runs.map(|(run, seen)| {
        run.told_health(seen.health.clone());
        run.observe(|window| seen.within(window))
    });
    let timelines = timelines.collect();
    Ok((saved, Timelines::of_windows(timelines)))
}

/// What the machine did during a load, and how the system was.
struct Observed {
    sampler: Sampler,
    health_watch: Option<HealthWatch>,
    health: Option<Health>,
    began: Instant,
    began_unix_ms: u64,
}

impl Observed {
    fn start(plan: &Plan, clients: Vec<u32>, global: &Global) -> Result<Self> {
        let health_watch = HealthWatch::begin(plan, global)?;
        let sampler = Sampler::start(plan, clients, global)?;
        let (began, began_unix_ms) = (Instant::now(), now_unix_ms());
        Ok(Self { sampler, health_watch, health: None, began, began_unix_ms })
    }

    fn end(&mut self) {
        self.sampler.end();
        let health = self.health_watch.take().map(HealthWatch::end);
        self.health = health.or(self.health.take());
    }

    /// In a window of the clients, which have the same clock.
    fn within(&self, window: &Window) -> (Option<Usage>, Timeline) {
        let after_ms = window.began_unix_ms.saturating_sub(self.began_unix_ms);
        let begin = self.began + Duration::from_millis(after_ms);
        let end = begin + Duration::from_millis(window.window_ms);
        (self.sampler.within(begin, end), self.sampler.timeline(begin, end))
    }
}

/// What all clients say.
enum Said {
    Ready,
    Measured,
    Reports(Vec<Saved>),
}

/// Lets all begin each load together, until they report; what `observe` begins is kept for each load.
fn conduct(
    clients: &mut [Client],
    observe: &dyn Fn() -> Result<Observed>,
) -> Result<(Vec<Saved>, Vec<Observed>)> {
    let mut loads: Vec<Observed> = Vec::new();
    loop {
        match hear(clients)? {
            Said::Ready => {
                loads.push(observe()?);
                for client in clients.iter_mut() {
                    let told = writeln!(client.told, "{GO}").and_then(|()| client.told.flush());
                    told.map_err(|error| Failure::new(format!("a client is gone: {error}")))?;
                }
            }
            Said::Measured => loads.iter_mut().for_each(Observed::end),
            Said::Reports(reports) => return Ok((reports, loads)),
        }
    }
}

/// Waits until each has said something.
fn hear(clients: &mut [Client]) -> Result<Said> {
    for client in clients.iter_mut() {
        client.line.clear();
        let read = client.says.read_line(&mut client.line);
        if read.ok().is_none_or(|bytes| bytes == 0) {
            return Err(Failure::new("a client ended without a result"));
        }
    }
    let all_say = |word: &str| clients.iter().all(|client| client.line.trim_end() == word);
    if all_say(READY) {
        return Ok(Said::Ready);
    }
    if all_say(MEASURED) {
        return Ok(Said::Measured);
    }
    let reports = clients.iter().map(|client| Saved::of_json(&client.line));
    reports.collect::<Result<_>>().map(Said::Reports)
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
pub(crate) struct ClientPart {
    pub(crate) number: u32,
    pub(crate) count: u32,
}

impl std::str::FromStr for ClientPart {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let parts = text.split_once('/');
        let read = parts.and_then(|(one, all)| Some((one.parse().ok()?, all.parse().ok()?)));
        match read {
            Some((number, count)) if number < count => Ok(Self { number, count }),
            _ => Err(format!("`{text}` is no NUMBER/COUNT")),
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
