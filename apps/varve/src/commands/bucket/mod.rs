//! `varve bucket`: create, list, show, set, limit, log and delete buckets.

mod create;
mod delete;
mod list;
mod log;
mod quota;
mod set;
mod show;

use clap::Subcommand;
use varve_client::{Client, Result};

/// Create, list, show, set, limit, log and delete S3 buckets
#[derive(Subcommand, Debug)]
pub(crate) enum BucketCommand {
    Create(create::BucketCreate),
    #[command(visible_alias = "ls")]
    List(list::BucketList),
    Show(show::BucketShow),
    Set(set::BucketSet),
    Quota(quota::Quota),
    Log(log::Log),
    #[command(visible_alias = "rm")]
    Delete(delete::BucketDelete),
}

impl BucketCommand {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        match self {
            Self::Create(command) => command.run(client),
            Self::List(command) => command.run(client),
            Self::Show(command) => command.run(client),
            Self::Set(command) => command.run(client),
            Self::Quota(command) => command.run(client),
            Self::Log(command) => command.run(client),
            Self::Delete(command) => command.run(client),
        }
    }
}
