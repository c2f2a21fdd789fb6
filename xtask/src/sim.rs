//! The simulator, which lives elsewhere, under the name by which CI and the Makefile know it.

use std::process::Command;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use clap::Args;

use crate::step::{self, Counts};

/// Kinds of worlds that CI looks at, and how many fresh seeds of each.
const KINDS: [(&str, u64); 7] = [
    ("seeded", 100),
    ("sharing", 50),
    ("promising", 40),
    ("overlapping", 30),
    ("objects", 40),
    ("moving", 40),
    ("losing-lanes", 30),
];

/// The simulator: random runs, or the replay of one.
#[derive(Args)]
pub(crate) struct Sim {
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

impl Sim {
    pub(crate) fn run(&self) -> Result<bool> {
        let mut command = Command::new("cargo");
        command.args(["run", "--quiet", "--release", "-p", "varve-sim", "--"]);
        match self.seed {
            Some(seed) => command.args(["--seed", &seed.to_string()]),
            None => command.args(["--seeds", &self.seeds.to_string()]),
        };
        Ok(step::run("simulator", command.args(&self.rest))?.failed == 0)
    }
}

/// Runs seeds that no run before has seen, as they follow from the time, and prints them: what one finds, `cargo xtask sim --seed`
/// replays.
pub(crate) fn fresh_seeds() -> Result<Counts> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is before 1970")?;
    let first = since.as_secs() * 1000;
    let threads = thread::available_parallelism().map_or(1, usize::from).to_string();
    let mut counts = Counts::default();
    for (kind, seeds) in KINDS {
        println!("seeds {first} to {} {kind}", first + seeds - 1);
        let mut command = Command::new("cargo");
        // As the tests build it: nothing is compiled again.
        command.args(["run", "--quiet", "--profile", "test", "-p", "varve-sim", "--"]);
        command.args(["--seed", &first.to_string(), "--seeds", &seeds.to_string()]);
        command.args(["--threads", &threads, "--kind", kind]);
        counts.add(step::run("fresh seeds of the simulator", &mut command)?);
    }
    Ok(counts)
}
