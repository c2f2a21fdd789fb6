//! `varve volume delete`: deletes a volume and what it holds, unless a client has it open.

use clap::Args;

use crate::client::{Client, volume_path};
use crate::failure::Result;

/// Delete a volume and what it holds; refused while a client has it open
#[derive(Args, Debug)]
pub(crate) struct Delete {
    /// Name of the volume
    name: String,
}

impl Delete {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        client.delete(&volume_path(&self.name))?;
        Ok(format!("deleted volume {}\n", self.name))
    }
}
