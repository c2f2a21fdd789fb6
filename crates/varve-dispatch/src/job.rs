//! Work for another thread: a closure that runs there, with that thread's [`Dispatch`] at hand.
//!
//! JOB-1. Sending never blocks. A full port is tried again after other tasks have run, so a thread that is behind slows
//!     its callers down instead of using memory.
//! JOB-2. Answers travel through a channel of their own, so a thread that waits for an answer goes on serving others.

use std::task::Poll;

use futures_channel::oneshot;
use futures_util::future::LocalBoxFuture;
use varve_reactor::Reactor;
use varve_reactor::port::{PortReceiver, PortSender, channel};

use crate::{Dispatch, Error, Result};

/// Jobs that may wait for a thread: several times what its connections have in flight.
const JOBS_MAX: usize = 8192;

/// A closure for another thread.
pub type Job = Box<dyn FnOnce(&Dispatch) + Send>;

/// Sends jobs to one thread, from any thread.
#[derive(Clone)]
pub struct JobSender {
    port: PortSender<Job>,
}

impl JobSender {
    /// A port into the loop of `reactor`.
    #[must_use]
    pub fn new(reactor: &Reactor) -> (Self, PortReceiver<Job>) {
        let (port, receiver) = channel(reactor, JOBS_MAX);
        (Self { port }, receiver)
    }

    /// Runs `work` on the thread and returns what it yields. Waits while the queue is full (JOB-1), on the caller's
    /// loop.
    ///
    /// # Errors
    /// [`Error::ShuttingDown`] when the thread is gone.
    pub async fn call<T: Send + 'static>(
        &self,
        reactor: &Reactor,
        work: impl FnOnce(&Dispatch) -> LocalBoxFuture<'static, T> + Send + 'static,
    ) -> Result<T> {
        let (mut job, answer) = job(work);
        while let Err(refused) = self.send(job)? {
            job = refused;
            reactor.yield_now().await;
        }
        reactor.answer(answer).await.map_err(|_| Error::ShuttingDown)
    }

    /// As [`Self::call`], for a caller that runs on no loop of the reactor's: its own executor polls it again when the
    /// queue was full (JOB-1).
    ///
    /// # Errors
    /// [`Error::ShuttingDown`] when the thread is gone.
    pub async fn call_from_outside<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Dispatch) -> LocalBoxFuture<'static, T> + Send + 'static,
    ) -> Result<T> {
        self.begin_from_outside(work).await?.result().await
    }

    /// The same, but returns once the work is on its way.
    ///
    /// # Errors
    /// [`Error::ShuttingDown`] when the thread is gone.
    pub async fn begin_from_outside<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Dispatch) -> LocalBoxFuture<'static, T> + Send + 'static,
    ) -> Result<JobHandle<T>> {
        let (mut job, answer) = job(work);
        while let Err(refused) = self.send(job)? {
            job = refused;
            yield_to_executor().await;
        }
        Ok(JobHandle(answer))
    }

    /// Sends news that nobody waits for; they are lost when the queue is full, or the thread gone.
    pub fn tell(&self, news: impl FnOnce(&Dispatch) + Send + 'static) {
        drop(self.port.send(Box::new(news)));
    }

    /// Queues a job, or gives it back when there is no room.
    fn send(&self, job: Job) -> Result<std::result::Result<(), Job>> {
        let sent = self.port.send(job);
        if sent.is_err() && self.port.is_closed() {
            return Err(Error::ShuttingDown);
        }
        Ok(sent)
    }
}

/// What a job will yield. Dropping it does not end the job (JOB-2).
pub struct JobHandle<T>(oneshot::Receiver<T>);

impl<T> JobHandle<T> {
    /// Waits for it.
    ///
    /// # Errors
    /// [`Error::ShuttingDown`] when the thread is gone.
    pub async fn result(self) -> Result<T> {
        self.0.await.map_err(|_| Error::ShuttingDown)
    }
}

/// Lets other tasks of whatever executor this runs on go first.
async fn yield_to_executor() {
    let mut is_again = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut is_again, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

fn job<T: Send + 'static>(
    work: impl FnOnce(&Dispatch) -> LocalBoxFuture<'static, T> + Send + 'static,
) -> (Job, oneshot::Receiver<T>) {
    let (sender, answer) = oneshot::channel();
    let job: Job = Box::new(move |dispatch: &Dispatch| {
        let work = work(dispatch);
        dispatch.reactor().spawn(async move {
            // The caller may have gone; the work is done all the same.
            let _ = sender.send(work.await);
        });
    });
    (job, answer)
}

/// The threads of a pool, by shard.
#[derive(Clone)]
pub struct PoolLinks {
    /// Sender to the thread of each shard, by shard number.
    pub threads: Vec<JobSender>,
}

/// Runs jobs until all senders are gone.
pub async fn serve_jobs(dispatch: Dispatch, mut jobs: PortReceiver<Job>) {
    let mut batch = Vec::new();
    while jobs.recv_batch(&mut batch).await > 0 {
        for job in batch.drain(..) {
            job(&dispatch);
        }
    }
}
