//! `varve volume snapshot`: take, list, protect and delete snapshots, and go back to one.

mod create;
mod delete;
mod list;
mod protect;
mod rollback;

use clap::Subcommand;
use varve_client::{Client, Failure, Result};

/// Take, list, protect, delete and roll back to snapshots of volumes
#[derive(Subcommand, Debug)]
pub(crate) enum SnapshotCommand {
    Create(create::SnapshotCreate),
    #[command(visible_alias = "ls")]
    List(list::SnapshotList),
    #[command(visible_alias = "rm")]
    Delete(delete::SnapshotDelete),
    Rollback(rollback::Rollback),
    Protect(protect::Protect),
    Unprotect(protect::Unprotect),
}

impl SnapshotCommand {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        match self {
            Self::Create(command) => command.run(client),
            Self::List(command) => command.run(client),
            Self::Delete(command) => command.run(client),
            Self::Rollback(command) => command.run(client),
            Self::Protect(command) => command.run(client),
            Self::Unprotect(command) => command.run(client),
        }
    }
}

/// The parts of `VOLUME@SNAPSHOT`.
fn parts(name: &str) -> Result<(&str, &str)> {
    name.split_once('@').ok_or_else(|| {
        Failure::misuse(format!("`{name}` names no snapshot"))
            .hint("write VOLUME@SNAPSHOT, such as vm1@monday")
    })
}
