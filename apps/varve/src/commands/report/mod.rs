//! `varve report`: what saved results say.

mod compare;
mod list;
mod page;

use clap::Subcommand;
use varve_client::Result;

/// List and compare results of `varve bench run`, and show them as web pages
#[derive(Subcommand, Debug)]
pub(crate) enum ReportCommand {
    #[command(visible_alias = "ls")]
    List(list::ReportList),
    Compare(compare::Compare),
    Page(page::ReportPage),
}

impl ReportCommand {
    pub(crate) fn run(self) -> Result<String> {
        match self {
            Self::List(command) => command.run(),
            Self::Compare(command) => command.run(),
            Self::Page(command) => command.run(),
        }
    }
}
