//! `varve bench`: loads and what they measure. `scale` calls a daemon, and `run` if it is told to.

mod cosbench;
mod ec;
mod import;
mod list;
mod merge;
mod run;
mod scale;
mod show;

use std::path::Path;

use clap::Subcommand;
use varve_client::{Result, read_file_up_to};

use crate::cli::Global;

/// Longest workload, job file and output of fio that is read, in bytes.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Such a text, of standard input for `-`.
fn read_text(path: &Path) -> Result<String> {
    read_file_up_to(path, FILE_BYTES_MAX)
}

/// Measure block storage: files, devices, exports of NBD servers; and S3 servers by workloads of COSBench
#[derive(Subcommand, Debug)]
pub(crate) enum Bench {
    #[command(visible_alias = "ls")]
    List(list::BenchList),
    Show(show::BenchShow),
    Run(Box<run::BenchRun>),
    Scale(scale::Scale),
    Cosbench(cosbench::Cosbench),
    Import(import::Import),
    Merge(merge::Merge),
    Ec(ec::BenchEc),
}

impl Bench {
    pub(crate) fn run(self, global: &Global) -> Result<String> {
        match self {
            Self::List(command) => command.run(),
            Self::Show(command) => command.run(),
            Self::Run(command) => command.run(global),
            Self::Scale(command) => command.run(global),
            Self::Cosbench(command) => command.run(),
            Self::Import(command) => command.run(),
            Self::Merge(command) => command.run(),
            Self::Ec(command) => command.run(),
        }
    }
}
