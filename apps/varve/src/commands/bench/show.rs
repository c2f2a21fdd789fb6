//! `varve bench show`: the parameters of a preset.

use clap::Args;
use varve_bench::{describe, json, known};
use varve_client::Result;

/// Show the parameters of a preset, and what in them is assumed
#[derive(Args, Debug)]
pub(crate) struct BenchShow {
    /// Name of the preset; `varve bench list` has them
    preset: String,

    /// Print JSON; fields are added over time, never renamed
    #[arg(long)]
    json: bool,
}

impl BenchShow {
    pub(crate) fn run(self) -> Result<String> {
        let preset = known(&self.preset)?;
        if self.json { json(&describe(&preset).0) } else { Ok(describe(&preset).1) }
    }
}
