//! `varve volume delete`: deletes volumes and what they hold, unless a client has one open or it has snapshots.

use clap::Args;
use varve_access_admin::volume_path;
use varve_client::{Client, Result};

use super::delete_each;
use crate::cli::Format;

/// Delete volumes and their data; refused while open, or with snapshots
#[derive(Args, Debug)]
#[command(after_help = "Deletes one after another and ends at the first that is refused.")]
pub(crate) struct VolumeDelete {
    /// Names of the volumes
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,

    /// Delete their snapshots too
    #[arg(long)]
    snapshots: bool,

    #[command(flatten)]
    format: Format,
}

impl VolumeDelete {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        let query = if self.snapshots { "?snapshots=true" } else { "" };
        delete_each(client, &self.names, |name| format!("{}{query}", volume_path(name)))?;
        Ok(self.format.deleted("volume", &self.names))
    }
}
