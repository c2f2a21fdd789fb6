//! Two results side by side, load by load.

use std::fmt::Write;

use serde::Serialize;
use varve_client::table::{Align, columns};
use varve_client::{Failure, Result};
use varve_tool_bench::{ComparedFigure, Comparison, Verdict};
use varve_tool_plan::report::ReportTable;

use super::apart::told_apart;
use super::figures::Window;
use super::report::BenchReport;
use super::saved::SavedResult;

/// A comparison. Fields are added over time, never renamed.
#[derive(Serialize, Debug)]
pub struct LoadComparison {
    /// Change for the worse that is accepted.
    pub accept_percent: f64,
    /// Figures that are worse.
    pub worse: usize,
    figures: Vec<FigureRow>,
}

/// A figure of one load.
#[derive(Serialize, Debug)]
struct FigureRow {
    load: String,
    figure: &'static str,
    before: f64,
    before_half_width: Option<f64>,
    after: f64,
    after_half_width: Option<f64>,
    change_percent: f64,
    verdict: &'static str,
}

/// Compares two results, whose loads must be the same and whose runs valid.
pub fn compare(
    before: &SavedResult,
    after: &SavedResult,
    accept_percent: f64,
) -> Result<LoadComparison> {
    if before.runs.len() != after.runs.len() {
        return Err(Failure::new("the results have different numbers of loads"));
    }
    let mut compared = LoadComparison { accept_percent, worse: 0, figures: Vec::new() };
    for (before, after) in before.runs.iter().zip(&after.runs) {
        check(before, after)?;
        for figure in figures(before, after) {
            let comparison = figure.compare(accept_percent);
            compared.worse += usize::from(comparison.verdict == Verdict::Worse);
            compared.figures.push(FigureRow::of(after.load.text(), figure.name, &comparison));
        }
    }
    Ok(compared)
}

fn check(before: &BenchReport, after: &BenchReport) -> Result<()> {
    if before.load != after.load {
        let (before, after) = (before.load.text(), after.load.text());
        return Err(Failure::new(format!("the loads differ: {before}; {after}"))
            .hint("measure both with the same flags, data and seed too"));
    }
    for (run, which) in [(before, "first"), (after, "second")] {
        if let Some(why) = run.invalid.first() {
            let what = format!("the {which} result means nothing: {why}");
            return Err(Failure::new(what).hint("measure again"));
        }
    }
    Ok(())
}

/// What is compared: two figures, so that chance calls no more than one comparison in twenty worse.
fn figures(before: &BenchReport, after: &BenchReport) -> Vec<ComparedFigure> {
    let figure = |name, more_is_better, of: &dyn Fn(&Window) -> f64| ComparedFigure {
        name,
        more_is_better,
        before: before.repeats.iter().map(of).collect(),
        after: after.repeats.iter().map(of).collect(),
    };
    let p99 = figure("p99 µs", false, &|window| window.p99_us);
    let first = match after.load.rate_per_second {
        Some(_) => figure("mean µs", false, &|window| window.mean_us),
        None => figure("operations/s", true, &|window| window.operations_per_second),
    };
    // What another tool did not measure is not compared.
    let is_known = |figure: &ComparedFigure| {
        figure.before.iter().chain(&figure.after).all(|value| *value > 0.0)
    };
    let is_p99_known = is_known(&p99);
    std::iter::once(first).chain(Some(p99).filter(|_| is_p99_known)).collect()
}

impl FigureRow {
    fn of(load: String, figure: &'static str, comparison: &Comparison) -> Self {
        Self {
            load,
            figure,
            before: comparison.before.mean,
            before_half_width: comparison.before.half_width,
            after: comparison.after.mean,
            after_half_width: comparison.after.half_width,
            change_percent: comparison.change_percent,
            verdict: match comparison.verdict {
                Verdict::Better => "better",
                Verdict::Same => "same",
                Verdict::Worse => "WORSE",
                Verdict::Unsure => "unsure",
            },
        }
    }

    fn cells(&self) -> [String; 5] {
        let value = |mean: f64, half_width: Option<f64>| match half_width {
            None => format!("{mean:.0}"),
            Some(half_width) => format!("{mean:.0} ± {half_width:.0}"),
        };
        [
            self.figure.to_owned(),
            value(self.before, self.before_half_width),
            value(self.after, self.after_half_width),
            format!("{:+.1} %", self.change_percent),
            self.verdict.to_owned(),
        ]
    }
}

impl LoadComparison {
    /// As a table of a page: verdicts first, so that a narrow one shows them; loads by what tells them apart.
    pub(crate) fn table(&self) -> ReportTable {
        let loads: Vec<&str> = self.figures.iter().map(|row| row.load.as_str()).collect();
        let (names, _) = told_apart(&loads);
        let rows = self.figures.iter().zip(names).map(|(row, name)| {
            let [figure, before, after, change, verdict] = row.cells();
            vec![verdict, change, figure, before, after, name]
        });
        let header = vec!["verdict", "change", "figure", "before", "after", "load"];
        ReportTable { header, rows: rows.collect() }
    }

    /// For people.
    pub fn text(&self) -> String {
        let header = [
            ("", Align::Left),
            ("BEFORE", Align::Right),
            ("AFTER", Align::Right),
            ("CHANGE", Align::Right),
            ("", Align::Left),
        ];
        let mut text = String::new();
        for of_load in self.figures.chunk_by(|a, b| a.load == b.load) {
            let Some(first) = of_load.first() else { continue };
            let rows: Vec<Vec<String>> = of_load.iter().map(|row| row.cells().to_vec()).collect();
            let _ = writeln!(text, "{}", first.load);
            let _ = writeln!(text, "{}", columns(&header, &rows));
        }
        let is_single =
            |row: &FigureRow| row.before_half_width.is_none() || row.after_half_width.is_none();
        if self.figures.iter().any(is_single) {
            text.push_str(
                "one repeat only: nobody knows what chance makes of it; measure with --repeat 5\n",
            );
        }
        text
    }
}
