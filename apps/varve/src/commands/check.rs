//! `varve check`: verifies a pool that is not served, and says what is wrong with it.
//!
//! ```text
//!  superblocks → roots → pool root → for each shard: recovery (over an overlay) → audit → catalogue → every segment → owners of damage
//! ```
//!
//! C1. Shards are checked one after the other, so memory does not grow with their number.
//! C2. Damage that redundancy hides, or that nothing needs, is a warning; everything else that is damaged is an error.

mod finding;
mod pool;
mod shard;
mod watch;

use std::io::{self, Write};

use clap::Args;
use serde::Serialize;
use varve_types::{ByteCount, parse_size};

use crate::cli::Global;
use crate::commands::offline::{OfflinePool, Source};
use crate::failure::{Failure, Result};

use self::finding::{Finding, Severity};
use self::pool::Check;
use self::shard::ShardSummary;

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

/// What a check found, as `--json` prints it.
#[derive(Serialize, Debug, Default)]
struct Report {
    version: u32,
    pool: Option<String>,
    quick: bool,
    /// Whether it was ended before it saw everything.
    stopped: bool,
    errors: u64,
    warnings: u64,
    notes: u64,
    shards: Vec<ShardSummary>,
    findings: Vec<Finding>,
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

impl Report {
    fn add(&mut self, finding: Finding) {
        match finding.severity {
            Severity::Error => self.errors += 1,
            Severity::Warning => self.warnings += 1,
            Severity::Note => self.notes += 1,
        }
        if self.findings.len() < finding::FINDINGS_MAX {
            self.findings.push(finding);
        }
    }

    fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("a report is plain JSON");
        text.push('\n');
        text
    }

    fn to_text(&self) -> String {
        let mut text: String = self.findings.iter().map(|finding| format!("{finding}\n")).collect();
        let listed = self.errors + self.warnings + self.notes;
        let left_out = listed - self.findings.len() as u64;
        if left_out > 0 {
            text.push_str(&format!("… and {} more\n", counted(left_out, "finding")));
        }
        for shard in &self.shards {
            text.push_str(&format!("{shard}\n"));
        }
        let scope = match (self.stopped, self.quick) {
            (true, _) => ", stopped before everything was checked",
            (false, true) => ", data not verified (--quick)",
            (false, false) => "",
        };
        let verdict = if self.errors > 0 { "damaged" } else { "clean" };
        let name =
            self.pool.as_deref().map_or_else(|| "pool".to_owned(), |id| format!("pool {id}"));
        text.push_str(&format!(
            "{name}: {verdict}: {}, {}, {}{scope}\n",
            counted(self.errors, "error"),
            counted(self.warnings, "warning"),
            counted(self.notes, "note"),
        ));
        text
    }
}

fn counted(count: u64, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}
