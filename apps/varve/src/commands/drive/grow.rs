//! `varve drive grow`: a drive whose file or device has become larger.

use clap::Args;
use hyper::Method;
use varve_access_admin::v1::{DriveGrowth, GrowDrive};
use varve_client::{Client, Result};
use varve_types::{ByteCount, parse_size};

use super::number_of;
use crate::cli::Format;

/// Have the pool use what a drive has become larger by
#[derive(Args, Debug)]
#[command(
    after_help = "Make the device larger first, as with lvextend, or a file or directory with --size. To do it again is harmless."
)]
pub(crate) struct DriveGrow {
    /// Its number, its path, or the beginning of its identity
    drive: String,

    /// New size of its space, such as 4TiB, for which a file is made longer; all that the file or device has without it
    #[arg(long, value_parser = parse_size)]
    size: Option<ByteCount>,

    #[command(flatten)]
    format: Format,
}

impl DriveGrow {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        let number = number_of(client, &self.drive)?;
        let size = GrowDrive { size_bytes: self.size.map(|size| size.0) };
        let path = format!("/v1/drives/{number}/grow");
        let answer = client.send::<DriveGrowth>(Method::POST, &path, &size)?;
        Ok(answer.print(self.format.json, |growth| describe(&growth)))
    }
}

fn describe(growth: &DriveGrowth) -> String {
    let (drive, size) = (growth.drive, ByteCount(growth.size_bytes));
    if growth.size_bytes == growth.size_before_bytes {
        return format!("drive {drive} has {size} as before, which is all that it can have now\n");
    }
    let before = ByteCount(growth.size_before_bytes);
    let usable = ByteCount(growth.usable_bytes);
    let pool = match growth.usable_before_bytes {
        before if before == growth.usable_bytes => {
            format!("the pool has room for {usable} as before, as its other drives have no more")
        }
        before => {
            format!("the pool comes to have room for {usable} instead of {}", ByteCount(before))
        }
    };
    format!("drive {drive} has {size} instead of {before}\n{pool}\n")
}
