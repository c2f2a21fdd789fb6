//! The cells of a pool that has several, and those that did not answer, as commands print them.

#[cfg(test)]
mod tests;

use serde_json::{Value, json};
use varve_access_admin::v1::{CellStatus, FillLevel};
use varve_client::table::{self, Align};
use varve_types::ByteCount;

/// A listing as JSON, with the cells that it lacks, if any.
pub(crate) fn listed<'a>(
    what: &str,
    listed: Value,
    missing: impl IntoIterator<Item = &'a u16>,
) -> String {
    let missing: Vec<u16> = missing.into_iter().copied().collect();
    let mut json = json!({ what: listed });
    if !missing.is_empty() {
        json["missing_cells"] = json!(missing);
    }
    format!("{json:#}\n")
}

/// A line on the cells that did not answer; nothing where all did.
pub(crate) fn without<'a>(missing: impl IntoIterator<Item = &'a u16>) -> String {
    let mut missing = missing.into_iter().copied().peekable();
    if missing.peek().is_none() {
        return String::new();
    }
    format!("no answer from cells {}: what they hold is missing here\n", numbers(missing))
}

/// Numbers of cells; `none` of none.
pub(crate) fn numbers(cells: impl Iterator<Item = u16>) -> String {
    let cells: Vec<String> = cells.map(|cell| cell.to_string()).collect();
    if cells.is_empty() { "none".to_owned() } else { cells.join(", ") }
}

/// How full each is, below an empty line; nothing for a pool of one.
pub(crate) fn table(cells: &[CellStatus]) -> String {
    if cells.is_empty() {
        return String::new();
    }
    let row = |CellStatus { cell, node, fill }: &CellStatus| {
        let level = match fill.level {
            FillLevel::Ok => "ok",
            FillLevel::Filling => "filling",
            FillLevel::High => "high",
            FillLevel::NearFull => "near full",
            FillLevel::Full => "full",
        };
        let amounts = [fill.used_bytes, fill.capacity_bytes].map(|it| ByteCount(it).to_string());
        let [used, capacity] = amounts;
        let row = [cell.to_string(), used, capacity, level.to_owned()];
        row.into_iter().chain(node.clone()).collect()
    };
    let mut rows: Vec<Vec<String>> = cells.iter().map(row).collect();
    let mut header = vec![
        ("CELL", Align::Right),
        ("USED", Align::Right),
        ("CAPACITY", Align::Right),
        ("SPACE", Align::Left),
    ];
    if cells.iter().any(|cell| cell.node.is_some()) {
        header.push(("NODE", Align::Left));
        rows.iter_mut().for_each(|row| row.resize(header.len(), "-".to_owned()));
    }
    format!("\n{}", table::columns(&header, &rows))
}
