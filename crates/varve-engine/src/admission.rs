//! Credits: bounded amounts that requests take before they are admitted and that draining gives back.
//!
//! ADMISSION-1. Whoever came first is served first; a large request is not overtaken for ever by small ones.
//! ADMISSION-2. A request larger than the whole amount is served when all of it is free.
//! ADMISSION-3. What a dropped request held goes back at once.

mod state;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use varve_media::Media;
use varve_reactor::{OneshotSender, oneshot};

use crate::ShardConfig;
use crate::config::BLOCK_BYTES;

pub(crate) use state::Admission;

struct Waiter {
    amount: u64,
    granted: OneshotSender<Permit>,
}

struct State {
    total: Cell<u64>,
    taken: Cell<u64>,
    waiters: RefCell<VecDeque<Waiter>>,
}

/// An amount of which parts are taken and given back.
pub(crate) struct Semaphore {
    state: Rc<State>,
}

/// A part that was taken; goes back when dropped, unless it is kept.
pub(crate) struct Permit {
    state: Rc<State>,
    amount: u64,
}

impl Permit {
    /// Leaves the amount taken: somebody else gives it back by [`Semaphore::give`].
    pub(crate) fn keep(mut self) {
        assert!(self.state.taken.get() >= self.amount, "what is kept was taken"); // ADMISSION-3
        self.amount = 0;
    }

    /// Leaves `part` of the amount taken, as [`Self::keep`] does with all of it.
    pub(crate) fn keep_part(&mut self, part: u64) {
        assert!(self.state.taken.get() >= self.amount, "what is kept was taken"); // ADMISSION-3
        assert!(part <= self.amount, "a part is not more than the whole");
        self.amount -= part;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.amount > 0 {
            State::give(&self.state, self.amount); // ADMISSION-3
        }
    }
}

impl State {
    fn fits(&self, amount: u64) -> bool {
        let taken = self.taken.get();
        taken == 0 || amount <= self.total.get().saturating_sub(taken) // ADMISSION-2
    }

    fn grant(self: &Rc<Self>, amount: u64) -> Permit {
        assert!(self.fits(amount), "nobody takes more than there is"); // ADMISSION-2
        self.taken.set(self.taken.get() + amount);
        Permit { state: Rc::clone(self), amount }
    }

    fn give(self: &Rc<Self>, amount: u64) {
        let taken = self.taken.get();
        assert!(taken >= amount, "only what was taken is given back");
        self.taken.set(taken - amount);
        self.serve();
    }

    fn serve(self: &Rc<Self>) {
        while let Some(waiter) = self.next_to_serve() {
            let grant = self.grant(waiter.amount);
            // A waiter that is gone drops the grant, which serves the next one.
            drop(waiter.granted.send(grant));
        }
    }

    fn next_to_serve(&self) -> Option<Waiter> {
        let mut waiters = self.waiters.borrow_mut();
        let fits = waiters.front().is_some_and(|first| self.fits(first.amount));
        if fits { waiters.pop_front() } else { None }
    }
}

impl Semaphore {
    pub(crate) fn new(total: u64) -> Self {
        let state =
            State { total: Cell::new(total), taken: Cell::new(0), waiters: RefCell::default() };
        Self { state: Rc::new(state) }
    }

    /// Takes `amount`, waiting for its turn (ADMISSION-1).
    pub(crate) async fn take(&self, amount: u64) -> Permit {
        if !self.would_wait(amount) {
            return self.state.grant(amount);
        }
        let (granted, grant) = oneshot();
        self.state.waiters.borrow_mut().push_back(Waiter { amount, granted });
        match grant.await {
            Ok(taken) => {
                assert_eq!(taken.amount, amount, "who waits gets what it asked for"); // ADMISSION-1
                taken
            }
            // The sender stays in the queue until it is served, so this is the end of the shard.
            Err(_) => std::future::pending().await,
        }
    }

    /// Takes `amount`, if nobody has to wait for that.
    pub(crate) fn try_take(&self, amount: u64) -> Option<Permit> {
        (!self.would_wait(amount)).then(|| self.state.grant(amount))
    }

    /// Whether more than a quarter is taken: who gives it back in time begins now.
    pub(crate) fn is_getting_scarce(&self) -> bool {
        self.state.taken.get() > self.state.total.get() / 4
    }

    /// Whether [`Self::take`] would have to wait.
    pub(crate) fn would_wait(&self, amount: u64) -> bool {
        self.is_contended() || !self.state.fits(amount)
    }

    /// Gives back what was taken and kept.
    pub(crate) fn give(&self, amount: u64) {
        self.state.give(amount);
    }

    pub(crate) fn taken(&self) -> u64 {
        self.state.taken.get()
    }

    pub(crate) fn total(&self) -> u64 {
        self.state.total.get()
    }

    /// Lets everyone pass from now on, who then finds the shard closed.
    pub(crate) fn lift(&self) {
        self.state.total.set(u64::MAX);
        self.state.serve();
        assert!(!self.is_contended(), "everyone passed");
    }

    /// Lets everyone pass who waits now, to find out why it was let through; later ones wait as before.
    pub(crate) fn pass(&self) {
        assert!(
            self.state.total.get() < u64::MAX || !self.is_contended(),
            "nobody waits for what is lifted"
        );
        let total = self.state.total.replace(u64::MAX);
        self.state.serve();
        self.state.total.set(total);
        assert!(!self.is_contended(), "everyone passed");
    }

    pub(crate) fn is_contended(&self) -> bool {
        !self.state.waiters.borrow().is_empty()
    }
}

/// What the buffer's share and the lane allow.
pub(crate) struct SemaphoreByUse {
    /// For data.
    pub(crate) data: Semaphore,
    /// For records without data.
    pub(crate) records: Semaphore,
    /// For those of grants to other shards: none of these waits for the shard's own.
    pub(crate) grants: Semaphore,
}

impl SemaphoreByUse {
    pub(crate) fn of(media: &Media, config: &ShardConfig, has_others: bool) -> Self {
        let lane_share = media.journal.capacity() * 7 / 16;
        let buffer = config.buffer_bytes.min(lane_share);
        let records = (buffer / 16).max(16 * BLOCK_BYTES as u64);
        let grants = if has_others { records } else { 0 };
        let data = buffer.saturating_sub(records + grants).max(BLOCK_BYTES as u64);
        Self {
            data: Semaphore::new(data),
            records: Semaphore::new(records),
            grants: Semaphore::new(grants),
        }
    }

    /// Of every use.
    pub(crate) fn all(&self) -> [&Semaphore; 3] {
        [&self.data, &self.records, &self.grants]
    }
}

#[cfg(test)]
mod tests {
    use varve_reactor::SimLoop;

    use super::*;

    #[test]
    fn a_dropped_waiter_does_not_keep_its_grant() {
        let mut sim = SimLoop::new(7);
        let reactor = sim.handle();
        sim.run_until(async move {
            let credits = Rc::new(Semaphore::new(10));
            let held = credits.take(10).await;
            let (a, b) = (Rc::clone(&credits), Rc::clone(&credits));
            let waiting = reactor.spawn_join(async move { a.take(5).await.keep() });
            let dropped = Box::pin(async move { b.take(5).await });
            reactor.yield_now().await;
            drop(dropped);
            drop(held);
            waiting.await;
            assert_eq!(credits.taken(), 5);
            credits.give(5);
            assert_eq!(credits.taken(), 0);
        });
    }
}
