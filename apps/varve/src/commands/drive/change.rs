//! `varve drive add`, `drain`, `remove` and `replace`: changes of the drives of a pool that is served.

use clap::Args;
use hyper::Method;
use varve_access_admin::v1::{AddDrive, DriveList, DriveMoves};
use varve_client::{ApiAnswer, Client, Failure, Result};
use varve_daemon::config::DriveSetting;

use super::find;
use super::moves::outlook;
use crate::cli::Format;
use crate::commands::serve::drive;

/// Add a drive to the pool
#[derive(Args, Debug)]
#[command(after_help = "Zones that come later use it, and those that wait for room to be rebuilt.")]
pub(crate) struct DriveAdd {
    /// Block device, file or directory, with its size where it has none of its own
    #[arg(value_name = "PATH[=SIZE]", value_parser = drive)]
    drive: DriveSetting,

    #[command(flatten)]
    format: Format,
}

/// Move all of a drive elsewhere; it stays a drive of the pool
#[derive(Args, Debug)]
pub(crate) struct DriveDrain {
    /// Its number, its path, or the beginning of its identity
    drive: String,

    #[command(flatten)]
    format: Format,
}

/// Move all of a drive elsewhere, and have it leave the pool then
#[derive(Args, Debug)]
#[command(
    after_help = "It leaves by itself, as long as the daemon runs; after a restart, remove it again."
)]
pub(crate) struct DriveRemove {
    /// Its number, its path, or the beginning of its identity
    drive: String,

    /// Forget a drive that has failed, once nothing names it
    #[arg(long)]
    failed: bool,

    #[command(flatten)]
    format: Format,
}

/// Put a new drive in the place of another one, which leaves the pool then
#[derive(Args, Debug)]
pub(crate) struct DriveReplace {
    /// The one that goes: its number, its path, or the beginning of its identity
    old: String,

    /// The new one: block device, file or directory, with its size where that of the old one does not do
    #[arg(value_name = "PATH[=SIZE]", value_parser = drive)]
    new: DriveSetting,

    #[command(flatten)]
    format: Format,
}

impl DriveAdd {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        let new = wanted(&self.drive)?;
        let answer = client.send::<DriveMoves>(Method::POST, "/v1/drives", &new)?;
        let done = format!("{} is a drive of the pool", new.path);
        Ok(told(answer, &self.format, &done))
    }
}

impl DriveDrain {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        let number = number_of(client, &self.drive)?;
        let path = format!("/v1/drives/{number}/drain");
        let answer = client.send::<DriveMoves>(Method::POST, &path, &serde_json::json!({}))?;
        Ok(told(answer, &self.format, &format!("drive {number} is drained")))
    }
}

impl DriveRemove {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        let number = number_of(client, &self.drive)?;
        let query = if self.failed { "?failed=true" } else { "" };
        let path = format!("/v1/drives/{number}{query}");
        let answer = client.send::<DriveMoves>(Method::DELETE, &path, &serde_json::json!({}))?;
        Ok(told(answer, &self.format, &format!("drive {number} leaves once nothing is on it")))
    }
}

impl DriveReplace {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        let number = number_of(client, &self.old)?;
        let new = wanted(&self.new)?;
        let path = format!("/v1/drives/{number}/replace");
        let answer = client.send::<DriveMoves>(Method::POST, &path, &new)?;
        let done = format!("{} takes the place of drive {number}", new.path);
        Ok(told(answer, &self.format, &done))
    }
}

/// The path is that of this process, not of the daemon.
fn wanted(drive: &DriveSetting) -> Result<AddDrive> {
    let path = std::path::absolute(&drive.path)
        .map_err(|error| Failure::misuse(format!("drive {}: {error}", drive.path.display())))?;
    let size_bytes = drive.size.map(|size| size.0);
    Ok(AddDrive { path: path.display().to_string(), size_bytes })
}

/// The number of the drive that is meant.
pub(super) fn number_of(client: &Client, name: &str) -> Result<u8> {
    let list = client.get::<DriveList>("/v1/drives")?.value;
    find(&list.drives, name)?.number.ok_or_else(|| {
        Failure::new("this pool has no redundancy over drives, which cannot be changed then")
            .hint("`varve pool migrate` moves what it holds to a pool that has")
    })
}

fn told(answer: ApiAnswer<DriveMoves>, format: &Format, done: &str) -> String {
    answer.print(format.json, |moves| format!("{done}\n{}", outlook(&moves)))
}
