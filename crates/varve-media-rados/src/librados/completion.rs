//! Operations under way in librados, as futures. librados calls back on a thread of its own; the future's task is woken
//! from there.
//!
//! 1. The state of an operation, and the memory it reads into, live until librados has called back, whoever drops the
//!    future; for ever if the connection ends before.
//! 2. librados calls back exactly once for each operation that it accepted, and never for one that it refused.

use std::ffi::c_void;
use std::future::Future;
use std::pin::Pin;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context as TaskContext, Poll, Waker};

use super::ClusterConnection;
use super::library::{Api, Opaque};
use crate::objects::Refusal;

/// What an operation returned, and the bytes that it read.
pub(super) type Outcome = Result<(usize, Vec<u8>), Refusal>;

#[derive(Default)]
struct State {
    outcome: Option<Outcome>,
    waker: Option<Waker>,
    /// What is read into.
    bytes: Vec<u8>,
}

struct CompletionCell {
    api: Arc<Api>,
    state: Mutex<State>,
    /// Counts among the reads of its context.
    _read: Option<Arc<()>>,
}

impl CompletionCell {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn complete(&self, code: i32) {
        let waker = {
            let state = &mut *self.lock();
            let bytes = std::mem::take(&mut state.bytes);
            state.outcome = Some(match usize::try_from(code) {
                Ok(count) => Ok((count, bytes)),
                Err(_) => Err(Refusal(code.saturating_neg())),
            });
            state.waker.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }
}

/// An operation under way.
pub(super) struct RadosOperation {
    shared: Arc<CompletionCell>,
    /// Stays open until the outcome is known, or nobody waits for it.
    _connection: Arc<ClusterConnection>,
}

impl RadosOperation {
    /// Begins an operation that reads into `bytes`. `start` hands it to librados with its completion and the address of
    /// the bytes, and returns librados' answer.
    pub(super) fn begin(
        connection: &Arc<ClusterConnection>,
        read: Option<Arc<()>>,
        mut bytes: Vec<u8>,
        start: impl FnOnce(Opaque, *mut u8) -> i32,
    ) -> Self {
        let address = bytes.as_mut_ptr(); // Stays where it is when the vector moves.
        let state = Mutex::new(State { bytes, ..State::default() });
        let shared =
            Arc::new(CompletionCell { api: Arc::clone(&connection.api), state, _read: read });
        let argument = Arc::into_raw(Arc::clone(&shared)).cast_mut().cast::<c_void>();
        let mut completion = ptr::null_mut();
        let create = connection.api.aio_create_completion;
        // SAFETY: librados only keeps the argument, and hands it to `completed`.
        #[expect(unsafe_code, reason = "calls librados")]
        let mut code = unsafe { create(argument, completed, &raw mut completion) };
        if code >= 0 {
            code = start(completion, address);
            if code < 0 {
                // SAFETY: the completion was just made, and librados did not take it (2).
                #[expect(unsafe_code, reason = "calls librados")]
                unsafe {
                    (connection.api.aio_release)(completion);
                }
            }
        }
        if code < 0 {
            // SAFETY: the argument came from `Arc::into_raw`, and nobody is going to call back with it (2).
            #[expect(unsafe_code, reason = "takes back what was handed out")]
            let unused = unsafe { Arc::from_raw(argument.cast::<CompletionCell>()) };
            unused.complete(code);
        }
        Self { shared, _connection: Arc::clone(connection) }
    }
}

/// Called by librados when an operation is complete.
extern "C" fn completed(completion: Opaque, argument: *mut c_void) {
    // SAFETY: the argument came from `Arc::into_raw` in `begin`, and comes back once (2).
    #[expect(unsafe_code, reason = "takes back what was handed out")]
    let shared = unsafe { Arc::from_raw(argument.cast::<CompletionCell>()) };
    let api = &shared.api;
    // SAFETY: librados calls with a completion that is complete.
    #[expect(unsafe_code, reason = "calls librados")]
    let code = unsafe { (api.aio_return_value)(completion) };
    // SAFETY: librados holds a reference of its own while it calls; ours, from `begin`, goes.
    #[expect(unsafe_code, reason = "calls librados")]
    unsafe {
        (api.aio_release)(completion);
    }
    shared.complete(code);
}

impl Future for RadosOperation {
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, context: &mut TaskContext<'_>) -> Poll<Outcome> {
        let mut state = self.shared.lock();
        match state.outcome.take() {
            Some(outcome) => Poll::Ready(outcome),
            None => {
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}
