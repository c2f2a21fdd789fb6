//! `varve drive locate`: the light at the bay of a drive.

use clap::Args;
use hyper::Method;
use varve_access_admin::v1::{DriveLight, DriveList, LocateDrive};
use varve_client::{Client, Result};

use super::find;
use crate::cli::Format;

/// Light the light at the bay of a drive
#[derive(Args, Debug)]
#[command(
    after_help = "By the enclosure that the kernel of the daemon's machine knows, or else by its ledctl."
)]
pub(crate) struct DriveLocate {
    /// Its number, its path, or the beginning of its identity
    drive: String,

    /// Put it out again
    #[arg(long)]
    off: bool,

    #[command(flatten)]
    format: Format,
}

impl DriveLocate {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        let list = client.get::<DriveList>("/v1/drives")?.value;
        let drive = find(&list.drives, &self.drive)?;
        // A path would need escapes.
        let name = drive.number.map_or_else(|| encoded(&drive.path), |number| number.to_string());
        let light = LocateDrive { on: !self.off };
        let path = format!("/v1/drives/{name}/locate");
        let answer = client.send::<DriveLight>(Method::POST, &path, &light)?;
        Ok(answer.print(self.format.json, |light| {
            let does = if light.on { "shines" } else { "is out" };
            format!("the light of {} {does}, by {}\n", light.device, light.by)
        }))
    }
}

/// A path as one part of another.
fn encoded(path: &str) -> String {
    path.bytes().map(|byte| format!("%{byte:02X}")).collect()
}
