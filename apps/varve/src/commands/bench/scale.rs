//! `varve bench scale`: many short lives of volumes at a time.

use std::path::{Path, PathBuf};

use clap::Args;
use varve_bench::{REPORT, SavedResult, ScaleSpec, json, scale, write_folder};
use varve_client::{Failure, Result};
use varve_tool_bench::{Lives, LoadSpec};
use varve_types::{ByteCount, parse_size};

use crate::cli::Global;
use crate::output::print;

/// Create, connect, write and read, disconnect and delete many volumes of a daemon, and look whether anything is left
#[derive(Args, Debug)]
#[command(after_help = "Exit codes: 0 no errors and nothing left, 1 else, 2 misused.")]
pub(crate) struct Scale {
    /// Volumes in all
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=10_000), value_name = "COUNT")]
    volumes: u32,

    /// Volumes at a time, each with a thread and a connection
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1024), value_name = "COUNT")]
    at_once: u32,

    /// Size of a volume
    #[arg(long, value_parser = parse_size, default_value = "1GiB", value_name = "SIZE")]
    size: ByteCount,

    /// Bytes of each volume that are written and read back
    #[arg(long, value_parser = parse_size, default_value = "16MiB", value_name = "SIZE")]
    io: ByteCount,

    /// Size of an operation, a multiple of 4 KiB
    #[arg(long, value_parser = parse_size, default_value = "2MiB", value_name = "SIZE")]
    block: ByteCount,

    /// Operations under way of each volume at most
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=4096), value_name = "COUNT")]
    depth: u32,

    /// Begin of the volumes' names; no other volume may have it
    #[arg(long, default_value = PREFIX, value_name = "TEXT")]
    prefix: String,

    /// Save the result to a new folder
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,

    /// Print JSON; fields are added over time, never renamed
    #[arg(long)]
    json: bool,
}

impl Scale {
    pub(crate) fn run(self, global: &Global) -> Result<String> {
        let block_bytes = usize::try_from(self.block.0).unwrap_or(usize::MAX);
        let load = LoadSpec { block_bytes, ..LoadSpec::default() };
        load.check().map_err(|error| Failure::misuse(error.to_string()))?;
        let spec = ScaleSpec {
            volumes: self.volumes,
            at_once: self.at_once,
            size_bytes: self.size.0,
            block_bytes,
            depth: self.depth as usize,
            io_bytes: self.io.0,
            prefix: self.prefix,
        };
        if !spec.io_bytes.is_multiple_of(self.block.0) || spec.io_bytes > spec.size_bytes {
            let what = "--io must be a multiple of --block, and at most --size";
            return Err(Failure::misuse(what));
        }
        lives(global, &spec, None, self.save.as_deref(), self.json)
    }
}

/// Names of the volumes that a preset makes begin with it.
const PREFIX: &str = "bench-scale-";

/// The lives of a preset.
pub(super) fn spec(lives: &Lives) -> ScaleSpec {
    ScaleSpec {
        volumes: lives.volumes,
        at_once: lives.at_once,
        size_bytes: lives.size_bytes,
        block_bytes: lives.block_bytes,
        depth: lives.depth as usize,
        io_bytes: lives.io_bytes,
        prefix: PREFIX.to_owned(),
    }
}

/// Lives them and prints what became of them, beside a source that took so many s, in a folder too if one is named;
/// errors and leaks are a failure.
pub(super) fn lives(
    global: &Global,
    spec: &ScaleSpec,
    source_s: Option<f64>,
    save: Option<&Path>,
    as_json: bool,
) -> Result<String> {
    save.map_or(Ok(()), SavedResult::check)?;
    let report = scale(&global.client(), spec)?;
    let report = match source_s {
        None => report,
        Some(source_s) => report.beside(source_s),
    };
    if let Some(dir) = save {
        write_folder(dir, &[(REPORT, json(&report)?)], &report.page())?;
    }
    print(&if as_json { json(&report)? } else { report.text() })?;
    match (report.errors, report.leaks.len()) {
        (0, 0) => Ok(String::new()),
        (errors, leaks) => Err(Failure::new(format!("{errors} errors, {leaks} leaks"))),
    }
}
