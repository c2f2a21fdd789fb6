//! The handle that tasks hold: spawn, time, random numbers, and the ring where there is one.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use varve_stdx::Rng;

use crate::join::{self, JoinHandle};
use crate::ring::Ring;
use crate::task::Tasks;
use crate::time::Nanos;
use crate::timer::{Sleep, Timers};

/// Where time comes from.
pub(crate) enum Clock {
    Real(Instant),
    Simulated { now: Cell<Nanos>, unix_ms_at_start: u64 },
}

pub(crate) struct Core {
    pub(crate) tasks: Tasks,
    pub(crate) timers: Timers,
    pub(crate) clock: Clock,
    pub(crate) rng: RefCell<Rng>,
    pub(crate) ring: Option<Ring>,
    /// Tasks that let others go first.
    yielded: RefCell<Vec<Waker>>,
    /// Answers that tasks await from other loops.
    answers_due: Cell<usize>,
}

impl Core {
    pub(crate) fn new(tasks: Tasks, clock: Clock, rng: Rng, ring: Option<Ring>) -> Self {
        let (timers, rng, yielded) = (Timers::default(), RefCell::new(rng), RefCell::default());
        Self { tasks, timers, clock, rng, ring, yielded, answers_due: Cell::new(0) }
    }

    /// Makes those that yielded ready again.
    pub(crate) fn wake_yielded(&self) {
        let mut yielded = self.yielded.take();
        yielded.drain(..).for_each(Waker::wake);
        self.yielded.replace(yielded);
    }

    pub(crate) fn answers_due(&self) -> usize {
        self.answers_due.get()
    }

    pub(crate) fn has_yielded(&self) -> bool {
        !self.yielded.borrow().is_empty()
    }
}

/// A handle to the loop of this thread; cloning costs a reference count.
#[derive(Clone)]
pub struct Reactor {
    core: Rc<Core>,
}

impl Reactor {
    pub(crate) fn new(core: Core) -> Self {
        Self { core: Rc::new(core) }
    }

    pub(crate) fn core(&self) -> &Core {
        &self.core
    }

    pub(crate) fn timers(&self) -> &Timers {
        &self.core.timers
    }

    pub(crate) fn is_simulated(&self) -> bool {
        matches!(self.core.clock, Clock::Simulated { .. })
    }

    /// Starts a task that runs on its own. It is dropped when the loop ends.
    pub fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.core.tasks.spawn(task);
    }

    /// Starts a task whose result can be awaited; dropping the handle lets it run on its own.
    pub fn spawn_join<T: 'static>(&self, task: impl Future<Output = T> + 'static) -> JoinHandle<T> {
        let (body, handle) = join::pair(task);
        self.core.tasks.spawn(body);
        handle
    }

    /// Monotonic time.
    #[must_use]
    pub fn now(&self) -> Nanos {
        match &self.core.clock {
            Clock::Real(start) => {
                Nanos(u64::try_from(start.elapsed().as_nanos()).expect("less than 584 years"))
            }
            Clock::Simulated { now, .. } => now.get(),
        }
    }

    /// As [`Self::now`], from another start, and it goes on while the machine sleeps: for what other machines wait for.
    #[must_use]
    pub fn boot_time(&self) -> Nanos {
        match &self.core.clock {
            Clock::Real(_) => boot_time(),
            Clock::Simulated { now, .. } => now.get(),
        }
    }

    /// Wall clock, in ms since 1970. It may jump; simulated in the simulator.
    #[must_use]
    pub fn unix_time_ms(&self) -> u64 {
        match &self.core.clock {
            Clock::Real(_) => SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX)),
            Clock::Simulated { now, unix_ms_at_start } => {
                unix_ms_at_start + now.get().0 / 1_000_000
            }
        }
    }

    /// Completes `nanos` from now.
    pub fn sleep(&self, nanos: u64) -> Sleep {
        Sleep::new(self.clone(), self.now() + nanos)
    }

    /// Lets every task that is ready now go first, and those whose I/O has come to its end.
    pub fn yield_now(&self) -> YieldNow {
        YieldNow { reactor: self.clone(), yielded: false }
    }

    /// Awaits an answer from another loop. A loop with nothing else to do looks out for a single one for a moment
    /// instead of falling asleep at once: waking it would cost more than the other needs for its work.
    pub async fn answer<T>(&self, answer: impl Future<Output = T>) -> T {
        let _due = AnswerDue::new(&self.core.answers_due);
        answer.await
    }

    /// 64 random bits, not fit for secrets; fixed by the seed in the simulator.
    #[must_use]
    pub fn random_u64(&self) -> u64 {
        self.core.rng.borrow_mut().next_u64()
    }

    /// Raw I/O of this thread; `None` in the simulator.
    #[must_use]
    pub fn ring(&self) -> Option<Ring> {
        self.core.ring.clone()
    }
}

impl fmt::Debug for Reactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reactor({})", if self.is_simulated() { "simulated" } else { "real" })
    }
}

/// Future of [`Reactor::yield_now`].
#[must_use = "futures do nothing unless awaited"]
pub struct YieldNow {
    reactor: Reactor,
    yielded: bool,
}

impl Future for YieldNow {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.yielded {
            return Poll::Ready(());
        }
        self.yielded = true;
        self.reactor.core.yielded.borrow_mut().push(cx.waker().clone());
        Poll::Pending
    }
}

/// Counts an answer that is awaited.
struct AnswerDue<'a>(&'a Cell<usize>);

impl<'a> AnswerDue<'a> {
    fn new(due: &'a Cell<usize>) -> Self {
        due.set(due.get() + 1);
        Self(due)
    }
}

impl Drop for AnswerDue<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

fn boot_time() -> Nanos {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is alive and writable; this clock is there since Linux 2.6.39.
    #[expect(unsafe_code, reason = "the standard library does not read this clock")]
    let read = unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut time) };
    assert_eq!(read, 0, "CLOCK_BOOTTIME cannot be read");
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_nsec));
    Nanos(seconds.unwrap_or(0) * 1_000_000_000 + nanos.unwrap_or(0))
}
