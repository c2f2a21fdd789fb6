//! `varve bench import`: what fio printed, as a result that `varve report` shows and compares.

use std::path::PathBuf;

use clap::Args;
use varve_bench::{SavedResult, Timelines};
use varve_client::{Failure, Result};
use varve_tool_bench::fio::FioOutput;

use crate::commands::bench::read_text;

/// Read what fio printed as JSON, as a result that `varve report` shows and compares
#[derive(Args, Debug)]
#[command(
    after_help = "Percentiles of several jobs, and of reads and writes together, come from histograms, which fio prints with\n\
                  --output-format=json+; they are never averaged. Results of json have rates and means without them. Flushes of fsync and fdatasync\n\
                  have a row of their own.\n\n\
                  Examples:\n  \
                  fio --output-format=json+ --output=out.json job.fio\n  \
                  varve bench import out.json --save results/fio"
)]
pub(crate) struct Import {
    /// File that `fio --output-format=json` or json+ wrote, - for standard input
    file: PathBuf,

    /// Save the result to a new folder
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,

    /// Print JSON as `varve bench run --json` does
    #[arg(long)]
    json: bool,
}

impl Import {
    pub(crate) fn run(self) -> Result<String> {
        self.save.as_deref().map_or(Ok(()), SavedResult::check)?;
        let output = FioOutput::read(&read_text(&self.file)?).and_then(FioOutput::with_rates);
        let output = output
            .map_err(|error| Failure::misuse(format!("read {}: {error}", self.file.display())))?;
        let saved = SavedResult::of_fio(&output);
        saved.save_and_render(Timelines::default(), self.save.as_deref(), self.json)
    }
}
