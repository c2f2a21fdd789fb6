//! `varve drive drain`: moves all of a drive elsewhere.

use clap::Args;
use hyper::Method;
use varve_access_admin::v1::DriveMoves;
use varve_client::{Client, Result};

use super::{keep, number_of};
use crate::cli::Format;
use crate::waiting::{BegunMove, WaitFlag};

/// Move all of a drive elsewhere; it stays a drive of the pool
#[derive(Args, Debug)]
pub(crate) struct DriveDrain {
    /// Its number, its path, or the beginning of its identity
    drive: String,

    /// Have the drive stay after all; what was moved already stays where it is
    #[arg(long)]
    cancel: bool,

    #[command(flatten)]
    wait: WaitFlag,

    #[command(flatten)]
    format: Format,
}

impl DriveDrain {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        let number = number_of(client, &self.drive)?;
        if self.cancel {
            return keep(client, number, &self.wait, &self.format);
        }
        let path = format!("/v1/drives/{number}/drain");
        let answer = client.send::<DriveMoves>(Method::POST, &path, &serde_json::json!({}))?;
        let what = format!("drive {number} is being drained");
        let begun = BegunMove { answer, what: &what, leaves: None };
        self.wait.moves(client, begun, &self.format)
    }
}
