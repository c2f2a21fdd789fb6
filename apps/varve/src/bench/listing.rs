//! Results of a folder, the oldest first: the history of what was measured.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use varve_types::ByteCount;

use super::saved::Saved;
use crate::age::since;
use crate::commands::report::names;
use crate::failure::{Failure, Result};
use crate::table::{Align, columns};

/// A load of a result. Fields are added over time, never renamed.
#[derive(Serialize, Debug)]
pub(crate) struct Listed {
    /// Name of its folder or file.
    name: String,
    /// When it was measured, in ms since 1970.
    unix_ms: u64,
    pub(crate) preset: Option<String>,
    target: String,
    load: String,
    operations_per_second: f64,
    bytes_per_second: f64,
    p99_us: f64,
    /// Why its figures mean nothing; empty when they do.
    invalid: Vec<String>,
}

impl Listed {
    /// Its loads.
    fn all(name: &str, saved: &Saved) -> Vec<Self> {
        let loads = saved.runs.iter().map(|run| Self {
            name: name.to_owned(),
            unix_ms: saved.system.unix_ms,
            preset: saved.preset.clone(),
            target: run.target.clone(),
            load: run.load.text(),
            operations_per_second: run.both.operations_per_second,
            bytes_per_second: run.both.bytes_per_second,
            p99_us: run.both.latency_us.p99,
            invalid: run.invalid.clone(),
        });
        loads.collect()
    }

    fn row(&self) -> Vec<String> {
        let state = if self.invalid.is_empty() { "" } else { "INVALID" };
        vec![
            self.name.clone(),
            since(self.unix_ms),
            self.preset.clone().unwrap_or_default(),
            self.target.clone(),
            self.load.clone(),
            format!("{:.0}", self.operations_per_second),
            format!("{}/s", ByteCount(whole(self.bytes_per_second))),
            format!("{:.0}", self.p99_us),
            state.to_owned(),
        ]
    }

    /// A table for people.
    pub(crate) fn table(all: &[Self]) -> String {
        let (left, right) = (Align::Left, Align::Right);
        let header = [
            ("RESULT", left),
            ("AGE", left),
            ("PRESET", left),
            ("TARGET", left),
            ("LOAD", left),
            ("OPS/S", right),
            ("BYTES", right),
            ("p99 µs", right),
            ("", left),
        ];
        columns(&header, &all.iter().map(Self::row).collect::<Vec<_>>())
    }
}

/// Every load of every result of a folder, the oldest first. What is no result is passed over, and so is what is in folders below.
pub(crate) fn listed(dir: &Path) -> Result<Vec<Listed>> {
    let failed = |error| Failure::new(format!("list {}: {error}", dir.display()));
    let mut results: Vec<(PathBuf, Saved)> = Vec::new();
    for entry in fs::read_dir(dir).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let is_json = path.extension().is_some_and(|extension| extension == "json");
        let saved = Saved::read(&path).ok().filter(|_| is_json || path.is_dir());
        results.extend(saved.map(|saved| (path, saved)));
    }
    results.sort_by(|(one, _), (other, _)| one.cmp(other));
    let names = names(results.iter().map(|(path, _)| path.as_path()));
    let named = names.iter().zip(&results);
    let mut all: Vec<Listed> =
        named.flat_map(|(name, (_, saved))| Listed::all(name, saved)).collect();
    all.sort_by(|one, other| (one.unix_ms, &one.name).cmp(&(other.unix_ms, &other.name)));
    Ok(all)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bytes a second")]
fn whole(bytes: f64) -> u64 {
    bytes as u64
}
