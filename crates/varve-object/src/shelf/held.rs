//! What somebody holds: a body that is read, or was staged and belongs to nothing yet. Holds go to other threads; when
//! one is dropped the shelf learns of it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use futures_util::task::AtomicWaker;

use super::BucketShard;
use super::keys::BodyPlace;

/// Holds that were dropped, on their way to their shelf. The lock guards a list and is held for one push or take.
#[derive(Default)]
pub(super) struct ReleasedHolds {
    list: Mutex<Vec<(BodyPlace, Use)>>,
    sweep: AtomicWaker,
    is_woken: AtomicBool,
    is_closed: AtomicBool,
}

/// What a place is held for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Use {
    /// Somebody reads it.
    Reading,
    /// It was staged: so many blocks. Nobody else knows it.
    Staged(u64),
}

/// Keeps bytes from being freed while it lives; on any thread.
pub struct Hold {
    released: Arc<ReleasedHolds>,
    place: BodyPlace,
    held_for: Use,
    /// What was staged belongs to something now.
    is_taken: AtomicBool,
}

impl std::fmt::Debug for Hold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hold").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Hold {
    /// What was staged belongs to something now.
    pub(super) fn taken(&self) {
        assert!(matches!(self.held_for, Use::Staged(_)), "only what was staged is taken");
        self.is_taken.store(true, Ordering::Release);
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if !*self.is_taken.get_mut() {
            let list = &self.released.list;
            list.lock().unwrap_or_else(PoisonError::into_inner).push((self.place, self.held_for));
            self.released.wake();
        }
    }
}

impl ReleasedHolds {
    /// The sweep looks what there is to do.
    pub(super) fn wake(&self) {
        self.is_woken.store(true, Ordering::Release);
        self.sweep.wake();
    }

    /// The sweep ends.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.wake();
    }

    /// Waits to be woken; false once it is closed.
    pub(super) async fn woken(&self) -> bool {
        std::future::poll_fn(|context| {
            self.sweep.register(context.waker());
            if self.is_closed.load(Ordering::Acquire) {
                Poll::Ready(false)
            } else if self.is_woken.swap(false, Ordering::AcqRel) {
                Poll::Ready(true)
            } else {
                Poll::Pending
            }
        })
        .await
    }
}

impl BucketShard {
    /// Holds a place that a record names, for a reader (SHELF-3, SHELF-4).
    pub(super) fn hold(&self, place: BodyPlace) -> Hold {
        *self.holds.borrow_mut().entry(place).or_default() += 1;
        self.new_hold(place, Use::Reading)
    }

    /// Holds blocks that were staged: an orphan until somebody takes them.
    pub(super) fn hold_staged(&self, first: u64, blocks: u64) -> Hold {
        self.new_hold(BodyPlace::Extent(first), Use::Staged(blocks))
    }

    /// Holds a reference that was staged: an orphan until somebody takes it.
    pub(super) fn hold_staged_place(&self, place: BodyPlace) -> Hold {
        self.new_hold(place, Use::Staged(0))
    }

    fn new_hold(&self, place: BodyPlace, held_for: Use) -> Hold {
        let released = Arc::clone(&self.released);
        Hold { released, place, held_for, is_taken: AtomicBool::new(false) }
    }

    /// Whether a hold is of this shelf (SHELF-6).
    pub(super) fn knows(&self, hold: &Hold) -> bool {
        Arc::ptr_eq(&self.released, &hold.released)
    }

    /// Takes notice of holds that were dropped.
    pub(super) fn settle_released(&self) {
        let list = &self.released.list;
        let dropped = std::mem::take(&mut *list.lock().unwrap_or_else(PoisonError::into_inner));
        let mut holds = self.holds.borrow_mut();
        for (place, held_for) in dropped {
            match held_for {
                Use::Staged(blocks) => {
                    self.orphans.borrow_mut().insert(place, blocks);
                }
                Use::Reading => {
                    let count = holds.get_mut(&place).expect("holds are counted");
                    *count -= 1;
                    if *count == 0 {
                        holds.remove(&place);
                    }
                }
            }
        }
    }
}
