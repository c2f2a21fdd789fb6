//! `varve volume show`: one volume.

use clap::Args;
use varve_access_admin::v1;

use crate::cli::Format;
use crate::client::{Client, volume_path};
use crate::failure::Result;

/// Show a volume
#[derive(Args, Debug)]
pub(crate) struct Show {
    /// Name of the volume
    name: String,

    #[command(flatten)]
    format: Format,
}

impl Show {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        let answer = client.get::<v1::Volume>(&volume_path(&self.name))?;
        Ok(answer.print(self.format.json, |volume| super::describe(&volume)))
    }
}
