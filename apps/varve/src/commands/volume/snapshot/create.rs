//! `varve volume snapshot create`: keeps what volumes hold now.

use clap::Args;
use hyper::Method;
use varve_access_admin::v1::{self, CreateSnapshots};
use varve_client::{Client, Result};
use varve_types::ByteCount;

use super::parts;
use crate::cli::Format;

/// Take snapshots of one or more volumes, all at the same instant
#[derive(Args, Debug)]
#[command(
    after_help = "All are taken or none. They take space only for what is overwritten from then on. Clients may go on \
    writing; a file system that is mounted meanwhile is kept as after a power cut."
)]
pub(crate) struct SnapshotCreate {
    /// Names of the snapshots, such as vm1@monday; one per volume
    #[arg(required = true, value_name = "VOLUME@SNAPSHOT")]
    names: Vec<String>,

    #[command(flatten)]
    format: Format,
}

impl SnapshotCreate {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        self.names.iter().try_for_each(|name| parts(name).map(|_| ()))?;
        let spec = CreateSnapshots { names: self.names, expects: None };
        let answer = client.send::<v1::SnapshotPage>(Method::POST, "/v1/snapshots", &spec)?;
        Ok(answer.print(self.format.json, |page| {
            let line = |snapshot: &v1::Snapshot| {
                format!("took snapshot {} of {}\n", snapshot.name, ByteCount(snapshot.size_bytes))
            };
            page.snapshots.iter().map(line).collect()
        }))
    }
}
