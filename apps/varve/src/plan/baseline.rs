//! Results of `varve bench run` as measurements of a cluster.

use std::fmt::Write;
use std::path::Path;

use varve_bench::{BenchReport, SavedResult, result_name};
use varve_client::{Failure, Result};
use varve_tool_plan::catalogue::Catalogue;

use super::form::refused;

/// Adds what each `CLUSTER=RESULT` says to a catalogue, all as one file, so that none replaces another.
pub(super) fn add_measured(catalogue: &mut Catalogue, measured: &[String]) -> Result<()> {
    let tables: Result<Vec<String>> = measured.iter().map(|measured| tables(measured)).collect();
    catalogue.add("--measured", &tables?.concat()).map_err(refused)
}

/// Tables of the catalogue of one `CLUSTER=RESULT`: each load of blocks that reads alone or writes alone.
fn tables(measured: &str) -> Result<String> {
    let parts =
        measured.split_once('=').filter(|(cluster, path)| !cluster.is_empty() && !path.is_empty());
    let Some((cluster, path)) = parts else {
        return Err(Failure::misuse(format!("`{measured}` must be CLUSTER=RESULT")));
    };
    let path = Path::new(path);
    let saved = SavedResult::read(path)?;
    if let Some(why) = saved.runs.iter().flat_map(|run| &run.invalid).next() {
        return Err(
            Failure::new(format!("{} means nothing: {why}", path.display())).hint("measure again")
        );
    }
    let source = format!("varve bench run, {}", result_name(path));
    let rows: Vec<String> =
        saved.runs.iter().filter_map(|run| row(cluster, &source, run)).collect();
    if rows.is_empty() {
        let what =
            format!("{} has no load of blocks that reads alone or writes alone", path.display());
        return Err(
            Failure::misuse(what).hint("measure reads and writes apart: --reads 100, --reads 0")
        );
    }
    Ok(rows.concat())
}

/// A table of the catalogue; none of a load that is neither reads nor writes.
fn row(cluster: &str, source: &str, run: &BenchReport) -> Option<String> {
    let (block_bytes, read_share) = run.load.baseline()?;
    let mut row = String::from("[[measured]]\n");
    let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
    let mut field = |name: &str, value: String| {
        // Writing to text does not fail.
        let _written = writeln!(row, "{name} = {value}");
    };
    field("cluster", quoted(cluster));
    field("block", quoted(&format!("{block_bytes}B")));
    field("read_share", quoted(if read_share { "100%" } else { "0%" }));
    field("operations", format!("{:.1}", run.both.operations_per_second));
    field("latency", quoted(&format!("{:.6}s", run.both.latency_us.mean / 1e6)));
    field("source", quoted(source));
    Some(row)
}
