//! What is held: a content that is read, or was staged and belongs to nothing yet. Holds go to other threads; when one
//! is dropped its shard learns of it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use futures_util::task::AtomicWaker;

use crate::content::{ContentPlace, StoredContent};

/// Holds that were dropped, on their way to their shard. The lock guards a list and is held for one push or take.
#[derive(Default)]
pub(crate) struct ReleasedHolds {
    list: Mutex<Vec<(ContentPlace, HeldFor)>>,
    sweep: AtomicWaker,
    is_woken: AtomicBool,
    is_closed: AtomicBool,
}

/// What a place is held for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HeldFor {
    /// Somebody reads it.
    Reading,
    /// It was staged: so many blocks. Nobody else knows it.
    Staged(u64),
}

/// Keeps bytes from being freed while it lives; on any thread.
pub struct Hold {
    released: Arc<ReleasedHolds>,
    place: ContentPlace,
    held_for: HeldFor,
    /// What was staged belongs to something now.
    is_taken: AtomicBool,
}

impl std::fmt::Debug for Hold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hold").field("place", &self.place).finish_non_exhaustive()
    }
}

/// A content in the store, held: it stays readable while this lives.
#[derive(Debug)]
pub struct HeldContent {
    content: StoredContent,
    hold: Hold,
}

impl HeldContent {
    /// A content that a record names, and the hold of its place.
    #[must_use]
    pub fn new(content: StoredContent, hold: Hold) -> Self {
        Self { content, hold }
    }

    /// Bytes of the content.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.content.len()
    }

    /// Whether there are none; never so.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn content(&self) -> &StoredContent {
        &self.content
    }

    pub(crate) fn hold(&self) -> &Hold {
        &self.hold
    }
}

impl Hold {
    pub(crate) fn new(
        released: &Arc<ReleasedHolds>,
        place: ContentPlace,
        held_for: HeldFor,
    ) -> Self {
        let released = Arc::clone(released);
        Self { released, place, held_for, is_taken: AtomicBool::new(false) }
    }

    /// Whether it is of the opening that has this list (CONTENT-5).
    pub(crate) fn is_of(&self, released: &Arc<ReleasedHolds>) -> bool {
        Arc::ptr_eq(released, &self.released)
    }

    /// What was staged belongs to something now.
    pub(crate) fn settle(&self) {
        assert!(matches!(self.held_for, HeldFor::Staged(_)), "only what was staged is taken");
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
    /// The holds that were dropped since the last call.
    pub(crate) fn take(&self) -> Vec<(ContentPlace, HeldFor)> {
        std::mem::take(&mut *self.list.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The sweep looks what there is to do.
    pub(crate) fn wake(&self) {
        self.is_woken.store(true, Ordering::Release);
        self.sweep.wake();
    }

    /// The sweep ends.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.wake();
    }

    /// Waits to be woken; false once it is closed.
    pub(crate) async fn woken(&self) -> bool {
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
