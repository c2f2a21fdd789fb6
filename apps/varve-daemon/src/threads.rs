//! Calls from the control thread to the shard threads, and their answers.

use std::future::Future;
use std::rc::Rc;

use tokio::sync::oneshot;
use varve_access_admin::{AdminFuture, Error};
use varve_types::ErrorKind;

use crate::shard_thread::{Call, ShardThread};
use crate::stack::ShardStack;
use varve_reactor::port::PortSender;

/// The ways to call the shard threads, by shard.
pub(crate) struct ShardThreads<S: ShardStack> {
    calls: Vec<PortSender<Call<S>>>,
}

impl<S: ShardStack> ShardThreads<S> {
    /// Threads that take calls here.
    pub(crate) fn new(calls: Vec<PortSender<Call<S>>>) -> Self {
        assert!(!calls.is_empty(), "a pool has a shard");
        Self { calls }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.calls.len()
    }

    /// Runs `work` on a thread. The receiver ends with an error when the thread does not take the call or ends
    /// meanwhile.
    pub(crate) fn call<T, W, F>(&self, shard: usize, work: W) -> oneshot::Receiver<T>
    where
        T: Send + 'static,
        W: FnOnce(Rc<ShardThread<S>>) -> F + Send + 'static,
        F: Future<Output = T> + 'static,
    {
        let (sender, receiver) = oneshot::channel();
        let call: Call<S> = Box::new(move |thread| {
            let answer = work(thread);
            Box::pin(async move {
                // Whoever asked may have given up.
                let _ = sender.send(answer.await);
            })
        });
        // A call that is not taken drops its sender, which the receiver sees.
        let _ = self.calls[shard].send(call);
        receiver
    }

    /// The same for the admin API: a thread that takes no call is unavailable.
    pub(crate) fn ask<T, W, F>(&self, shard: usize, work: W) -> AdminFuture<'static, T>
    where
        T: Send + 'static,
        W: FnOnce(Rc<ShardThread<S>>) -> F + Send + 'static,
        F: Future<Output = varve_access_admin::Result<T>> + 'static,
    {
        let answer = self.call(shard, work);
        Box::pin(async move { answer.await.unwrap_or_else(|_| Err(busy(shard))) })
    }
}

fn busy(shard: usize) -> Error {
    Error::Backend {
        kind: ErrorKind::Unavailable,
        message: format!("shard {shard} takes no calls now"),
        hint: Some("try again; `varve status` shows its state".to_owned()),
    }
}
