//! Bytes of payload that the connections of one thread share.
//!
//! P1. `used` is the sum of what all [`Share`]s hold and never exceeds the limit.
//! P2. Waiting shares are served in the order in which they began to wait, so large requests are not starved.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use varve_types::limits::REQUEST_BYTES_MAX;

struct Waiter {
    share: u64,
    waker: Option<Waker>,
}

#[derive(Default)]
struct State {
    used: usize,
    shares_made: u64,
    queue: VecDeque<Waiter>,
}

/// The budget of one thread.
pub(crate) struct Budget {
    limit: usize,
    state: RefCell<State>,
}

impl Budget {
    /// # Panics
    /// When the limit is below the largest request, which could then never be served.
    pub(crate) fn new(limit: usize) -> Rc<Self> {
        assert!(
            limit >= crate::command::to_usize(REQUEST_BYTES_MAX),
            "the largest request must fit"
        );
        Rc::new(Self { limit, state: RefCell::default() })
    }

    pub(crate) fn has_waiters(&self) -> bool {
        !self.state.borrow().queue.is_empty()
    }

    pub(crate) fn share(self: &Rc<Self>) -> Share {
        let mut state = self.state.borrow_mut();
        state.shares_made += 1;
        Share { budget: Rc::clone(self), id: state.shares_made, held: 0, queued: false }
    }

    /// Wakes whoever is first in line.
    fn wake_first(&self) {
        let waker = self.state.borrow_mut().queue.front_mut().and_then(|first| first.waker.take());
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// What one connection holds of the budget; given back when dropped.
pub(crate) struct Share {
    budget: Rc<Budget>,
    id: u64,
    held: usize,
    queued: bool,
}

impl Share {
    /// Takes `bytes`, or gets in line for them.
    pub(crate) fn try_take(&mut self, bytes: usize) -> bool {
        if bytes == 0 {
            return true;
        }
        let mut state = self.budget.state.borrow_mut();
        let first = state.queue.front().is_none_or(|first| first.share == self.id);
        if first && state.used + bytes <= self.budget.limit {
            state.used += bytes;
            self.held += bytes;
            if self.queued {
                state.queue.pop_front();
                self.queued = false;
                drop(state);
                self.budget.wake_first();
            }
            return true;
        }
        if !self.queued {
            state.queue.push_back(Waiter { share: self.id, waker: None });
            self.queued = true;
        }
        false
    }

    /// Ready when [`Self::try_take`] of `bytes` would succeed.
    pub(crate) fn poll_available(&self, cx: &mut Context<'_>, bytes: usize) -> Poll<()> {
        let mut state = self.budget.state.borrow_mut();
        let used = state.used;
        match state.queue.iter_mut().position(|waiter| waiter.share == self.id) {
            Some(0) if used + bytes <= self.budget.limit => return Poll::Ready(()),
            None => return Poll::Ready(()),
            Some(place) => {
                let waiter = state.queue.get_mut(place).expect("it was just found there");
                waiter.waker = Some(cx.waker().clone());
            }
        }
        Poll::Pending
    }

    /// Gives `bytes` back.
    ///
    /// # Panics
    /// When fewer are held.
    pub(crate) fn give_back(&mut self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        self.held = self.held.checked_sub(bytes).expect("more is given back than is held");
        self.budget.state.borrow_mut().used -= bytes; // P1
        self.budget.wake_first();
    }

    /// Leaves the line.
    pub(crate) fn stop_waiting(&mut self) {
        if !self.queued {
            return;
        }
        self.queued = false;
        let id = self.id;
        self.budget.state.borrow_mut().queue.retain(|waiter| waiter.share != id);
        self.budget.wake_first();
    }

    pub(crate) fn others_wait(&self) -> bool {
        self.budget.has_waiters()
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.stop_waiting();
        self.give_back(self.held);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::task::noop_waker_ref;

    use super::*;

    const LIMIT: usize = 64 << 20;

    #[test]
    fn the_first_in_line_is_served_first() {
        let budget = Budget::new(LIMIT);
        let (mut a, mut b, mut c) = (budget.share(), budget.share(), budget.share());
        let mut cx = Context::from_waker(noop_waker_ref());
        assert!(a.try_take(LIMIT - 10));
        assert!(!b.try_take(20));
        assert!(!c.try_take(5), "c would fit, but b waits longer (P2)");
        assert!(b.poll_available(&mut cx, 20).is_pending());
        a.give_back(10);
        assert!(b.poll_available(&mut cx, 20).is_ready());
        assert!(!c.try_take(5));
        assert!(b.try_take(20));
        drop(a);
        assert!(c.try_take(5));
    }

    #[test]
    fn a_dropped_share_gives_everything_back_and_leaves_the_line() {
        let budget = Budget::new(LIMIT);
        let (mut a, mut b) = (budget.share(), budget.share());
        assert!(a.try_take(LIMIT));
        assert!(!b.try_take(1));
        drop(b);
        assert!(!budget.has_waiters());
        drop(a);
        assert!(budget.share().try_take(LIMIT));
    }
}
