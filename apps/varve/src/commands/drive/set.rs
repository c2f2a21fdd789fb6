//! `varve drive set`: what a drive is, where the system says it wrongly.

use clap::Args;
use hyper::Method;
use varve_access_admin::v1::{ChangeDrive, DriveMoves};
use varve_client::{Client, Result};
use varve_media_redundancy::MediumKind;

use super::number_of;
use crate::cli::Format;
use crate::waiting::{BegunMove, WaitFlag};

/// Say of which class a drive is, where the system says it wrongly
#[derive(Args, Debug)]
#[command(
    after_help = "Data and journals that are to be on drives of some classes move. To do it again is harmless."
)]
pub(crate) struct DriveSet {
    /// Its number, its path, or the beginning of its identity
    drive: String,

    /// What the drive is: nvme, ssd or hdd
    #[arg(long)]
    class: MediumKind,

    #[command(flatten)]
    wait: WaitFlag,

    #[command(flatten)]
    format: Format,
}

impl DriveSet {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        let (number, class) = (number_of(client, &self.drive)?, self.class.word());
        let change = ChangeDrive { class: Some(class.to_owned()) };
        let path = format!("/v1/drives/{number}");
        let answer = client.send::<DriveMoves>(Method::PATCH, &path, &change)?;
        let what = format!("drive {number} is of class {class}");
        let begun = BegunMove { answer, what: &what, leaves: None };
        self.wait.moves(client, begun, &self.format)
    }
}
