//! `varve drive`: the drives of the pool.

mod list;
mod show;

use clap::Subcommand;
use varve_access_admin::v1::Drive;
use varve_client::{Client, Result, age};
use varve_types::ByteCount;

/// Show the drives of the pool
#[derive(Subcommand, Debug)]
pub(crate) enum DriveCommand {
    #[command(visible_alias = "ls")]
    List(list::DriveListCommand),
    Show(show::DriveShow),
}

impl DriveCommand {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        match self {
            Self::List(command) => command.run(client),
            Self::Show(command) => command.run(client),
        }
    }
}

/// Its state and what goes with it; of a pool without redundancy all drives are in use.
pub(crate) fn state(drive: &Drive) -> String {
    let state = drive.state.map_or("in use", |state| state.word());
    if drive.is_slow { format!("{state}, slow") } else { state.to_owned() }
}

/// What failed on it.
pub(crate) fn errors(drive: &Drive) -> String {
    match (drive.read_errors, drive.write_errors) {
        (0, 0) => "none".to_owned(),
        (reads, writes) => format!("{reads} reads, {writes} writes"),
    }
}

/// How large it is.
pub(crate) fn size(drive: &Drive) -> String {
    drive.size_bytes.map_or_else(|| "all".to_owned(), |bytes| ByteCount(bytes).to_string())
}

fn number(drive: &Drive) -> String {
    drive.number.map_or_else(|| "-".to_owned(), |number| number.to_string())
}

fn used(drive: &Drive) -> String {
    drive.used_bytes.map_or_else(|| "-".to_owned(), |bytes| ByteCount(bytes).to_string())
}

fn since(drive: &Drive) -> String {
    drive.since_unix_ms.map_or_else(|| "-".to_owned(), age::since)
}
