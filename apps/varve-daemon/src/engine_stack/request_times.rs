//! How many requests the engine answered for front-ends on this thread, and how long it took: what a latency seen by a
//! client is divided by.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use varve_access_admin::MetricKind::Counter;
use varve_stdx::{PendingEntries, PendingGuard};

use crate::stack::{PendingWork, ShardMetric};

/// Reads and writes since the daemon began, and all requests that are under way.
#[derive(Default)]
pub(crate) struct RequestTimes {
    reads: KindTimes,
    writes: KindTimes,
    /// At most as many as NBD takes at a time.
    pending: PendingEntries<TimedRequest>,
}

/// A request that is under way.
#[derive(Clone)]
pub(crate) struct TimedRequest {
    /// A noun with its preposition: `a write to`.
    operation: &'static str,
    volume: Rc<str>,
    began: Instant,
}

/// Requests of one kind that succeeded.
#[derive(Default)]
struct KindTimes {
    count: Cell<u64>,
    time: Cell<Duration>,
}

impl KindTimes {
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
    /// Enters a request that begins now; it is under way until the guard is dropped.
    pub(crate) fn begin(
        &self,
        operation: &'static str,
        volume: &Rc<str>,
    ) -> PendingGuard<'_, TimedRequest> {
        let volume = Rc::clone(volume);
        self.pending.begin(TimedRequest { operation, volume, began: Instant::now() })
    }

    /// The request that has been under way for longest.
    pub(crate) fn oldest(&self) -> Option<PendingWork> {
        let (number, TimedRequest { operation, volume, began }) = self.pending.oldest()?;
        let what = format!("{operation} volume {volume}");
        Some(PendingWork { what, number, age: began.elapsed() })
    }

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
