//! `varve pool`: the pool that the daemon serves.

mod show;

use clap::Subcommand;

use crate::client::Client;
use crate::failure::Result;

/// Look at the pool
#[derive(Subcommand, Debug)]
pub(crate) enum Pool {
    Show(show::Show),
}

impl Pool {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        match self {
            Self::Show(command) => command.run(client),
        }
    }
}
