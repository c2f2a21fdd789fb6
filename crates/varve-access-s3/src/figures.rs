//! What the gateway has done since the start, by operation. Counters are added to when an answer has ended.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use hyper::StatusCode;

/// Upper bounds of the histogram of times, in microseconds; what takes longer is above all of them.
pub const LATENCY_BOUNDS_US: [u64; 16] = [
    100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000,
    1_000_000, 2_000_000, 5_000_000, 10_000_000,
];
/// Classes of HTTP status: 1xx to 5xx.
pub const STATUS_CLASSES: usize = 5;
/// Most names of operations and of errors: there are fewer, and a mistake is not to fill memory.
const NAMES_MAX: usize = 256;
/// Requests that end before it is known what they ask for.
const UNKNOWN: &str = "Unknown";

/// All counters.
#[derive(Default)]
pub(crate) struct Metrics {
    /// Guards the table, not its counters; written when an operation is first asked for.
    operations: RwLock<BTreeMap<Box<str>, Arc<OperationCounters>>>,
    /// Errors by code; held for moments, and only by requests that fail.
    errors: Mutex<BTreeMap<String, u64>>,
    pub(crate) connections: AtomicU64,
}

/// Counters of an operation.
#[derive(Debug, Default)]
pub(crate) struct OperationCounters {
    pub(crate) name: Box<str>,
    requests: [AtomicU64; STATUS_CLASSES],
    received_bytes: AtomicU64,
    sent_bytes: AtomicU64,
    latency: [AtomicU64; LATENCY_BOUNDS_US.len() + 1],
    latency_us: AtomicU64,
}

/// How a request ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestEnd {
    pub(crate) status: StatusCode,
    /// Bytes of the bodies.
    pub(crate) received_bytes: u64,
    pub(crate) sent_bytes: u64,
    /// From the head of the request to the head of the answer.
    pub(crate) turnaround: Duration,
}

/// What the gateway has done since the start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GatewayFigures {
    /// By operation, in the order of names.
    pub operations: Vec<OperationFigures>,
    /// Errors by their code, in order.
    pub errors: Vec<(String, u64)>,
    /// Connections open now.
    pub connections: u64,
    /// Lines of access logs that were not written.
    pub log_lines_dropped: u64,
}

/// What an operation has done since the start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OperationFigures {
    /// Its name in the protocol.
    pub name: String,
    /// Requests answered with 1xx, 2xx … 5xx.
    pub requests: [u64; STATUS_CLASSES],
    /// Bytes of requests' bodies.
    pub received_bytes: u64,
    /// Bytes of answers' bodies.
    pub sent_bytes: u64,
    /// Requests up to each of [`LATENCY_BOUNDS_US`] and not up to the one before; the last are above all. The time is
    /// from the head of the request to that of its answer.
    pub latency: [u64; LATENCY_BOUNDS_US.len() + 1],
    /// Sum of the times, in microseconds.
    pub latency_us: u64,
}

impl Metrics {
    /// The counters of an operation.
    pub(crate) fn operation(&self, name: &str) -> Arc<OperationCounters> {
        let known = self.operations.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(operation) = known.get(name) {
            return Arc::clone(operation);
        }
        let name = if known.len() < NAMES_MAX { name } else { UNKNOWN };
        drop(known);
        let mut all = self.operations.write().unwrap_or_else(PoisonError::into_inner);
        let new =
            || Arc::new(OperationCounters { name: name.into(), ..OperationCounters::default() });
        Arc::clone(all.entry(name.into()).or_insert_with(new))
    }

    /// Those of requests that end before it is known what they ask for.
    pub(crate) fn unknown(&self) -> Arc<OperationCounters> {
        self.operation(UNKNOWN)
    }

    pub(crate) fn count_error(&self, code: &str) {
        let mut errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = errors.get_mut(code) {
            *count += 1;
        } else if errors.len() < NAMES_MAX {
            errors.insert(code.to_owned(), 1);
        }
    }

    pub(crate) fn now(&self) -> GatewayFigures {
        let operations = self.operations.read().unwrap_or_else(PoisonError::into_inner);
        let errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        GatewayFigures {
            operations: operations.values().map(|operation| operation.now()).collect(),
            errors: errors.iter().map(|(code, count)| (code.clone(), *count)).collect(),
            connections: self.connections.load(Ordering::Relaxed),
            log_lines_dropped: 0,
        }
    }
}

impl OperationCounters {
    pub(crate) fn count(&self, outcome: &RequestEnd) {
        let class = usize::from(outcome.status.as_u16() / 100).clamp(1, STATUS_CLASSES) - 1;
        let us = u64::try_from(outcome.turnaround.as_micros()).unwrap_or(u64::MAX);
        let bucket = LATENCY_BOUNDS_US.partition_point(|bound| *bound < us);
        for (counter, more) in [
            (&self.requests[class], 1),
            (&self.received_bytes, outcome.received_bytes),
            (&self.sent_bytes, outcome.sent_bytes),
            (&self.latency[bucket], 1),
            (&self.latency_us, us),
        ] {
            counter.fetch_add(more, Ordering::Relaxed);
        }
    }

    fn now(&self) -> OperationFigures {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        OperationFigures {
            name: self.name.to_string(),
            requests: self.requests.each_ref().map(read),
            received_bytes: read(&self.received_bytes),
            sent_bytes: read(&self.sent_bytes),
            latency: self.latency.each_ref().map(read),
            latency_us: read(&self.latency_us),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn took(us: u64, status: u16) -> RequestEnd {
        RequestEnd {
            status: StatusCode::from_u16(status).unwrap(),
            received_bytes: 10,
            sent_bytes: 20,
            turnaround: Duration::from_micros(us),
        }
    }

    #[test]
    fn requests_are_counted_by_operation_class_and_time() {
        let figures = Metrics::default();
        let put = figures.operation("PutObject");
        for (us, status) in [(100, 200), (101, 204), (10_000_001, 500)] {
            put.count(&took(us, status));
        }
        figures.operation("GetObject").count(&took(0, 404));
        figures.operation("PutObject").count(&took(1, 200));
        figures.count_error("NoSuchKey");
        let now = figures.now();
        let [get, put] = &now.operations[..] else { panic!("{now:?}") };
        assert_eq!((get.name.as_str(), get.requests), ("GetObject", [0, 0, 0, 1, 0]));
        assert_eq!((put.requests, put.received_bytes, put.sent_bytes), ([0, 3, 0, 0, 1], 40, 80));
        assert_eq!((put.latency[0], put.latency[1], put.latency[16]), (2, 1, 1));
        assert_eq!(put.latency_us, 100 + 101 + 10_000_001 + 1);
        assert_eq!(now.errors, [("NoSuchKey".to_owned(), 1)]);
    }

    #[test]
    fn names_are_bounded() {
        let figures = Metrics::default();
        for number in 0..2 * NAMES_MAX {
            figures.operation(&format!("o{number}")).count(&took(1, 200));
            figures.count_error(&format!("e{number}"));
        }
        let now = figures.now();
        assert_eq!((now.operations.len(), now.errors.len()), (NAMES_MAX + 1, NAMES_MAX));
        let rest = now.operations.iter().find(|operation| operation.name == UNKNOWN).unwrap();
        assert_eq!(rest.requests[1], NAMES_MAX as u64);
    }
}
