//! How many requests the engine answered for front-ends on this thread, and how long it took: what a latency seen by a client is divided by.

use std::cell::Cell;
use std::time::{Duration, Instant};

use varve_access_admin::MetricKind::Counter;

use crate::daemon::stack::ShardMetric;

/// Reads and writes since the daemon began.
#[derive(Default)]
pub(crate) struct RequestTimes {
    reads: Kind,
    writes: Kind,
}

/// Requests of one kind that succeeded.
#[derive(Default)]
struct Kind {
    count: Cell<u64>,
    time: Cell<Duration>,
}

impl Kind {
    fn add(&self, began: Instant) {
        self.count.set(self.count.get() + 1);
        self.time.set(self.time.get() + began.elapsed());
    }

    fn metrics(
        &self,
        [(count, counts), (us, times)]: [(&'static str, &'static str); 2],
    ) -> [ShardMetric; 2] {
        let time_us = u64::try_from(self.time.get().as_micros()).unwrap_or(u64::MAX);
        let counter = |name, help, value| ShardMetric { name, help, kind: Counter, value };
        [counter(count, counts, self.count.get()), counter(us, times, time_us)]
    }
}

impl RequestTimes {
    /// Adds a read that was asked for then and is answered now.
    pub(crate) fn read(&self, began: Instant) {
        self.reads.add(began);
    }

    /// Adds a write likewise.
    pub(crate) fn wrote(&self, began: Instant) {
        self.writes.add(began);
    }

    /// As metrics.
    pub(crate) fn metrics(&self) -> Vec<ShardMetric> {
        let reads = [
            (
                "varve_volume_reads_total",
                "Reads of volumes that NBD clients on this thread asked for.",
            ),
            (
                "varve_volume_read_seconds_total",
                "Time from the front-end's request to the engine's answer of reads of volumes, added up.",
            ),
        ];
        let writes = [
            (
                "varve_volume_writes_total",
                "Writes to volumes that NBD clients on this thread asked for.",
            ),
            (
                "varve_volume_write_seconds_total",
                "Time from the front-end's request to the engine's answer of writes to volumes, added up.",
            ),
        ];
        [self.reads.metrics(reads), self.writes.metrics(writes)].into_iter().flatten().collect()
    }
}
