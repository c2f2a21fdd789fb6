//! The real loop: runs ready tasks, hands their I/O to the kernel once a turn, and waits only when nothing is ready.
//!
//! ```text
//! turn:  fire timers -> poll until nothing is ready, within bounds -> look out for a lone answer
//!        -> submit (and wait, if nobody is ready or yielded)
//!        -> reap completions
//! ```

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use varve_stdx::Rng;

use crate::reactor::{Clock, Core, Reactor};
use crate::ring::Ring;
use crate::task::{LoopWaker, Tasks};

/// Most polls between two visits to the kernel, so that completions wait a bounded time.
const POLLS_A_TURN_MAX: usize = 256;

/// How long a loop with nothing else to do looks out for a single answer from another before it falls asleep: what a
/// durable write takes on a fast drive. To be woken costs 10 to 30 us in a virtual machine, which is most of what a
/// lone request waits for beside the drive.
const BUSY_POLL_NS: u64 = 150_000;

/// Look-outs that are left out after one in which nothing came: a slow drive costs no processor.
const POLLS_SKIPPED_AFTER_MISS: u32 = 32;

/// Sizes of a loop.
#[derive(Clone, Debug)]
pub struct LoopConfig {
    /// Submissions that one turn may queue before it enters the kernel early.
    pub ring_entries: u32,
    /// Places in the ring's table of registered files.
    pub registered_files_max: u32,
}

impl Default for LoopConfig {
    fn default() -> Self {
        Self { ring_entries: 512, registered_files_max: 256 }
    }
}

/// Rings through an eventfd that the loop's ring watches.
struct EventAlarm {
    eventfd: Arc<OwnedFd>,
}

impl LoopWaker for EventAlarm {
    fn ring(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: the descriptor is open and `one` holds 8 bytes.
        #[expect(unsafe_code, reason = "a write without a file object")]
        let _full_counter_is_as_good =
            unsafe { libc::write(self.eventfd.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }
}

/// The loop of one thread. It stays on the thread that made it; dropping it drops every task.
pub struct Loop {
    reactor: Reactor,
    ring: Ring,
    eventfd: Arc<OwnedFd>,
    /// Look-outs still to be left out.
    left_out: Cell<u32>,
}

impl Loop {
    /// A loop with its own ring.
    ///
    /// # Errors
    /// The system's: no io_uring, too many rings, or no memory for them.
    pub fn new(config: LoopConfig) -> io::Result<Self> {
        let ring = Ring::new(config.ring_entries, config.registered_files_max)?;
        let eventfd = Arc::new(new_eventfd()?);
        ring.watch_wake_up(eventfd.as_raw_fd());
        let alarm = EventAlarm { eventfd: Arc::clone(&eventfd) };
        let tasks = Tasks::new(Some(Box::new(alarm)));
        let clock = Clock::Real(Instant::now());
        let reactor = Reactor::new(Core::new(tasks, clock, Rng::new(seed()?), Some(ring.clone())));
        Ok(Self { reactor, ring, eventfd, left_out: Cell::new(0) })
    }

    /// The handle for tasks.
    #[must_use]
    pub fn handle(&self) -> Reactor {
        self.reactor.clone()
    }

    /// Runs until `main` completes; other tasks run beside it and stay where they are afterwards.
    ///
    /// # Panics
    /// When a task panics, with that panic.
    pub fn run<T: 'static>(&mut self, main: impl Future<Output = T> + 'static) -> T {
        let core = self.reactor.core();
        let _entered = core.tasks.enter();
        let mut result = self.reactor.spawn_join(main);
        loop {
            if core.timers.earliest().is_some() {
                core.timers.fire(self.reactor.now());
            }
            let mut left = POLLS_A_TURN_MAX;
            core.tasks.collect_woken();
            while left > 0 && core.tasks.run_next() {
                left -= 1;
            }
            if let Some(value) = result.try_take() {
                return value;
            }
            self.visit_kernel();
        }
    }

    fn visit_kernel(&self) {
        let core = self.reactor.core();
        let busy = core.has_yielded() || core.tasks.ready_count() > 0 || self.look_out();
        if busy || !core.tasks.shared().fall_asleep() {
            self.ring.submit();
        } else {
            let now = self.reactor.now();
            self.ring.submit_and_wait(core.timers.earliest().map(|deadline| deadline - now));
            core.tasks.shared().wake_up();
        }
        self.ring.reap();
        core.wake_yielded(); // Behind those whose I/O ended.
        if let Some(watched) = self.ring.take_rung() {
            self.clear_wake_up();
            if !watched {
                self.ring.watch_wake_up(self.eventfd.as_raw_fd());
            }
        }
    }

    /// Looks out for a single answer from another loop, if one is awaited; whether anything happened meanwhile.
    fn look_out(&self) -> bool {
        let core = self.reactor.core();
        if core.answers_due() != 1 {
            return false;
        }
        let left_out = self.left_out.get();
        if left_out > 0 {
            self.left_out.set(left_out - 1);
            return false;
        }
        self.ring.submit();
        let start = self.reactor.now();
        let timer = core.timers.earliest().map_or(u64::MAX, |deadline| deadline - start);
        loop {
            if core.tasks.shared().is_called() || self.ring.has_news() {
                return true;
            }
            let passed = self.reactor.now() - start;
            if passed >= BUSY_POLL_NS.min(timer) {
                self.left_out.set(POLLS_SKIPPED_AFTER_MISS);
                return false;
            }
            std::thread::yield_now();
        }
    }

    fn clear_wake_up(&self) {
        let mut count = [0u8; 8];
        // SAFETY: the descriptor is open and `count` has room for the 8 bytes of a counter.
        #[expect(unsafe_code, reason = "a read without a file object")]
        let _empty_is_as_good =
            unsafe { libc::read(self.eventfd.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let core = self.reactor.core();
        let entered = core.tasks.enter();
        core.tasks.close();
        core.timers.clear();
        self.ring.drain();
        drop(entered);
    }
}

fn new_eventfd() -> io::Result<OwnedFd> {
    // SAFETY: no memory is involved.
    #[expect(unsafe_code, reason = "no safe wrapper")]
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and nobody else owns it.
    #[expect(unsafe_code, reason = "takes ownership of the new descriptor")]
    let owned = unsafe { OwnedFd::from_raw_fd(fd) };
    Ok(owned)
}

/// 64 bits from the system.
fn seed() -> io::Result<u64> {
    let mut bytes = [0u8; 8];
    // SAFETY: `bytes` has room for its 8 bytes.
    #[expect(unsafe_code, reason = "no safe wrapper")]
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if usize::try_from(got) == Ok(bytes.len()) {
        return Ok(u64::from_ne_bytes(bytes));
    }
    Err(io::Error::last_os_error())
}
