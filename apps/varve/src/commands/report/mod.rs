//! `varve report`: what saved results say.

mod compare;
mod page;

use clap::Subcommand;

pub(crate) use page::name;

use crate::failure::Result;

/// Compare results of `varve bench run`, and make pages of them
#[derive(Subcommand, Debug)]
pub(crate) enum ReportCommand {
    Compare(compare::Compare),
    Page(page::Page),
}

impl ReportCommand {
    pub(crate) fn run(self) -> Result<String> {
        match self {
            Self::Compare(command) => command.run(),
            Self::Page(command) => command.run(),
        }
    }
}
