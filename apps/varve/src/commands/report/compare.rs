//! `varve report compare`: whether one result is worse than another.

use std::path::PathBuf;

use clap::Args;
use varve_bench::{LoadComparison, SavedResult, compare, json};
use varve_client::{Failure, Result};

use crate::output::print;

/// Compare two results of the same load; ends with 1 when the second one is worse
#[derive(Args, Debug)]
#[command(
    after_help = "A figure is worse when it is off by more than --accept, and by more than chance makes of repeats such as these.\n\
                  Exit codes: 0 not worse, 1 worse or not comparable, 2 misused."
)]
pub(crate) struct Compare {
    /// Result to compare with: folder of `varve bench run --save`, or file of its --json
    before: PathBuf,

    /// Result to compare
    after: PathBuf,

    /// Change for the worse that is accepted, in percent
    #[arg(long, value_parser = percent, default_value = "5%", value_name = "PERCENT")]
    accept: f64,

    /// Print JSON; fields are added over time, never renamed
    #[arg(long)]
    json: bool,
}

impl Compare {
    pub(crate) fn run(self) -> Result<String> {
        let (before, after) = (SavedResult::read(&self.before)?, SavedResult::read(&self.after)?);
        let compared = compare(&before, &after, self.accept)?;
        let text = if self.json { json(&compared)? } else { compared.text() };
        print(&text)?;
        match compared.worse {
            0 => Ok(String::new()),
            worse => Err(worsened(&compared, worse)),
        }
    }
}

fn worsened(compared: &LoadComparison, worse: usize) -> Failure {
    let figures = if worse == 1 { "figure is" } else { "figures are" };
    Failure::new(format!("{worse} {figures} worse by more than {} %", compared.accept_percent))
}

fn percent(text: &str) -> std::result::Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim();
    let read = number.parse().ok().filter(|percent| (0.0..=1000.0).contains(percent));
    read.ok_or_else(|| format!("invalid percentage `{text}`: must be from 0 to 1000"))
}
