//! `varve bench`: loads and what they measure. Needs no daemon of its own.

mod list;
mod run;
mod show;

use clap::Subcommand;

use crate::failure::Result;

/// Measure block storage: files, devices, exports of NBD servers
#[derive(Subcommand, Debug)]
pub(crate) enum Bench {
    List(list::List),
    Show(show::Show),
    Run(Box<run::Run>),
}

impl Bench {
    pub(crate) fn run(self) -> Result<String> {
        match self {
            Self::List(command) => command.run(),
            Self::Show(command) => command.run(),
            Self::Run(command) => command.run(),
        }
    }
}
