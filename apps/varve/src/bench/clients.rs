//! Several client processes of one load: this program started again for each, phases that all begin together, and their results as one.
//!
//! ```text
//!  parent ── spawns ──▶ client 1 … client N     each with its part of jobs, target and rate
//!         ◀── "ready" of all, before each load
//!         ──▶ "go" to all
//!         ◀── report of each as JSON
//! ```

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::page::Named;
use super::saved::Saved;
use crate::failure::{Failure, Result};

/// What a client says when it could begin, and what it is told then.
const READY: &str = "ready";
const GO: &str = "go";

/// Flags that the parent has for itself, and whether a value follows each.
const OWN: [(&str, bool); 3] = [("--clients", true), ("--save", true), ("--json", false)];

/// A client.
struct Client {
    process: Child,
    told: ChildStdin,
    says: BufReader<ChildStdout>,
    line: String,
}

/// In a client: says that a load could begin, and waits until all can.
pub(super) fn step() -> Result<()> {
    let lost = |error: io::Error| Failure::new(format!("the other clients are gone: {error}"));
    let mut out = io::stdout().lock();
    writeln!(out, "{READY}").and_then(|()| out.flush()).map_err(lost)?;
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line).map_err(lost)?;
    if read == 0 || line.trim_end() != GO {
        return Err(Failure::new("the other clients ended"));
    }
    Ok(())
}

/// Starts `count` clients with the arguments of this process, and merges what they measure.
pub(crate) fn run_clients(count: u32) -> Result<Saved> {
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
    let reports = conduct(&mut clients);
    for client in &mut clients {
        if reports.is_err() {
            // It may have ended already.
            let _it_is_gone = client.process.kill();
        }
        let _its_report_says_more = client.process.wait();
    }
    let reports = reports?
        .into_iter()
        .enumerate()
        .map(|(index, saved)| Named::new(format!("client {} of {count}", index + 1), saved));
    Saved::merged(&reports.collect::<Vec<_>>())
}

/// Lets all begin each load together, until they report.
fn conduct(clients: &mut [Client]) -> Result<Vec<Saved>> {
    loop {
        for client in clients.iter_mut() {
            client.line.clear();
            let read = client.says.read_line(&mut client.line);
            if read.ok().is_none_or(|bytes| bytes == 0) {
                return Err(Failure::new("a client ended without a result"));
            }
        }
        if clients.iter().any(|client| client.line.trim_end() != READY) {
            return clients.iter().map(|client| Saved::of_json(&client.line)).collect();
        }
        for client in clients.iter_mut() {
            let told = writeln!(client.told, "{GO}").and_then(|()| client.told.flush());
            told.map_err(|error| Failure::new(format!("a client is gone: {error}")))?;
        }
    }
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
        let all = "bench run --target x --clients 4 --save dir --json --depth 8 --save=other";
        let kept = arguments(all.split(' ').map(str::to_owned));
        assert_eq!(kept.join(" "), "bench run --target x --depth 8");
        assert_eq!("1/4".parse(), Ok(ClientPart { number: 1, count: 4 }));
        for wrong in ["", "4/4", "1", "a/b"] {
            assert!(wrong.parse::<ClientPart>().is_err(), "{wrong}");
        }
    }
}
