//! `varve volume clone`: makes a volume of what a snapshot or another volume holds.

use clap::Args;
use hyper::Method;
use varve_access_admin::v1::{self, CloneVolume};
use varve_client::{Client, Result};
use varve_types::ByteCount;

use crate::cli::Format;

/// Create a volume from a snapshot, or from another volume
#[derive(Args, Debug)]
#[command(
    name = "clone",
    after_help = "The new volume depends on nothing: its source may be changed and deleted at any time."
)]
pub(crate) struct CloneCommand {
    /// Snapshot such as vm1@monday, or a volume, whose current contents are cloned
    #[arg(value_name = "VOLUME[@SNAPSHOT]")]
    source: String,

    /// Name of the new volume
    name: String,

    #[command(flatten)]
    format: Format,
}

impl CloneCommand {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        let spec = CloneVolume { source: self.source, name: self.name };
        let answer = client.send::<v1::Volume>(Method::POST, "/v1/clones", &spec)?;
        Ok(answer.print(self.format.json, |volume| {
            let size = ByteCount(volume.size_bytes);
            format!("cloned {} of {size} from {}\n", volume.name, spec.source)
        }))
    }
}
