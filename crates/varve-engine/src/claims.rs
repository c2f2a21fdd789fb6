//! Claims on blocks that are being read to be written back with a part changed.
//!
//! C1. While a block is claimed nobody else appends a record that covers it.
//! C2. A task claims one block at a time and holds its credits already, so claims form no cycle.

use std::cell::RefCell;

use varve_reactor::Notify;
use varve_types::StreamId;

use crate::hash::HashSet;

/// Claimed blocks of a shard.
#[derive(Default)]
pub(crate) struct Claims {
    blocks: RefCell<HashSet<(StreamId, u64)>>,
    released: Notify,
}

/// A claimed block; dropping it ends the claim.
pub(crate) struct Claim<'a> {
    claims: &'a Claims,
    key: (StreamId, u64),
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let held = self.claims.blocks.borrow_mut().remove(&self.key);
        assert!(held, "a claim is held until it is dropped");
        self.claims.released.notify_all();
    }
}

impl Claims {
    /// Whether a block of `first .. end` is claimed.
    pub(crate) fn any(&self, stream: StreamId, first: u64, end: u64) -> bool {
        let blocks = self.blocks.borrow();
        let inside = |(of, block): &(StreamId, u64)| *of == stream && (first..end).contains(block);
        !blocks.is_empty() && blocks.iter().any(inside)
    }

    /// Claims a block, waiting for whoever holds it.
    pub(crate) async fn claim(&self, stream: StreamId, block: u64) -> Claim<'_> {
        self.wait(stream, block, block + 1).await;
        let fresh = self.blocks.borrow_mut().insert((stream, block));
        assert!(fresh, "nobody claimed the block meanwhile"); // C1
        Claim { claims: self, key: (stream, block) }
    }

    /// Waits until no block of `first .. end` is claimed. No pause lies between the last check and the return.
    pub(crate) async fn wait(&self, stream: StreamId, first: u64, end: u64) {
        while self.any(stream, first, end) {
            self.released.notified().await;
        }
    }
}
