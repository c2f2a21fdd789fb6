//! `varve drive add`: one more drive for a pool that is served.

use std::cmp::Ordering;

use clap::Args;
use hyper::Method;
use varve_access_admin::v1::{DriveMoves, Pool};
use varve_client::{Client, Result};
use varve_daemon::config::DriveSetting;
use varve_types::ByteCount;

use super::{ClassFlag, absolute_drive};
use crate::cli::Format;
use crate::commands::serve::drive;
use crate::waiting::{BegunMove, WaitFlag};

/// Add a drive to the pool
#[derive(Args, Debug)]
#[command(
    after_help = "The pool has its room within seconds, and data move to it when nothing else moves."
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
        let room = || if self.format.json { None } else { room_of(client) };
        let before = room();
        let answer = client.send::<DriveMoves>(Method::POST, "/v1/drives", &new)?;
        let room = describe_room(before, room());
        let what = format!("{} is a drive of the pool{room}", new.path);
        let begun = BegunMove { answer, what: &what, leaves: None };
        self.wait.moves(client, begun, &self.format)
    }
}

/// What the pool has room for.
fn room_of(client: &Client) -> Option<u64> {
    client.get::<Pool>("/v1/pool").ok()?.value.usable_bytes
}

/// What becomes of that, on a line of its own. A drive that is small beside the others makes it less.
fn describe_room(before: Option<u64>, after: Option<u64>) -> String {
    let (Some(before), Some(after)) = (before, after) else { return String::new() };
    let room = format!("the pool comes to have room for {}", ByteCount(after));
    match after.cmp(&before) {
        Ordering::Greater => format!("\n{room} instead of {}", ByteCount(before)),
        Ordering::Equal => format!("\n{room} as before"),
        Ordering::Less => format!(
            "\n{room} instead of {}: it is small beside the others, and where there are more drives than strips, as much as the largest has is kept free for a rebuild",
            ByteCount(before)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drive_that_makes_the_pool_smaller_says_why() {
        let room = |before: u64, after: u64| describe_room(Some(before << 30), Some(after << 30));
        assert_eq!(room(20, 30), "\nthe pool comes to have room for 30 GiB instead of 20 GiB");
        assert_eq!(room(20, 20), "\nthe pool comes to have room for 20 GiB as before");
        let less = room(20, 12);
        assert!(less.contains("12 GiB instead of 20 GiB: it is small"), "{less}");
        assert_eq!(describe_room(None, Some(1)), "");
    }
}
