//! Which volumes are open, over all threads: how often, how large they are now, and how what is written to them now is reduced.
//!
//! The registry's lock guards only the table and is taken when a volume is opened, closed, changed or deleted, never for a read
//! or write. It is never held together with the crate's other lock, in `in_flight.rs`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use varve_types::{Reduction, StreamId};

use crate::quota::Budget;
use crate::reduction::{pack, unpack};

/// What the handles of one volume share.
#[derive(Debug)]
pub(crate) struct OpenVolume {
    size_bytes: AtomicU64,
    /// As `pack` has it.
    reduction: AtomicU32,
    openers: AtomicUsize,
    budget: Budget,
}

impl OpenVolume {
    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        self.size_bytes.load(Ordering::Acquire)
    }

    pub(crate) fn reduction(&self) -> Reduction {
        unpack(self.reduction.load(Ordering::Acquire))
    }
}

/// Open volumes by stream.
#[derive(Default)]
pub(crate) struct OpenVolumes {
    table: Mutex<BTreeMap<StreamId, Arc<OpenVolume>>>,
}

impl OpenVolumes {
    fn table(&self) -> MutexGuard<'_, BTreeMap<StreamId, Arc<OpenVolume>>> {
        // A panic under the lock leaves the table whole: each change is one call.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one more opener; size, reduction and quota matter for the first.
    pub(crate) fn open(
        &self,
        stream: StreamId,
        size_bytes: u64,
        reduction: Reduction,
        quota_bytes: Option<u64>,
    ) -> Arc<OpenVolume> {
        let mut table = self.table();
        let volume = table.entry(stream).or_insert_with(|| {
            Arc::new(OpenVolume {
                size_bytes: AtomicU64::new(size_bytes),
                reduction: AtomicU32::new(pack(reduction)),
                openers: AtomicUsize::new(0),
                budget: Budget::new(quota_bytes),
            })
        });
        volume.openers.fetch_add(1, Ordering::AcqRel);
        Arc::clone(volume)
    }

    /// Counts one opener less.
    pub(crate) fn close(&self, stream: StreamId) {
        let mut table = self.table();
        let Some(volume) = table.get(&stream) else { return };
        if volume.openers.fetch_sub(1, Ordering::AcqRel) == 1 {
            table.remove(&stream);
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

    /// Tells the openers of a volume its new quota.
    pub(crate) fn set_quota(&self, stream: StreamId, quota_bytes: Option<u64>) {
        if let Some(volume) = self.table().get(&stream) {
            volume.budget.set(quota_bytes);
        }
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
    use varve_types::Compression;

    use super::*;

    #[test]
    fn every_opener_sees_a_change_at_once() {
        let (volumes, stream) = (OpenVolumes::default(), StreamId::new(7));
        let (before, after) = (
            Reduction { dedup: false, compression: Compression::Lz4 },
            Reduction { dedup: true, compression: Compression::Zstd(9) },
        );
        volumes.set_reduction(stream, after); // Nobody has it open, so nobody is told.
        let first = volumes.open(stream, 4096, before, None);
        let second = volumes.open(stream, 8192, after, Some(4096));
        assert_eq!((first.reduction(), second.size_bytes()), (before, 4096), "the first counts");
        volumes.set_reduction(stream, after);
        volumes.set_reduction(StreamId::new(8), Reduction::OFF);
        volumes.resize(stream, 8192);
        volumes.set_quota(stream, Some(8192));
        for volume in [first, second] {
            assert_eq!((volume.reduction(), volume.size_bytes()), (after, 8192));
            assert_eq!(volume.budget().quota_bytes(), Some(8192));
        }
        for left in [1, 0] {
            volumes.close(stream);
            assert_eq!(volumes.openers(stream), left);
        }
    }
}
