//! What was done and how long it took, operation by operation, and as the lines of COSBench's CSV.

use std::fmt::Write;

use hdrhistogram::Histogram;

/// Longest time that is told apart, in µs: an hour. Longer ones count as that.
const US_MAX: u64 = 3_600_000_000;

/// The first line of the CSV: times are ms, throughput is operations a second, bandwidth bytes a second.
const TITLES: &str = "Stage,Op-Name,Op-Type,Op-Count,Byte-Count,Avg-ResTime,Avg-ProcTime,60%-ResTime,80%-ResTime,90%-ResTime,95%-ResTime,\
                      99%-ResTime,100%-ResTime,Throughput,Bandwidth,Succ-Ratio,Status,Detailed Status";

/// Percentiles of the CSV.
const QUANTILES: [f64; 6] = [0.6, 0.8, 0.9, 0.95, 0.99, 1.0];

/// What workers did of one operation. Histograms are merged, percentiles never averaged.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Operations that succeeded.
    pub operations: u64,
    /// Operations that failed.
    pub failures: u64,
    /// Bytes of those that succeeded.
    pub bytes: u64,
    /// Times until an answer was there as a whole, in µs.
    pub response_us: Histogram<u64>,
    /// Sum of the times until it began, in µs.
    pub processing_us_sum: u64,
}

impl Default for Tally {
    fn default() -> Self {
        let response_us = Histogram::new_with_bounds(1, US_MAX, 3);
        Self {
            operations: 0,
            failures: 0,
            bytes: 0,
            response_us: response_us.expect("the bounds are in order"),
            processing_us_sum: 0,
        }
    }
}

impl Tally {
    /// Adds an operation that succeeded.
    pub fn succeed(&mut self, bytes: u64, response_us: u64, processing_us: u64) {
        self.operations += 1;
        self.bytes += bytes;
        self.response_us.saturating_record(response_us.max(1));
        self.processing_us_sum += processing_us;
    }

    /// Adds one that failed.
    pub fn fail(&mut self) {
        self.failures += 1;
    }

    /// Adds what another worker did.
    pub fn merge(&mut self, other: &Self) {
        self.operations += other.operations;
        self.failures += other.failures;
        self.bytes += other.bytes;
        self.response_us.add(&other.response_us).expect("all histograms have the same bounds");
        self.processing_us_sum += other.processing_us_sum;
    }

    /// Share of operations that succeeded, in percent; `None` when there were none.
    #[must_use]
    pub fn success_percent(&self) -> Option<f64> {
        let all = self.operations + self.failures;
        (all > 0).then(|| self.operations as f64 * 100.0 / all as f64)
    }
}

/// A line of the CSV.
#[derive(Clone, Debug)]
pub struct TallyLine {
    /// The stage's number and name.
    pub stage: String,
    /// Name of the work.
    pub name: String,
    /// What the operation does.
    pub kind: &'static str,
    /// Length of what was measured, in s.
    pub seconds: f64,
    /// What was done.
    pub tally: Tally,
    /// Why the work ended early, if it did.
    pub failed: Option<String>,
}

/// The CSV of all lines.
#[must_use]
pub fn csv(lines: &[TallyLine]) -> String {
    let mut text = format!("{TITLES}\n");
    for line in lines {
        let TallyLine { stage, name, kind, seconds, tally, failed } = line;
        let per_second = |amount: u64| if *seconds > 0.0 { amount as f64 / seconds } else { 0.0 };
        let (stage, name) = (quoted(stage), quoted(name));
        let _ = write!(text, "{stage},{name},{kind},{},{}", tally.operations, tally.bytes);
        // COSBench says N/A of what has no operation.
        if tally.operations == 0 {
            text.push_str(",N/A,N/A,N/A,N/A,N/A,N/A,N/A,N/A");
        } else {
            let mean_ms = tally.response_us.mean() / 1000.0;
            let processing_ms = tally.processing_us_sum as f64 / 1000.0 / tally.operations as f64;
            let _ = write!(text, ",{mean_ms:.2},{processing_ms:.2}");
            for quantile in QUANTILES {
                let ms = tally.response_us.value_at_quantile(quantile) as f64 / 1000.0;
                let _ = write!(text, ",{ms:.2}");
            }
        }
        let (rate, bytes) = (per_second(tally.operations), per_second(tally.bytes));
        let _ = write!(text, ",{rate:.2},{bytes:.2}");
        let _ = match tally.success_percent() {
            None => write!(text, ",N/A"),
            Some(percent) => write!(text, ",{percent:.2}%"),
        };
        let status = if failed.is_some() { "terminated" } else { "completed" };
        let _ = writeln!(text, ",{status},{}", quoted(failed.as_deref().unwrap_or(status)));
    }
    text
}

/// A cell of CSV.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_cosbench() {
        let mut tally = Tally::default();
        // Below 2048 µs every one is told apart.
        (1..=10).for_each(|tenth| tally.succeed(1000, tenth * 100, 50));
        tally.fail();
        let line = TallyLine {
            stage: "s3-main".to_owned(),
            name: "a, \"b\"".to_owned(),
            kind: "read",
            seconds: 2.0,
            tally,
            failed: None,
        };
        let none = TallyLine {
            tally: Tally::default(),
            failed: Some("too, many".to_owned()),
            name: "x".to_owned(),
            ..line.clone()
        };
        let text = csv(&[line, none]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0].split(',').count(), 18);
        assert_eq!(
            lines[1],
            "s3-main,\"a, \"\"b\"\"\",read,10,10000,0.55,0.05,0.60,0.80,0.90,1.00,1.00,1.00,5.00,5000.00,90.91%,completed,completed"
        );
        assert_eq!(
            lines[2],
            "s3-main,x,read,0,0,N/A,N/A,N/A,N/A,N/A,N/A,N/A,N/A,0.00,0.00,N/A,terminated,\"too, many\""
        );
    }

    #[test]
    fn workers_add_up() {
        let (mut one, mut other) = (Tally::default(), Tally::default());
        one.succeed(5, 10, 1);
        other.succeed(7, 30, 2);
        other.fail();
        one.merge(&other);
        assert_eq!(
            (one.operations, one.failures, one.bytes, one.response_us.max()),
            (2, 1, 12, 30)
        );
        assert_eq!(Tally::default().success_percent(), None);
    }
}
