//! The drives of a pool as one thread has them: disks that are given up when they do not answer, with counts of what
//! they did. Called by whatever reads or writes a drive of a redundant pool.
//!
//! HANDLES-1. Every operation comes to an end: what is not answered within the drive's patience is an error. It may be
//!     carried out later all the same, so a drive that did not answer counts as failed wherever that matters.
//! HANDLES-2. Drives are judged by reads and writes, less what their bytes take on any drive: one that is rebuilt gets
//!     long writes while others get those of journals.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use futures_util::future::{Either, select};
use varve_media::{Disk, Error, IoFuture, Persist, RedundantSuperblock, Result};
use varve_reactor::{Nanos, Reactor};
use varve_stdx::{AlignedBuf, BufSlice};

use crate::class::LABEL_BYTES;
use crate::hedge::{Hedging, ReadCounts, late_after};
use crate::ids::DriveNumber;
use crate::latency::{LatencyHistogram, LatencyWindow};
use crate::repair::RepairControl;
use crate::view::LayoutView;

/// How long a drive may take for an answer, in ns, where nobody says otherwise.
pub const DRIVE_PATIENCE_NANOS: u64 = 10_000_000_000;

/// What takes longer is late on any drive, in ns.
const LATE_NANOS: u64 = Nanos::millis(100);

/// What a byte takes on any drive, in ns: 100 MB/s.
const BYTE_NANOS: u64 = 10;

/// So many late operations in a row, and the drive lags: its reads are answered by others.
const LAGGING_MIN: u32 = 4;

/// How long it is believed after which time a read is late, in ns.
const LIMITS_NANOS: u64 = Nanos::millis(100);

/// The disks of a drive.
#[derive(Clone)]
pub struct RedundantDisks {
    /// What lies before the first unit, by offsets of the drive.
    pub meta: Rc<dyn Disk>,
    /// Units; the first one is at offset 0.
    pub space: Rc<dyn Disk>,
}

impl RedundantDisks {
    /// Those of a drive that is one disk.
    ///
    /// # Errors
    /// [`Error::TooSmall`] when the disk ends before the last unit.
    pub fn one(disk: &Rc<dyn Disk>, superblock: &RedundantSuperblock) -> Result<Self> {
        let space = superblock.space_of(disk)?;
        Ok(Self { meta: Rc::clone(disk), space: Rc::new(space) })
    }
}

/// What a drive did for this thread.
#[derive(Default)]
pub struct DriveCounts {
    read_errors: Cell<u64>,
    write_errors: Cell<u64>,
    timeouts: Cell<u64>,
    checksum_errors: Cell<u64>,
    read_latencies: LatencyHistogram,
    write_latencies: LatencyHistogram,
    reads: Cell<u64>,
    /// Reads of units that were answered, those that failed since the last of them, and where the last of these was.
    unit_reads: Cell<u64>,
    failed_in_a_row: Cell<u64>,
    failed_at: Cell<u64>,
    /// Operations since the last one that was not late.
    late_in_a_row: Cell<u32>,
    /// When the first of them began.
    late_since: Cell<Nanos>,
}

/// What a drive did for this thread since the last look: reads and writes, whose latencies are less what their bytes
/// take (HANDLES-2).
#[derive(Clone, Copy, Default)]
pub(crate) struct DriveWindow {
    pub(crate) reads: LatencyWindow,
    pub(crate) writes: LatencyWindow,
    /// Of those that took 100 ms and more, one after the other: how many, and when the first of them began.
    pub(crate) late_in_a_row: u32,
    pub(crate) late_since: Nanos,
}

impl DriveCounts {
    /// Reads that failed.
    #[must_use]
    pub fn read_errors(&self) -> u64 {
        self.read_errors.get()
    }

    /// Writes and flushes that failed.
    #[must_use]
    pub fn write_errors(&self) -> u64 {
        self.write_errors.get()
    }

    /// Operations that were not answered in time.
    #[must_use]
    pub fn timeouts(&self) -> u64 {
        self.timeouts.get()
    }

    /// Strips and labels that were not what they should have been.
    #[must_use]
    pub fn checksum_errors(&self) -> u64 {
        self.checksum_errors.get()
    }

    /// Counts a strip or label that is not what it should be.
    pub fn note_checksum_error(&self) {
        add_one(&self.checksum_errors);
    }

    /// Reads that were answered.
    #[must_use]
    pub fn reads(&self) -> u64 {
        self.reads.get()
    }

    /// The latency that so many of 1000 of the last reads did not exceed, in ns; `None` before the first one.
    #[must_use]
    pub fn read_latency_nanos(&self, permille: u64) -> Option<u64> {
        self.read_latencies.quantile_nanos(permille)
    }

    /// The same of the last writes and flushes.
    #[must_use]
    pub fn write_latency_nanos(&self, permille: u64) -> Option<u64> {
        self.write_latencies.quantile_nanos(permille)
    }

    /// Reads of units that were answered.
    pub(crate) fn unit_reads(&self) -> u64 {
        self.unit_reads.get()
    }

    /// Reads of units that failed, or had no answer in time, since the last one that was answered.
    pub(crate) fn failed_in_a_row(&self) -> u64 {
        self.failed_in_a_row.get()
    }

    /// Whether all that it did last was late.
    pub(crate) fn is_lagging(&self) -> bool {
        self.late_in_a_row.get() >= LAGGING_MIN
    }

    pub(crate) fn take_window(&self) -> DriveWindow {
        DriveWindow {
            reads: self.read_latencies.take_window(),
            writes: self.write_latencies.take_window(),
            late_in_a_row: self.late_in_a_row.get(),
            late_since: self.late_since.get(),
        }
    }

    fn note_answer(&self, note: &OperationNote, began: Nanos, now: Nanos) {
        let nanos = now.since(began);
        let beyond = nanos.saturating_sub(note.len.saturating_mul(BYTE_NANOS)); // HANDLES-2
        match note.kind {
            OperationKind::Read => {
                self.read_latencies.add(nanos);
                self.read_latencies.add_to_window(beyond);
                add_one(&self.reads);
            }
            OperationKind::Write => {
                self.write_latencies.add(nanos);
                self.write_latencies.add_to_window(beyond);
            }
            OperationKind::Upkeep => return self.write_latencies.add(nanos),
        }
        let late = if beyond < LATE_NANOS { 0 } else { self.late_in_a_row.get().saturating_add(1) };
        if late == 1 {
            self.late_since.set(began);
        }
        self.late_in_a_row.set(late);
    }
}

fn add_one(count: &Cell<u64>) {
    count.set(count.get().saturating_add(1));
}

/// What an operation counts as.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OperationKind {
    Read,
    Write,
    /// A flush, or what concerns the space of a file: how long it takes depends on what was done before.
    Upkeep,
}

/// A disk whose operations come to an end (HANDLES-1).
struct PatientDisk {
    disk: Rc<dyn Disk>,
    reactor: Reactor,
    patience_nanos: u64,
    counts: Rc<DriveCounts>,
    /// Whether it holds units, and not tables.
    has_units: bool,
}

/// What is known of an operation that may not be answered.
struct OperationNote {
    kind: OperationKind,
    name: &'static str,
    offset: u64,
    len: u64,
}

impl PatientDisk {
    fn bound<'a, T: 'a>(
        &'a self,
        note: OperationNote,
        operation: IoFuture<'a, T>,
    ) -> IoFuture<'a, T> {
        let began = self.reactor.now();
        let alarm = self.reactor.sleep(self.patience_nanos);
        Box::pin(async move {
            let answer = match select(operation, alarm).await {
                Either::Left((answer, _)) => answer,
                Either::Right(((), _)) => {
                    add_one(&self.counts.timeouts);
                    self.note_unit_read(&note, false);
                    return Err(self.silence(&note)); // HANDLES-1
                }
            };
            self.note(&note, began, answer.is_ok());
            answer
        })
    }

    fn note(&self, note: &OperationNote, began: Nanos, is_ok: bool) {
        self.note_unit_read(note, is_ok);
        match (note.kind, is_ok) {
            (_, true) => self.counts.note_answer(note, began, self.reactor.now()),
            (OperationKind::Read, false) => add_one(&self.counts.read_errors),
            (OperationKind::Write | OperationKind::Upkeep, false) => {
                add_one(&self.counts.write_errors);
            }
        }
    }

    fn note_unit_read(&self, note: &OperationNote, is_ok: bool) {
        if note.kind != OperationKind::Read || !self.has_units {
            return;
        }
        if is_ok {
            add_one(&self.counts.unit_reads);
            self.counts.failed_in_a_row.set(0);
        } else {
            add_one(&self.counts.failed_in_a_row);
            self.counts.failed_at.set(note.offset);
        }
    }

    fn silence(&self, note: &OperationNote) -> Error {
        Error::Io {
            operation: note.name,
            path: self.disk.path().to_owned(),
            offset: note.offset,
            len: note.len,
            reason: format!("no answer for {} ms", self.patience_nanos / 1_000_000),
        }
    }
}

impl Disk for PatientDisk {
    fn path(&self) -> &str {
        self.disk.path()
    }

    fn size(&self) -> u64 {
        self.disk.size()
    }

    fn read(&self, offset: u64, len: usize) -> IoFuture<'_, AlignedBuf> {
        let note =
            OperationNote { kind: OperationKind::Read, name: "read", offset, len: len as u64 };
        self.bound(note, self.disk.read(offset, len))
    }

    fn write(&self, offset: u64, bytes: BufSlice, persist: Persist) -> IoFuture<'_, ()> {
        let len = bytes.len() as u64;
        let note = OperationNote { kind: OperationKind::Write, name: "write", offset, len };
        self.bound(note, self.disk.write(offset, bytes, persist))
    }

    fn write_gathered(
        &self,
        offset: u64,
        parts: Vec<BufSlice>,
        persist: Persist,
    ) -> IoFuture<'_, ()> {
        let len = parts.iter().map(|part| part.len() as u64).sum();
        let note = OperationNote { kind: OperationKind::Write, name: "write", offset, len };
        self.bound(note, self.disk.write_gathered(offset, parts, persist))
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        let note = OperationNote {
            kind: OperationKind::Upkeep,
            name: "flush",
            offset: 0,
            len: self.size(),
        };
        self.bound(note, self.disk.flush())
    }

    fn allocate(&self, offset: u64, len: u64) -> IoFuture<'_, ()> {
        let note = OperationNote { kind: OperationKind::Upkeep, name: "allocate", offset, len };
        self.bound(note, self.disk.allocate(offset, len))
    }

    fn discard(&self, offset: u64, len: u64) -> IoFuture<'_, ()> {
        let note = OperationNote { kind: OperationKind::Upkeep, name: "discard", offset, len };
        self.bound(note, self.disk.discard(offset, len))
    }

    fn check_fence(&self) -> Result<()> {
        self.disk.check_fence()
    }
}

/// A drive as one thread has it. All its operations are bounded (HANDLES-1).
pub struct DriveHandle {
    number: DriveNumber,
    superblock: RedundantSuperblock,
    disks: RedundantDisks,
    counts: Rc<DriveCounts>,
    reactor: Reactor,
    /// Who is told when clients use it, where the pool is repaired beside them.
    repair: RefCell<Option<Arc<RepairControl>>>,
    /// The device that it lies on, where the system says that.
    device: Option<String>,
    /// Units once more, without counts.
    probed: Rc<dyn Disk>,
    is_probed: Cell<bool>,
}

impl DriveHandle {
    /// A handle that gives the drive up after `patience_nanos` without an answer.
    #[must_use]
    pub fn new(
        reactor: &Reactor,
        superblock: RedundantSuperblock,
        disks: &RedundantDisks,
        patience_nanos: u64,
    ) -> Option<Self> {
        let number = DriveNumber::new(u8::try_from(superblock.number).ok()?)?;
        let counts = Rc::new(DriveCounts::default());
        let patient = |disk: &Rc<dyn Disk>, counts: &Rc<DriveCounts>, has_units| -> Rc<dyn Disk> {
            let (disk, reactor, counts) = (Rc::clone(disk), reactor.clone(), Rc::clone(counts));
            Rc::new(PatientDisk { disk, reactor, patience_nanos, counts, has_units })
        };
        let probed = patient(&disks.space, &Rc::default(), false);
        let (meta, space) =
            (patient(&disks.meta, &counts, false), patient(&disks.space, &counts, true));
        let disks = RedundantDisks { meta, space };
        let (reactor, repair) = (reactor.clone(), RefCell::default());
        let is_probed = Cell::new(false);
        let device = None;
        Some(Self { number, superblock, disks, counts, reactor, repair, device, probed, is_probed })
    }

    /// The same drive, on a device of that name.
    #[must_use]
    pub fn on_device(self, device: Option<String>) -> Self {
        Self { device, ..self }
    }

    /// Has it tell when clients use it.
    fn set_repair(&self, control: Option<Arc<RepairControl>>) {
        if let (Some(control), Some(device)) = (&control, &self.device) {
            control.budget().set_device(self.number, device);
        }
        self.repair.replace(control);
    }

    /// Its number.
    #[must_use]
    pub fn number(&self) -> DriveNumber {
        self.number
    }

    /// What it says of itself.
    #[must_use]
    pub fn superblock(&self) -> &RedundantSuperblock {
        &self.superblock
    }

    /// Its disks, bounded and counted too.
    #[must_use]
    pub fn disks(&self) -> &RedundantDisks {
        &self.disks
    }

    /// Superblocks, tables and roots.
    #[must_use]
    pub fn meta(&self) -> &dyn Disk {
        &*self.disks.meta
    }

    /// Takes note that a client uses it: repair leaves it a part of the drive.
    pub(crate) fn note_client(&self) {
        if let Some(repair) = &*self.repair.borrow() {
            repair.budget().client_uses(self.number, self.reactor.boot_time());
        }
    }

    /// What it did for this thread.
    #[must_use]
    pub fn counts(&self) -> &DriveCounts {
        &self.counts
    }

    /// Reads `len` bytes at `offset` of its units.
    pub fn read(&self, offset: u64, len: usize) -> IoFuture<'_, AlignedBuf> {
        self.disks.space.read(offset, len)
    }

    /// Reads once more where the last read failed, beside what goes on, and counts it where it is answered: a place
    /// that is bad would fail as often as it is asked for.
    pub(crate) fn probe(self: &Rc<Self>) {
        if self.is_probed.replace(true) {
            return;
        }
        let drive = Rc::clone(self);
        self.reactor.spawn(async move {
            let at = drive.counts.failed_at.get();
            if drive.probed.read(at, LABEL_BYTES as usize).await.is_ok() {
                add_one(&drive.counts.unit_reads);
                drive.counts.failed_in_a_row.set(0);
            }
            drive.is_probed.set(false);
        });
    }

    /// Writes parts one behind the other at `offset` of its units.
    pub fn write(&self, offset: u64, parts: Vec<BufSlice>, persist: Persist) -> IoFuture<'_, ()> {
        self.disks.space.write_gathered(offset, parts, persist)
    }

    /// Makes every write to its units durable that returned before.
    pub fn flush(&self) -> IoFuture<'_, ()> {
        self.disks.space.flush()
    }

    /// Takes room for a range of its units.
    pub fn allocate(&self, offset: u64, len: u64) -> IoFuture<'_, ()> {
        self.disks.space.allocate(offset, len)
    }

    /// Says that a range of its units is not needed.
    pub fn discard(&self, offset: u64, len: u64) -> IoFuture<'_, ()> {
        self.disks.space.discard(offset, len)
    }
}

/// The drives of one thread.
pub struct DriveHandles {
    reactor: Reactor,
    drives: RefCell<BTreeMap<DriveNumber, Rc<DriveHandle>>>,
    repair: RefCell<Option<Arc<RepairControl>>>,
    hedging: Hedging,
    partial_stripes: Cell<u64>,
    limits: RefCell<ReadLimits>,
}

/// How drives compare with each other.
#[derive(Default)]
struct ReadLimits {
    /// When that was computed.
    at: Option<Nanos>,
    /// After which time a read is late.
    nanos: BTreeMap<DriveNumber, u64>,
    /// Drives of which all is late, as long as they are no more than half of all: else it is not theirs.
    lagging: BTreeSet<DriveNumber>,
}

impl ReadLimits {
    fn of(drives: &BTreeMap<DriveNumber, Rc<DriveHandle>>, now: Nanos) -> Self {
        let p99 = |drive: &Rc<DriveHandle>| drive.counts.read_latency_nanos(990);
        let all: Vec<_> = drives.iter().map(|(number, drive)| (*number, p99(drive))).collect();
        let others = |drive: DriveNumber| {
            let others = all.iter().filter(|(number, _)| *number != drive);
            others.filter_map(|(_, nanos)| *nanos).collect()
        };
        let nanos = all.iter().map(|(number, _)| (*number, late_after(others(*number)))).collect();
        let lagging = drives.values().filter(|drive| drive.counts.is_lagging());
        let mut lagging: BTreeSet<_> = lagging.map(|drive| drive.number).collect();
        if lagging.len() * 2 > drives.len() {
            lagging.clear();
        }
        Self { at: Some(now), nanos, lagging }
    }
}

impl DriveHandles {
    /// None.
    #[must_use]
    pub fn new(reactor: &Reactor) -> Rc<Self> {
        Rc::new(Self {
            reactor: reactor.clone(),
            drives: RefCell::default(),
            repair: RefCell::default(),
            hedging: Hedging::default(),
            partial_stripes: Cell::new(0),
            limits: RefCell::default(),
        })
    }

    /// Bounds the reads that are made twice because they are late: percent of those of the last 10 s, 0 for none.
    pub fn limit_hedging(&self, percent: u8) {
        self.hedging.limit(percent);
    }

    /// Reads that other strips answered.
    #[must_use]
    pub fn read_counts(&self) -> ReadCounts {
        self.hedging.counts()
    }

    /// Writes of a part of a segment's strips: as drives had failed, or a put was cut off.
    #[must_use]
    pub fn partial_stripes(&self) -> u64 {
        self.partial_stripes.get()
    }

    pub(crate) fn note_partial_stripe(&self) {
        add_one(&self.partial_stripes);
    }

    pub(crate) const fn hedging(&self) -> &Hedging {
        &self.hedging
    }

    /// Whether reads of a drive are better answered by others: the table says that it is slow, or all that it did last
    /// for this thread was late.
    pub(crate) fn is_avoided(&self, view: &LayoutView, drive: DriveNumber) -> bool {
        let is_slow = view.drives().drive(drive).is_some_and(|record| record.is_slow);
        is_slow || (self.hedging.is_on() && self.with_limits(|it| it.lagging.contains(&drive)))
    }

    /// After which time a read of a drive is late, in ns: by what the others do.
    pub(crate) fn late_after(&self, drive: DriveNumber) -> u64 {
        let known = self.with_limits(|limits| limits.nanos.get(&drive).copied());
        known.unwrap_or_else(|| late_after(Vec::new()))
    }

    fn with_limits<T>(&self, look: impl FnOnce(&ReadLimits) -> T) -> T {
        let now = self.reactor.now();
        let mut limits = self.limits.borrow_mut();
        if limits.at.is_none_or(|at| now.since(at) >= LIMITS_NANOS) {
            *limits = ReadLimits::of(&self.drives.borrow(), now);
        }
        look(&limits)
    }

    /// Has it be told when clients use drives, those that are added later included.
    pub(crate) fn set_repair(&self, control: &Arc<RepairControl>) {
        for drive in self.drives.borrow().values() {
            drive.set_repair(Some(Arc::clone(control)));
        }
        self.repair.replace(Some(Arc::clone(control)));
    }

    /// Who repairs the pool beside clients, where somebody does.
    pub(crate) fn control(&self) -> Option<Arc<RepairControl>> {
        self.repair.borrow().clone()
    }

    /// The loop of the thread.
    #[must_use]
    pub fn reactor(&self) -> &Reactor {
        &self.reactor
    }

    /// A drive by its number.
    #[must_use]
    pub fn get(&self, number: DriveNumber) -> Option<Rc<DriveHandle>> {
        self.drives.borrow().get(&number).cloned()
    }

    /// All of them, by number.
    #[must_use]
    pub fn all(&self) -> Vec<Rc<DriveHandle>> {
        self.drives.borrow().values().cloned().collect()
    }

    /// Adds a drive, or replaces it.
    pub fn insert(&self, drive: DriveHandle) {
        drive.set_repair(self.repair.borrow().clone());
        self.drives.borrow_mut().insert(drive.number, Rc::new(drive));
    }

    /// Takes a drive away; what is under way on it goes on.
    pub fn remove(&self, number: DriveNumber) {
        self.drives.borrow_mut().remove(&number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// HANDLES-2.
    #[test]
    fn what_bytes_take_is_not_counted_against_a_drive() {
        let counts = DriveCounts::default();
        let note = |kind, len| OperationNote { kind, name: "write", offset: 0, len };
        let answer = |kind, len, ms| {
            counts.note_answer(&note(kind, len), Nanos(0), Nanos(Nanos::millis(ms)));
        };
        (0..8).for_each(|_| answer(OperationKind::Write, 16 << 20, 200));
        answer(OperationKind::Upkeep, 0, 500);
        let DriveWindow { writes, late_in_a_row, .. } = counts.take_window();
        assert_eq!((writes.operations, late_in_a_row), (8, 0));
        assert!(writes.median_nanos < Nanos::millis(50), "{writes:?}");
        (0..8).for_each(|_| answer(OperationKind::Write, 4096, 200));
        let DriveWindow { writes, late_in_a_row, .. } = counts.take_window();
        assert_eq!((writes.operations, late_in_a_row), (8, 8));
        assert!(writes.median_nanos >= Nanos::millis(199), "{writes:?}");
        assert!(counts.write_latency_nanos(1000).unwrap() >= Nanos::millis(500), "all of it");
    }
}
