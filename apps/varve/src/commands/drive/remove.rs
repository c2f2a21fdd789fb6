//! `varve drive remove`: moves all of a drive elsewhere, and has it leave.

use clap::Args;
use hyper::Method;
use varve_access_admin::v1::DriveMoves;
use varve_client::{Client, Result};

use super::{keep, number_of};
use crate::cli::Format;
use crate::waiting::{BegunMove, WaitFlag};

/// Move all of a drive elsewhere, and have it leave the pool then
#[derive(Args, Debug)]
pub(crate) struct DriveRemove {
    /// Its number, its path, or the beginning of its identity
    drive: String,

    /// Forget a drive that has failed, once nothing names it
    #[arg(long)]
    failed: bool,

    /// Have the drive stay after all; what was moved already stays where it is
    #[arg(long, conflicts_with = "failed")]
    cancel: bool,

    #[command(flatten)]
    wait: WaitFlag,

    #[command(flatten)]
    format: Format,
}

impl DriveRemove {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        let number = number_of(client, &self.drive)?;
        if self.cancel {
            return keep(client, number, &self.wait, &self.format);
        }
        let query = if self.failed { "?failed=true" } else { "" };
        let path = format!("/v1/drives/{number}{query}");
        let answer = client.send::<DriveMoves>(Method::DELETE, &path, &serde_json::json!({}))?;
        let what = format!("drive {number} leaves once nothing is on it");
        let begun = BegunMove { answer, what: &what, leaves: Some(number) };
        self.wait.moves(client, begun, &self.format)
    }
}
