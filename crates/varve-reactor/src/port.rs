//! Bounded message queues into a loop, from any thread. Sending never blocks; receiving takes whole batches.
//!
//! PORT-1. Messages of one port arrive in the order in which they were accepted.
//! PORT-2. A sender rings the loop's alarm only when its receiver waits and its loop sleeps.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;

use crossbeam_queue::ArrayQueue;
use futures_util::task::AtomicWaker;

use crate::reactor::Reactor;

/// Longest simulated delay between send and delivery, in nanoseconds: a few times a hop between cores.
const SIM_DELAY_NANOS_MAX: u64 = 20_000;

struct PortQueue<M> {
    queue: ArrayQueue<M>,
    receiver: AtomicWaker,
    closed: AtomicBool,
    senders: AtomicUsize,
}

/// Sends messages; clones share the queue.
pub struct PortSender<M> {
    shared: Arc<PortQueue<M>>,
}

/// Receives messages on its loop's thread.
pub struct PortReceiver<M> {
    shared: Arc<PortQueue<M>>,
    reactor: Reactor,
}

/// A port of `capacity` messages into the loop of `reactor`.
///
/// # Panics
/// When `capacity` is 0.
#[must_use]
pub fn channel<M: Send>(reactor: &Reactor, capacity: usize) -> (PortSender<M>, PortReceiver<M>) {
    let shared = Arc::new(PortQueue {
        queue: ArrayQueue::new(capacity),
        receiver: AtomicWaker::new(),
        closed: AtomicBool::new(false),
        senders: AtomicUsize::new(1),
    });
    let receiver = PortReceiver { shared: Arc::clone(&shared), reactor: reactor.clone() };
    (PortSender { shared }, receiver)
}

impl<M: Send> PortSender<M> {
    /// Queues a message and returns at once (PORT-1).
    ///
    /// # Errors
    /// The message, when the queue is full or the receiver is gone.
    pub fn send(&self, message: M) -> Result<(), M> {
        if self.is_closed() {
            return Err(message);
        }
        self.shared.queue.push(message)?;
        self.shared.receiver.wake(); // PORT-2
        Ok(())
    }

    /// Whether the receiver is gone.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.closed.load(Ordering::Acquire)
    }
}

impl<M> Clone for PortSender<M> {
    fn clone(&self) -> Self {
        self.shared.senders.fetch_add(1, Ordering::Relaxed);
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<M> Drop for PortSender<M> {
    fn drop(&mut self) {
        if self.shared.senders.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.shared.receiver.wake();
        }
    }
}

impl<M: Send> PortReceiver<M> {
    /// Waits for messages and appends all that are there to `out`; returns how many, 0 when all senders are gone.
    ///
    /// Dropping the future loses no message. In the simulator messages come late and in batches of random size.
    pub async fn recv_batch(&mut self, out: &mut Vec<M>) -> usize {
        if !self.wait().await {
            return 0;
        }
        let mut limit = usize::MAX;
        if self.reactor.is_simulated() {
            let delay = self.reactor.random_u64() % SIM_DELAY_NANOS_MAX;
            self.reactor.sleep(delay).await;
            let draw = usize::try_from(self.reactor.random_u64() >> 32).expect("32 bits");
            limit = 1 + draw % self.shared.queue.len().max(1);
        }
        let before = out.len();
        while out.len() - before < limit
            && let Some(message) = self.shared.queue.pop()
        {
            out.push(message);
        }
        out.len() - before
    }

    /// Takes one message if it is there.
    pub fn try_recv(&mut self) -> Option<M> {
        self.shared.queue.pop()
    }

    /// True when there is a message, false when there never will be.
    async fn wait(&self) -> bool {
        poll_fn(|cx| {
            if !self.shared.queue.is_empty() {
                return Poll::Ready(true);
            }
            self.shared.receiver.register(cx.waker());
            // The order matters: the last sender's messages are in the queue before it counts itself out.
            let gone = self.shared.senders.load(Ordering::Acquire) == 0;
            match (self.shared.queue.is_empty(), gone) {
                (false, _) => Poll::Ready(true),
                (true, true) => Poll::Ready(false),
                (true, false) => Poll::Pending,
            }
        })
        .await
    }
}

impl<M> Drop for PortReceiver<M> {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Release);
        // Messages may hold what answers their senders: they go now, not with the last sender.
        while self.shared.queue.pop().is_some() {}
    }
}
