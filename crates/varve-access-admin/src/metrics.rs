//! Metrics as Prometheus reads them. Values are whole numbers in the unit that ends the name.
//!
//! M1: a name is `varve_<layer>_<noun>_<unit>`; that of a counter ends in `_total`.

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
    /// Name (M1).
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

/// The metrics in Prometheus's text format, version 0.0.4.
pub(crate) fn render(metrics: &[Metric]) -> String {
    let mut text = String::new();
    for metric in metrics {
        debug_assert!(is_well_named(metric), "metric {} breaks M1", metric.name);
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
            let _ = writeln!(text, " {}", sample.value);
        }
        metric.histograms.iter().for_each(|histogram| push_histogram(&mut text, metric, histogram));
    }
    text
}

/// The counts up to each bound, sum and number, as Prometheus has them.
fn push_histogram(text: &mut String, metric: &Metric, histogram: &Histogram) {
    let name = metric.name;
    let mut all = 0;
    let mut push = |suffix: &str, bound: Option<String>, value: u64| {
        let _ = write!(text, "{name}_{suffix}");
        let bound = bound.map(|bound| ("le", bound));
        let labels: Vec<_> = histogram.labels.iter().cloned().chain(bound).collect();
        push_labels(text, &labels);
        let _ = writeln!(text, " {value}");
    };
    for (bound, count) in &histogram.counts {
        all += count;
        push("bucket", Some(bound.to_string()), all);
    }
    all += histogram.above;
    push("bucket", Some("+Inf".to_owned()), all);
    push("sum", None, histogram.sum);
    push("count", None, all);
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
    lower && parts.len() >= 3 && parts.first() == Some(&"varve") && counts == counter
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
        assert_eq!(render(&metrics), expected);
    }

    #[test]
    fn histograms_count_up_to_each_bound() {
        let mut times =
            Metric::new("varve_s3_request_us", "Time of requests.", MetricKind::Histogram);
        times.histograms.push(Histogram {
            labels: vec![("operation", "GetObject".to_owned())],
            counts: vec![(100, 3), (200, 0), (500, 2)],
            above: 1,
            sum: 2000,
        });
        let expected = "# HELP varve_s3_request_us Time of requests.\n\
            # TYPE varve_s3_request_us histogram\n\
            varve_s3_request_us_bucket{operation=\"GetObject\",le=\"100\"} 3\n\
            varve_s3_request_us_bucket{operation=\"GetObject\",le=\"200\"} 3\n\
            varve_s3_request_us_bucket{operation=\"GetObject\",le=\"500\"} 5\n\
            varve_s3_request_us_bucket{operation=\"GetObject\",le=\"+Inf\"} 6\n\
            varve_s3_request_us_sum{operation=\"GetObject\"} 2000\n\
            varve_s3_request_us_count{operation=\"GetObject\"} 6\n";
        assert_eq!(render(&[times]), expected);
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
