//! `varve volume snapshot protect` and `unprotect`: whether a snapshot may be deleted.

use clap::Args;
use hyper::Method;
use varve_access_admin::snapshot_path;
use varve_access_admin::v1::{self, ChangeSnapshot};
use varve_client::{Client, Result};

use super::parts;
use crate::cli::Format;

/// Protect a snapshot from deletion
#[derive(Args, Debug)]
pub(crate) struct Protect {
    /// Name of the snapshot
    #[arg(value_name = "VOLUME@SNAPSHOT")]
    name: String,

    #[command(flatten)]
    format: Format,
}

/// Remove the protection of a snapshot
#[derive(Args, Debug)]
pub(crate) struct Unprotect {
    /// Name of the snapshot
    #[arg(value_name = "VOLUME@SNAPSHOT")]
    name: String,

    #[command(flatten)]
    format: Format,
}

impl Protect {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        change(client, &self.name, true, self.format)
    }
}

impl Unprotect {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        change(client, &self.name, false, self.format)
    }
}

fn change(client: &Client, name: &str, protected: bool, format: Format) -> Result<String> {
    parts(name)?;
    let change = ChangeSnapshot { protected, expects: None };
    let answer = client.send::<v1::Snapshot>(Method::PATCH, &snapshot_path(name), &change)?;
    Ok(answer.print(format.json, |snapshot| {
        let now = if snapshot.protected { "protected" } else { "not protected" };
        format!("snapshot {}: {now}\n", snapshot.name)
    }))
}
