//! `varve salvage`: copies out what can still be read of a damaged pool that no daemon serves.

use std::path::PathBuf;

use clap::Args;
use varve_client::{Failure, Result};
use varve_inspect::salvage::{self, Selection};
use varve_inspect::{OfflinePool, PoolSource};

use crate::cli::Global;
use crate::output::print;

/// Copy what can still be read of a damaged pool out of it: volumes as raw images, buckets as tar files
///
/// Reads the pool only. Each volume and snapshot becomes a sparse file NAME.raw in the directory, with zeros where
/// nothing can be read; NAME.unreadable lists these ranges. The newest versions of a bucket's objects become NAME.tar,
/// with NAME.tar.unreadable beside it. A shard that does not open is read as its last checkpoint has it.
#[derive(Args, Debug)]
#[command(
    after_help = "Exit codes: 0 everything was copied, 1 something could not be read, 2 nothing was copied: misused, or the pool is in use."
)]
pub(crate) struct SalvageCommand {
    #[command(flatten)]
    source: PoolSource,

    /// Directory for the images; created if it does not exist, and empty
    #[arg(long, value_name = "DIR")]
    to: PathBuf,

    /// Copy this volume and its snapshots, repeatable [default: everything]
    #[arg(long, value_name = "NAME")]
    volume: Vec<String>,

    /// Copy this bucket, repeatable [default: everything]
    #[arg(long, value_name = "NAME")]
    bucket: Vec<String>,
}

impl SalvageCommand {
    pub(crate) fn run(self, global: &Global) -> Result<String> {
        let pool = OfflinePool::open(&global.offline_data()?, &self.source)?;
        let only = Selection { volumes: self.volume, buckets: self.bucket };
        let report = salvage::run(&pool, &self.to, only)?;
        print(&report.to_text())?; // It is no failure of the command, and yet this may not end with 0.
        if report.is_whole() {
            return Ok(String::new());
        }
        Err(Failure::new("not everything could be read")
            .hint("the copies have zeros there; the files NAME.unreadable and NAME.tar.unreadable say where and why"))
    }
}
