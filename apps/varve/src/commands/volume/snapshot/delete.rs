//! `varve volume snapshot delete`: deletes snapshots; volumes, clones and other snapshots stay as they are.

use clap::Args;
use varve_access_admin::snapshot_path;
use varve_client::{Client, Result};

use super::parts;
use crate::cli::Format;
use crate::commands::volume::delete_each;

/// Delete snapshots; refused while they are protected or open
#[derive(Args, Debug)]
#[command(
    after_help = "Deletes one after another and ends at the first that is refused. Volumes, clones and other snapshots \
    stay as they are."
)]
pub(crate) struct SnapshotDelete {
    /// Names of the snapshots
    #[arg(required = true, value_name = "VOLUME@SNAPSHOT")]
    names: Vec<String>,

    #[command(flatten)]
    format: Format,
}

impl SnapshotDelete {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        self.names.iter().try_for_each(|name| parts(name).map(|_| ()))?;
        delete_each(client, &self.names, snapshot_path)?;
        Ok(self.format.deleted("snapshot", &self.names))
    }
}
