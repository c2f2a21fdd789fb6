//! Which volumes are open, over all threads: how often, and how large they are now.
//!
//! The registry's lock guards only the table and is taken when a volume is opened, closed, resized or deleted, never for a read
//! or write. It is the only lock of this crate.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use varve_types::StreamId;

/// What the handles of one volume share.
#[derive(Debug)]
pub(crate) struct OpenVolume {
    size_bytes: AtomicU64,
    openers: AtomicUsize,
}

impl OpenVolume {
    pub(crate) fn size_bytes(&self) -> u64 {
        self.size_bytes.load(Ordering::Acquire)
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

    /// Counts one more opener; `size_bytes` matters for the first.
    pub(crate) fn open(&self, stream: StreamId, size_bytes: u64) -> Arc<OpenVolume> {
        let mut table = self.table();
        let volume = table.entry(stream).or_insert_with(|| {
            let size_bytes = AtomicU64::new(size_bytes);
            Arc::new(OpenVolume { size_bytes, openers: AtomicUsize::new(0) })
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
}
