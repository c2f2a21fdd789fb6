//! Wakes waiting tasks of the same thread: the building block of queues, credits and barriers.
//!
//! NOTIFY-1. `notify_one` wakes the longest waiter, or else leaves one permit that the next waiter takes.
//! NOTIFY-2. `notify_all` completes every [`Notified`] made before it, polled or not, and leaves no permit.
//! NOTIFY-3. A wake given to a waiter that is dropped before it runs passes on to the next.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use slab::Slab;

/// Who woke a waiter.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wake {
    One,
    All,
}

struct Waiter {
    waker: Waker,
    woken: Option<Wake>,
}

#[derive(Default)]
struct State {
    waiters: Slab<Waiter>,
    /// Those not yet notified, longest first.
    queue: VecDeque<usize>,
    permit: bool,
    /// Counts `notify_all`.
    epoch: u64,
}

/// A place where tasks of one thread wait for a change.
#[derive(Default)]
pub struct Notify {
    state: RefCell<State>,
}

impl Notify {
    /// Without waiters and without a permit.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Waits for the next notification, counted from this call for [`Self::notify_all`].
    pub fn notified(&self) -> Notified<'_> {
        Notified { notify: self, epoch: self.state.borrow().epoch, key: None }
    }

    /// Wakes one waiter, or lets the next one pass at once (NOTIFY-1).
    pub fn notify_one(&self) {
        let waker = {
            let mut state = self.state.borrow_mut();
            match state.queue.pop_front() {
                None => {
                    state.permit = true;
                    return;
                }
                Some(key) => {
                    let waiter = &mut state.waiters[key];
                    waiter.woken = Some(Wake::One);
                    waiter.waker.clone()
                }
            }
        };
        waker.wake();
    }

    /// Wakes everyone who waits now (NOTIFY-2).
    pub fn notify_all(&self) {
        let mut state = self.state.borrow_mut();
        state.epoch += 1;
        while let Some(key) = state.queue.pop_front() {
            let waiter = &mut state.waiters[key];
            waiter.woken = Some(Wake::All);
            waiter.waker.wake_by_ref();
        }
    }
}

/// Future of [`Notify::notified`].
#[must_use = "futures do nothing unless awaited"]
pub struct Notified<'a> {
    notify: &'a Notify,
    epoch: u64,
    key: Option<usize>,
}

impl Future for Notified<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.notify.state.borrow_mut();
        if let Some(key) = self.key {
            if state.waiters[key].woken.is_some() {
                state.waiters.remove(key);
                drop(state);
                self.key = None;
                // A later poll of a finished future must not wait again.
                self.epoch = u64::MAX;
                return Poll::Ready(());
            }
            state.waiters[key].waker.clone_from(cx.waker());
            return Poll::Pending;
        }
        if state.epoch != self.epoch {
            return Poll::Ready(()); // NOTIFY-2
        }
        if std::mem::take(&mut state.permit) {
            drop(state);
            self.epoch = u64::MAX;
            return Poll::Ready(()); // NOTIFY-1
        }
        let key = state.waiters.insert(Waiter { waker: cx.waker().clone(), woken: None });
        state.queue.push_back(key);
        drop(state);
        self.key = Some(key);
        Poll::Pending
    }
}

impl Drop for Notified<'_> {
    fn drop(&mut self) {
        let Some(key) = self.key else { return };
        let pass_on = {
            let mut state = self.notify.state.borrow_mut();
            let waiter = state.waiters.remove(key);
            if waiter.woken.is_none() {
                state.queue.retain(|queued| *queued != key);
            }
            waiter.woken == Some(Wake::One)
        };
        if pass_on {
            self.notify.notify_one(); // NOTIFY-3
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn one_permit_is_kept_for_the_next_waiter() {
        let notify = Notify::new();
        notify.notify_one();
        notify.notify_one();
        assert!(notify.notified().now_or_never().is_some());
        assert!(notify.notified().now_or_never().is_none());
    }

    #[test]
    fn notify_all_reaches_futures_made_before_it() {
        let notify = Notify::new();
        let early = notify.notified();
        notify.notify_all();
        assert!(early.now_or_never().is_some());
        assert!(notify.notified().now_or_never().is_none());
    }

    #[test]
    fn a_dropped_waiter_passes_its_wake_on() {
        let notify = Notify::new();
        let mut cx = Context::from_waker(Waker::noop());
        let (mut first, mut second) = (Box::pin(notify.notified()), Box::pin(notify.notified()));
        assert!(first.as_mut().poll(&mut cx).is_pending());
        assert!(second.as_mut().poll(&mut cx).is_pending());
        notify.notify_one();
        drop(first);
        assert!(second.as_mut().poll(&mut cx).is_ready());
    }
}
