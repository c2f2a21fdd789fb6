//! Results of a folder, the oldest first: the history of what was measured.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use time::OffsetDateTime;
use varve_access_admin::percent_encoded;
use varve_client::age::since;
use varve_client::table::{Align, columns};
use varve_client::{Failure, Result};
use varve_tool_plan::report::{HtmlCell, HtmlPage};
use varve_types::ByteCount;

use super::result_name::{result_name, result_names};
use super::saved::{PAGE, SavedResult};

/// Titles of the columns of results.
const HEADER: [(&str, Align); 9] = [
    ("RESULT", Align::Left),
    ("AGE", Align::Left),
    ("PRESET", Align::Left),
    ("TARGET", Align::Left),
    ("LOAD", Align::Left),
    ("OPS/S", Align::Right),
    ("BYTES", Align::Right),
    ("p99 µs", Align::Right),
    ("", Align::Left),
];

/// The column of ages.
const AGE: usize = 1;

/// A load of a result. Fields are added over time, never renamed.
#[derive(Serialize, Debug)]
pub struct ListedLoad {
    /// Name of its folder or file.
    name: String,
    /// Its page, as a path from the folder that is listed; null of a file.
    page: Option<String>,
    /// When it was measured, in ms since 1970.
    unix_ms: u64,
    /// The preset that was run, if it was one.
    pub preset: Option<String>,
    target: String,
    load: String,
    operations_per_second: f64,
    bytes_per_second: f64,
    p99_us: f64,
    /// Why its figures mean nothing; empty when they do.
    invalid: Vec<String>,
}

impl ListedLoad {
    /// Its loads.
    fn all(path: &Path, name: &str, saved: &SavedResult) -> Vec<Self> {
        let folder = path.file_name().and_then(OsStr::to_str);
        let page = folder.filter(|_| path.join(PAGE).is_file());
        let page = page.map(|folder| format!("{folder}/{PAGE}"));
        let loads = saved.runs.iter().map(|run| Self {
            name: name.to_owned(),
            page: page.clone(),
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
    pub fn table(all: &[Self]) -> String {
        columns(&HEADER, &all.iter().map(Self::row).collect::<Vec<_>>())
    }

    /// The same as a page, in which names link to pages of results, and ages, which would grow, are times.
    pub fn html(dir: &Path, all: &[Self]) -> String {
        let cell = |(text, (_, align)): (String, (&str, Align))| HtmlCell {
            is_number: align == Align::Right,
            ..HtmlCell::new(&text)
        };
        let cells = |texts: Vec<String>| -> Vec<HtmlCell> {
            texts.into_iter().zip(HEADER).map(cell).collect()
        };
        let mut titles = HEADER.map(|(title, _)| title.to_owned());
        "TIME, UTC".clone_into(&mut titles[AGE]);
        let row = |one: &Self| {
            let mut texts = one.row();
            texts[AGE] = utc(one.unix_ms);
            let mut cells = cells(texts);
            cells[0].link = one.link();
            cells
        };
        let rows: Vec<_> = all.iter().map(row).collect();
        let mut page = HtmlPage::new(&format!("Results of {}", result_name(dir)));
        page.table(&cells(titles.to_vec()), &rows);
        page.finish()
    }

    /// The address of its page.
    fn link(&self) -> Option<String> {
        let page = self.page.as_ref()?;
        Some(page.split('/').map(percent_encoded).collect::<Vec<_>>().join("/"))
    }
}

/// Every load of every result of a folder, the oldest first. What is no result is passed over, and so is what is in
/// folders below.
pub fn listed(dir: &Path) -> Result<Vec<ListedLoad>> {
    let failed = |error| Failure::new(format!("list {}: {error}", dir.display()));
    let mut results: Vec<(PathBuf, SavedResult)> = Vec::new();
    for entry in fs::read_dir(dir).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let is_json = path.extension().is_some_and(|extension| extension == "json");
        let saved = SavedResult::read(&path).ok().filter(|_| is_json || path.is_dir());
        results.extend(saved.map(|saved| (path, saved)));
    }
    results.sort_by(|(one, _), (other, _)| one.cmp(other));
    let names = result_names(results.iter().map(|(path, _)| path.as_path()));
    let named = names.iter().zip(&results);
    let mut all: Vec<ListedLoad> =
        named.flat_map(|(name, (path, saved))| ListedLoad::all(path, name, saved)).collect();
    all.sort_by(|one, other| (one.unix_ms, &one.name).cmp(&(other.unix_ms, &other.name)));
    Ok(all)
}

/// A moment as a date and a time.
fn utc(unix_ms: u64) -> String {
    let seconds = i64::try_from(unix_ms / 1000).unwrap_or(i64::MAX);
    let text = |time: OffsetDateTime| {
        let (date, hour, minute) = (time.date(), time.hour(), time.minute());
        format!("{date} {hour:02}:{minute:02}")
    };
    OffsetDateTime::from_unix_timestamp(seconds).map_or_else(|_| String::new(), text)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bytes a second")]
fn whole(bytes: f64) -> u64 {
    bytes as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_have_a_date() {
        assert_eq!(utc(1_700_000_000_000), "2023-11-14 22:13");
        assert_eq!(utc(u64::MAX), "");
    }
}
