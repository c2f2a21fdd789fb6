//! `varve check`: verifies a pool that is not served, or, with `--online`, one that is, and says what is wrong with it.

use clap::Args;
use varve_client::{Client, Failure, Result};
use varve_daemon::event_loop;
use varve_inspect::check::{Check, counted, online};
use varve_inspect::{OfflinePool, PoolSource};
use varve_types::{ByteCount, parse_size};

use crate::cli::Global;
use crate::output::print;

/// Verify a pool and report problems; the daemon must be stopped unless --online is given
///
/// Read-only. Compares every checksum, follows every reference and recounts all space, with the code that serves the
/// pool: shards recover over an overlay in memory. Prints one line per finding and a summary. Ctrl-C ends it with the
/// findings so far.
#[derive(Args, Debug)]
#[command(
    after_help = "Exit codes: 0 no errors (there may be warnings), 1 errors, 2 not checked: misused, or the pool is in use."
)]
pub(crate) struct CheckCommand {
    #[command(flatten)]
    source: PoolSource,

    /// Check the pool while it is served: follow every reference and free unreferenced space
    #[arg(long, conflicts_with_all = ["drive", "unserved", "quick", "overlay"])]
    online: bool,

    /// Skip the data: verify metadata only
    #[arg(long)]
    quick: bool,

    /// Memory limit for what recovery would write, as nothing is written to the drives
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = parse_size)]
    overlay: ByteCount,

    /// Print one JSON object: fields are added over time, never renamed or removed
    #[arg(long)]
    json: bool,
}

impl CheckCommand {
    pub(crate) fn run(self, global: &Global) -> Result<String> {
        if self.online {
            return self.run_online(&global.client());
        }
        // What this machine does not allow is no damage of the pool.
        drop(event_loop::start()?);
        let cells = OfflinePool::open_cells(&global.offline_data()?, &self.source)?;
        let check = Check { cells, quick: self.quick, overlay_bytes_max: self.overlay.0 };
        let report = check.run();
        let text = if self.json { report.to_json() } else { report.to_text() };
        print(&text)?; // It is no failure of the command, and yet this may not end with 0.
        if report.taken {
            return Err(Failure::misuse("a daemon took the pool while it was checked, so nothing of this counts")
                .hint("end the daemon (SIGTERM) and check again, or check the served pool: `varve check --online`"));
        }
        if report.errors > 0 {
            return Err(Failure::new(format!("the pool has {}", counted(report.errors, "error"))));
        }
        if report.stopped {
            return Err(Failure::misuse("stopped before everything was checked"));
        }
        Ok(String::new())
    }

    fn run_online(self, client: &Client) -> Result<String> {
        let answer = online::check(client).map_err(Failure::before_anything)?;
        let status = answer.value.clone();
        let report = status.report.as_ref();
        print(&answer.print(self.json, |_| report.map_or_else(String::new, online::describe)))?;
        online::judge(&status).map(|()| String::new())
    }
}
