//! One value from one task to another of the same thread.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// The sender went away without sending.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SenderGone;

struct State<T> {
    value: Option<T>,
    waker: Option<Waker>,
    sender_gone: bool,
    receiver_gone: bool,
}

/// Sends the value.
pub struct OneshotSender<T> {
    state: Rc<RefCell<State<T>>>,
}

/// Awaits the value.
#[must_use = "futures do nothing unless awaited"]
pub struct OneshotReceiver<T> {
    state: Rc<RefCell<State<T>>>,
}

/// A channel for a single value within a thread.
pub fn oneshot<T>() -> (OneshotSender<T>, OneshotReceiver<T>) {
    let state = State { value: None, waker: None, sender_gone: false, receiver_gone: false };
    let state = Rc::new(RefCell::new(state));
    (OneshotSender { state: Rc::clone(&state) }, OneshotReceiver { state })
}

impl<T> OneshotSender<T> {
    /// Hands the value over and wakes the receiver.
    ///
    /// # Errors
    /// The value, when the receiver is gone.
    pub fn send(self, value: T) -> Result<(), T> {
        let mut state = self.state.borrow_mut();
        if state.receiver_gone {
            return Err(value);
        }
        state.value = Some(value);
        Ok(()) // Dropping `self` wakes the receiver.
    }

    /// Whether nobody waits for the value any more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.state.borrow().receiver_gone
    }
}

impl<T> Drop for OneshotSender<T> {
    fn drop(&mut self) {
        let waker = {
            let mut state = self.state.borrow_mut();
            state.sender_gone = true;
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> OneshotReceiver<T> {
    /// The value, if it was sent already.
    pub fn try_recv(&mut self) -> Option<T> {
        self.state.borrow_mut().value.take()
    }
}

impl<T> Future for OneshotReceiver<T> {
    type Output = Result<T, SenderGone>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.state.borrow_mut();
        if let Some(value) = state.value.take() {
            return Poll::Ready(Ok(value));
        }
        if state.sender_gone {
            return Poll::Ready(Err(SenderGone));
        }
        match &mut state.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }
}

impl<T> Drop for OneshotReceiver<T> {
    fn drop(&mut self) {
        let unread = {
            let mut state = self.state.borrow_mut();
            state.receiver_gone = true;
            state.value.take()
        };
        drop(unread);
    }
}
