//! The simulator, which lives elsewhere, under the name by which CI and the Makefile know it.

use std::process::Command;

use anyhow::Result;
use clap::Args;

use crate::step;

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
