//! The drives of a pool as one thread has them: disks that are given up when they do not answer, with counts of what
//! they did. Called by whatever reads or writes a drive of a redundant pool.
//!
//! HANDLES-1. Every operation comes to an end: what is not answered within the drive's patience is an error. It may be
//!     carried out later all the same, so a drive that did not answer counts as failed wherever that matters.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use futures_util::future::{Either, select};
use varve_media::{Disk, Error, IoFuture, Persist, RedundantSuperblock, Result};
use varve_reactor::{Nanos, Reactor};
use varve_stdx::{AlignedBuf, BufSlice};

use crate::ids::DriveNumber;
use crate::repair::RepairControl;

/// How long a drive may take for an answer, in ns, where nobody says otherwise.
pub const DRIVE_PATIENCE_NANOS: u64 = 10_000_000_000;

/// Latencies that a handle remembers of its last reads.
const LATENCIES_MAX: usize = 4096;

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
    /// Of the last reads, in ns; a ring.
    latencies: RefCell<Vec<u64>>,
    reads: Cell<u64>,
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

    /// The latency that so many of 1000 of the last reads did not exceed, in ns; `None` before the first one. Sorts up
    /// to 4096 numbers.
    #[must_use]
    pub fn read_latency_nanos(&self, permille: u64) -> Option<u64> {
        let mut sorted = self.latencies.borrow().clone();
        sorted.sort_unstable();
        let last = sorted.len().checked_sub(1)?;
        let at = (last as u64 * permille.min(1000)).div_ceil(1000);
        sorted.get(usize::try_from(at).ok()?).copied()
    }

    fn note_read(&self, nanos: u64) {
        let mut latencies = self.latencies.borrow_mut();
        let at = usize::try_from(self.reads.get() % LATENCIES_MAX as u64).expect("below 4096");
        match latencies.get_mut(at) {
            Some(latency) => *latency = nanos,
            None => latencies.push(nanos),
        }
        add_one(&self.reads);
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
}

/// A disk whose operations come to an end (HANDLES-1).
struct PatientDisk {
    disk: Rc<dyn Disk>,
    reactor: Reactor,
    patience_nanos: u64,
    counts: Rc<DriveCounts>,
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
                    return Err(self.silence(&note)); // HANDLES-1
                }
            };
            self.note(&note, began, answer.is_ok());
            answer
        })
    }

    fn note(&self, note: &OperationNote, began: Nanos, is_ok: bool) {
        match (note.kind, is_ok) {
            (OperationKind::Read, true) => self.counts.note_read(self.reactor.now().since(began)),
            (OperationKind::Read, false) => add_one(&self.counts.read_errors),
            (OperationKind::Write, false) => add_one(&self.counts.write_errors),
            (OperationKind::Write, true) => {}
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
            kind: OperationKind::Write,
            name: "flush",
            offset: 0,
            len: self.size(),
        };
        self.bound(note, self.disk.flush())
    }

    fn allocate(&self, offset: u64, len: u64) -> IoFuture<'_, ()> {
        let note = OperationNote { kind: OperationKind::Write, name: "allocate", offset, len };
        self.bound(note, self.disk.allocate(offset, len))
    }

    fn discard(&self, offset: u64, len: u64) -> IoFuture<'_, ()> {
        let note = OperationNote { kind: OperationKind::Write, name: "discard", offset, len };
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
        let patient = |disk: &Rc<dyn Disk>| -> Rc<dyn Disk> {
            let (disk, counts) = (Rc::clone(disk), Rc::clone(&counts));
            Rc::new(PatientDisk { disk, reactor: reactor.clone(), patience_nanos, counts })
        };
        let disks = RedundantDisks { meta: patient(&disks.meta), space: patient(&disks.space) };
        let (reactor, repair) = (reactor.clone(), RefCell::default());
        Some(Self { number, superblock, disks, counts, reactor, repair })
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
}

impl DriveHandles {
    /// None.
    #[must_use]
    pub fn new(reactor: &Reactor) -> Rc<Self> {
        Rc::new(Self {
            reactor: reactor.clone(),
            drives: RefCell::default(),
            repair: RefCell::default(),
        })
    }

    /// Has it be told when clients use drives, those that are added later included.
    pub(crate) fn set_repair(&self, control: &Arc<RepairControl>) {
        for drive in self.drives.borrow().values() {
            drive.repair.replace(Some(Arc::clone(control)));
        }
        self.repair.replace(Some(Arc::clone(control)));
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
        drive.repair.replace(self.repair.borrow().clone());
        self.drives.borrow_mut().insert(drive.number, Rc::new(drive));
    }

    /// Takes a drive away; what is under way on it goes on.
    pub fn remove(&self, number: DriveNumber) {
        self.drives.borrow_mut().remove(&number);
    }
}
