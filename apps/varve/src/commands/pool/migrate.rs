//! `varve pool migrate`: moves volumes and buckets to the pool of another daemon while clients use them.

use clap::Args;
use varve_access_admin::ListenAddress;
use varve_client::{Client, Result};
use varve_transfer::migrate::{self, MigratePlan};

/// Move volumes and buckets to the pool of another daemon while clients use them
///
/// Both daemons run. A volume goes over with its snapshots and settings, a bucket with its versions and settings, and
/// with users and access keys; writes are refused only while the last difference is sent, and from then on it is in use
/// at the target. A run that ended early, for any reason, is resumed by running it again.
#[derive(Args, Debug)]
#[command(
    after_help = "The daemon that --data or --addr name is the source. Clients connect anew, to the target, when the source refuses them."
)]
pub(crate) struct Migrate {
    /// The other daemon: its data directory, or the address of its admin API, unix:PATH or IP:PORT
    #[arg(long, value_name = "DIR|ADDR")]
    to: String,

    /// Volume to move; may be given more than once [default: all volumes and buckets]
    #[arg(long, value_name = "NAME")]
    volume: Vec<String>,

    /// Bucket to move; may be given more than once [default: all volumes and buckets]
    #[arg(long, value_name = "NAME")]
    bucket: Vec<String>,

    /// Also move buckets with multipart uploads in progress; the uploads are lost
    #[arg(long)]
    drop_uploads: bool,

    /// Keep the moved data at the source, unused, instead of deleting it
    #[arg(long)]
    keep_source: bool,

    /// Show what would be done, without doing it
    #[arg(long, conflicts_with_all = ["status", "cancel"])]
    dry_run: bool,

    /// Show moves in progress or interrupted, without doing anything
    #[arg(long, conflicts_with = "cancel")]
    status: bool,

    /// Cancel moves in progress: volumes and buckets of the source accept writes again, and their copies at the target
    /// are deleted
    #[arg(long)]
    cancel: bool,

    /// NBD address of the source: unix:PATH or IP:PORT [default: the address that the daemon reports]
    #[arg(long, value_name = "ADDR")]
    nbd: Option<ListenAddress>,

    /// NBD address of the target: unix:PATH or IP:PORT [default: the address that the daemon reports]
    #[arg(long, value_name = "ADDR")]
    to_nbd: Option<ListenAddress>,

    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
}

fn daemon(text: &str) -> Client {
    match text.parse::<ListenAddress>() {
        Ok(address) => Client::at(address),
        Err(_) => Client::of_data(text.as_ref()),
    }
}

impl Migrate {
    pub(crate) fn run(self, source: Client) -> Result<String> {
        let plan = MigratePlan {
            source,
            target: daemon(&self.to),
            volumes: self.volume,
            buckets: self.bucket,
            drop_uploads: self.drop_uploads,
            keep_source: self.keep_source,
            source_nbd: self.nbd,
            target_nbd: self.to_nbd,
        };
        let outcome = match (self.status, self.cancel, self.dry_run) {
            (true, ..) => migrate::status(&plan)?,
            (_, true, _) => migrate::cancel(&plan)?,
            (_, _, true) => migrate::plan(&plan)?,
            _ => migrate::migrate(&plan)?,
        };
        Ok(outcome.print(self.json))
    }
}
