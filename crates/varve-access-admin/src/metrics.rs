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
}

/// One value of a metric.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sample {
    /// Names and values that tell it from the metric's other samples.
    pub labels: Vec<(&'static str, String)>,
    /// The value, in the unit that the metric's name ends in.
    pub value: u64,
}

/// A named quantity with a sample per label set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Metric {
    /// Name (M1).
    pub name: &'static str,
    /// One sentence for people.
    pub help: &'static str,
    /// Counter or gauge.
    pub kind: MetricKind,
    /// The values.
    pub samples: Vec<Sample>,
}

impl Metric {
    /// A metric without samples.
    #[must_use]
    pub fn new(name: &'static str, help: &'static str, kind: MetricKind) -> Self {
        Self { name, help, kind, samples: Vec::new() }
    }

    /// A gauge with a single value.
    #[must_use]
    pub fn gauge(name: &'static str, help: &'static str, value: u64) -> Self {
        let samples = vec![Sample { labels: Vec::new(), value }];
        Self { name, help, kind: MetricKind::Gauge, samples }
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
        };
        let _ = writeln!(text, "# HELP {} {}", metric.name, metric.help);
        let _ = writeln!(text, "# TYPE {} {kind}", metric.name);
        for sample in &metric.samples {
            text.push_str(metric.name);
            push_labels(&mut text, &sample.labels);
            let _ = writeln!(text, " {}", sample.value);
        }
    }
    text
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
    let lower = metric.name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
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
