//! `varve drive add`: one more drive for a pool that is served.

use clap::Args;
use hyper::Method;
use varve_access_admin::v1::DriveMoves;
use varve_client::{Client, Result};
use varve_daemon::config::DriveSetting;

use super::{ClassFlag, absolute_drive};
use crate::cli::Format;
use crate::commands::serve::drive;
use crate::waiting::{BegunMove, WaitFlag};

/// Add a drive to the pool
#[derive(Args, Debug)]
#[command(
    after_help = "The pool becomes larger by it within seconds, and data move to it when nothing else moves."
)]
pub(crate) struct DriveAdd {
    /// Block device, file or directory, with its size where it has none of its own
    #[arg(value_name = "PATH[=SIZE]", value_parser = drive)]
    drive: DriveSetting,

    #[command(flatten)]
    class: ClassFlag,

    #[command(flatten)]
    wait: WaitFlag,

    #[command(flatten)]
    format: Format,
}

impl DriveAdd {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        let new = absolute_drive(&self.drive, &self.class)?;
        let answer = client.send::<DriveMoves>(Method::POST, "/v1/drives", &new)?;
        let what = format!("{} is a drive of the pool", new.path);
        let begun = BegunMove { answer, what: &what, leaves: None };
        self.wait.moves(client, begun, &self.format)
    }
}
