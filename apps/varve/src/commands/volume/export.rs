//! `varve volume export` and `export-diff`: a snapshot, or what changed between two, as an archive.

use std::path::PathBuf;

use clap::Args;
use varve_access_admin::ListenAddress;

use crate::client::Client;
use crate::failure::{Failure, Result};
use crate::transfer::{ExportPlan, export};

/// Write a snapshot, or a volume as it is now, to an archive, or to an image of Ceph's RBD
#[derive(Args, Debug)]
#[command(
    after_help = "FILE gets its name when it is whole; until then it is FILE.partial, which --resume goes on with."
)]
pub(crate) struct Export {
    /// Snapshot such as vm1@monday, or a volume, of which a snapshot is taken and deleted again
    #[arg(value_name = "VOLUME[@SNAPSHOT]")]
    name: String,

    /// File to write, - for standard output, or rbd:POOL/IMAGE, which `rbd` makes
    file: PathBuf,

    #[command(flatten)]
    way: Way,
}

/// Write what changed between two snapshots of a volume to an archive
#[derive(Args, Debug)]
#[command(
    after_help = "FILE gets its name when it is whole; until then it is FILE.partial, which --resume goes on with. \
    `varve volume import-diff` adds the changes to a volume that has the earlier snapshot."
)]
pub(crate) struct ExportDiff {
    /// Snapshot from which changes count, by its name alone
    #[arg(long, value_name = "SNAPSHOT")]
    from: String,

    /// Snapshot up to which they count
    #[arg(value_name = "VOLUME@SNAPSHOT")]
    name: String,

    /// File to write, or - for standard output
    file: PathBuf,

    #[command(flatten)]
    way: Way,
}

/// How an archive is made.
#[derive(Args, Debug)]
struct Way {
    /// Go on with what an earlier run left
    #[arg(long)]
    resume: bool,

    /// NBD address of the daemon: unix:PATH or IP:PORT [default: as it says]
    #[arg(long, value_name = "ADDR")]
    nbd: Option<ListenAddress>,
}

impl Export {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        let Self { name, file, way: Way { resume, nbd } } = self;
        export(client, ExportPlan { name, since: None, file, resume, nbd })
    }
}

impl ExportDiff {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        let Self { from, name, file, way: Way { resume, nbd } } = self;
        if !name.contains('@') {
            return Err(Failure::misuse(format!("`{name}` names no snapshot"))
                .hint("changes are between two snapshots: write VOLUME@SNAPSHOT"));
        }
        export(client, ExportPlan { name, since: Some(from), file, resume, nbd })
    }
}
