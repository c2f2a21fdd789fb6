//! What a run gave, for people and for programs.

use serde::Serialize;
use varve_tool_bench::{AccessPattern, Estimate, LoadSpec, Measured, Side};
use varve_types::ByteCount;

use super::run::{Outcome, Plan};
use crate::failure::{Failure, Result};
use crate::table::{Align, columns, labelled};

/// Percentiles that are told, with the names of their fields.
const PERCENTILES: [f64; 6] = [0.5, 0.9, 0.95, 0.99, 0.999, 0.9999];

/// A report; its fields are added to over time, never renamed.
#[derive(Serialize, Debug)]
pub(crate) struct Report {
    target: String,
    size_bytes: u64,
    load: Load,
    fill: bool,
    ramp_ms: u64,
    duration_ms: u64,
    /// Whether it was ended early; then the last repeat is short.
    interrupted: bool,
    /// Blocks that were read back and found right.
    verified_blocks: Option<u64>,
    repeats: Vec<Window>,
    /// All repeats together.
    reads: Option<Figures>,
    writes: Option<Figures>,
    both: Figures,
    not_begun: u64,
}

#[derive(Serialize, Debug)]
struct Load {
    block_bytes: usize,
    read_percent: u8,
    pattern: String,
    jobs: u32,
    depth: u32,
    rate_per_second: Option<f64>,
    durable: bool,
    verify: bool,
    zero_percent: u8,
    duplicate_percent: u8,
    compression_ratio: f64,
    seed: u64,
}

/// One repeat.
#[derive(Serialize, Debug)]
struct Window {
    window_ms: u64,
    operations_per_second: f64,
    bytes_per_second: f64,
    p50_us: f64,
    p99_us: f64,
    not_begun: u64,
    /// Answered operations that were due in each second.
    per_second: Vec<u64>,
}

/// Reads, writes or both, of all repeats.
#[derive(Serialize, Debug)]
struct Figures {
    operations: u64,
    operations_per_second: f64,
    /// Half of the 95 % interval of the mean over repeats; null with one.
    operations_per_second_half_width: Option<f64>,
    bytes_per_second: f64,
    latency_us: Latency,
    /// Upper end of each cell of the histogram in ns, and what it counts.
    histogram_ns: Vec<(u64, u64)>,
}

#[derive(Serialize, Debug)]
struct Latency {
    mean: f64,
    p50: f64,
    p90: f64,
    p95: f64,
    p99: f64,
    p99_9: f64,
    p99_99: f64,
    max: f64,
}

impl Report {
    /// The report of a run.
    pub(crate) fn of(plan: &Plan, outcome: &Outcome) -> Self {
        let figures = |side: &dyn Fn(&Measured) -> Side| Figures::of(&outcome.repeats, side);
        let (reads, writes) =
            (figures(&|window| window.reads.clone()), figures(&|window| window.writes.clone()));
        Self {
            target: plan.target.to_string(),
            size_bytes: outcome.size_bytes,
            load: Load::of(&plan.load),
            fill: plan.fill,
            ramp_ms: plan.ramp_ms,
            duration_ms: plan.duration_ms,
            interrupted: outcome.is_interrupted,
            verified_blocks: outcome.verified,
            repeats: outcome.repeats.iter().map(Window::of).collect(),
            both: figures(&both),
            reads: reads.is_any().then_some(reads),
            writes: writes.is_any().then_some(writes),
            not_begun: outcome.repeats.iter().map(|window| window.not_begun).sum(),
        }
    }

    /// For people.
    pub(crate) fn text(&self) -> String {
        let fill = if self.fill { ", written once before" } else { "" };
        let seconds = |ms: u64| format!("{} s", ms as f64 / 1000.0);
        let count = self.repeats.len();
        let early = if self.interrupted { ", ended early" } else { "" };
        let mut pairs = vec![
            ("target", self.target.clone()),
            ("used", format!("{}{fill}", ByteCount(self.size_bytes))),
            ("load", self.load.text()),
            ("writes", self.load.data()),
            (
                "time",
                format!(
                    "{count} × {} after {}{early}",
                    seconds(self.duration_ms),
                    seconds(self.ramp_ms)
                ),
            ),
        ];
        if self.not_begun > 0 {
            let text = format!(
                "{} operations when time was up: the target is slower than the rate",
                self.not_begun
            );
            pairs.push(("not begun", text));
        }
        if let Some(blocks) = self.verified_blocks {
            pairs.push(("verified", format!("{blocks} blocks hold what was written last")));
        }
        if self.load.read_percent == 100 {
            pairs.retain(|(label, _)| *label != "writes");
        }
        format!("{}\n{}", labelled(&pairs), self.table())
    }

    fn table(&self) -> String {
        let header: Vec<(&str, Align)> = std::iter::once(("", Align::Left))
            .chain(
                [
                    "OPS/S", "±", "MiB/s", "MEAN µs", "p50", "p90", "p95", "p99", "p99.9",
                    "p99.99", "MAX",
                ]
                .map(|title| (title, Align::Right)),
            )
            .collect();
        let both = (self.reads.is_some() && self.writes.is_some()).then_some(&self.both);
        let sides =
            [("reads", self.reads.as_ref()), ("writes", self.writes.as_ref()), ("both", both)];
        let rows: Vec<Vec<String>> = sides
            .into_iter()
            .filter_map(|(name, figures)| figures.map(|figures| figures.row(name)))
            .collect();
        columns(&header, &rows)
    }
}

/// A load in words.
pub(super) fn load_text(spec: &LoadSpec) -> String {
    Load::of(spec).text()
}

/// A line of JSON.
pub(crate) fn json(value: &impl Serialize) -> Result<String> {
    let text = serde_json::to_string(value);
    text.map(|text| text + "\n")
        .map_err(|error| Failure::new(format!("print the report as JSON: {error}")))
}

fn both(window: &Measured) -> Side {
    window.reads.with(&window.writes)
}

impl Load {
    fn of(spec: &LoadSpec) -> Self {
        Self {
            block_bytes: spec.block_bytes,
            read_percent: spec.read_percent,
            pattern: pattern(spec.pattern),
            jobs: spec.jobs,
            depth: spec.depth,
            rate_per_second: spec.rate,
            durable: spec.durable,
            verify: spec.verify,
            zero_percent: spec.data.zero_percent,
            duplicate_percent: spec.data.duplicate_percent,
            compression_ratio: spec.data.compression_ratio,
            seed: spec.seed,
        }
    }

    fn text(&self) -> String {
        let pace = match self.rate_per_second {
            None => "as fast as answered".to_owned(),
            Some(rate) => format!("{rate} operations/s"),
        };
        let jobs = if self.jobs == 1 { "1 job".to_owned() } else { format!("{} jobs", self.jobs) };
        format!(
            "{} {}, {} % reads, {jobs} × {} under way, {pace}",
            ByteCount(self.block_bytes as u64),
            self.pattern,
            self.read_percent,
            self.depth
        )
    }

    fn data(&self) -> String {
        let durable = if self.durable { "durable, " } else { "" };
        format!(
            "{durable}{} % zeros, {} % duplicates, compressible {}:1",
            self.zero_percent, self.duplicate_percent, self.compression_ratio
        )
    }
}

/// A pattern as it is asked for.
pub(super) fn pattern(pattern: AccessPattern) -> String {
    match pattern {
        AccessPattern::Sequential => "sequential".to_owned(),
        AccessPattern::Uniform => "random".to_owned(),
        AccessPattern::Zipf { theta } => format!("zipf:{theta}"),
        AccessPattern::HotCold { access_percent, block_percent } => {
            format!("hot:{access_percent}/{block_percent}")
        }
    }
}

impl Window {
    fn of(measured: &Measured) -> Self {
        let side = both(measured);
        let at_us = |quantile| us(side.latency_ns.value_at_quantile(quantile) as f64);
        Self {
            window_ms: measured.window_ns / 1_000_000,
            operations_per_second: measured.per_second(side.operations),
            bytes_per_second: measured.per_second(side.bytes),
            p50_us: at_us(0.5),
            p99_us: at_us(0.99),
            not_begun: measured.not_begun,
            per_second: measured.per_second.clone(),
        }
    }
}

impl Figures {
    /// The side that `side` picks, of all repeats, of which there is one at least.
    fn of(repeats: &[Measured], side: &dyn Fn(&Measured) -> Side) -> Self {
        let mut all = Side::default();
        let (mut rates, mut byte_rates) = (Vec::new(), Vec::new());
        for window in repeats {
            let side = side(window);
            rates.push(window.per_second(side.operations));
            byte_rates.push(window.per_second(side.bytes));
            all = all.with(&side);
        }
        let rate = Estimate::of(&rates);
        let cells = all.latency_ns.iter_recorded();
        Self {
            operations: all.operations,
            operations_per_second: rate.mean,
            operations_per_second_half_width: rate.half_width,
            bytes_per_second: Estimate::of(&byte_rates).mean,
            latency_us: Latency::of(&all),
            histogram_ns: cells
                .map(|cell| (cell.value_iterated_to(), cell.count_since_last_iteration()))
                .collect(),
        }
    }

    fn is_any(&self) -> bool {
        !self.histogram_ns.is_empty()
    }

    fn row(&self, name: &str) -> Vec<String> {
        let latency = &self.latency_us;
        let half_width = self.operations_per_second_half_width;
        let mut row = vec![
            name.to_owned(),
            format!("{:.0}", self.operations_per_second),
            half_width.map_or_else(String::new, |half_width| format!("{half_width:.0}")),
            format!("{:.1}", self.bytes_per_second / f64::from(1 << 20)),
        ];
        let values = [
            latency.mean,
            latency.p50,
            latency.p90,
            latency.p95,
            latency.p99,
            latency.p99_9,
            latency.p99_99,
            latency.max,
        ];
        row.extend(
            values.map(|us| if us < 100.0 { format!("{us:.1}") } else { format!("{us:.0}") }),
        );
        row
    }
}

impl Latency {
    fn of(side: &Side) -> Self {
        let [p50, p90, p95, p99, p99_9, p99_99] =
            PERCENTILES.map(|quantile| us(side.latency_ns.value_at_quantile(quantile) as f64));
        let (mean, max) = (us(side.latency_ns.mean()), us(side.latency_ns.max() as f64));
        Self { mean, p50, p90, p95, p99, p99_9, p99_99, max }
    }
}

fn us(ns: f64) -> f64 {
    ns / 1000.0
}
