//! What is stored, counted once for all who ask at the same time. The admin API's `GET /v1/space` calls it on the
//! catalogue's thread.
//!
//! STACK-SPACE-1. One count runs at a time, however often it is asked for: who asks during one is told what it finds.
//!     So many askers cost no more than one.
//! STACK-SPACE-2. A count goes on when all who asked gave up, and whoever asks next is told what it found, if that is
//!     recent. So a count that takes longer than askers wait is told in the end.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use futures_util::FutureExt;
use futures_util::future::{LocalBoxFuture, Shared};
use varve_dataset::{Datasets, Result, StoredSpace};
use varve_reactor::{Nanos, Reactor};

/// How long what a count found is kept for one who gave up and asks again, in ns.
const KEPT_NS: u64 = 60_000_000_000;

/// The count that is under way, or was last.
pub(super) struct SpaceCount {
    reactor: Reactor,
    last: LastWork<Result<StoredSpace>>,
}

impl SpaceCount {
    pub(super) fn new(reactor: Reactor) -> Self {
        Self { reactor, last: LastWork::default() }
    }

    /// Counts, or waits for the count that is under way (STACK-SPACE-1).
    pub(super) async fn now(&self, datasets: &Datasets) -> Result<StoredSpace> {
        let begin = || {
            let (datasets, reactor) = (datasets.clone(), self.reactor.clone());
            let count = async move {
                let space = datasets.space().await;
                (reactor.now(), space)
            };
            let count = count.boxed_local().shared();
            self.reactor.spawn(count.clone().map(|_| ())); // STACK-SPACE-2
            count
        };
        let work = self.last.join(self.reactor.now(), begin);
        work.wait().await
    }
}

/// Work that those who want it at the same time share, and when it ended.
struct SharedWork<T: Clone> {
    outcome: Shared<LocalBoxFuture<'static, (Nanos, T)>>,
    is_told: Cell<bool>,
}

impl<T: Clone> SharedWork<T> {
    async fn wait(&self) -> T {
        let (_, outcome) = self.outcome.clone().await;
        self.is_told.set(true);
        outcome
    }

    /// Whether somebody who asks now is to be told what it finds.
    fn serves(&self, now: Nanos) -> bool {
        self.outcome.peek().is_none_or(|(ended, _)| {
            !self.is_told.get() && now.0.saturating_sub(ended.0) <= KEPT_NS
        })
    }
}

/// The last work.
struct LastWork<T: Clone>(RefCell<Option<Rc<SharedWork<T>>>>);

impl<T: Clone> Default for LastWork<T> {
    fn default() -> Self {
        Self(RefCell::new(None))
    }
}

impl<T: Clone> LastWork<T> {
    /// The last work if it still serves, or what `begin` begins.
    fn join(
        &self,
        now: Nanos,
        begin: impl FnOnce() -> Shared<LocalBoxFuture<'static, (Nanos, T)>>,
    ) -> Rc<SharedWork<T>> {
        let mut last = self.0.borrow_mut();
        let work = last.take().filter(|work| work.serves(now));
        let work = work
            .unwrap_or_else(|| Rc::new(SharedWork { outcome: begin(), is_told: Cell::new(false) }));
        Rc::clone(last.insert(work))
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    const NOW: Nanos = Nanos(5);

    fn done<T: Clone + 'static>(outcome: T) -> Shared<LocalBoxFuture<'static, (Nanos, T)>> {
        async { (NOW, outcome) }.boxed_local().shared()
    }

    #[test]
    fn work_is_shared_while_it_is_under_way_and_done_anew_after() {
        let joined = LastWork::default();
        let (end, ended) = oneshot::channel();
        let work = async move { (NOW, ended.await.unwrap()) };
        let first = joined.join(NOW, || work.boxed_local().shared());
        assert_eq!(first.wait().now_or_never(), None);
        let second = joined.join(NOW, || unreachable!("one is under way"));
        drop(first); // Who began it gave up.
        end.send(7).unwrap();
        assert_eq!(second.wait().now_or_never(), Some(7));
        assert_eq!(joined.join(NOW, || done(8)).wait().now_or_never(), Some(8));
        assert_eq!(second.wait().now_or_never(), Some(7), "a finished one stays what it is");
    }

    #[test]
    fn what_was_found_after_all_gave_up_is_told_to_the_next_if_it_is_recent() {
        let joined = LastWork::default();
        let begin = |outcome| {
            let work = done(outcome);
            drop(joined.join(NOW, || work.clone()));
            let ended = work.now_or_never(); // As the reactor's task does.
            assert!(ended.is_some());
        };
        begin(7);
        let next = joined.join(Nanos(NOW.0 + KEPT_NS), || unreachable!("it is recent"));
        assert_eq!(next.wait().now_or_never(), Some(7));
        begin(8);
        let late = joined.join(Nanos(NOW.0 + KEPT_NS + 1), || done(9));
        assert_eq!(late.wait().now_or_never(), Some(9));
    }
}
