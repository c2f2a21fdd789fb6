//! `varve bucket`: make, list, show, bound, log and delete buckets.

mod create;
mod delete;
mod list;
mod log;
mod quota;
mod show;

use clap::Subcommand;

use crate::client::Client;
use crate::failure::Result;

/// Make, list, show, bound, log and delete buckets of S3
#[derive(Subcommand, Debug)]
pub(crate) enum Bucket {
    Create(create::Create),
    List(list::List),
    Show(show::Show),
    Quota(quota::Quota),
    Log(log::Log),
    Delete(delete::Delete),
}

impl Bucket {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        match self {
            Self::Create(command) => command.run(client),
            Self::List(command) => command.run(client),
            Self::Show(command) => command.run(client),
            Self::Quota(command) => command.run(client),
            Self::Log(command) => command.run(client),
            Self::Delete(command) => command.run(client),
        }
    }
}
