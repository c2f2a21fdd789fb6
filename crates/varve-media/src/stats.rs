//! Counts and latencies of a thread's disk operations: a wrapper over any disk.

use std::cell::RefCell;
use std::rc::Rc;

use hdrhistogram::Histogram;
use varve_reactor::Reactor;
use varve_stdx::{AlignedBuf, BufSlice};

use crate::Result;
use crate::contract::IoFuture;
use crate::disk::{Disk, DiskOperation, Persist};

/// Longest latency a histogram tells apart, in nanoseconds: a minute.
const LATENCY_NANOS_MAX: u64 = 60_000_000_000;

/// Figures of one kind of operation.
#[derive(Clone, Debug)]
pub struct OperationStats {
    /// Operations that returned, failed ones included.
    pub count: u64,
    /// Of these, how many failed.
    pub failed: u64,
    /// Bytes asked for.
    pub bytes: u64,
    /// Operations under way.
    pub in_flight: u64,
    /// Latencies in nanoseconds, added up.
    pub nanos: u64,
    /// Latencies in nanoseconds, with two significant digits.
    pub latency_nanos: Histogram<u64>,
}

/// Figures of a thread's disks by operation.
pub struct DiskStats {
    operations: [RefCell<OperationStats>; 5],
}

impl DiskStats {
    /// All zero.
    #[must_use]
    pub fn new() -> Rc<Self> {
        let empty = || {
            let latency_nanos = Histogram::new_with_max(LATENCY_NANOS_MAX, 2)
                .expect("the bounds of the histogram are constants that fit it");
            RefCell::new(OperationStats {
                count: 0,
                failed: 0,
                bytes: 0,
                in_flight: 0,
                nanos: 0,
                latency_nanos,
            })
        };
        Rc::new(Self { operations: std::array::from_fn(|_| empty()) })
    }

    /// A copy of one operation's figures.
    #[must_use]
    pub fn of(&self, operation: DiskOperation) -> OperationStats {
        self.operations[operation as usize].borrow().clone()
    }

    fn begin(&self, operation: DiskOperation, bytes: u64) {
        let mut stats = self.operations[operation as usize].borrow_mut();
        stats.in_flight += 1;
        stats.bytes += bytes;
    }

    fn end(&self, operation: DiskOperation, nanos: u64, failed: bool) {
        let mut stats = self.operations[operation as usize].borrow_mut();
        stats.in_flight -= 1;
        stats.count += 1;
        stats.failed += u64::from(failed);
        stats.nanos += nanos;
        stats.latency_nanos.saturating_record(nanos);
    }
}

/// Counts the operations of the disk it wraps.
pub struct StatsDisk {
    disk: Rc<dyn Disk>,
    reactor: Reactor,
    stats: Rc<DiskStats>,
}

impl StatsDisk {
    /// Counts what goes to `disk` in `stats`, which several disks may share.
    #[must_use]
    pub fn new(disk: Rc<dyn Disk>, reactor: &Reactor, stats: Rc<DiskStats>) -> Self {
        Self { disk, reactor: reactor.clone(), stats }
    }

    fn count<'a, T: 'a>(
        &'a self,
        operation: DiskOperation,
        bytes: u64,
        started: IoFuture<'a, T>,
    ) -> IoFuture<'a, T> {
        let under_way = UnderWay { disk: self, operation, start: self.reactor.now(), done: false };
        self.stats.begin(operation, bytes);
        Box::pin(async move {
            let result: Result<T> = started.await;
            under_way.end(result.is_err());
            result
        })
    }
}

/// Counts an operation once: also when its future is dropped, as what then happens is not seen.
struct UnderWay<'a> {
    disk: &'a StatsDisk,
    operation: DiskOperation,
    start: varve_reactor::Nanos,
    done: bool,
}

impl UnderWay<'_> {
    fn end(mut self, failed: bool) {
        self.done = true;
        let nanos = self.disk.reactor.now() - self.start;
        self.disk.stats.end(self.operation, nanos, failed);
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.disk.stats.operations[self.operation as usize].borrow_mut().in_flight -= 1;
        }
    }
}

impl Disk for StatsDisk {
    fn path(&self) -> &str {
        self.disk.path()
    }

    fn size(&self) -> u64 {
        self.disk.size()
    }

    fn read(&self, offset: u64, len: usize) -> IoFuture<'_, AlignedBuf> {
        self.count(DiskOperation::Read, len as u64, self.disk.read(offset, len))
    }

    fn write(&self, offset: u64, bytes: BufSlice, persist: Persist) -> IoFuture<'_, ()> {
        let len = bytes.len() as u64;
        self.count(DiskOperation::write(persist), len, self.disk.write(offset, bytes, persist))
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        self.count(DiskOperation::Flush, 0, self.disk.flush())
    }

    fn allocate(&self, offset: u64, len: u64) -> IoFuture<'_, ()> {
        self.disk.allocate(offset, len)
    }

    fn discard(&self, offset: u64, len: u64) -> IoFuture<'_, ()> {
        self.count(DiskOperation::Discard, len, self.disk.discard(offset, len))
    }

    fn check_fence(&self) -> Result<()> {
        self.disk.check_fence()
    }
}
