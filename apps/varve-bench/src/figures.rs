//! Rates and latencies of a report: of each repeat, and of all together.

use serde::{Deserialize, Serialize};
use varve_tool_bench::fio::{FioRun, FioSide};
use varve_tool_bench::{
    Estimate, FigureFinding, HistogramCells, KindTotals, LoadSpec, MachineUsage, Measurement,
    ServedRates, UsagePart, WindowObservation, findings,
};
use varve_tool_plan::{Amount, Seconds};

use super::layers::Layers;
use super::load::Load;
use super::outcome::Repeat;

/// Percentiles that are told, with the names of their fields.
const PERCENTILES: [f64; 6] = [0.5, 0.9, 0.95, 0.99, 0.999, 0.9999];

/// The finding that figures contradict each other.
const INCONSISTENT: &str = "inconsistent";

/// One repeat.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub(crate) struct Window {
    pub(crate) window_ms: u64,
    pub(crate) operations_per_second: f64,
    pub(crate) bytes_per_second: f64,
    #[serde(default)]
    pub(crate) mean_us: f64,
    p50_us: f64,
    pub(crate) p99_us: f64,
    /// Reads and writes among them, and their bytes.
    #[serde(default)]
    reads_per_second: f64,
    #[serde(default)]
    writes_per_second: f64,
    #[serde(default)]
    read_bytes_per_second: f64,
    #[serde(default)]
    write_bytes_per_second: f64,
    not_begun: u64,
    /// Answered operations that were due in each second.
    pub(crate) per_second: Vec<u64>,
    /// Whether the rate was level; null of windows below five seconds.
    #[serde(default)]
    pub(crate) settled: Option<bool>,
    /// What the machine of the client did meanwhile; null of windows that are too short to tell.
    #[serde(default)]
    pub(crate) usage: Option<MachineUsage>,
    /// Where the time goes, and what storage does for each operation and byte.
    #[serde(default)]
    pub(crate) layers: Layers,
    /// What bounds it, most certain first.
    #[serde(default)]
    pub(crate) findings: Vec<FigureNote>,
    /// When it began, in ms since 1970.
    #[serde(default)]
    pub(crate) began_unix_ms: u64,
    /// Its histogram, as of all repeats.
    #[serde(default)]
    histogram_ns: Vec<(u64, u64)>,
}

/// Whose result one of several is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResultOrigin<'a> {
    /// The host.
    pub(crate) name: &'a str,
    /// What tells its machine from others, where that is known.
    pub(crate) machine: Option<&'a str>,
}

/// Something that the figures say beside themselves.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub(crate) struct FigureNote {
    pub(crate) name: String,
    pub(crate) text: String,
}

/// Reads, writes or both, of all repeats.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct RepeatFigures {
    operations: u64,
    /// Rate of all repeats together.
    pub operations_per_second: f64,
    /// Half of the 95 % interval of the mean over repeats; null with one.
    operations_per_second_half_width: Option<f64>,
    pub(crate) bytes_per_second: f64,
    /// Latency of all repeats together.
    pub latency_us: Latency,
    /// Upper end of each cell of the histogram in ns, and what it counts.
    pub(crate) histogram_ns: Vec<(u64, u64)>,
}

/// Latencies; 0, and left out of JSON, where another tool did not tell them.
#[derive(Clone, Copy, Serialize, Deserialize, Debug)]
pub struct Latency {
    /// Mean of all operations.
    #[serde(default, skip_serializing_if = "is_unknown")]
    pub mean: f64,
    #[serde(default, skip_serializing_if = "is_unknown")]
    p50: f64,
    #[serde(default, skip_serializing_if = "is_unknown")]
    p90: f64,
    #[serde(default, skip_serializing_if = "is_unknown")]
    p95: f64,
    #[serde(default, skip_serializing_if = "is_unknown")]
    pub(crate) p99: f64,
    #[serde(default, skip_serializing_if = "is_unknown")]
    p99_9: f64,
    #[serde(default, skip_serializing_if = "is_unknown")]
    p99_99: f64,
    #[serde(default, skip_serializing_if = "is_unknown")]
    pub(crate) max: f64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_unknown(us: &f64) -> bool {
    *us == 0.0
}

/// Operations of every kind together.
pub(crate) fn both(window: &Measurement) -> KindTotals {
    window.all()
}

impl Window {
    pub(crate) fn of(load: &LoadSpec, repeat: &Repeat) -> Self {
        let Repeat { measured, usage, .. } = repeat;
        let served = ServedRates::of(measured);
        let observed = WindowObservation {
            depth: u64::from(load.jobs) * u64::from(load.depth),
            has_rate: load.rate.is_some(),
            served,
            usage: usage.as_ref(),
        };
        let side = both(measured);
        let at_us = |quantile| us(side.latency_ns.value_at_quantile(quantile) as f64);
        Self {
            window_ms: measured.window_ns / 1_000_000,
            operations_per_second: measured.per_second(side.operations),
            bytes_per_second: measured.per_second(side.bytes),
            mean_us: us(side.latency_ns.mean()),
            p50_us: at_us(0.5),
            p99_us: at_us(0.99),
            reads_per_second: served.reads_per_second,
            writes_per_second: served.writes_per_second,
            read_bytes_per_second: served.read_bytes_per_second,
            write_bytes_per_second: served.write_bytes_per_second,
            not_begun: measured.not_begun,
            per_second: measured.per_second.clone(),
            settled: measured.has_settled(),
            usage: usage.clone(),
            layers: Layers::of(&served, usage.as_ref()),
            findings: findings(&observed).iter().map(FigureNote::of).collect(),
            began_unix_ms: repeat.began_unix_ms,
            histogram_ns: side.cells().collect(),
        }
    }
}

impl Window {
    /// What fio measured.
    pub(crate) fn of_fio(run: &FioRun) -> Self {
        let figures = RepeatFigures::of_fio(&run.both, run.window_ms);
        let side = |side: Option<&FioSide>| {
            let figures = side.map(|side| RepeatFigures::of_fio(side, run.window_ms));
            figures.map_or((0.0, 0.0), |one| (one.operations_per_second, one.bytes_per_second))
        };
        let (reads_per_second, read_bytes_per_second) = side(run.reads.as_ref());
        let (writes_per_second, write_bytes_per_second) = side(run.writes.as_ref());
        Self {
            window_ms: run.window_ms,
            operations_per_second: figures.operations_per_second,
            bytes_per_second: figures.bytes_per_second,
            mean_us: figures.latency_us.mean,
            p50_us: figures.latency_us.p50,
            p99_us: figures.latency_us.p99,
            reads_per_second,
            writes_per_second,
            read_bytes_per_second,
            write_bytes_per_second,
            not_begun: 0,
            per_second: Vec::new(),
            settled: None,
            usage: None,
            layers: Layers::default(),
            findings: run.inconsistent().iter().map(FigureNote::of).collect(),
            began_unix_ms: 0,
            histogram_ns: figures.histogram_ns,
        }
    }
}

/// What cells count.
fn count(cells: &[(u64, u64)]) -> u64 {
    cells.iter().map(|(_, count)| count).sum()
}

/// The cells of all; none when one that counts operations has none.
fn merged_cells<'a>(
    parts: impl Iterator<Item = (&'a [(u64, u64)], bool)>,
) -> Option<HistogramCells> {
    let mut all = HistogramCells::default();
    for (cells, has_operations) in parts {
        if cells.is_empty() && has_operations {
            return None;
        }
        all.add(cells.iter().copied());
    }
    Some(all)
}

impl Window {
    /// Windows of several hosts at the same time as one; none when one has no histogram.
    pub(crate) fn merged(parts: &[(ResultOrigin<'_>, &Self)]) -> Option<Self> {
        let windows = || parts.iter().map(|(_, window)| *window);
        let cells = merged_cells(
            windows().map(|one| (&one.histogram_ns[..], one.operations_per_second > 0.0)),
        )?;
        let at_us = |quantile| us(cells.quantile(quantile).unwrap_or(0) as f64);
        let seconds = windows().map(|one| one.per_second.len()).max().unwrap_or(0);
        let second = |at: usize| windows().filter_map(|one| one.per_second.get(at)).sum();
        let levels: Vec<Option<bool>> = windows().map(|one| one.settled).collect();
        let sum = |of: fn(&Self) -> f64| windows().map(of).sum::<f64>();
        let seen = parts.iter().map(|(origin, one)| {
            let usage = one.usage.as_ref()?;
            Some(UsagePart { host: origin.name, machine: origin.machine?, usage })
        });
        // Of what one host did not see, a part would pass for all.
        let usage = MachineUsage::merged(&seen.collect::<Option<Vec<_>>>().unwrap_or_default());
        let findings = parts.iter().flat_map(|(ResultOrigin { name, .. }, one)| {
            let named = move |found: &FigureNote| FigureNote {
                name: found.name.clone(),
                text: format!("{name}: {}", found.text),
            };
            one.findings.iter().map(named)
        });
        let mut merged = Self {
            window_ms: windows().map(|one| one.window_ms).max()?,
            operations_per_second: sum(|one| one.operations_per_second),
            bytes_per_second: sum(|one| one.bytes_per_second),
            mean_us: mean(windows().map(|one| (one.mean_us, count(&one.histogram_ns)))),
            p50_us: at_us(0.5),
            p99_us: at_us(0.99),
            reads_per_second: sum(|one| one.reads_per_second),
            writes_per_second: sum(|one| one.writes_per_second),
            read_bytes_per_second: sum(|one| one.read_bytes_per_second),
            write_bytes_per_second: sum(|one| one.write_bytes_per_second),
            not_begun: windows().map(|one| one.not_begun).sum(),
            per_second: (0..seconds).map(second).collect(),
            settled: if levels.contains(&Some(false)) {
                Some(false)
            } else {
                levels.iter().all(|level| *level == Some(true)).then_some(true)
            },
            usage,
            layers: Layers::default(),
            findings: findings.collect(),
            began_unix_ms: windows().map(|one| one.began_unix_ms).min()?,
            histogram_ns: cells.to_vec(),
        };
        merged.layers = Layers::of(&merged.served(), merged.usage.as_ref());
        Some(merged)
    }

    /// Adds what the machine of all clients of `load` did, where none of them has looked; what bounds them together
    /// takes the place of what bounds each.
    pub(crate) fn observe(&mut self, load: &Load, usage: Option<MachineUsage>) {
        let served = self.served();
        let (depth, has_rate) = (load.depth(), load.rate_per_second.is_some());
        let observed = WindowObservation { depth, has_rate, served, usage: usage.as_ref() };
        self.findings.retain(FigureNote::is_contradiction);
        self.findings.extend(findings(&observed).iter().map(FigureNote::of));
        self.layers = Layers::of(&served, usage.as_ref());
        self.usage = usage;
    }

    fn served(&self) -> ServedRates {
        ServedRates {
            operations_per_second: self.operations_per_second,
            reads_per_second: self.reads_per_second,
            writes_per_second: self.writes_per_second,
            read_bytes_per_second: self.read_bytes_per_second,
            write_bytes_per_second: self.write_bytes_per_second,
            mean_us: self.mean_us,
            max_us: us(self.histogram_ns.last().map_or(0, |(ns, _)| *ns) as f64),
            not_begun: self.not_begun,
            seconds: self.window_ms as f64 / 1000.0,
        }
    }
}

impl RepeatFigures {
    /// Those of several hosts as one; none when one has no histogram. The rate's interval is that of `windows`, where
    /// they tell it.
    pub(crate) fn merged(parts: &[&Self], windows: &[Window]) -> Option<Self> {
        let cells = merged_cells(
            parts.iter().map(|figures| (&figures.histogram_ns[..], figures.operations > 0)),
        )?;
        let at_us = |quantile| us(cells.quantile(quantile).unwrap_or(0) as f64);
        let [p50, p90, p95, p99, p99_9, p99_99] = PERCENTILES.map(at_us);
        let latencies = || parts.iter().map(|figures| figures.latency_us);
        let means = parts.iter().map(|one| (one.latency_us.mean, count(&one.histogram_ns)));
        let rates: Vec<f64> = windows.iter().map(|one| one.operations_per_second).collect();
        Some(Self {
            operations: parts.iter().map(|one| one.operations).sum(),
            operations_per_second: parts.iter().map(|one| one.operations_per_second).sum(),
            operations_per_second_half_width: match rates.as_slice() {
                [] => None,
                rates => Estimate::of(rates).half_width,
            },
            bytes_per_second: parts.iter().map(|one| one.bytes_per_second).sum(),
            latency_us: Latency {
                mean: mean(means),
                max: latencies().map(|latency| latency.max).fold(0.0, f64::max),
                p50,
                p90,
                p95,
                p99,
                p99_9,
                p99_99,
            },
            histogram_ns: cells.to_vec(),
        })
    }
}

impl FigureNote {
    fn of(finding: &FigureFinding) -> Self {
        Self { name: finding.name().to_owned(), text: finding.to_string() }
    }

    /// Whether it says that the figures cannot be, and not what bounds them.
    pub(crate) fn is_contradiction(&self) -> bool {
        self.name == INCONSISTENT
    }
}

impl RepeatFigures {
    /// The side that `side` picks, of all repeats, of which there is one at least.
    pub(crate) fn of(repeats: &[Repeat], side: &dyn Fn(&Measurement) -> KindTotals) -> Self {
        let mut all = KindTotals::default();
        let (mut rates, mut byte_rates) = (Vec::new(), Vec::new());
        for window in repeats {
            let window = &window.measured;
            let side = side(window);
            rates.push(window.per_second(side.operations));
            byte_rates.push(window.per_second(side.bytes));
            all = all.with(&side);
        }
        let rate = Estimate::of(&rates);
        Self {
            operations: all.operations,
            operations_per_second: rate.mean,
            operations_per_second_half_width: rate.half_width,
            bytes_per_second: Estimate::of(&byte_rates).mean,
            latency_us: Latency::of(&all),
            histogram_ns: all.cells().collect(),
        }
    }

    /// What fio measured within `window_ms`.
    pub(crate) fn of_fio(side: &FioSide, window_ms: u64) -> Self {
        let per_second = |amount: u64| amount as f64 * 1000.0 / window_ms as f64;
        Self {
            operations: side.operations,
            operations_per_second: per_second(side.operations),
            operations_per_second_half_width: None,
            bytes_per_second: per_second(side.bytes),
            latency_us: Latency::of_fio(side),
            histogram_ns: side.cells.to_vec(),
        }
    }

    pub(crate) fn is_any(&self) -> bool {
        !self.histogram_ns.is_empty()
    }

    /// Mean and longest latency, in s.
    pub(crate) fn mean_and_max_s(&self) -> (f64, f64) {
        (self.latency_us.mean / 1e6, self.latency_us.max / 1e6)
    }

    /// Shortest latency and their standard deviation, in s, as the histogram tells them.
    pub(crate) fn min_and_std_s(&self) -> (f64, f64) {
        let all = count(&self.histogram_ns).max(1) as f64;
        let squares = self.histogram_ns.iter().map(|(ns, count)| {
            (*ns as f64 / 1000.0 - self.latency_us.mean).powi(2) * *count as f64
        });
        let std_us = (squares.sum::<f64>() / all).sqrt();
        let min_ns = self.histogram_ns.first().map_or(0, |(ns, _)| *ns);
        (min_ns as f64 / 1e9, std_us / 1e6)
    }

    /// Cells of a table, with latencies in µs.
    pub(crate) fn row(&self, name: &str) -> Vec<String> {
        self.cells(name, |us| if us < 100.0 { format!("{us:.1}") } else { format!("{us:.0}") })
    }

    /// The same with latencies in units that fit them.
    pub(crate) fn scaled_row(&self, name: &str) -> Vec<String> {
        self.cells(name, |us| Seconds::of_base(us / 1e6).to_string())
    }

    fn cells(&self, name: &str, time: impl Fn(f64) -> String) -> Vec<String> {
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
        row.extend(values.map(|us| if us == 0.0 { "–".to_owned() } else { time(us) }));
        row
    }
}

impl Latency {
    fn of_fio(side: &FioSide) -> Self {
        let [p50, p90, p95, p99, p99_9, p99_99] = side.percentiles_ns.map(|ns| us(ns as f64));
        let (mean, max) = (us(side.mean_ns), us(side.max_ns as f64));
        Self { mean, p50, p90, p95, p99, p99_9, p99_99, max }
    }

    fn of(side: &KindTotals) -> Self {
        let [p50, p90, p95, p99, p99_9, p99_99] =
            PERCENTILES.map(|quantile| us(side.latency_ns.value_at_quantile(quantile) as f64));
        let (mean, max) = (us(side.latency_ns.mean()), us(side.latency_ns.max() as f64));
        Self { mean, p50, p90, p95, p99, p99_9, p99_99, max }
    }
}

/// The mean of all whose means and counts these are.
fn mean(parts: impl Iterator<Item = (f64, u64)>) -> f64 {
    let (sum, count) =
        parts.fold((0.0, 0), |(sum, all), (mean, count)| (sum + mean * count as f64, all + count));
    if count == 0 { 0.0 } else { sum / count as f64 }
}

fn us(ns: f64) -> f64 {
    ns / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(operations: u64, latency_ns: u64) -> RepeatFigures {
        let mut side = KindTotals::default();
        side.latency_ns.record_n(latency_ns, operations).unwrap();
        RepeatFigures {
            operations,
            operations_per_second: operations as f64,
            operations_per_second_half_width: None,
            bytes_per_second: 0.0,
            latency_us: Latency::of(&side),
            histogram_ns: side.cells().collect(),
        }
    }

    #[test]
    fn hosts_add_up_and_percentiles_are_those_of_all_operations() {
        let (fast, slow) = (figures(9900, 1000), figures(100, 500_000));
        let merged = RepeatFigures::merged(&[&fast, &slow], &[]).unwrap();
        let latency = merged.latency_us;
        assert_eq!((merged.operations, merged.operations_per_second), (10_000, 10_000.0));
        assert_eq!((latency.p50, latency.p99), (1.0, 1.0), "an average would be 250");
        assert!(latency.p99_9 >= 500.0 && latency.max >= 500.0);
        assert!((latency.mean - (9900.0 + 50_000.0) / 10_000.0).abs() < 0.01, "{}", latency.mean);
        let without = RepeatFigures { histogram_ns: Vec::new(), ..figures(1, 1) };
        assert!(RepeatFigures::merged(&[&fast, &without], &[]).is_none());
    }
}
