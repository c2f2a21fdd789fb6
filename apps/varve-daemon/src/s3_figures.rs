//! What the S3 gateway has done, under the names that Prometheus reads.

use varve_access_admin::{Histogram, Metric, MetricKind, Sample};
use varve_access_s3::{GatewayFigures, LATENCY_BOUNDS_US, OperationFigures};

/// The metrics now. Operations that nobody asked for yet have no samples.
pub(super) fn of(figures: &GatewayFigures) -> Vec<Metric> {
    let operations = &figures.operations;
    vec![
        requests(operations),
        errors(figures),
        counter(
            operations,
            "varve_s3_received_bytes_total",
            "Bytes of the bodies of S3 requests.",
            |operation| operation.received_bytes,
        ),
        counter(
            operations,
            "varve_s3_sent_bytes_total",
            "Bytes of the bodies of S3 answers.",
            |operation| operation.sent_bytes,
        ),
        times(operations),
        Metric::gauge("varve_s3_connections_open", "S3 connections open now.", figures.connections),
        dropped_lines(figures),
    ]
}

fn counter(
    operations: &[OperationFigures],
    name: &'static str,
    help: &'static str,
    value: fn(&OperationFigures) -> u64,
) -> Metric {
    let mut metric = Metric::new(name, help, MetricKind::Counter);
    metric.samples.extend(operations.iter().map(|operation| Sample {
        labels: vec![("operation", operation.name.clone())],
        value: value(operation),
    }));
    metric
}

fn requests(operations: &[OperationFigures]) -> Metric {
    let help = "S3 requests whose answer has ended, by operation and class of status.";
    let mut metric = Metric::new("varve_s3_requests_total", help, MetricKind::Counter);
    for operation in operations {
        for (class, value) in (1..).zip(operation.requests).filter(|(_, value)| *value > 0) {
            let status = ("status", format!("{class}xx"));
            let labels = vec![("operation", operation.name.clone()), status];
            metric.samples.push(Sample { labels, value });
        }
    }
    metric
}

fn errors(figures: &GatewayFigures) -> Metric {
    let help = "S3 requests that were answered with an error document, by its code.";
    let mut metric = Metric::new("varve_s3_errors_total", help, MetricKind::Counter);
    metric.samples.extend(
        figures
            .errors
            .iter()
            .map(|(code, value)| Sample { labels: vec![("code", code.clone())], value: *value }),
    );
    metric
}

fn times(operations: &[OperationFigures]) -> Metric {
    let help = "Time from the head of an S3 request to the head of its answer.";
    let mut metric = Metric::new("varve_s3_request_seconds", help, MetricKind::Histogram);
    metric.histograms.extend(operations.iter().map(|operation| {
        let [counts @ .., above] = operation.latency;
        Histogram {
            labels: vec![("operation", operation.name.clone())],
            counts: LATENCY_BOUNDS_US.into_iter().zip(counts).collect(),
            above,
            sum: operation.latency_us,
        }
    }));
    metric
}

fn dropped_lines(figures: &GatewayFigures) -> Metric {
    let help = "Lines of S3 access logs that were not written.";
    let name = "varve_s3_log_dropped_lines_total";
    let mut metric = Metric::new(name, help, MetricKind::Counter);
    metric.samples.push(Sample { labels: Vec::new(), value: figures.log_lines_dropped });
    metric
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_has_a_metric() {
        let mut put =
            OperationFigures { name: "PutObject".to_owned(), ..OperationFigures::default() };
        put.requests = [0, 3, 0, 1, 0];
        (put.received_bytes, put.sent_bytes, put.latency_us) = (10, 20, 5000);
        (put.latency[0], put.latency[16]) = (3, 1);
        let figures = GatewayFigures {
            operations: vec![put],
            errors: vec![("AccessDenied".to_owned(), 1)],
            connections: 2,
            log_lines_dropped: 4,
        };
        let metrics = of(&figures);
        let find = |name: &str| metrics.iter().find(|metric| metric.name == name).unwrap();
        let values = |name: &str| -> Vec<u64> {
            find(name).samples.iter().map(|sample| sample.value).collect()
        };
        assert_eq!(values("varve_s3_requests_total"), [3, 1]);
        assert_eq!(find("varve_s3_requests_total").samples[1].labels[1].1, "4xx");
        assert_eq!(values("varve_s3_errors_total"), [1]);
        assert_eq!(values("varve_s3_received_bytes_total"), [10]);
        assert_eq!(values("varve_s3_sent_bytes_total"), [20]);
        assert_eq!(values("varve_s3_connections_open"), [2]);
        assert_eq!(values("varve_s3_log_dropped_lines_total"), [4]);
        let times = &find("varve_s3_request_seconds").histograms[0];
        assert_eq!((times.counts[0], times.counts.len()), ((100, 3), 16));
        assert_eq!((times.above, times.sum), (1, 5000));
    }
}
