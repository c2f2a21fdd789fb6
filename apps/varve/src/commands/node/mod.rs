//! `varve node`: the daemons that take clients for the pool.

pub(crate) mod list;

use clap::Subcommand;
use varve_client::Result;

use crate::cli::Global;

/// Show the daemons of a pool
#[derive(Subcommand, Debug)]
pub(crate) enum NodeCommand {
    #[command(visible_alias = "ls")]
    List(list::NodeList),
}

impl NodeCommand {
    pub(crate) fn run(self, global: &Global) -> Result<String> {
        match self {
            Self::List(command) => command.run(&global.client()),
        }
    }
}
