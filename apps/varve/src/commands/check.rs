//! `varve check`: verifies a pool that is not served, and says what is wrong with it.

use std::io::{self, Write};

use clap::Args;
use varve_types::{ByteCount, parse_size};

use crate::check::{Check, counted};
use crate::cli::Global;
use crate::failure::{Failure, Result};
use crate::offline::{OfflinePool, Source};

/// Verify a pool that no daemon serves, and say what is wrong with it
///
/// Reads only. Every checksum is compared, every reference followed and all space counted again, by the code that serves the pool:
/// shards recover over an overlay in memory. Prints a line for each finding and a summary. Ctrl-C ends it with what was found so far.
#[derive(Args, Debug)]
#[command(
    after_help = "Exit codes: 0 no errors (there may be warnings), 1 errors, 2 not checked: misused, or the pool is in use."
)]
pub(crate) struct CheckCommand {
    #[command(flatten)]
    source: Source,

    /// Leave out the data: verify structures only
    #[arg(long)]
    quick: bool,

    /// Most memory for what recovery writes, kept in place of the drives
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = parse_size)]
    overlay: ByteCount,

    /// Print one JSON object: fields are added over time, never renamed or removed
    #[arg(long)]
    json: bool,
}

impl CheckCommand {
    pub(crate) fn run(self, global: &Global) -> Result<String> {
        let pool = OfflinePool::open(global, &self.source)?;
        let check = Check { pool, quick: self.quick, overlay_bytes_max: self.overlay.0 };
        let report = check.run();
        let text = if self.json { report.to_json() } else { report.to_text() };
        // Printed here, as findings are no failure of the command, and yet it does not end with 0.
        let mut stdout = io::stdout().lock();
        match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                return Err(Failure::new(format!("write to standard output: {error}")));
            }
            _ => {}
        }
        if report.errors > 0 {
            return Err(Failure::new(format!("the pool has {}", counted(report.errors, "error"))));
        }
        if report.stopped {
            return Err(Failure::misuse("stopped before everything was checked"));
        }
        Ok(String::new())
    }
}
