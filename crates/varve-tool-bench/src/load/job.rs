//! A job: keeps its operations under way on a disk, in phases, and measures.
//!
//! BENCH-JOB-1. An operation counts in the window in which it was due, and everything that was begun is waited for.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use varve_media::Disk;
use varve_reactor::{Nanos, Reactor};
use varve_stdx::{AlignedBuf, BufSlice};

use crate::error::Result;
use crate::load::measured::{Measurement, OperationKind};
use crate::load::operations::{LoadOperation, Operations};
use crate::load::pace::Pace;
use crate::load::spec::LoadSpec;

/// Operations of a worker between two looks at what others have to do: a disk may answer without ever waiting.
const OPERATIONS_A_TURN: u32 = 16;

/// Longest time without a look at the wish to end, in ns.
const LOOK_NS: u64 = 50_000_000;

/// What a job and those who watch it share.
#[derive(Default, Debug)]
pub struct JobWatch {
    stop: AtomicBool,
    operations: AtomicU64,
}

impl JobWatch {
    /// Ends the phase as soon as what is under way is answered.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether it should end.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Operations answered so far, in all phases.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.operations.load(Ordering::Relaxed)
    }
}

/// What a job does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JobPhase {
    /// Writes each block once, in order.
    Fill,
    /// Does the load; the window that counts begins after `ramp_ns` and takes `duration_ns`.
    Load {
        /// Time before the window, in ns.
        ramp_ns: u64,
        /// Length of the window, in ns.
        duration_ns: u64,
    },
    /// In verify mode: reads each block that was written, in order.
    ReadBack,
}

/// A job of a load on a disk. Clones are the same job.
#[derive(Clone)]
pub struct Job {
    inner: Rc<JobInner>,
}

struct JobInner {
    reactor: Reactor,
    disk: Rc<dyn Disk>,
    watch: Arc<JobWatch>,
    operations: RefCell<Operations>,
    pace: Pace,
    depth: u32,
}

/// A phase that runs.
struct PhaseRun {
    phase: JobPhase,
    began: Nanos,
    /// Operations handed to workers; of phases in order the next block.
    next: Cell<u64>,
    measured: RefCell<Measurement>,
    failed: Cell<bool>,
}

impl Job {
    /// A job of a load on its part of `disk`.
    ///
    /// # Errors
    /// As [`LoadSpec::check`], and `TargetSize` when the part is too small.
    ///
    /// # Panics
    /// When the disk is smaller than the part's end.
    pub fn new(
        reactor: &Reactor,
        disk: Rc<dyn Disk>,
        spec: &LoadSpec,
        part: JobPart,
        watch: Arc<JobWatch>,
    ) -> Result<Self> {
        spec.check()?;
        let end_bytes = part.begin_bytes + part.size_bytes;
        assert!(end_bytes <= disk.size(), "the disk holds the whole part");
        let inner = JobInner {
            reactor: reactor.clone(),
            disk,
            watch,
            operations: RefCell::new(Operations::new(spec, &part)?),
            pace: Pace::of_job(spec.rate, part.job, spec.jobs),
            depth: spec.depth,
        };
        Ok(Self { inner: Rc::new(inner) })
    }

    /// Runs a phase to its end, or until it is told to stop; what was measured until then.
    ///
    /// # Errors
    /// `Media` of the first operation that failed, or `Mismatch`; what was begun is answered then.
    pub async fn run(&self, phase: JobPhase) -> Result<Measurement> {
        let inner = &self.inner;
        let course = Rc::new(PhaseRun {
            phase,
            began: inner.reactor.now(),
            next: Cell::new(0),
            measured: RefCell::default(),
            failed: Cell::new(false),
        });
        let workers: Vec<_> = (0..inner.depth)
            .map(|_| {
                let (inner, course) = (Rc::clone(inner), Rc::clone(&course));
                inner.reactor.clone().spawn_join(async move {
                    let ended = inner.work(&course).await;
                    course.failed.set(course.failed.get() || ended.is_err());
                    ended
                })
            })
            .collect();
        let mut ended = Ok(());
        for worker in workers {
            ended = ended.and(worker.await);
        }
        ended?;
        if phase == JobPhase::Fill {
            inner.disk.flush().await?;
        }
        Ok(inner.close(&course))
    }
}

/// Which part of a disk a job works on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JobPart {
    /// Number of the job: data and accesses of jobs differ.
    pub job: u32,
    /// Where it begins.
    pub begin_bytes: u64,
    /// Bytes of it.
    pub size_bytes: u64,
}

impl JobInner {
    /// One of the operations under way, again and again.
    async fn work(&self, course: &PhaseRun) -> Result<()> {
        let mut turn = 0;
        while let Some((due, operation)) = self.take(course) {
            // Made ahead of time: making data is not the target's latency.
            let payload = (!operation.is_read).then(|| self.operations.borrow().payload(operation));
            let due = match due {
                None => self.reactor.now(),
                Some(due) if self.wait_until(due, course).await => due,
                Some(_) => {
                    self.operations.borrow_mut().cancel(operation);
                    return Ok(());
                }
            };
            let found = self.perform(operation, payload).await?;
            let answered = self.reactor.now();
            self.operations.borrow_mut().end(operation, found.as_deref())?;
            self.count(course, operation, due, answered);
            turn += 1;
            if turn == OPERATIONS_A_TURN {
                turn = 0;
                self.reactor.yield_now().await;
            }
        }
        Ok(())
    }

    /// The next operation, and when it is due if not at once; `None` when the phase is over.
    fn take(&self, course: &PhaseRun) -> Option<(Option<Nanos>, LoadOperation)> {
        if self.watch.is_stopped() || course.failed.get() {
            return None;
        }
        let number = course.next.get();
        let mut operations = self.operations.borrow_mut();
        match course.phase {
            JobPhase::Load { ramp_ns, duration_ns } => {
                let end = course.began + (ramp_ns + duration_ns);
                let due = self.pace.due_ns(number).map(|due_ns| course.began + due_ns);
                let is_over = self.reactor.now() >= end || due.is_some_and(|due| due >= end);
                course.next.set(number + u64::from(!is_over));
                (!is_over).then(|| (due, operations.next()))
            }
            JobPhase::Fill => {
                course.next.set(number + 1);
                (number < operations.blocks()).then(|| (None, operations.fill(number)))
            }
            JobPhase::ReadBack => {
                let mut blocks = number..operations.blocks();
                let found = blocks.find_map(|block| operations.read_back(block));
                course.next.set(found.map_or(operations.blocks(), |found| found.block + 1));
                found.map(|operation| (None, operation))
            }
        }
    }

    /// Waits until a point of time; whether nobody wants to stop.
    async fn wait_until(&self, due: Nanos, course: &PhaseRun) -> bool {
        loop {
            let now = self.reactor.now();
            if now >= due {
                return true;
            }
            if self.watch.is_stopped() || course.failed.get() {
                return false;
            }
            self.reactor.sleep((due - now).min(LOOK_NS)).await;
        }
    }

    /// Reads, or writes `payload`; what a read found.
    async fn perform(
        &self,
        operation: LoadOperation,
        payload: Option<BufSlice>,
    ) -> Result<Option<AlignedBuf>> {
        let (offset, bytes) = self.operations.borrow().place(operation);
        match payload {
            None => {
                let started = self.disk.read(offset, bytes);
                self.submit();
                Ok(Some(started.await?))
            }
            Some(payload) => {
                let persist = self.operations.borrow().persist(operation);
                let started = self.disk.write(offset, payload, persist);
                self.submit();
                started.await?;
                Ok(None)
            }
        }
    }

    /// Hands what was just begun to the kernel, so that it does not wait until the data of the next one are made.
    fn submit(&self) {
        if let Some(ring) = self.reactor.ring() {
            ring.submit();
        }
    }

    fn count(&self, course: &PhaseRun, operation: LoadOperation, due: Nanos, answered: Nanos) {
        self.watch.operations.fetch_add(1, Ordering::Relaxed);
        let ramp_ns = match course.phase {
            JobPhase::Load { ramp_ns, .. } => ramp_ns,
            JobPhase::Fill | JobPhase::ReadBack => 0,
        };
        let begin = course.began + ramp_ns;
        if due >= begin {
            let (_, bytes) = self.operations.borrow().place(operation);
            let bytes = bytes as u64;
            let mut measured = course.measured.borrow_mut();
            measured.answer(kind(operation.is_read), bytes, due - begin, answered - due); // BENCH-JOB-1
        }
    }

    /// Closes the window, with what was due in it and not begun.
    fn close(&self, course: &PhaseRun) -> Measurement {
        let mut measured = course.measured.take();
        let passed_ns = self.reactor.now() - course.began;
        let JobPhase::Load { ramp_ns, duration_ns } = course.phase else {
            measured.window_ns = passed_ns;
            return measured;
        };
        let end_ns = passed_ns.min(ramp_ns + duration_ns);
        measured.window_ns = end_ns.saturating_sub(ramp_ns);
        for number in course.next.get().. {
            let Some(due_ns) = self.pace.due_ns(number).filter(|due_ns| *due_ns < end_ns) else {
                break;
            };
            if due_ns >= ramp_ns {
                let is_read = self.operations.borrow_mut().draw_kind();
                measured.miss(kind(is_read), end_ns - due_ns);
            }
        }
        measured
    }
}

fn kind(is_read: bool) -> OperationKind {
    if is_read { OperationKind::Read } else { OperationKind::Write }
}

#[cfg(test)]
mod tests;
