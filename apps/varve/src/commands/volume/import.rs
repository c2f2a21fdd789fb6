//! `varve volume import` and `import-diff`: an archive into a volume, which then has its snapshot.

use std::path::PathBuf;

use clap::Args;
use varve_access_admin::ListenAddress;
use varve_client::{Client, Result};
use varve_transfer::{ImportPlan, import};

/// Create a volume and its first snapshot from an archive, or a volume from a Ceph RBD image
#[derive(Args, Debug)]
#[command(
    after_help = "To resume an interrupted import, run it again. Do not write to the volume meanwhile."
)]
pub(crate) struct Import {
    #[command(flatten)]
    what: What,
}

/// Apply the changes in an archive to a volume whose latest snapshot they start from
#[derive(Args, Debug)]
#[command(
    after_help = "Refused when the volume was changed after that snapshot: `varve volume snapshot rollback` undoes that. \
    To resume an interrupted import, run it again. Do not write to the volume meanwhile."
)]
pub(crate) struct ImportDiff {
    #[command(flatten)]
    what: What,
}

/// What is imported.
#[derive(Args, Debug)]
struct What {
    /// File to read, or - for standard input; `import` also reads rbd:POOL/IMAGE and rbd:POOL/IMAGE@SNAPSHOT
    file: PathBuf,

    /// Name of the volume
    volume: String,

    /// NBD address of the daemon: unix:PATH or IP:PORT [default: the address that the daemon reports]
    #[arg(long, value_name = "ADDR")]
    nbd: Option<ListenAddress>,
}

impl Import {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        self.what.run(client, false)
    }
}

impl ImportDiff {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        self.what.run(client, true)
    }
}

impl What {
    fn run(self, client: &Client, changes: bool) -> Result<String> {
        let Self { file, volume, nbd } = self;
        import(client, &ImportPlan { file, volume, changes, nbd })
    }
}
