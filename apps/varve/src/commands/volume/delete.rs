//! `varve volume delete`: deletes a volume and what it holds, unless a client has it open or it has snapshots.

use clap::Args;

use crate::cli::Format;
use crate::client::{Client, volume_path};
use crate::failure::Result;

/// Delete a volume and its data; refused while a client has it open, or it has snapshots
#[derive(Args, Debug)]
pub(crate) struct Delete {
    /// Name of the volume
    name: String,

    /// Delete its snapshots too
    #[arg(long)]
    snapshots: bool,

    #[command(flatten)]
    format: Format,
}

impl Delete {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        let query = if self.snapshots { "?snapshots=true" } else { "" };
        client.delete(&format!("{}{query}", volume_path(&self.name)))?;
        Ok(self.format.deleted("volume", &[self.name]))
    }
}
