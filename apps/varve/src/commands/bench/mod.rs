//! `varve bench`: loads and what they measure. Only `scale` calls a daemon.

mod list;
mod run;
mod scale;
mod show;

use clap::Subcommand;

use crate::cli::Global;
use crate::failure::Result;

/// Measure block storage: files, devices, exports of NBD servers
#[derive(Subcommand, Debug)]
pub(crate) enum Bench {
    List(list::List),
    Show(show::Show),
    Run(Box<run::Run>),
    Scale(scale::Scale),
}

impl Bench {
    pub(crate) fn run(self, global: &Global) -> Result<String> {
        match self {
            Self::List(command) => command.run(),
            Self::Show(command) => command.run(),
            Self::Run(command) => command.run(),
            Self::Scale(command) => command.run(global),
        }
    }
}
