//! `varve bench merge`: results of several hosts that measured together, as one.

use std::path::PathBuf;

use clap::Args;
use varve_bench::{NamedResult, SavedResult, Timelines};
use varve_client::Result;

/// Most hosts.
const HOSTS_MAX: usize = 1000;

/// Merge the results of several hosts that ran the same load at the same time
#[derive(Args, Debug)]
#[command(
    after_help = "Start all hosts with one --at, each with its own --seed. Rates are added, histograms are merged, percentiles are never averaged;\n\
                  a result whose windows lie apart in time is marked as invalid."
)]
pub(crate) struct Merge {
    /// Results: folders of `varve bench run --save`, or files of its --json
    #[arg(required = true, num_args = 2..=HOSTS_MAX)]
    results: Vec<PathBuf>,

    /// Save the result to a new folder
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,

    /// Print JSON as `varve bench run --json` does
    #[arg(long)]
    json: bool,
}

impl Merge {
    pub(crate) fn run(self) -> Result<String> {
        self.save.as_deref().map_or(Ok(()), SavedResult::check)?;
        let saved = SavedResult::merged(&NamedResult::read_all(&self.results)?)?;
        saved.save_and_render(Timelines::default(), self.save.as_deref(), self.json)
    }
}
