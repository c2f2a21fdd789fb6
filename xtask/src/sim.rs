//! The simulator, which lives elsewhere, under the name by which CI and the Makefile know it.

use std::process::Command;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use clap::{Args, Subcommand};

use crate::ci::target_directory;
use crate::step::{self, StageRunner, TestCounts};

/// Kinds of worlds that CI looks at, and how many fresh seeds of each.
const KINDS: [(&str, u64); 18] = [
    ("seeded", 70),
    ("sharing", 30),
    ("promising", 30),
    ("overlapping", 20),
    ("objects", 30),
    ("moving", 30),
    ("losing-lanes", 20),
    ("losing-pages", 20),
    ("drives", 25),
    ("full-host", 25),
    ("stuck", 25),
    ("losing-drives", 25),
    ("returning-drives", 25),
    ("slow-drives", 20),
    ("torn-stripes", 20),
    ("rotting-strips", 20),
    ("moving-rows", 25),
    ("full-degraded", 20),
];

/// The simulator: random runs, or the replay of one.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Sim {
    #[command(subcommand)]
    measurement: Option<Measurement>,

    /// How many seeds to run
    #[arg(long, default_value_t = 1000, conflicts_with = "seed")]
    seeds: u64,

    /// Replays this seed and prints what happens
    #[arg(long)]
    seed: Option<u64>,

    /// Options of the simulator itself
    #[arg(last = true)]
    rest: Vec<String>,
}

/// What is measured about the simulator.
#[derive(Subcommand)]
enum Measurement {
    /// Which planted bugs the seeds of one CI run find; fails for a bug that the median of several runs misses
    Reach(SimReach),
}

/// Plants each bug and runs the worlds of several CI runs.
#[derive(Args)]
struct SimReach {
    /// CI runs whose worlds are run with each bug
    #[arg(long, default_value_t = 5)]
    runs: u64,

    /// Only these bugs, by their names in crates/varve-media/src/planted.rs
    #[arg(long = "bug")]
    bugs: Vec<String>,

    /// First seed, to repeat a measurement; default: seeds that no run before has seen
    #[arg(long)]
    seed: Option<u64>,

    /// Prints JSON
    #[arg(long)]
    json: bool,
}

impl Sim {
    pub(crate) fn run(&self) -> Result<bool> {
        if let Some(Measurement::Reach(reach)) = &self.measurement {
            return reach.run();
        }
        let mut stages = StageRunner::default();
        let mut command = stages.command("cargo");
        command.args(["run", "--quiet", "--release", "-p", "varve-sim", "--"]);
        match self.seed {
            Some(seed) => command.args(["--seed", &seed.to_string()]),
            None => command.args(["--seeds", &self.seeds.to_string()]),
        };
        stages.run("simulator", command.args(&self.rest))
    }
}

impl SimReach {
    /// Runs the measurement; whether the median run finds every bug. Its output is the measurement's alone.
    fn run(&self) -> Result<bool> {
        let seed = self.seed.map_or_else(fresh_seed, Ok)?;
        eprintln!("seeds from {seed}: `--seed {seed}` repeats this measurement");
        let mut command = Command::new("cargo");
        // As CI runs the worlds: with the assertions of a test build.
        command.args(["run", "--quiet", "--profile", "test", "-p", "varve-sim"]);
        command.args(["--example", "reach", "--", "--threads", &threads()]);
        command.args(["--runs", &self.runs.to_string(), "--seed", &seed.to_string()]);
        for (kind, seeds) in KINDS {
            command.args(["--worlds", &format!("{kind}={seeds}")]);
        }
        for bug in &self.bugs {
            command.args(["--bug", bug]);
        }
        command.args(self.json.then_some("--json"));
        let status = command.current_dir(step::root()).status().context("start cargo")?;
        Ok(status.success())
    }
}

/// The first of 1000 seeds that no run before has seen, as they follow from the time.
fn fresh_seed() -> Result<u64> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is before 1970")?;
    Ok(since.as_secs() * 1000)
}

/// Threads for worlds: as many as there are processors.
fn threads() -> String {
    thread::available_parallelism().map_or(1, usize::from).to_string()
}

/// Runs fresh seeds and prints them: what one finds, `cargo xtask sim --seed` replays.
pub(crate) fn fresh_seeds(stages: &mut StageRunner) -> Result<()> {
    let first = fresh_seed()?;
    // As the tests built it: by itself it has other features, and everything below it is compiled again.
    let program = target_directory()?.join("debug/varve-sim");
    for (kind, seeds) in KINDS {
        println!("seeds {first} to {} {kind}", first + seeds - 1);
        let mut command = stages.command(&program);
        command.args(["--seed", &first.to_string(), "--seeds", &seeds.to_string()]);
        command.args(["--threads", &threads(), "--kind", kind]);
        if !stages.run("fresh seeds of the simulator", &mut command)? {
            // Named once more at the end, where the beginning of the output may be gone.
            let seeds = format!("--kind {kind}, seeds {first} to {}", first + seeds - 1);
            stages.add(TestCounts { failures: vec![seeds], ..TestCounts::default() });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        sim: Sim,
    }

    fn parse(arguments: &[&str]) -> Option<Sim> {
        let words = std::iter::once("sim").chain(arguments.iter().copied());
        Cli::try_parse_from(words).ok().map(|cli| cli.sim)
    }

    #[test]
    fn measurements_and_runs_are_told_apart() {
        Cli::command().debug_assert();
        let sim = parse(&["reach", "--runs", "3", "--bug", "A", "--bug", "B", "--json"]).unwrap();
        let Some(Measurement::Reach(reach)) = sim.measurement else { panic!("no measurement") };
        assert_eq!((reach.runs, reach.seed, reach.json), (3, None, true));
        assert_eq!(reach.bugs, ["A", "B"]);
        let sim = parse(&["--seed", "5", "--", "--kind", "sharing"]).unwrap();
        assert!(sim.measurement.is_none());
        assert_eq!(sim.seed, Some(5));
        assert_eq!(sim.rest, ["--kind", "sharing"]);
        assert!(parse(&["--seed", "5", "reach"]).is_none());
    }
}
