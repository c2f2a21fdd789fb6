//! A thread that does something again and again while a load runs.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use varve_client::{Failure, Result};

/// The thread, and what it came to.
pub(super) struct Background<T> {
    end: Sender<()>,
    thread: JoinHandle<T>,
}

/// Tells the thread that it should end.
pub(super) struct EndSignal(Receiver<()>);

impl EndSignal {
    /// Pauses; says whether the thread should end, which it says at once.
    pub(super) fn comes_within(&self, pause: Duration) -> bool {
        self.0.recv_timeout(pause) != Err(RecvTimeoutError::Timeout)
    }
}

impl<T: Send + 'static> Background<T> {
    /// Starts a thread that ends when its `EndSignal` comes.
    pub(super) fn start(
        name: &str,
        work: impl FnOnce(EndSignal) -> T + Send + 'static,
    ) -> Result<Self> {
        let (end, ended) = mpsc::channel();
        let thread = std::thread::Builder::new().name(name.to_owned());
        let thread = thread.spawn(move || work(EndSignal(ended)));
        let thread = thread.map_err(|error| Failure::new(format!("start a thread: {error}")))?;
        Ok(Self { end, thread })
    }

    /// Ends it, and waits for it.
    pub(super) fn end(self) -> T {
        drop(self.end);
        match self.thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}
