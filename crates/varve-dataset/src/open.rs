//! Which volumes are open, over all threads: how often, how large they are now, and how what is written to them now is
//! reduced.
//!
//! The registry's lock guards only the table and is taken when a volume is opened, closed, changed or deleted, never
//! for a read or write. It is never held together with the crate's other lock, in `in_flight.rs`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use varve_types::{Reduction, StreamId};

use crate::connections::Connections;
use crate::quota::Budget;
use crate::reduction::{pack, unpack};

/// What clients of a volume may do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub(crate) enum AccessMode {
    /// Read and change it.
    Open = 0,
    /// Read it.
    ReadOnly = 1,
    /// Nothing.
    Shut = 2,
}

/// A change of a volume that is under way.
pub(crate) struct ChangeGuard<'a>(&'a OpenVolume);

impl Drop for ChangeGuard<'_> {
    fn drop(&mut self) {
        self.0.changes.fetch_sub(1, Ordering::SeqCst);
    }
}

/// What the handles of one volume share.
#[derive(Debug)]
pub(crate) struct OpenVolume {
    size_bytes: AtomicU64,
    /// As `pack` has it.
    reduction: AtomicU32,
    openers: AtomicUsize,
    budget: Budget,
    connections: Connections,
    /// As [`AccessMode`] numbers it.
    gate: AtomicU8,
    /// How many are under way.
    changes: AtomicUsize,
}

impl OpenVolume {
    pub(crate) fn gate(&self) -> AccessMode {
        match self.gate.load(Ordering::SeqCst) {
            0 => AccessMode::Open,
            1 => AccessMode::ReadOnly,
            _ => AccessMode::Shut,
        }
    }

    /// Admits a change, or says what forbids it. It is counted before the gate is looked at: who closes the gate and
    /// then sees none under way knows that none is to come.
    pub(crate) fn begin_change(&self) -> Result<ChangeGuard<'_>, AccessMode> {
        self.changes.fetch_add(1, Ordering::SeqCst);
        let changing = ChangeGuard(self);
        match self.gate() {
            AccessMode::Open => Ok(changing),
            closed => Err(closed),
        }
    }

    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }

    pub(crate) fn connections(&self) -> &Connections {
        &self.connections
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        self.size_bytes.load(Ordering::Acquire)
    }

    pub(crate) fn reduction(&self) -> Reduction {
        unpack(self.reduction.load(Ordering::Acquire))
    }
}

/// What a volume is when it is opened first.
pub(crate) struct InitialState {
    pub(crate) size_bytes: u64,
    pub(crate) reduction: Reduction,
    pub(crate) quota_bytes: Option<u64>,
    pub(crate) is_exclusive: bool,
    pub(crate) gate: AccessMode,
}

/// Open volumes by stream.
#[derive(Default)]
pub(crate) struct OpenVolumes {
    table: Mutex<BTreeMap<StreamId, Arc<OpenVolume>>>,
    /// Gates of those who wait for changes to end. This lock is taken under the other one, or alone.
    closers: Mutex<Vec<(StreamId, AccessMode)>>,
}

/// Somebody waits behind a closed gate for changes to end: until this is dropped, nobody who opens the volume opens the
/// gate.
pub(crate) struct Closer<'a> {
    volumes: &'a OpenVolumes,
    stream: StreamId,
    gate: AccessMode,
}

impl Drop for Closer<'_> {
    fn drop(&mut self) {
        let mut closers = self.volumes.closers();
        let own = closers.iter().position(|closer| *closer == (self.stream, self.gate));
        closers.swap_remove(own.expect("it was put there"));
    }
}

impl OpenVolumes {
    fn closers(&self) -> MutexGuard<'_, Vec<(StreamId, AccessMode)>> {
        // As below.
        self.closers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the gate of a volume, also to who opens it later, for as long as it is waited for.
    pub(crate) fn closer(&self, stream: StreamId, gate: AccessMode) -> Closer<'_> {
        self.closers().push((stream, gate));
        self.set_gate(stream, gate);
        Closer { volumes: self, stream, gate }
    }

    /// The gate of a volume that is opened: what it is to be, or what is waited for behind.
    fn gate_of(&self, stream: StreamId, gate: AccessMode) -> AccessMode {
        let closers = self.closers();
        let of_stream = closers.iter().filter(|closer| closer.0 == stream).map(|closer| closer.1);
        of_stream.chain([gate]).max().expect("there is one")
    }

    fn table(&self) -> MutexGuard<'_, BTreeMap<StreamId, Arc<OpenVolume>>> {
        // A panic under the lock leaves the table whole: each change is one call.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one more opener; what it is opened with matters for the first, but for the gate, which is what it is for
    /// all from then on.
    pub(crate) fn open(&self, stream: StreamId, first: InitialState) -> Arc<OpenVolume> {
        let InitialState { size_bytes, reduction, quota_bytes, is_exclusive, gate } = first;
        let mut table = self.table();
        let volume = table.entry(stream).or_insert_with(|| {
            Arc::new(OpenVolume {
                size_bytes: AtomicU64::new(size_bytes),
                reduction: AtomicU32::new(pack(reduction)),
                openers: AtomicUsize::new(0),
                budget: Budget::new(quota_bytes),
                connections: Connections::new(is_exclusive),
                gate: AtomicU8::new(gate as u8),
                changes: AtomicUsize::new(0),
            })
        });
        volume.openers.fetch_add(1, Ordering::AcqRel);
        volume.gate.store(self.gate_of(stream, gate) as u8, Ordering::SeqCst);
        Arc::clone(volume)
    }

    /// Counts one opener less, unless it was shut out.
    pub(crate) fn close(&self, stream: StreamId, open: &Arc<OpenVolume>) {
        let mut table = self.table();
        let Some(volume) = table.get(&stream).filter(|volume| Arc::ptr_eq(volume, open)) else {
            return;
        };
        if volume.openers.fetch_sub(1, Ordering::AcqRel) == 1 {
            table.remove(&stream);
        }
    }

    /// Forgets those who have a volume open, for whom its gate is shut and who have nothing under way: it stays shut
    /// for them, and is open to whoever opens it next.
    pub(crate) fn shut_out(&self, stream: StreamId) {
        if let Some(volume) = self.table().remove(&stream) {
            assert_eq!(volume.gate(), AccessMode::Shut, "they must not go on");
        }
    }

    /// How often a volume is open.
    pub(crate) fn openers(&self, stream: StreamId) -> usize {
        self.table().get(&stream).map_or(0, |volume| volume.openers.load(Ordering::Acquire))
    }

    /// Tells the openers of a volume its new size.
    pub(crate) fn resize(&self, stream: StreamId, size_bytes: u64) {
        if let Some(volume) = self.table().get(&stream) {
            volume.size_bytes.store(size_bytes, Ordering::Release);
        }
    }

    /// Tells the openers of a volume what they may do from now on.
    pub(crate) fn set_gate(&self, stream: StreamId, gate: AccessMode) {
        if let Some(volume) = self.table().get(&stream) {
            volume.gate.store(gate as u8, Ordering::SeqCst);
        }
    }

    /// How many changes of a volume are under way.
    pub(crate) fn changes(&self, stream: StreamId) -> usize {
        self.table().get(&stream).map_or(0, |volume| volume.changes.load(Ordering::SeqCst))
    }

    /// Tells the openers of a volume its new quota.
    pub(crate) fn set_quota(&self, stream: StreamId, quota_bytes: Option<u64>) {
        if let Some(volume) = self.table().get(&stream) {
            volume.budget.set(quota_bytes);
        }
    }

    /// Makes an open volume exclusive, or no longer; what it was before, or how many connections forbid it.
    pub(crate) fn set_exclusive(&self, stream: StreamId, exclusive: bool) -> Result<bool, usize> {
        let table = self.table();
        let open = table.get(&stream);
        open.map_or(Ok(false), |volume| volume.connections.set_exclusive(exclusive))
    }

    /// Tells the openers of a volume how to reduce what they write from now on.
    pub(crate) fn set_reduction(&self, stream: StreamId, reduction: Reduction) {
        if let Some(volume) = self.table().get(&stream) {
            volume.reduction.store(pack(reduction), Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use varve_types::{Compression, Dedup};

    use super::*;

    #[test]
    fn every_opener_sees_a_change_at_once() {
        let (volumes, stream) = (OpenVolumes::default(), StreamId::new(7));
        let (before, after) = (
            Reduction { dedup: Dedup::Off, compression: Compression::Lz4 },
            Reduction { dedup: Dedup::On, compression: Compression::Zstd(9) },
        );
        volumes.set_reduction(stream, after); // Nobody has it open, so nobody is told.
        let opening = |size_bytes, reduction, quota_bytes| InitialState {
            size_bytes,
            reduction,
            quota_bytes,
            is_exclusive: false,
            gate: AccessMode::Open,
        };
        let first = volumes.open(stream, opening(4096, before, None));
        let second = volumes.open(stream, opening(8192, after, Some(4096)));
        assert_eq!((first.reduction(), second.size_bytes()), (before, 4096), "the first counts");
        volumes.set_reduction(stream, after);
        volumes.set_reduction(StreamId::new(8), Reduction::OFF);
        volumes.resize(stream, 8192);
        volumes.set_quota(stream, Some(8192));
        let under_way = first.begin_change().ok();
        volumes.set_gate(stream, AccessMode::ReadOnly);
        assert_eq!(second.begin_change().err(), Some(AccessMode::ReadOnly));
        assert_eq!(volumes.changes(stream), 1, "the one that was admitted before");
        drop(under_way);
        assert_eq!(volumes.changes(stream), 0);
        for volume in [&first, &second] {
            assert_eq!((volume.reduction(), volume.size_bytes()), (after, 8192));
            assert_eq!(volume.budget().quota_bytes(), Some(8192));
        }
        for (left, open) in [(1, &first), (0, &second)] {
            volumes.close(stream, open);
            assert_eq!(volumes.openers(stream), left);
        }
    }

    #[test]
    fn who_is_shut_out_stays_so_and_does_not_count() {
        let (volumes, stream) = (OpenVolumes::default(), StreamId::new(7));
        let opening = || InitialState {
            size_bytes: 4096,
            reduction: Reduction::OFF,
            quota_bytes: None,
            is_exclusive: false,
            gate: AccessMode::Open,
        };
        let old = volumes.open(stream, opening());
        volumes.set_gate(stream, AccessMode::Shut);
        volumes.shut_out(stream);
        assert_eq!(volumes.openers(stream), 0);
        let new = volumes.open(stream, opening());
        volumes.set_gate(stream, AccessMode::Open);
        assert_eq!(
            old.begin_change().err(),
            Some(AccessMode::Shut),
            "not opened again by the others'"
        );
        assert!(new.begin_change().is_ok());
        volumes.close(stream, &old);
        assert_eq!(volumes.openers(stream), 1, "only those that count are counted off");
    }
}
