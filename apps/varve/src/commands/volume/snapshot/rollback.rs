//! `varve volume snapshot rollback`: makes a volume what one of its snapshots is.

use clap::Args;
use hyper::Method;
use varve_access_admin::v1::{self, RollBack};
use varve_access_admin::volume_path;
use varve_client::{Client, Result};
use varve_types::ByteCount;

use super::parts;
use crate::cli::Format;

/// Roll a volume back to a snapshot; refused while a client has it open
#[derive(Args, Debug)]
#[command(
    after_help = "What was written since is lost, unless another snapshot has it: take one first to be able to come back. \
    Snapshots stay as they are, later ones too."
)]
pub(crate) struct Rollback {
    /// Name of the snapshot
    #[arg(value_name = "VOLUME@SNAPSHOT")]
    name: String,

    #[command(flatten)]
    format: Format,
}

impl Rollback {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        let (volume, snapshot) = parts(&self.name)?;
        let path = format!("{}/rollback", volume_path(volume));
        let to = RollBack { snapshot: snapshot.to_owned(), expects: None };
        let answer = client.send::<v1::Volume>(Method::POST, &path, &to)?;
        Ok(answer.print(self.format.json, |volume| {
            let size = ByteCount(volume.size_bytes);
            format!("volume {} rolled back to {} ({size})\n", volume.name, self.name)
        }))
    }
}
