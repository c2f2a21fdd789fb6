//! Rates and latencies of a report: of each repeat, and of all together.

use serde::{Deserialize, Serialize};
use varve_tool_bench::{Estimate, Finding, LoadSpec, Measured, Observed, Side, Usage, findings};

use super::run::Repeat;

/// Percentiles that are told, with the names of their fields.
const PERCENTILES: [f64; 6] = [0.5, 0.9, 0.95, 0.99, 0.999, 0.9999];

/// One repeat.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub(crate) struct Window {
    pub(crate) window_ms: u64,
    pub(crate) operations_per_second: f64,
    bytes_per_second: f64,
    #[serde(default)]
    pub(crate) mean_us: f64,
    p50_us: f64,
    pub(crate) p99_us: f64,
    not_begun: u64,
    /// Answered operations that were due in each second.
    pub(crate) per_second: Vec<u64>,
    /// Whether the rate was level; null of windows below five seconds.
    #[serde(default)]
    pub(crate) settled: Option<bool>,
    /// What the machine of the client did meanwhile; null of windows that are too short to tell.
    #[serde(default)]
    pub(crate) usage: Option<Usage>,
    /// What bounds it, most certain first.
    #[serde(default)]
    pub(crate) findings: Vec<Found>,
}

/// Something that the figures say beside themselves.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub(crate) struct Found {
    pub(crate) name: String,
    pub(crate) text: String,
}

/// Reads, writes or both, of all repeats.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub(crate) struct Figures {
    operations: u64,
    pub(crate) operations_per_second: f64,
    /// Half of the 95 % interval of the mean over repeats; null with one.
    operations_per_second_half_width: Option<f64>,
    pub(crate) bytes_per_second: f64,
    pub(crate) latency_us: Latency,
    /// Upper end of each cell of the histogram in ns, and what it counts.
    pub(crate) histogram_ns: Vec<(u64, u64)>,
}

#[derive(Clone, Copy, Serialize, Deserialize, Debug)]
pub(crate) struct Latency {
    mean: f64,
    p50: f64,
    p90: f64,
    p95: f64,
    pub(crate) p99: f64,
    p99_9: f64,
    p99_99: f64,
    max: f64,
}

/// Operations of every kind together.
pub(crate) fn both(window: &Measured) -> Side {
    window.all()
}

impl Window {
    pub(crate) fn of(load: &LoadSpec, repeat: &Repeat) -> Self {
        let Repeat { measured, usage, .. } = repeat;
        let observed =
            Observed { load, measured, usage: usage.as_ref(), client: std::process::id() };
        let side = both(measured);
        let at_us = |quantile| us(side.latency_ns.value_at_quantile(quantile) as f64);
        Self {
            window_ms: measured.window_ns / 1_000_000,
            operations_per_second: measured.per_second(side.operations),
            bytes_per_second: measured.per_second(side.bytes),
            mean_us: us(side.latency_ns.mean()),
            p50_us: at_us(0.5),
            p99_us: at_us(0.99),
            not_begun: measured.not_begun,
            per_second: measured.per_second.clone(),
            settled: measured.has_settled(),
            usage: usage.clone(),
            findings: findings(&observed).iter().map(Found::of).collect(),
        }
    }
}

impl Found {
    fn of(finding: &Finding) -> Self {
        Self { name: finding.name().to_owned(), text: finding.to_string() }
    }
}

impl Figures {
    /// The side that `side` picks, of all repeats, of which there is one at least.
    pub(crate) fn of(repeats: &[Repeat], side: &dyn Fn(&Measured) -> Side) -> Self {
        let mut all = Side::default();
        let (mut rates, mut byte_rates) = (Vec::new(), Vec::new());
        for window in repeats {
            let window = &window.measured;
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

    pub(crate) fn is_any(&self) -> bool {
        !self.histogram_ns.is_empty()
    }

    /// Cells of a table.
    pub(crate) fn row(&self, name: &str) -> Vec<String> {
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
