//! `varve volume export` and `export-diff`: a snapshot, or what changed between two, as an archive.

use std::path::PathBuf;

use clap::Args;
use varve_access_admin::ListenAddress;
use varve_client::{Client, Failure, Result};
use varve_transfer::{ExportPlan, export};

/// Export a snapshot or a volume to an archive, or to a Ceph RBD image
#[derive(Args, Debug)]
#[command(
    after_help = "FILE gets its name when it is whole; until then it is FILE.partial, which --resume goes on with if a snapshot is exported. \
    An export of a volume cannot be resumed."
)]
pub(crate) struct VolumeExport {
    /// Snapshot such as vm1@monday, or a volume, which is snapshotted for the time of the export
    #[arg(value_name = "VOLUME[@SNAPSHOT]")]
    name: String,

    /// File to write, - for standard output, or rbd:POOL/IMAGE, which is created
    file: PathBuf,

    #[command(flatten)]
    way: ArchiveForm,
}

/// Export the changes between two snapshots of a volume to an archive
#[derive(Args, Debug)]
#[command(
    after_help = "FILE gets its name when it is whole; until then it is FILE.partial, which --resume goes on with. \
    `varve volume import-diff` adds the changes to a volume that has the earlier snapshot."
)]
pub(crate) struct ExportDiff {
    /// Snapshot to compare with; only its name, without the volume
    #[arg(long, value_name = "SNAPSHOT")]
    from: String,

    /// Snapshot to compare up to
    #[arg(value_name = "VOLUME@SNAPSHOT")]
    name: String,

    /// File to write, or - for standard output
    file: PathBuf,

    #[command(flatten)]
    way: ArchiveForm,
}

/// How an archive is written.
#[derive(Args, Debug)]
struct ArchiveForm {
    /// Resume an interrupted run
    #[arg(long)]
    resume: bool,

    /// NBD address of the daemon: unix:PATH or IP:PORT [default: the address that the daemon reports]
    #[arg(long, value_name = "ADDR")]
    nbd: Option<ListenAddress>,
}

impl VolumeExport {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        let Self { name, file, way: ArchiveForm { resume, nbd } } = self;
        export(client, ExportPlan { name, since: None, file, resume, nbd })
    }
}

impl ExportDiff {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        let Self { from, name, file, way: ArchiveForm { resume, nbd } } = self;
        if !name.contains('@') {
            return Err(Failure::misuse(format!("`{name}` names no snapshot"))
                .hint("changes are between two snapshots: write VOLUME@SNAPSHOT"));
        }
        export(client, ExportPlan { name, since: Some(from), file, resume, nbd })
    }
}
