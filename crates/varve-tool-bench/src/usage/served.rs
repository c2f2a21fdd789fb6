//! What the clients of a load had of a window, whoever measured it.

use crate::load::Measurement;

/// Rates and latencies of a window, of all clients together. Findings and layers follow from it and from what machines
/// did.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct ServedRates {
    /// Operations of every kind a second.
    pub operations_per_second: f64,
    /// Reads among them.
    pub reads_per_second: f64,
    /// Writes among them.
    pub writes_per_second: f64,
    /// Bytes read a second.
    pub read_bytes_per_second: f64,
    /// Bytes written a second.
    pub write_bytes_per_second: f64,
    /// Mean latency in µs.
    pub mean_us: f64,
    /// The longest one in µs.
    pub max_us: f64,
    /// Operations that were due and not begun when time was up.
    pub not_begun: u64,
    /// Length of the window in s.
    pub seconds: f64,
}

impl ServedRates {
    /// What was measured here.
    #[must_use]
    pub fn of(measured: &Measurement) -> Self {
        let latency_ns = measured.all().latency_ns;
        Self {
            operations_per_second: measured.per_second(measured.operations()),
            reads_per_second: measured.per_second(measured.reads.operations),
            writes_per_second: measured.per_second(measured.writes.operations),
            read_bytes_per_second: measured.per_second(measured.reads.bytes),
            write_bytes_per_second: measured.per_second(measured.writes.bytes),
            mean_us: latency_ns.mean() / 1000.0,
            max_us: latency_ns.max() as f64 / 1000.0,
            not_begun: measured.not_begun,
            seconds: measured.window_ns as f64 / 1e9,
        }
    }

    /// Whether reads are at least as many as writes.
    #[must_use]
    pub fn does_read(&self) -> bool {
        self.reads_per_second >= self.writes_per_second
    }
}
