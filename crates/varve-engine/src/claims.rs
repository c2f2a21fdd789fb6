//! Claims on blocks that are being read to be written back with a part changed.
//!
//! CLAIMS-1. While a block is claimed nobody else appends a record that covers it.
//! CLAIMS-2. A task claims one block at a time and holds its credits already, so claims form no cycle.
//! CLAIMS-3. A block of a range whose claims somebody waits for is not claimed anew: so each waits for the claims that
//!     stood when it came, and small writes that never cease do not starve a large one. Who waits for a range waits for
//!     claims only, which end without further ones (CLAIMS-2).

use std::cell::RefCell;
use std::ops::Range;

use varve_reactor::Notify;
use varve_types::{BlockIndex, StreamId};

use crate::hash::HashSet;

/// Claimed blocks of a shard.
#[derive(Default)]
pub(crate) struct BlockLocks {
    blocks: RefCell<HashSet<(StreamId, BlockIndex)>>,
    /// Ranges whose claims somebody waits for (CLAIMS-3): as many as there are writes and trims that do.
    awaited: RefCell<Vec<(StreamId, Range<BlockIndex>)>>,
    /// A claim, or the wait for one, has ended.
    released: Notify,
}

/// A claimed block; dropping it ends the claim.
pub(crate) struct BlockLock<'a> {
    claims: &'a BlockLocks,
    key: (StreamId, BlockIndex),
}

impl Drop for BlockLock<'_> {
    fn drop(&mut self) {
        let held = self.claims.blocks.borrow_mut().remove(&self.key);
        assert!(held, "a claim is held until it is dropped");
        self.claims.released.notify_all();
    }
}

/// A range whose claims somebody waits for; dropping it ends the wait.
struct LockWait<'a> {
    claims: &'a BlockLocks,
    range: (StreamId, Range<BlockIndex>),
}

impl Drop for LockWait<'_> {
    fn drop(&mut self) {
        let mut awaited = self.claims.awaited.borrow_mut();
        let place = awaited.iter().position(|range| *range == self.range);
        awaited.swap_remove(place.expect("it stands there until it is dropped"));
        drop(awaited);
        self.claims.released.notify_all();
    }
}

impl BlockLocks {
    /// Whether a block of `first .. end` is claimed.
    pub(crate) fn any(&self, stream: StreamId, first: BlockIndex, end: BlockIndex) -> bool {
        debug_assert!(first <= end, "a range does not end before it begins");
        let blocks = self.blocks.borrow();
        let inside =
            |(of, block): &(StreamId, BlockIndex)| *of == stream && (first..end).contains(block);
        !blocks.is_empty() && blocks.iter().any(inside)
    }

    /// Claims a block, waiting for whoever holds it, and for those who wait until nobody does.
    pub(crate) async fn claim(&self, stream: StreamId, block: BlockIndex) -> BlockLock<'_> {
        while self.any(stream, block, block + 1) || self.is_awaited(stream, block) {
            self.released.notified().await;
        }
        let fresh = self.blocks.borrow_mut().insert((stream, block));
        assert!(fresh, "nobody claimed the block meanwhile"); // CLAIMS-1
        BlockLock { claims: self, key: (stream, block) }
    }

    /// Waits until no block of `first .. end` is claimed. No pause lies between the last check and the return.
    pub(crate) async fn wait(&self, stream: StreamId, first: BlockIndex, end: BlockIndex) {
        if !self.any(stream, first, end) {
            return;
        }
        let _awaited = self.await_range(stream, first..end); // CLAIMS-3
        while self.any(stream, first, end) {
            self.released.notified().await;
        }
    }

    fn await_range(&self, stream: StreamId, blocks: Range<BlockIndex>) -> LockWait<'_> {
        assert!(blocks.start < blocks.end, "who waits has a block to wait for"); // CLAIMS-3
        let range = (stream, blocks);
        self.awaited.borrow_mut().push(range.clone());
        LockWait { claims: self, range }
    }

    fn is_awaited(&self, stream: StreamId, block: BlockIndex) -> bool {
        let awaited = self.awaited.borrow();
        awaited.iter().any(|(of, blocks)| *of == stream && blocks.contains(&block))
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    const STREAM: StreamId = StreamId::new(1);

    #[test]
    fn who_waits_for_a_range_is_not_overtaken_by_new_claims() {
        let claims = BlockLocks::default();
        let mut cx = Context::from_waker(Waker::noop());
        let Poll::Ready(held) = pin!(claims.claim(STREAM, BlockIndex(5))).poll(&mut cx) else {
            panic!("nobody has it");
        };
        let mut whole = pin!(claims.wait(STREAM, BlockIndex(0), BlockIndex(100)));
        let mut part = pin!(claims.wait(STREAM, BlockIndex(4), BlockIndex(7)));
        assert!(whole.as_mut().poll(&mut cx).is_pending());
        assert!(part.as_mut().poll(&mut cx).is_pending());
        let mut next = pin!(claims.claim(STREAM, BlockIndex(6)));
        assert!(next.as_mut().poll(&mut cx).is_pending(), "others wait for its block");
        let beside = [(STREAM, 100), (StreamId::new(2), 6)];
        for (stream, block) in beside {
            assert!(
                pin!(claims.claim(stream, BlockIndex(block))).poll(&mut cx).is_ready(),
                "{block}"
            );
        }
        drop(held);
        assert!(part.as_mut().poll(&mut cx).is_ready(), "it does not wait for who waits");
        assert!(next.as_mut().poll(&mut cx).is_pending());
        assert!(whole.as_mut().poll(&mut cx).is_ready());
        assert!(next.as_mut().poll(&mut cx).is_ready());
    }

    #[test]
    fn who_gives_up_waiting_is_not_waited_for() {
        let claims = BlockLocks::default();
        let mut cx = Context::from_waker(Waker::noop());
        let Poll::Ready(_held) = pin!(claims.claim(STREAM, BlockIndex(5))).poll(&mut cx) else {
            panic!("nobody has it");
        };
        let mut next = pin!(claims.claim(STREAM, BlockIndex(6)));
        {
            let mut whole = pin!(claims.wait(STREAM, BlockIndex(0), BlockIndex(100)));
            assert!(whole.as_mut().poll(&mut cx).is_pending());
            assert!(next.as_mut().poll(&mut cx).is_pending());
        }
        assert!(next.as_mut().poll(&mut cx).is_ready());
        assert_eq!(claims.awaited.borrow().len(), 0);
    }
}
