//! `varve volume snapshot delete`: deletes snapshots; volumes, clones and other snapshots stay as they are.

use clap::Args;

use super::parts;
use crate::cli::Format;
use crate::client::{Client, snapshot_path};
use crate::failure::Result;

/// Delete snapshots; refused while they are protected or open
#[derive(Args, Debug)]
#[command(
    after_help = "Deletes one after another and ends at the first that is refused. Volumes, clones and other snapshots \
    stay as they are."
)]
pub(crate) struct Delete {
    /// Names of the snapshots
    #[arg(required = true, value_name = "VOLUME@SNAPSHOT")]
    names: Vec<String>,

    #[command(flatten)]
    format: Format,
}

impl Delete {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        self.names.iter().try_for_each(|name| parts(name).map(|_| ()))?;
        for (index, name) in self.names.iter().enumerate() {
            client.delete(&snapshot_path(name)).map_err(|failure| match index {
                0 => failure,
                _ => failure
                    .followed(" (those before it are deleted)")
                    .hint("`varve volume snapshot list` shows those that are left"),
            })?;
        }
        Ok(self.format.deleted("snapshot", &self.names))
    }
}
