//! Measures which planted bugs the simulator finds in the worlds of one CI run: plants each bug, runs the worlds of
//! several CI runs, and tells in how many runs one failed, and at which world the median run failed.
//! `cargo xtask sim reach` runs it with CI's kinds of worlds.
//!
//! An example, as the planted bugs are compiled into what is built for tests, and examples are.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use clap::{Parser, ValueEnum};
use serde_json::{Value, json};
use varve_logstore::planted::{Bug, plant};
use varve_sim::{WorldKind, catch_panics, run_world};

/// Seeds from the first one of a CI run to that of the next.
const SEEDS_APART: u64 = 1000;

/// Plants bugs, and tells which of them the worlds of a CI run find.
#[derive(Parser)]
#[command(name = "reach")]
struct Options {
    /// Worlds of a CI run, in their order: so many of a kind, such as `sharing=50`
    #[arg(long, required = true, value_parser = parse_batch)]
    worlds: Vec<Batch>,
    /// First seed of the first run
    #[arg(long)]
    seed: u64,
    /// CI runs
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    runs: u64,
    /// Only these bugs
    #[arg(long = "bug", value_parser = parse_bug)]
    bugs: Vec<Bug>,
    /// Threads to use; each takes one run at a time
    #[arg(long, default_value_t = 1)]
    threads: u64,
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

/// So many worlds of a kind.
#[derive(Clone, Copy)]
struct Batch {
    kind: WorldKind,
    count: u64,
}

/// What the runs made of one bug.
struct Reach {
    bug: Bug,
    /// For each run the world that failed, counted from 1; the earliest first, and those in which none did last.
    worlds: Vec<Option<u64>>,
}

fn parse_batch(text: &str) -> Result<Batch, String> {
    let (kind, count) = text.split_once('=').ok_or("expected KIND=COUNT")?;
    let count = count.parse::<u64>().map_err(|error| format!("invalid count {count}: {error}"))?;
    Ok(Batch { kind: WorldKind::from_str(kind, false)?, count })
}

fn parse_bug(text: &str) -> Result<Bug, String> {
    let named = Bug::ALL.into_iter().find(|bug| format!("{bug:?}") == text);
    named.ok_or_else(|| {
        let names: Vec<_> = Bug::ALL.iter().map(|bug| format!("{bug:?}")).collect();
        format!("there is no planted bug {text}; there are {}", names.join(", "))
    })
}

impl Options {
    /// Worlds of one run.
    fn worlds_of_run(&self) -> u64 {
        self.worlds.iter().map(|batch| batch.count).sum()
    }

    /// Which world of the run that begins with seed `first` fails, counted from 1.
    fn failing_world(&self, first: u64) -> Option<u64> {
        let worlds = self.worlds.iter().flat_map(move |batch| {
            (first..first + batch.count).map(move |seed| batch.kind.world(seed))
        });
        (1..)
            .zip(worlds)
            .find_map(|(number, world)| run_world(world).failure.is_some().then_some(number))
    }

    /// Runs the worlds of all runs with the bug planted.
    fn reach(&self, bug: Bug) -> Reach {
        let next = AtomicU64::new(0);
        let found = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for _ in 0..self.threads.clamp(1, self.runs) {
                scope.spawn(|| {
                    plant(Some(bug));
                    loop {
                        let run = next.fetch_add(1, Ordering::Relaxed);
                        if run >= self.runs {
                            return;
                        }
                        let world = self.failing_world(self.seed + run * SEEDS_APART);
                        self.print_progress(bug, run, world);
                        found.lock().expect("no thread panicked").push(world);
                    }
                });
            }
        });
        let mut worlds = found.into_inner().expect("no thread panicked");
        worlds.sort_by_key(|world| world.unwrap_or(u64::MAX));
        Reach { bug, worlds }
    }

    fn print_progress(&self, bug: Bug, run: u64, world: Option<u64>) {
        let (number, runs, worlds) = (run + 1, self.runs, self.worlds_of_run());
        match world {
            Some(world) => eprintln!("{bug:?}: run {number} of {runs}: world {world} fails"),
            None => eprintln!("{bug:?}: run {number} of {runs}: none of {worlds} worlds fails"),
        }
    }
}

impl Reach {
    /// Runs that found the bug.
    fn found(&self) -> usize {
        self.worlds.iter().flatten().count()
    }

    /// The world at which the median run found it; of an even number of runs the later of both in the middle.
    fn median(&self) -> Option<u64> {
        self.worlds.get(self.worlds.len() / 2).copied().flatten()
    }

    fn print(&self) {
        let name = format!("{:?}", self.bug);
        let (found, runs) = (self.found(), self.worlds.len());
        match self.median() {
            Some(world) => {
                println!("{name:<28} found in {found} of {runs} runs, median world {world}")
            }
            None => {
                println!("{name:<28} found in {found} of {runs} runs: MISSED by the median run")
            }
        }
    }

    fn json(&self) -> Value {
        json!({
            "bug": format!("{:?}", self.bug),
            "runs": self.worlds.len(),
            "found": self.found(),
            "median_world": self.median(),
            "worlds": self.worlds,
        })
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    catch_panics();
    let bugs = if options.bugs.is_empty() { Bug::ALL.to_vec() } else { options.bugs.clone() };
    let mut reached = Vec::new();
    for bug in bugs {
        let reach = options.reach(bug);
        if !options.json {
            reach.print();
        }
        reached.push(reach);
    }
    if options.json {
        let bugs: Vec<_> = reached.iter().map(Reach::json).collect();
        let worlds = options.worlds_of_run();
        println!("{:#}", json!({ "seed": options.seed, "worlds_of_run": worlds, "bugs": bugs }));
    }
    let missed: Vec<_> = reached.iter().filter(|reach| reach.median().is_none()).collect();
    for reach in &missed {
        eprintln!(
            "error: the median run misses {:?}: {} of its runs find it",
            reach.bug,
            reach.found()
        );
    }
    if missed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
