//! Results as a folder: `report.json` with histograms and the machine's facts, `usage.json` with what the machine did
//! from moment to moment, and `index.html` for people.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use varve_client::table::{Align, columns};
use varve_client::{Failure, Result};
use varve_tool_bench::fio::FioOutput;
use varve_tool_bench::{Point, Preset, Score};
use varve_tool_plan::report::Document;

use super::page::{NamedResult, page};
use super::picture::write_pictures;
use super::report::{BenchReport, json};
use super::sweep::Within;
use super::system::System;
use super::timeline::{Timelines, USAGE};

/// Name of the file that holds everything but timelines.
pub const REPORT: &str = "report.json";

/// Name of the page for people.
pub(crate) const PAGE: &str = "index.html";

/// What one command measured. Fields are added over time, never renamed.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct SavedResult {
    /// The preset that was run, if it was one.
    pub preset: Option<String>,
    /// The machine that ran it.
    pub system: System,
    /// Hosts whose results it is, if they are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<Host>,
    /// The fastest run within a bound, where one was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<Within>,
    /// What the network of the measured server carries, in Gbit/s, where that was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nic_gbit: Option<f64>,
    /// What the loads of a preset came to, in the terms of its source.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scores: Vec<Score>,
    /// A report for each load.
    pub runs: Vec<BenchReport>,
}

/// A host of several.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct Host {
    name: String,
    system: System,
}

impl SavedResult {
    /// The same with the scores of its loads.
    pub fn scored(self) -> Self {
        let preset = self.preset.as_deref().and_then(Preset::named);
        let points: Vec<Point> = self.runs.iter().map(BenchReport::point).collect();
        let scores = preset.map(|preset| Score::all(&preset.metric, &points, self.nic_gbit));
        Self { scores: scores.unwrap_or_default(), ..self }
    }

    /// Results of several hosts that did their loads at the same time, as one.
    pub fn merged(results: &[NamedResult]) -> Result<Self> {
        let first = results.first().ok_or_else(|| Failure::misuse("no result found"))?;
        let count = first.saved.runs.len();
        if results.iter().any(|result| result.saved.runs.len() != count) {
            return Err(Failure::new("the results have different numbers of loads"));
        }
        refuse_same(results)?;
        let runs = (0..count).map(|at| {
            let parts = results
                .iter()
                .filter_map(|named| Some((named.origin(), named.saved.runs.get(at)?)));
            BenchReport::merged(&parts.collect::<Vec<_>>())
        });
        let hosts = results
            .iter()
            .map(|result| Host { name: result.name.clone(), system: result.saved.system.clone() });
        let runs: Vec<BenchReport> = runs.collect::<Result<_>>()?;
        let merged = Self {
            preset: first.saved.preset.clone(),
            system: first.saved.system.clone(),
            hosts: hosts.collect(),
            within: first.saved.within.as_ref().map(|within| within.again(&runs)),
            nic_gbit: first.saved.nic_gbit,
            scores: Vec::new(),
            runs,
        };
        Ok(merged.scored())
    }

    /// Reads what `--json` prints.
    pub(crate) fn of_json(text: &str) -> Result<Self> {
        let is_no_report = |error| Failure::new(format!("no report of `varve bench run`: {error}"));
        serde_json::from_str(text).map_err(is_no_report)
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut texts: Vec<String> = self.runs.iter().map(BenchReport::text).collect();
        texts.extend(self.within.iter().map(|within| format!("{}\n", within.text())));
        texts.extend(self.scores_text());
        texts.join("\n")
    }

    /// Nothing where there are none.
    fn scores_text(&self) -> Option<String> {
        let rows = self.scores.iter().map(|score| vec![score.name.clone(), score.text.clone()]);
        let header = [("SCORE", Align::Left), ("", Align::Left)];
        (!self.scores.is_empty()).then(|| columns(&header, &rows.collect::<Vec<_>>()))
    }

    /// The same, in a folder too if one is named; as JSON if that is wanted.
    pub fn save_and_render(
        &self,
        timelines: Timelines,
        save: Option<&Path>,
        as_json: bool,
    ) -> Result<String> {
        save.map_or(Ok(()), |dir| self.write(dir, timelines))?;
        if as_json { json(self) } else { Ok(self.text()) }
    }

    /// How it was measured.
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        if self.hosts.is_empty() {
            return self.system.facts();
        }
        let of = |host: &Host| {
            let name = std::iter::once(("host", host.name.clone()));
            name.chain(host.system.facts()).collect::<Vec<_>>()
        };
        self.hosts.iter().flat_map(of).collect()
    }

    /// Refuses a folder that is there already.
    pub fn check(dir: &Path) -> Result<()> {
        if dir.exists() {
            let what = format!("{} exists; results get a folder of their own", dir.display());
            return Err(Failure::misuse(what));
        }
        Ok(())
    }

    /// Makes the folder.
    pub fn write(&self, dir: &Path, timelines: Timelines) -> Result<()> {
        let failed = |error| Failure::new(format!("save to {}: {error}", dir.display()));
        fs::create_dir_all(dir).map_err(failed)?;
        fs::write(dir.join(REPORT), json(self)?).map_err(failed)?;
        fs::write(dir.join(USAGE), json(&timelines)?).map_err(failed)?;
        let name = self.preset.clone().unwrap_or_else(|| "varve bench run".to_owned());
        let page = page(&[NamedResult { timelines, ..NamedResult::new(name, self.clone()) }])?;
        fs::write(dir.join(PAGE), page.html_with_markdown()).map_err(failed)?;
        write_pictures(&page, dir).map(drop)
    }

    /// What fio printed.
    pub fn of_fio(output: &FioOutput) -> Self {
        Self {
            preset: None,
            system: System::of_tool(output.version.clone(), output.unix_ms),
            hosts: Vec::new(),
            within: None,
            nic_gbit: None,
            scores: Vec::new(),
            runs: output.runs.iter().map(BenchReport::of_fio).collect(),
        }
    }

    /// Reads a folder, or a file of JSON as `varve bench run --json` prints it.
    pub fn read(path: &Path) -> Result<Self> {
        let file = if path.is_dir() { path.join(REPORT) } else { path.to_owned() };
        let named = |error: String| Failure::new(format!("read {}: {error}", file.display()));
        let text = fs::read_to_string(&file).map_err(|error| named(error.to_string()))?;
        let saved = Self::of_json(&text).map_err(|failure| named(failure.what().to_owned()))?;
        let has_nothing = |run: &BenchReport| run.repeats.is_empty();
        if saved.runs.is_empty() || saved.runs.iter().any(has_nothing) {
            return Err(named("nothing was measured".to_owned()));
        }
        Ok(saved)
    }
}

/// Makes a folder of a result that is none of loads: these files, and its page.
pub fn write_folder(dir: &Path, files: &[(&str, String)], page: &Document) -> Result<()> {
    let failed = |error| Failure::new(format!("save to {}: {error}", dir.display()));
    fs::create_dir_all(dir).map_err(failed)?;
    for (name, text) in files {
        fs::write(dir.join(name), text).map_err(failed)?;
    }
    fs::write(dir.join(PAGE), page.html_with_markdown()).map_err(failed)
}

/// Refuses a result that is there twice: it would count twice.
fn refuse_same(results: &[NamedResult]) -> Result<()> {
    let mut before: Vec<(&str, String)> = Vec::new();
    for NamedResult { name, saved, .. } in results {
        let text = json(saved)?;
        if let Some((first, _)) = before.iter().find(|(_, other)| *other == text) {
            let what = format!("{first} and {name} are the same result");
            return Err(Failure::new(what).hint("name the result of each host once"));
        }
        before.push((name.as_str(), text));
    }
    Ok(())
}
