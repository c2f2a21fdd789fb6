//! What is stored, counted once for all who ask at the same time. The admin API's `GET /v1/space` calls it on the catalogue's thread.
//!
//! W1. One count runs at a time, however often it is asked for and given up: who asks during one is told what it finds. So many
//!     askers cost no more than one, and who gave up on a long count may ask again and get it.

use std::cell::RefCell;

use futures_util::FutureExt;
use futures_util::future::{LocalBoxFuture, Shared, WeakShared};
use varve_dataset::{Datasets, Result, Space};

/// The count that is under way, if there is one.
pub(super) struct SpaceCount {
    running: Joined<Result<Space>>,
}

impl SpaceCount {
    pub(super) fn new() -> Self {
        Self { running: Joined::new() }
    }

    /// Counts, or waits for the count that is under way (W1).
    pub(super) async fn now(&self, datasets: &Datasets) -> Result<Space> {
        let datasets = datasets.clone();
        self.running.join(|| async move { datasets.space().await }.boxed_local()).await
    }
}

/// Work that those who want it at the same time share.
struct Joined<T: Clone>(RefCell<Option<WeakShared<LocalBoxFuture<'static, T>>>>);

impl<T: Clone> Joined<T> {
    fn new() -> Self {
        Self(RefCell::new(None))
    }

    /// The outcome of the work under way, or of `begin` when there is none.
    fn join(
        &self,
        begin: impl FnOnce() -> LocalBoxFuture<'static, T>,
    ) -> Shared<LocalBoxFuture<'static, T>> {
        let mut running = self.0.borrow_mut();
        let under_way = running.as_ref().and_then(WeakShared::upgrade);
        match under_way.filter(|work| work.peek().is_none()) {
            Some(work) => work,
            None => {
                let work = begin().shared();
                *running = work.downgrade();
                work
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[test]
    fn work_is_shared_while_it_is_under_way_and_done_anew_after() {
        let joined = Joined::new();
        let (end, ended) = oneshot::channel();
        let mut first = joined.join(|| async move { ended.await.unwrap() }.boxed_local());
        assert_eq!((&mut first).now_or_never(), None);
        let second = joined.join(|| unreachable!("one is under way"));
        drop(first); // Who began it gave up.
        end.send(7).unwrap();
        assert_eq!(second.clone().now_or_never(), Some(7));
        assert_eq!(joined.join(|| async { 8 }.boxed_local()).now_or_never(), Some(8));
        assert_eq!(second.now_or_never(), Some(7), "a finished one stays what it is");
    }

    #[test]
    fn work_that_all_gave_up_is_forgotten() {
        let joined = Joined::new();
        drop(joined.join(|| std::future::pending::<i32>().boxed_local()));
        assert_eq!(joined.join(|| async { 9 }.boxed_local()).now_or_never(), Some(9));
    }
}
