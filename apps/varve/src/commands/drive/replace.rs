//! `varve drive replace`: a new drive in the place of another one.

use clap::Args;
use hyper::Method;
use varve_access_admin::v1::DriveMoves;
use varve_client::{Client, Result};
use varve_daemon::config::DriveSetting;

use super::{ClassFlag, absolute_drive, keep, number_of};
use crate::cli::Format;
use crate::commands::serve::drive;
use crate::waiting::{BegunMove, WaitFlag};

/// Put a new drive in the place of another one, which leaves the pool then
#[derive(Args, Debug)]
pub(crate) struct DriveReplace {
    /// The one that goes: its number, its path, or the beginning of its identity
    old: String,

    /// The new one: block device, file or directory, with its size where that of the old one does not do
    #[arg(value_name = "PATH[=SIZE]", value_parser = drive, required_unless_present = "cancel")]
    new: Option<DriveSetting>,

    /// Have the old drive stay after all; the new one stays too
    #[arg(long, conflicts_with = "new")]
    cancel: bool,

    #[command(flatten)]
    class: ClassFlag,

    #[command(flatten)]
    wait: WaitFlag,

    #[command(flatten)]
    format: Format,
}

impl DriveReplace {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        let number = number_of(client, &self.old)?;
        let new = match &self.new {
            Some(new) if !self.cancel => absolute_drive(new, &self.class)?,
            Some(_) | None => return keep(client, number, &self.wait, &self.format),
        };
        let path = format!("/v1/drives/{number}/replace");
        let answer = client.send::<DriveMoves>(Method::POST, &path, &new)?;
        let what = format!("{} takes the place of drive {number}", new.path);
        let begun = BegunMove { answer, what: &what, leaves: Some(number) };
        self.wait.moves(client, begun, &self.format)
    }
}
