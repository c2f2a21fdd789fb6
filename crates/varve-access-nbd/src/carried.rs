//! A connection that another node carries for its client: how far it has come, for the
//! [`OpenBarrier`](varve_access_block::OpenBarrier) that openings for writing pass.
//!
//! CARRIED-1. Bytes count as received in the order of the stream, and [`RelayProgress::has_settled`] speaks of all
//!     requests that were whole within them.
//! CARRIED-2. An export counts as open from before the client is told: so a client that knows of one open connection is
//!     waited for at the next.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// How far a carried connection has come. Shared by the thread that serves it and by whoever carries it.
#[derive(Debug)]
pub struct RelayProgress {
    number: u64,
    /// The export that its client may write to. The lock guards nothing else, and nobody waits while it is held.
    export: Mutex<Option<String>>,
    received: AtomicU64,
    settled: AtomicU64,
    holds: AtomicUsize,
    is_over: AtomicBool,
}

/// As long as it lives, the connection starts new requests only when those before are finished, so that it settles.
#[derive(Debug)]
pub struct QuiesceGuard<'a>(&'a RelayProgress);

impl RelayProgress {
    /// A connection of which nothing has arrived, by a number that no other one has.
    #[must_use]
    pub fn new(number: u64) -> Self {
        Self {
            number,
            export: Mutex::new(None),
            received: AtomicU64::new(0),
            settled: AtomicU64::new(0),
            holds: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
        }
    }

    /// Its number.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Whether its client may write to the export.
    #[must_use]
    pub fn writes_to(&self, export: &str) -> bool {
        let open = self.export.lock().unwrap_or_else(PoisonError::into_inner);
        open.as_deref() == Some(export)
    }

    /// Whether every request that was whole within the first so many bytes is finished, or the connection is over.
    #[must_use]
    pub fn has_settled(&self, bytes: u64) -> bool {
        self.is_over() || self.settled.load(Ordering::Acquire) >= bytes
    }

    /// Whether it is closed, and nothing of it is under way.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Makes it settle soon.
    #[must_use]
    pub fn hold(&self) -> QuiesceGuard<'_> {
        self.holds.fetch_add(1, Ordering::AcqRel);
        QuiesceGuard(self)
    }

    pub(crate) fn is_held(&self) -> bool {
        self.holds.load(Ordering::Acquire) > 0
    }

    pub(crate) fn opened(&self, export: &str) {
        let mut open = self.export.lock().unwrap_or_else(PoisonError::into_inner);
        *open = Some(export.to_owned()); // CARRIED-2
    }

    pub(crate) fn received(&self, bytes: usize) {
        let bytes = u64::try_from(bytes).expect("usize has at most 64 bits");
        self.received.fetch_add(bytes, Ordering::AcqRel); // CARRIED-1
    }

    /// Nothing is under way, and no whole request is left of what was received.
    pub(crate) fn settle(&self) {
        self.settled.store(self.received.load(Ordering::Acquire), Ordering::Release);
    }
}

impl Drop for QuiesceGuard<'_> {
    fn drop(&mut self) {
        self.0.holds.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Says that the connection is over when it is dropped, however it ends.
pub(crate) struct RelayLife(pub(crate) Option<Arc<RelayProgress>>);

impl Drop for RelayLife {
    fn drop(&mut self) {
        if let Some(carried) = &self.0 {
            carried.is_over.store(true, Ordering::Release);
        }
    }
}
