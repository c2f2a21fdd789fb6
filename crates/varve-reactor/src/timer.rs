//! Timers of one loop, ordered by deadline.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use crate::reactor::Reactor;
use crate::time::Nanos;

/// Wakers by deadline; the number tells timers of one deadline apart.
#[derive(Default)]
pub(crate) struct Timers {
    waiting: RefCell<BTreeMap<(Nanos, u64), Waker>>,
    next: Cell<u64>,
}

impl Timers {
    pub(crate) fn earliest(&self) -> Option<Nanos> {
        self.waiting.borrow().first_key_value().map(|((deadline, _), _)| *deadline)
    }

    /// Wakes what is due.
    pub(crate) fn fire(&self, now: Nanos) {
        let mut waiting = self.waiting.borrow_mut();
        while let Some(entry) = waiting.first_entry() {
            if entry.key().0 > now {
                return;
            }
            entry.remove().wake();
        }
    }

    fn insert(&self, deadline: Nanos, waker: Waker) -> u64 {
        let id = self.next.get();
        self.next.set(id + 1);
        self.waiting.borrow_mut().insert((deadline, id), waker);
        id
    }

    fn remove(&self, deadline: Nanos, id: u64) {
        let removed = self.waiting.borrow_mut().remove(&(deadline, id));
        drop(removed);
    }

    pub(crate) fn clear(&self) {
        let all = std::mem::take(&mut *self.waiting.borrow_mut());
        drop(all);
    }
}

/// Completes at a deadline. Dropping it disarms it.
#[must_use = "futures do nothing unless awaited"]
pub struct Sleep {
    reactor: Reactor,
    deadline: Nanos,
    armed: Option<u64>,
}

impl Sleep {
    pub(crate) fn new(reactor: Reactor, deadline: Nanos) -> Self {
        Self { reactor, deadline, armed: None }
    }

    /// When it completes.
    #[must_use]
    pub fn deadline(&self) -> Nanos {
        self.deadline
    }

    fn disarm(&mut self) {
        if let Some(id) = self.armed.take() {
            self.reactor.timers().remove(self.deadline, id);
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.disarm();
        if self.reactor.now() >= self.deadline {
            return Poll::Ready(());
        }
        let armed = self.reactor.timers().insert(self.deadline, cx.waker().clone());
        self.armed = Some(armed);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.disarm();
    }
}
