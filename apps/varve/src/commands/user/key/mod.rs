//! `varve user key`: make, list and delete access keys.

mod create;
mod delete;
mod list;

use clap::Subcommand;
use varve_client::{Client, Result};

/// Create, list and delete access keys of users
#[derive(Subcommand, Debug)]
pub(crate) enum Key {
    Create(create::KeyCreate),
    #[command(visible_alias = "ls")]
    List(list::KeyList),
    #[command(visible_alias = "rm")]
    Delete(delete::KeyDelete),
}

impl Key {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        match self {
            Self::Create(command) => command.run(client),
            Self::List(command) => command.run(client),
            Self::Delete(command) => command.run(client),
        }
    }
}
