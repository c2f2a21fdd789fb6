//! The result of a spawned task.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::oneshot::{OneshotReceiver, oneshot};

/// Awaits the result of a task. Dropping it lets the task run on its own.
///
/// When the loop ends first, the result never comes: whoever awaits it ends with the same loop.
#[must_use = "drop it explicitly to let the task run on its own"]
pub struct JoinHandle<T> {
    result: OneshotReceiver<T>,
}

pub(crate) fn pair<T: 'static>(
    task: impl Future<Output = T> + 'static,
) -> (impl Future<Output = ()> + 'static, JoinHandle<T>) {
    let (sender, result) = oneshot();
    let body = async move {
        // An error says that nobody wants the result.
        drop(sender.send(task.await));
    };
    (body, JoinHandle { result })
}

impl<T> JoinHandle<T> {
    /// The result, if the task has finished and it was not taken yet.
    pub fn try_take(&mut self) -> Option<T> {
        self.result.try_recv()
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        match Pin::new(&mut self.result).poll(cx) {
            Poll::Ready(Ok(value)) => Poll::Ready(value),
            Poll::Ready(Err(_)) | Poll::Pending => Poll::Pending,
        }
    }
}
