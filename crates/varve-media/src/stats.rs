//! Counts, latencies and failures of a thread's disk operations, and those under way: a wrapper over any disk.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use hdrhistogram::Histogram;
use varve_reactor::{Nanos, Reactor};
use varve_stdx::{AlignedBuf, BufSlice, PendingEntries, PendingGuard};

use crate::contract::IoFuture;
use crate::disk::{Disk, DiskOperation, Persist, bytes_of};
use crate::{Error, Result};

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

/// An operation that is under way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PendingOperation {
    /// Its kind: `read`, `durable write`.
    pub operation: &'static str,
    /// File or device.
    pub path: Rc<str>,
    /// Byte position in it.
    pub offset: u64,
    /// Bytes asked for.
    pub bytes: u64,
    /// When it began, by the thread's clock.
    pub start: Nanos,
}

/// Operations of a file or device that failed, other than for want of room.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DiskErrors {
    /// Reads.
    pub reads: u64,
    /// Writes, flushes, allocations and discards.
    pub writes: u64,
    /// Message of the last one.
    pub last: String,
}

/// Figures of a thread's disks by operation.
pub struct DiskStats {
    operations: [RefCell<OperationStats>; 5],
    pending: PendingEntries<PendingOperation>,
    /// By path; as many as the pool has files.
    errors: RefCell<BTreeMap<Rc<str>, DiskErrors>>,
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
        Rc::new(Self {
            operations: std::array::from_fn(|_| empty()),
            pending: PendingEntries::default(),
            errors: RefCell::default(),
        })
    }

    /// A copy of one operation's figures.
    #[must_use]
    pub fn of(&self, operation: DiskOperation) -> OperationStats {
        self.operations[operation as usize].borrow().clone()
    }

    /// The operation that has been under way for longest, with its number on this thread.
    #[must_use]
    pub fn oldest(&self) -> Option<(u64, PendingOperation)> {
        self.pending.oldest()
    }

    /// Failed operations by file or device; those without failures are left out.
    #[must_use]
    pub fn errors(&self) -> Vec<(Rc<str>, DiskErrors)> {
        let errors = self.errors.borrow();
        errors.iter().map(|(path, errors)| (Rc::clone(path), errors.clone())).collect()
    }

    fn begin(&self, operation: DiskOperation, bytes: u64) {
        let mut stats = self.operations[operation as usize].borrow_mut();
        stats.in_flight += 1;
        stats.bytes += bytes;
    }

    fn count_error(&self, is_read: bool, path: &Rc<str>, error: &Error) {
        // Neither a full file system nor a lost fence is a fault of the drive.
        if !matches!(error, Error::Io { .. }) {
            return;
        }
        let mut all = self.errors.borrow_mut();
        let errors = all.entry(Rc::clone(path)).or_default();
        if is_read {
            errors.reads += 1;
        } else {
            errors.writes += 1;
        }
        errors.last = error.to_string();
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
    path: Rc<str>,
}

impl StatsDisk {
    /// Counts what goes to `disk` in `stats`, which several disks may share.
    #[must_use]
    pub fn new(disk: Rc<dyn Disk>, reactor: &Reactor, stats: Rc<DiskStats>) -> Self {
        let path = disk.path().into();
        Self { disk, reactor: reactor.clone(), stats, path }
    }

    /// Enters an operation that begins now among those under way.
    fn track(
        &self,
        operation: &'static str,
        offset: u64,
        bytes: u64,
    ) -> PendingGuard<'_, PendingOperation> {
        let (path, start) = (Rc::clone(&self.path), self.reactor.now());
        self.stats.pending.begin(PendingOperation { operation, path, offset, bytes, start })
    }

    fn count<'a, T: 'a>(
        &'a self,
        operation: DiskOperation,
        offset: u64,
        bytes: u64,
        started: IoFuture<'a, T>,
    ) -> IoFuture<'a, T> {
        let _pending = self.track(name_of(operation), offset, bytes);
        let start = self.reactor.now();
        let under_way = OperationCount { disk: self, operation, start, done: false, _pending };
        self.stats.begin(operation, bytes);
        Box::pin(async move {
            let result: Result<T> = started.await;
            under_way.end(result.as_ref().err());
            result
        })
    }
}

const fn name_of(operation: DiskOperation) -> &'static str {
    match operation {
        DiskOperation::Read => "read",
        DiskOperation::WriteCached => "write",
        DiskOperation::WriteDurable => "durable write",
        DiskOperation::Flush => "flush",
        DiskOperation::Discard => "discard",
    }
}

/// Counts an operation once: also when its future is dropped, as what then happens is not seen.
struct OperationCount<'a> {
    disk: &'a StatsDisk,
    operation: DiskOperation,
    start: Nanos,
    done: bool,
    _pending: PendingGuard<'a, PendingOperation>,
}

impl OperationCount<'_> {
    fn end(mut self, error: Option<&Error>) {
        self.done = true;
        let nanos = self.disk.reactor.now() - self.start;
        self.disk.stats.end(self.operation, nanos, error.is_some());
        if let Some(error) = error {
            let is_read = self.operation == DiskOperation::Read;
            self.disk.stats.count_error(is_read, &self.disk.path, error);
        }
    }
}

impl Drop for OperationCount<'_> {
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
        self.count(DiskOperation::Read, offset, len as u64, self.disk.read(offset, len))
    }

    fn write(&self, offset: u64, bytes: BufSlice, persist: Persist) -> IoFuture<'_, ()> {
        let len = bytes.len() as u64;
        self.count(
            DiskOperation::write(persist),
            offset,
            len,
            self.disk.write(offset, bytes, persist),
        )
    }

    fn write_gathered(
        &self,
        offset: u64,
        parts: Vec<BufSlice>,
        persist: Persist,
    ) -> IoFuture<'_, ()> {
        let len = bytes_of(&parts);
        self.count(
            DiskOperation::write(persist),
            offset,
            len,
            self.disk.write_gathered(offset, parts, persist),
        )
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        self.count(DiskOperation::Flush, 0, 0, self.disk.flush())
    }

    fn allocate(&self, offset: u64, len: u64) -> IoFuture<'_, ()> {
        let pending = self.track("allocation", offset, len);
        let started = self.disk.allocate(offset, len);
        Box::pin(async move {
            let result = started.await;
            drop(pending);
            result.inspect_err(|error| self.stats.count_error(false, &self.path, error))
        })
    }

    fn discard(&self, offset: u64, len: u64) -> IoFuture<'_, ()> {
        self.count(DiskOperation::Discard, offset, len, self.disk.discard(offset, len))
    }

    fn check_fence(&self) -> Result<()> {
        self.disk.check_fence()
    }
}
