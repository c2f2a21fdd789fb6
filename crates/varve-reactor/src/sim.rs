//! The simulated loop: one thread, a virtual clock, and a seed that decides which ready task runs next.
//!
//! REACTOR-SIM-1. The same seed and the same tasks give the same run: nothing here reads the clock or the machine.
//! REACTOR-SIM-2. Time passes by [`STEP_NANOS`] a step, and jumps to the next timer when nothing is ready.
//! REACTOR-SIM-3. Dropping the loop drops every task where it stands: that is a crash.

use std::cell::Cell;
use std::future::Future;

use varve_stdx::Rng;

use crate::reactor::{Clock, Core, Reactor};
use crate::task::Tasks;
use crate::time::Nanos;

/// Simulated cost of polling a task, so that a task that only yields does not stop the clock.
const STEP_NANOS: u64 = 100;

/// Wall clock at the start of every simulation: 2030-01-01.
const UNIX_MS_AT_START: u64 = 1_893_456_000_000;

/// What a step did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// Polled a task.
    Ran,
    /// Nothing was ready: time jumped to this point, where a timer is due.
    Advanced(Nanos),
    /// Nothing is ready and no timer is armed: nothing will ever happen again.
    Idle,
}

/// The simulated twin of [`Loop`](crate::Loop).
pub struct SimLoop {
    reactor: Reactor,
    schedule: Rng,
    steps: u64,
}

impl SimLoop {
    /// A loop whose every choice is fixed by `seed` (REACTOR-SIM-1).
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self::starting_at(seed, Nanos(0))
    }

    /// A loop whose clock starts at `now`: a machine after a restart, whose world is older than it.
    #[must_use]
    pub fn starting_at(seed: u64, now: Nanos) -> Self {
        let mut schedule = Rng::new(seed);
        let clock = Clock::Simulated { now: Cell::new(now), unix_ms_at_start: UNIX_MS_AT_START };
        let reactor = Reactor::new(Core::new(Tasks::new(None), clock, schedule.split(), None));
        Self { reactor, schedule, steps: 0 }
    }

    /// The handle for tasks.
    #[must_use]
    pub fn handle(&self) -> Reactor {
        self.reactor.clone()
    }

    /// Number of polls so far.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Polls one ready task, or else moves the clock.
    pub fn step(&mut self) -> Progress {
        let core = self.reactor.core();
        let _entered = core.tasks.enter();
        let Clock::Simulated { now, .. } = &core.clock else { unreachable!("made in `new`") };
        core.timers.fire(now.get());
        core.wake_yielded();
        let ready = core.tasks.ready_count();
        if ready > 0 {
            core.tasks.run_at(self.schedule.index(ready));
            now.set(now.get() + STEP_NANOS); // REACTOR-SIM-2
            self.steps += 1;
            return Progress::Ran;
        }
        match core.timers.earliest() {
            None => Progress::Idle,
            Some(deadline) => {
                assert!(deadline > now.get(), "due timers have fired");
                now.set(deadline);
                core.timers.fire(deadline);
                Progress::Advanced(deadline)
            }
        }
    }

    /// Runs until `main` completes; other tasks run beside it and stay where they are afterwards.
    ///
    /// # Panics
    /// When nothing is left to run before `main` completes: it waits for something that never happens.
    pub fn run_until<T: 'static>(&mut self, main: impl Future<Output = T> + 'static) -> T {
        let result = self.try_run_until(main, u64::MAX);
        result.expect("nothing is left to run, and the awaited future has not completed")
    }

    /// Runs until `main` completes, nothing is left to run, or `steps_max` more polls were done; `None` in the last two
    /// cases.
    pub fn try_run_until<T: 'static>(
        &mut self,
        main: impl Future<Output = T> + 'static,
        steps_max: u64,
    ) -> Option<T> {
        let mut result = self.reactor.spawn_join(main);
        let last = self.steps.saturating_add(steps_max);
        loop {
            if let Some(value) = result.try_take() {
                return Some(value);
            }
            if self.steps >= last || self.step() == Progress::Idle {
                return None;
            }
        }
    }
}

impl Drop for SimLoop {
    fn drop(&mut self) {
        let core = self.reactor.core();
        let _entered = core.tasks.enter();
        core.tasks.close(); // REACTOR-SIM-3
        core.timers.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;
    use crate::{Notify, oneshot, port};

    fn trace(seed: u64) -> Vec<(u64, u32)> {
        let mut sim = SimLoop::new(seed);
        let log = Rc::new(RefCell::new(Vec::new()));
        let reactor = sim.handle();
        for id in 0..5u32 {
            let (reactor, log) = (reactor.clone(), Rc::clone(&log));
            sim.handle().spawn(async move {
                for _ in 0..5 {
                    let pause = reactor.random_u64() % 1000;
                    if pause.is_multiple_of(2) {
                        reactor.sleep(pause).await;
                    } else {
                        reactor.yield_now().await;
                    }
                    log.borrow_mut().push((reactor.now().0, id));
                }
            });
        }
        while sim.step() != Progress::Idle {}
        log.take()
    }

    #[test]
    fn the_seed_decides_the_run() {
        assert_eq!(trace(1), trace(1));
        assert_ne!(trace(1), trace(2));
        assert_eq!(trace(3).len(), 25);
    }

    #[test]
    fn time_jumps_to_the_next_timer() {
        let mut sim = SimLoop::new(0);
        let reactor = sim.handle();
        let later = reactor.clone();
        sim.run_until(async move { later.sleep(Nanos::seconds(3600)).await });
        assert!(reactor.now().0 < Nanos::seconds(3601), "{}", reactor.now());
        assert!(sim.steps() < 10);
    }

    #[test]
    fn dropping_the_loop_drops_every_task() {
        struct OnDrop(Rc<Cell<u32>>, Reactor);
        impl Drop for OnDrop {
            fn drop(&mut self) {
                self.0.set(self.0.get() + 1);
                let again = Rc::clone(&self.0);
                self.1.spawn(async move { again.set(100) });
            }
        }
        let dropped = Rc::new(Cell::new(0));
        let mut sim = SimLoop::new(0);
        for _ in 0..3 {
            let guard = OnDrop(Rc::clone(&dropped), sim.handle());
            let reactor = sim.handle();
            sim.handle().spawn(async move {
                reactor.sleep(1_000).await;
                drop(guard);
                reactor.sleep(u64::MAX).await;
            });
        }
        sim.step();
        assert_eq!(dropped.get(), 0);
        drop(sim);
        assert_eq!(dropped.get(), 3);
    }

    #[test]
    fn an_endless_yielder_does_not_stop_the_clock() {
        let mut sim = SimLoop::new(0);
        let reactor = sim.handle();
        sim.handle().spawn(async move {
            loop {
                reactor.yield_now().await;
            }
        });
        let reactor = sim.handle();
        let done = sim.try_run_until(async move { reactor.sleep(10_000).await }, 1_000);
        assert!(done.is_some());
    }

    #[test]
    fn values_cross_tasks() {
        let mut sim = SimLoop::new(0);
        let (sender, receiver) = oneshot();
        let notify = Rc::new(Notify::new());
        let waiting = Rc::clone(&notify);
        sim.handle().spawn(async move {
            waiting.notified().await;
            sender.send(7).expect("the receiver waits");
        });
        let reactor = sim.handle();
        let got = sim.run_until(async move {
            reactor.spawn(async move { notify.notify_one() });
            receiver.await
        });
        assert_eq!(got, Ok(7));
        let (sender, receiver) = oneshot::<u32>();
        drop(sender);
        assert!(sim.run_until(receiver).is_err());
    }

    #[test]
    fn ports_keep_order_report_full_and_end() {
        let mut sim = SimLoop::new(9);
        let (sender, mut receiver) = port::channel(&sim.handle(), 4);
        for message in 0..4 {
            assert_eq!(sender.send(message), Ok(()));
        }
        assert_eq!(sender.send(4), Err(4));
        let second = sender.clone();
        let reactor = sim.handle();
        reactor.clone().spawn(async move {
            for mut message in 4..20 {
                while let Err(refused) = second.send(message) {
                    message = refused;
                    reactor.sleep(500).await;
                }
            }
        });
        drop(sender);
        let got = sim.run_until(async move {
            let mut all = Vec::new();
            while receiver.recv_batch(&mut all).await > 0 {}
            all
        });
        assert_eq!(got, (0..20).collect::<Vec<_>>());
    }

    #[test]
    fn a_port_whose_receiver_is_gone_refuses() {
        let sim = SimLoop::new(0);
        let (sender, receiver) = port::channel(&sim.handle(), 4);
        drop(receiver);
        assert_eq!(sender.send(1), Err(1));
    }
}
