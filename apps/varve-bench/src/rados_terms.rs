//! A report in the terms of `rados bench`, so that both can be compared line by line.

use super::report::BenchReport;

/// What `rados bench` tells of a run, in its words. Its MB are MiB, and its latencies are seconds.
pub(super) fn in_its_terms(report: &BenchReport) -> Option<String> {
    let window = report.repeats.last()?;
    // The last second may have just begun.
    let whole = usize::try_from(window.window_ms / 1000).unwrap_or(usize::MAX);
    let rates: Vec<f64> = window.per_second.iter().take(whole).map(|count| *count as f64).collect();
    let (mean, std) = spread(&rates)?;
    let (most, least) = rates
        .iter()
        .fold((f64::MIN, f64::MAX), |(most, least), one| (most.max(*one), least.min(*one)));
    let object_mib = report.both.bytes_per_second
        / report.both.operations_per_second.max(1e-9)
        / f64::from(1 << 20);
    let (average_s, max_s) = report.both.mean_and_max_s();
    let (min_s, latency_std_s) = report.both.min_and_std_s();
    Some(format!(
        "Bandwidth (MB/sec): {:.1} Stddev: {:.1} Max: {:.1} Min: {:.1}; Average IOPS: {mean:.0} Stddev: {std:.1} Max: {most:.0} Min: {least:.0}; \
         Average Latency(s): {average_s:.6} Stddev: {latency_std_s:.6} Max: {max_s:.6} Min: {min_s:.6}",
        mean * object_mib,
        std * object_mib,
        most * object_mib,
        least * object_mib,
    ))
}

/// Mean and standard deviation; none of nothing.
fn spread(values: &[f64]) -> Option<(f64, f64)> {
    let count = values.len() as f64;
    if values.is_empty() {
        return None;
    }
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((mean, (squares / count).sqrt()))
}
