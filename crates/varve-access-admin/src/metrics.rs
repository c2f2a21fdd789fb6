//! Metrics in Prometheus's text format and base units. Values are whole numbers in the unit that ends the name; those
//! of durations are in µs, and printed in seconds; those of ratios are in percent.
//!
//! METRICS-1: a name is `varve_<layer>_<noun>_<unit>`, or one of those that Prometheus client libraries use for the
//!     process; that of a counter ends in `_total`.

use std::fmt::Write;

/// How a value behaves over time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MetricKind {
    /// Only grows while the daemon runs.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts by size; only grows while the daemon runs.
    Histogram,
}

/// One value of a metric.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sample {
    /// Names and values that tell it from the metric's other samples.
    pub labels: Vec<(&'static str, String)>,
    /// The value, in the unit that the metric's name ends in.
    pub value: u64,
}

/// How often which sizes were seen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Histogram {
    /// Names and values that tell it from the metric's other histograms.
    pub labels: Vec<(&'static str, String)>,
    /// Upper bounds, rising, and how many there were up to each and above the one before.
    pub counts: Vec<(u64, u64)>,
    /// How many were above all bounds.
    pub above: u64,
    /// Sum of all sizes.
    pub sum: u64,
}

/// A named quantity with a sample per label set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Metric {
    /// Name (METRICS-1).
    pub name: &'static str,
    /// One sentence for people.
    pub help: &'static str,
    /// What the values are.
    pub kind: MetricKind,
    /// The values; a histogram has none.
    pub samples: Vec<Sample>,
    /// The values of a histogram.
    pub histograms: Vec<Histogram>,
}

impl Metric {
    /// A metric without samples.
    #[must_use]
    pub fn new(name: &'static str, help: &'static str, kind: MetricKind) -> Self {
        Self { name, help, kind, samples: Vec::new(), histograms: Vec::new() }
    }

    /// A gauge with a single value.
    #[must_use]
    pub fn gauge(name: &'static str, help: &'static str, value: u64) -> Self {
        let samples = vec![Sample { labels: Vec::new(), value }];
        Self { samples, ..Self::new(name, help, MetricKind::Gauge) }
    }
}

/// Names from when durations were in µs, for dashboards that still use them: new name, old name, help. To be removed
/// after the next release.
const OLD_NAMES: &[(&str, &str, &str)] = &[
    (
        "varve_media_read_seconds_total",
        "varve_media_read_us_total",
        "Replaced by varve_media_read_seconds_total.",
    ),
    (
        "varve_media_write_seconds_total",
        "varve_media_write_us_total",
        "Replaced by varve_media_write_seconds_total.",
    ),
    (
        "varve_media_durable_write_seconds_total",
        "varve_media_durable_write_us_total",
        "Replaced by varve_media_durable_write_seconds_total.",
    ),
    (
        "varve_media_flush_seconds_total",
        "varve_media_flush_us_total",
        "Replaced by varve_media_flush_seconds_total.",
    ),
    (
        "varve_volume_read_seconds_total",
        "varve_volume_read_us_total",
        "Replaced by varve_volume_read_seconds_total.",
    ),
    (
        "varve_volume_write_seconds_total",
        "varve_volume_write_us_total",
        "Replaced by varve_volume_write_seconds_total.",
    ),
    (
        "varve_dataset_snapshots_taken_seconds_total",
        "varve_dataset_snapshots_taken_us_total",
        "Replaced by varve_dataset_snapshots_taken_seconds_total.",
    ),
    (
        "varve_dataset_clones_made_seconds_total",
        "varve_dataset_clones_made_us_total",
        "Replaced by varve_dataset_clones_made_seconds_total.",
    ),
    ("varve_s3_request_seconds", "varve_s3_request_us", "Replaced by varve_s3_request_seconds."),
];

/// The metrics in Prometheus's text format, version 0.0.4, followed by those under [`OLD_NAMES`] if asked for.
pub(crate) fn render(metrics: &[Metric], with_old_names: bool) -> String {
    let old = metrics.iter().filter_map(|metric| {
        let (_, name, help) = OLD_NAMES.iter().find(|(now, _, _)| *now == metric.name)?;
        Some(Metric { name, help, ..metric.clone() })
    });
    let old: Vec<Metric> = if with_old_names { old.collect() } else { Vec::new() };
    let mut text = String::new();
    for metric in metrics.iter().chain(&old) {
        debug_assert!(is_well_named(metric), "metric {} breaks METRICS-1", metric.name);
        let kind = match metric.kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        };
        let _ = writeln!(text, "# HELP {} {}", metric.name, metric.help);
        let _ = writeln!(text, "# TYPE {} {kind}", metric.name);
        for sample in &metric.samples {
            text.push_str(metric.name);
            push_labels(&mut text, &sample.labels);
            let _ = writeln!(text, " {}", format_value(metric.name, sample.value));
        }
        metric.histograms.iter().for_each(|histogram| push_histogram(&mut text, metric, histogram));
    }
    text
}

/// A value, converted to the unit in the metric's name.
fn format_value(name: &str, value: u64) -> String {
    if name.ends_with("_seconds") || name.ends_with("_seconds_total") {
        (value as f64 / 1e6).to_string()
    } else if name.ends_with("_ratio") {
        (value as f64 / 100.0).to_string()
    } else {
        value.to_string()
    }
}

/// The counts up to each bound, sum and number, as Prometheus has them.
fn push_histogram(text: &mut String, metric: &Metric, histogram: &Histogram) {
    let name = metric.name;
    let mut all = 0;
    let mut push = |suffix: &str, bound: Option<String>, value: String| {
        let _ = write!(text, "{name}_{suffix}");
        let bound = bound.map(|bound| ("le", bound));
        let labels: Vec<_> = histogram.labels.iter().cloned().chain(bound).collect();
        push_labels(text, &labels);
        let _ = writeln!(text, " {value}");
    };
    for (bound, count) in &histogram.counts {
        all += count;
        push("bucket", Some(format_value(name, *bound)), all.to_string());
    }
    all += histogram.above;
    push("bucket", Some("+Inf".to_owned()), all.to_string());
    push("sum", None, format_value(name, histogram.sum));
    push("count", None, all.to_string());
}

fn push_labels(text: &mut String, labels: &[(&'static str, String)]) {
    if labels.is_empty() {
        return;
    }
    let escaped = labels.iter().map(|(name, value)| {
        let value = value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n");
        format!("{name}=\"{value}\"")
    });
    let _ = write!(text, "{{{}}}", escaped.collect::<Vec<_>>().join(","));
}

fn is_well_named(metric: &Metric) -> bool {
    let parts: Vec<&str> = metric.name.split('_').collect();
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    let lower = metric.name.bytes().all(allowed);
    let counts = metric.name.ends_with("_total");
    let counter = metric.kind == MetricKind::Counter;
    let layer = parts.first().is_some_and(|layer| ["varve", "process"].contains(layer));
    lower && parts.len() >= 3 && layer && counts == counter
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_has_help_type_and_labels() {
        let mut writes =
            Metric::new("varve_engine_writes_total", "Writes acked.", MetricKind::Counter);
        for (shard, value) in [("0", 7), ("1", 9)] {
            writes.samples.push(Sample { labels: vec![("shard", shard.to_owned())], value });
        }
        let metrics = [writes, Metric::gauge("varve_pool_free_bytes", "Free space.", 42)];
        let expected = "# HELP varve_engine_writes_total Writes acked.\n\
            # TYPE varve_engine_writes_total counter\n\
            varve_engine_writes_total{shard=\"0\"} 7\n\
            varve_engine_writes_total{shard=\"1\"} 9\n\
            # HELP varve_pool_free_bytes Free space.\n\
            # TYPE varve_pool_free_bytes gauge\n\
            varve_pool_free_bytes 42\n";
        assert_eq!(render(&metrics, false), expected);
    }

    #[test]
    fn durations_are_in_seconds_and_old_names_on_request() {
        let mut times =
            Metric::new("varve_s3_request_seconds", "Time of requests.", MetricKind::Histogram);
        times.histograms.push(Histogram {
            labels: vec![("operation", "GetObject".to_owned())],
            counts: vec![(100, 3), (200, 0), (500, 2)],
            above: 1,
            sum: 2_000_000,
        });
        let expected = "# HELP varve_s3_request_seconds Time of requests.\n\
            # TYPE varve_s3_request_seconds histogram\n\
            varve_s3_request_seconds_bucket{operation=\"GetObject\",le=\"0.0001\"} 3\n\
            varve_s3_request_seconds_bucket{operation=\"GetObject\",le=\"0.0002\"} 3\n\
            varve_s3_request_seconds_bucket{operation=\"GetObject\",le=\"0.0005\"} 5\n\
            varve_s3_request_seconds_bucket{operation=\"GetObject\",le=\"+Inf\"} 6\n\
            varve_s3_request_seconds_sum{operation=\"GetObject\"} 2\n\
            varve_s3_request_seconds_count{operation=\"GetObject\"} 6\n";
        let times = [times];
        assert_eq!(render(&times, false), expected);
        let both = render(&times, true);
        assert!(both.starts_with(expected), "{both}");
        assert!(
            both.contains("varve_s3_request_us_bucket{operation=\"GetObject\",le=\"100\"} 3\n")
        );
        assert!(both.contains("varve_s3_request_us_sum{operation=\"GetObject\"} 2000000\n"));
        let mut read = Metric::new("varve_media_read_seconds_total", "Time.", MetricKind::Counter);
        read.samples.push(Sample { labels: Vec::new(), value: 1_500_000 });
        let both = render(&[read], true);
        assert!(both.contains("\nvarve_media_read_seconds_total 1.5\n"), "{both}");
        assert!(both.ends_with("\nvarve_media_read_us_total 1500000\n"), "{both}");
    }

    #[test]
    fn label_values_are_escaped() {
        let mut text = String::new();
        push_labels(&mut text, &[("path", "a\"b\\c\nd".to_owned())]);
        assert_eq!(text, "{path=\"a\\\"b\\\\c\\nd\"}");
    }

    #[test]
    fn names_follow_the_scheme() {
        let gauge = |name| is_well_named(&Metric::gauge(name, "", 0));
        assert!(gauge("varve_engine_undrained_bytes"));
        assert!(!gauge("engine_undrained_bytes"));
        assert!(!gauge("varve_Engine_bytes"));
        assert!(!gauge("varve_engine_writes_total"), "a gauge is not a counter");
    }
}
