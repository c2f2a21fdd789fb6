//! Bytes of payload that the connections of one thread share.
//!
//! BUDGET-1. `used` is the sum of what all [`Share`]s hold of the budget and never exceeds the limit.
//! BUDGET-2. Waiting shares are served in the order in which they began to wait; a smaller request goes before larger
//!     ones, [`OVERTAKEN_MAX`] times at most, so those are not starved.
//! BUDGET-3. Beside the budget each share has [`CONNECTION_RESERVED_BYTES`] of its own: a small request never waits for
//!     other connections.
//! BUDGET-4. A share that holds some of the budget takes no more of it than is left free afterwards. So one connection
//!     with many requests holds at most half, and the next one finds room; what does not fit waits for its own share's
//!     replies, and nobody waits behind it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use varve_types::limits::REQUEST_BYTES_MAX;

use crate::limits::CONNECTION_RESERVED_BYTES;

/// How many smaller requests may go before one that waits.
const OVERTAKEN_MAX: u32 = 1024;

struct BudgetWaiter {
    share: u64,
    bytes: usize,
    overtaken: u32,
    waker: Option<Waker>,
}

#[derive(Default)]
struct State {
    used: usize,
    shares_made: u64,
    queue: VecDeque<BudgetWaiter>,
}

impl State {
    /// Puts a share in line, unless it is; whether it is the first now.
    fn line_up(&mut self, share: u64, bytes: usize) -> bool {
        if !self.queue.iter().any(|waiter| waiter.share == share) {
            let before = |waiter: &&mut BudgetWaiter| {
                waiter.bytes > bytes && waiter.overtaken < OVERTAKEN_MAX // BUDGET-2
            };
            let larger = self.queue.iter_mut().rev().take_while(before);
            let overtaken = larger.map(|waiter| waiter.overtaken += 1).count();
            let waiter = BudgetWaiter { share, bytes, overtaken: 0, waker: None };
            self.queue.insert(self.queue.len() - overtaken, waiter);
        }
        self.queue.front().is_some_and(|first| first.share == share)
    }
}

/// The budget of one thread.
pub(crate) struct Budget {
    limit: usize,
    state: RefCell<State>,
}

/// Outcome of asking for bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Admission {
    /// They are the share's.
    Taken,
    /// The share holds too much already (BUDGET-4): replies of its own must be sent first.
    OwnReplies,
    /// The share is in line for them.
    Queued,
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

    pub(crate) fn share(self: &Rc<Self>) -> Share {
        let mut state = self.state.borrow_mut();
        state.shares_made += 1;
        let (budget, id) = (Rc::clone(self), state.shares_made);
        Share { budget, id, reserved_held: 0, held: 0, queued: false }
    }

    /// Wakes whoever is first in line.
    fn wake_first(&self) {
        let waker = self.state.borrow_mut().queue.front_mut().and_then(|first| first.waker.take());
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// What one connection holds; given back when dropped.
pub(crate) struct Share {
    budget: Rc<Budget>,
    id: u64,
    /// Of its own bytes (BUDGET-3).
    reserved_held: usize,
    /// Of the budget.
    held: usize,
    queued: bool,
}

impl Share {
    /// Takes `bytes`, or gets in line for them.
    pub(crate) fn try_take(&mut self, bytes: usize) -> Admission {
        if self.reserved_held + bytes <= CONNECTION_RESERVED_BYTES {
            self.reserved_held += bytes; // BUDGET-3
            self.stop_waiting();
            return Admission::Taken;
        }
        let mut state = self.budget.state.borrow_mut();
        let free = self.budget.limit - state.used;
        if self.held > 0 && self.held + bytes > free.saturating_sub(bytes) {
            drop(state);
            self.stop_waiting();
            return Admission::OwnReplies; // BUDGET-4
        }
        self.queued = true;
        if !state.line_up(self.id, bytes) || bytes > free {
            return Admission::Queued;
        }
        state.used += bytes;
        self.held += bytes;
        drop(state);
        self.stop_waiting();
        Admission::Taken
    }

    /// Ready when [`Self::try_take`] of `bytes`, for which it is in line, would not leave it there.
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

    /// Gives `bytes` back, those of the budget first: others wait for them.
    ///
    /// # Panics
    /// When fewer are held.
    pub(crate) fn give_back(&mut self, bytes: usize) {
        let shared = bytes.min(self.held);
        let reserved = self.reserved_held.checked_sub(bytes - shared);
        self.reserved_held = reserved.expect("more is given back than is held");
        if shared == 0 {
            return;
        }
        self.held -= shared;
        self.budget.state.borrow_mut().used -= shared; // BUDGET-1
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

    /// Bytes of the budget that it holds while others wait for some.
    pub(crate) fn held_up(&self) -> usize {
        let state = self.budget.state.borrow();
        let others_wait = state.queue.iter().any(|waiter| waiter.share != self.id);
        if others_wait { self.held } else { 0 }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.stop_waiting();
        self.give_back(self.held + self.reserved_held);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::task::noop_waker_ref;

    use super::Admission::{OwnReplies, Queued, Taken};
    use super::*;

    const LIMIT: usize = 64 << 20;
    const MIB: usize = 1 << 20;

    #[test]
    fn the_first_in_line_is_served_first() {
        let budget = Budget::new(LIMIT);
        let (mut a, mut b, mut c) = (budget.share(), budget.share(), budget.share());
        let mut cx = Context::from_waker(noop_waker_ref());
        assert_eq!(a.try_take(LIMIT - MIB), Taken);
        assert_eq!(b.try_take(2 * MIB), Queued);
        assert_eq!(c.try_take(2 * MIB), Queued);
        assert!(b.poll_available(&mut cx, 2 * MIB).is_pending());
        assert_eq!((a.held_up(), b.held_up()), (LIMIT - MIB, 0));
        a.give_back(MIB);
        assert!(b.poll_available(&mut cx, 2 * MIB).is_ready());
        assert_eq!(c.try_take(2 * MIB), Queued, "c would fit, but b waits longer (P2)");
        assert_eq!(b.try_take(2 * MIB), Taken);
        drop(a);
        assert_eq!(c.try_take(2 * MIB), Taken);
    }

    #[test]
    fn a_smaller_request_goes_before_larger_ones_so_many_times_at_most() {
        let budget = Budget::new(LIMIT);
        let (mut a, mut large) = (budget.share(), budget.share());
        assert_eq!(a.try_take(LIMIT - 2 * MIB), Taken);
        assert_eq!(large.try_take(32 * MIB), Queued);
        for _ in 0..OVERTAKEN_MAX {
            let mut small = budget.share();
            assert_eq!(small.try_take(MIB), Taken);
        }
        let mut late = budget.share();
        assert_eq!(late.try_take(MIB), Queued);
        drop(a);
        assert_eq!(late.try_take(MIB), Queued);
        assert_eq!(large.try_take(32 * MIB), Taken);
        assert_eq!(late.try_take(MIB), Taken);
    }

    #[test]
    fn a_dropped_share_gives_everything_back_and_leaves_the_line() {
        let budget = Budget::new(LIMIT);
        let (mut a, mut b) = (budget.share(), budget.share());
        assert_eq!(a.try_take(LIMIT), Taken);
        assert_eq!(b.try_take(MIB), Queued);
        drop(b);
        assert_eq!(a.held_up(), 0);
        drop(a);
        assert_eq!(budget.state.borrow().used, 0);
        assert_eq!(budget.share().try_take(LIMIT), Taken);
    }

    #[test]
    fn a_small_request_gets_in_whatever_others_hold() {
        let budget = Budget::new(LIMIT);
        let mut hogs: Vec<_> = (0..1000).map(|_| budget.share()).collect();
        for hog in &mut hogs {
            for bytes in [32 * MIB, MIB, 64 << 10, 4096] {
                while hog.try_take(bytes) == Taken {}
            }
        }
        let mut modest = budget.share();
        assert_eq!(modest.try_take(4096), Taken); // BUDGET-3
        assert!(budget.state.borrow().used <= LIMIT); // BUDGET-1
    }

    #[test]
    fn one_connection_holds_half_at_most_and_does_not_stand_in_line_for_more() {
        let budget = Budget::new(LIMIT);
        let (mut greedy, mut other) = (budget.share(), budget.share());
        while greedy.try_take(MIB) == Taken {}
        assert_eq!(greedy.held, LIMIT / 2); // BUDGET-4
        assert_eq!(greedy.try_take(MIB), OwnReplies);
        assert_eq!(other.try_take(8 * MIB), Taken, "nobody is before it in line");
        greedy.give_back(LIMIT / 2);
        assert_eq!(greedy.try_take(32 * MIB), Taken);
    }

    #[test]
    fn what_is_given_back_is_what_was_taken_in_any_order() {
        let budget = Budget::new(LIMIT);
        let mut share = budget.share();
        assert_eq!(share.try_take(4096), Taken);
        assert_eq!(share.try_take(MIB), Taken);
        share.give_back(4096);
        assert_eq!(budget.state.borrow().used, MIB - 4096);
        share.give_back(MIB);
        assert_eq!((budget.state.borrow().used, share.reserved_held), (0, 0));
    }
}
