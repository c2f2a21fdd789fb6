//! Puts a load on a bucket: a thread with a connection for each worker, and phases that all of them begin together.
//!
//! As with loads of blocks, an operation counts in the window in which it was due, everything that was begun is waited
//! for, and with a rate latency counts from when the operation was due.

use std::cell::RefCell;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use varve_client::{Failure, Progress, Result};
use varve_tool_bench::cosbench::{Action, SharedCursors, Verb, WorkSpec, WorkerPlan};
use varve_tool_bench::{
    HeldContent, JobPhase, LoadSpec, Measurement, OperationKind, Pace, Segments,
};

use super::bucket::BenchBucket;
use super::objects::{is_success, method, write_number};
use super::s3::{S3Client, S3Response};

/// How often progress is told and the wish to end looked at.
const TICK: Duration = Duration::from_millis(50);

/// Histograms are long: workers share so many.
const TALLIES: u32 = 16;

/// Objects that are tried one after another before others are waited for, and how long that is done.
const TRIES: u32 = 256;
const WAIT: Duration = Duration::from_millis(1);
const WAITS_MAX: u32 = 10_000;

/// Operations before a share of failures means something, and the share: one in so many.
const FAILURES_MIN: u64 = 20;
const FAILURES_ONE_IN: u64 = 5;

/// A load on a bucket.
#[derive(Clone, Debug)]
pub struct ObjectsPlan {
    /// The bucket, and the folder in it.
    pub bucket: Arc<BenchBucket>,
    /// Whether the folder may hold objects already.
    pub may_hold: bool,
    /// What is written before.
    pub prepares: Vec<Arc<WorkSpec>>,
    /// Objects of these, and about how many bytes.
    pub prepared: (u64, u64),
    /// The load, whose time and number of workers the plan has.
    pub main: Arc<WorkSpec>,
    /// What each worker reads a stream of, where it is a reader of such: with a rate its operations are not due at even
    /// times then.
    pub segments: Option<Segments>,
}

/// The workers.
pub(super) struct Crowd<'a> {
    plan: &'a ObjectsPlan,
    load: LoadSpec,
    workers: RefCell<Vec<Worker<'a>>>,
    /// The first failure of all phases.
    complaint: RefCell<Option<String>>,
}

impl<'a> Crowd<'a> {
    /// Sees whether the bucket can be had.
    pub(super) fn start(plan: &'a ObjectsPlan, load: LoadSpec) -> Result<Self> {
        let is_first = plan.bucket.ledger.objects().is_empty();
        plan.bucket.check(plan.may_hold || !is_first)?;
        let main = Arc::new(WorkSpec { workers: load.jobs * load.depth, ..(*plan.main).clone() });
        let together = SharedCursors::new(&main);
        let worker = |number| Worker {
            bucket: &plan.bucket,
            main: Arc::clone(&main),
            verifies: load.verify || main.operations.iter().any(|operation| operation.verifies),
            client: S3Client::new(&plan.bucket.server),
            mission: WorkerPlan::new(&main, number, load.seed, &together),
            number,
            writes: 0,
        };
        let workers = (0..main.workers).map(worker).collect();
        Ok(Self { plan, load, workers: RefCell::new(workers), complaint: RefCell::default() })
    }

    /// The first of the failures that were few enough to go on.
    pub(super) fn complaint(&self) -> Option<String> {
        self.complaint.borrow().clone()
    }

    /// Runs a phase of all workers; what they measured together.
    pub(super) fn run(&self, phase: JobPhase, watch: &Progress, name: &str) -> Result<Measurement> {
        let mut workers = self.workers.borrow_mut();
        for worker in workers.iter_mut() {
            // A server may have closed what was idle; and connecting is not what is measured.
            let host = &self.plan.bucket.server.host;
            let connected = worker.client.connect();
            connected
                .map_err(|error| Failure::new(format!("cannot reach http://{host}: {error}")))?;
        }
        let course = PhaseRun::new(self, phase);
        let done = thread::scope(|scope| -> Result<()> {
            let mut threads = Vec::new();
            for worker in workers.iter_mut() {
                let thread = thread::Builder::new().name(format!("s3 {}", worker.number));
                match thread.spawn_scoped(scope, || worker.work(&course)) {
                    Ok(thread) => threads.push(thread),
                    Err(error) => {
                        course.is_over.store(true, Ordering::Relaxed);
                        return Err(Failure::new(format!("start a thread: {error}")));
                    }
                }
            }
            while !threads.iter().all(thread::ScopedJoinHandle::is_finished) {
                if watch.is_stopped() {
                    course.is_over.store(true, Ordering::Relaxed);
                }
                watch.say(course.progress(name));
                thread::park_timeout(TICK);
            }
            for thread in threads {
                if let Err(panic) = thread.join() {
                    std::panic::resume_unwind(panic);
                }
            }
            Ok(())
        });
        done?;
        let measured = course.close(watch.is_stopped())?;
        if let Some(first) = lock(&course.first_failure).take() {
            self.complaint.borrow_mut().get_or_insert(first);
        }
        Ok(measured)
    }
}

/// A phase that runs.
struct PhaseRun {
    phase: JobPhase,
    began: Instant,
    load: LoadSpec,
    segments: Option<Segments>,
    /// Of phases in order: what is written, what is read back, and how much that is.
    prepares: Vec<(Arc<WorkSpec>, Arc<SharedCursors>)>,
    read_back: Mutex<std::vec::IntoIter<(String, HeldContent)>>,
    count: Option<u64>,
    done: AtomicU64,
    failures: AtomicU64,
    is_over: AtomicBool,
    tallies: Vec<Mutex<Measurement>>,
    first_failure: Mutex<Option<String>>,
    /// What ends the run: an object that is not what it should be.
    wrong: Mutex<Option<Failure>>,
}

impl PhaseRun {
    fn new(crowd: &Crowd<'_>, phase: JobPhase) -> Self {
        let (plan, workers) = (crowd.plan, crowd.load.jobs * crowd.load.depth);
        let of_workers = |work: &Arc<WorkSpec>| {
            let work = WorkSpec { workers, ..(**work).clone() };
            let together = SharedCursors::new(&work);
            (Arc::new(work), together)
        };
        let (mut prepares, mut read_back, mut count) = (Vec::new(), Vec::new(), None);
        match phase {
            JobPhase::Load { .. } => {}
            JobPhase::Fill => {
                prepares = plan.prepares.iter().map(of_workers).collect();
                count = Some(plan.prepared.0);
            }
            JobPhase::ReadBack => {
                read_back = plan.bucket.ledger.objects();
                count = Some(read_back.len() as u64);
            }
        }
        Self {
            phase,
            began: Instant::now(),
            load: crowd.load,
            segments: plan.segments,
            prepares,
            read_back: Mutex::new(read_back.into_iter()),
            count,
            done: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            tallies: (0..TALLIES.min(workers)).map(|_| Mutex::default()).collect(),
            first_failure: Mutex::new(None),
            wrong: Mutex::new(None),
        }
    }

    /// Time before the window, and until its end, in ns.
    fn window(&self) -> (u64, u64) {
        match self.phase {
            JobPhase::Load { ramp_ns, duration_ns } => (ramp_ns, ramp_ns + duration_ns),
            JobPhase::Fill | JobPhase::ReadBack => (0, u64::MAX),
        }
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    fn passed_ns(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn tally(&self, worker: u32) -> MutexGuard<'_, Measurement> {
        lock(&self.tallies[worker as usize % self.tallies.len()])
    }

    fn progress(&self, name: &str) -> String {
        let done = self.done.load(Ordering::Relaxed);
        let rate = done as f64 / self.began.elapsed().as_secs_f64().max(0.001);
        match self.count {
            Some(count) => format!("{name}  {done} of {count} objects  {rate:.0} objects/s"),
            None => format!("{name}  {rate:.0} operations/s"),
        }
    }

    fn fail(&self, bad: Bad) {
        match bad {
            Bad::Refused(why) => {
                let failures = self.failures.fetch_add(1, Ordering::Relaxed) + 1;
                lock(&self.first_failure).get_or_insert(why);
                // Nothing is missing of what is written before, and nothing of what is read back.
                let is_whole = !matches!(self.phase, JobPhase::Load { .. });
                if is_whole || failures >= FAILURES_MIN && self.is_failing() {
                    self.is_over.store(true, Ordering::Relaxed);
                }
            }
            Bad::Wrong(why) => {
                let hint =
                    "nothing else may write to the folder; else the server lost or damaged data";
                lock(&self.wrong).get_or_insert(Failure::new(why).hint(hint));
                self.is_over.store(true, Ordering::Relaxed);
            }
        }
    }

    fn is_failing(&self) -> bool {
        let failures = self.failures.load(Ordering::Relaxed);
        failures * FAILURES_ONE_IN > failures + self.done.load(Ordering::Relaxed)
    }

    /// What all workers measured.
    fn close(&self, is_stopped: bool) -> Result<Measurement> {
        if let Some(wrong) = lock(&self.wrong).take() {
            return Err(wrong);
        }
        let failures = self.failures.load(Ordering::Relaxed);
        let is_whole = !matches!(self.phase, JobPhase::Load { .. });
        if failures > 0 && (is_whole || self.is_failing()) {
            let first = lock(&self.first_failure).take().unwrap_or_default();
            let done = self.done.load(Ordering::Relaxed);
            return Err(Failure::new(format!(
                "{failures} operations failed, {done} did not: {first}"
            )));
        }
        let mut all = Measurement { failures, ..Measurement::default() };
        self.tallies.iter().for_each(|tally| all.merge_job(&lock(tally)));
        let (begin_ns, end_ns) = self.window();
        // Workers may have ended with what was due in time and answered late.
        let passed_ns = self.passed_ns();
        let end_ns = if is_stopped || end_ns == u64::MAX { passed_ns.min(end_ns) } else { end_ns };
        all.window_ns = end_ns.saturating_sub(begin_ns);
        Ok(all)
    }
}

/// Why an operation is not what it should be.
enum Bad {
    /// It failed.
    Refused(String),
    /// It succeeded, with something else than what was written.
    Wrong(String),
}

/// What a worker may do, as the ledger says.
enum ObjectClaim {
    Read { object: String, write: u64, size_bytes: u64 },
    Write { object: String, size_bytes: u64, part_bytes: Option<u64> },
    Delete { object: String },
    List { container: String },
}

impl ObjectClaim {
    fn kind(&self) -> OperationKind {
        match self {
            Self::Read { .. } => OperationKind::Read,
            Self::Write { .. } => OperationKind::Write,
            Self::Delete { .. } => OperationKind::Delete,
            Self::List { .. } => OperationKind::List,
        }
    }
}

/// A thread with a connection.
struct Worker<'a> {
    bucket: &'a BenchBucket,
    main: Arc<WorkSpec>,
    verifies: bool,
    client: S3Client,
    mission: WorkerPlan,
    number: u32,
    writes: u64,
}

impl Worker<'_> {
    fn work(&mut self, course: &PhaseRun) {
        match course.phase {
            JobPhase::Load { .. } => self.load(course),
            JobPhase::Fill => self.fill(course),
            JobPhase::ReadBack => self.read_back(course),
        }
    }

    fn fill(&mut self, course: &PhaseRun) {
        for (work, together) in &course.prepares {
            let mut mission = WorkerPlan::new(work, self.number, u64::from(self.number), together);
            while !course.is_over() {
                let Some(Action { container, object, size_bytes, .. }) = mission.next_action()
                else {
                    break;
                };
                let object = format!("{container}/{object}");
                let part_bytes = work.operations.first().and_then(|one| one.part_bytes);
                let is_free = self.bucket.ledger.begin_write(&object);
                assert!(is_free, "each object is written once");
                let due_ns = course.passed_ns();
                self.perform(course, ObjectClaim::Write { object, size_bytes, part_bytes }, due_ns);
            }
        }
    }

    fn read_back(&mut self, course: &PhaseRun) {
        while !course.is_over() {
            let Some((object, held)) = lock(&course.read_back).next() else { return };
            let due_ns = course.passed_ns();
            match held {
                HeldContent::Body { write, size_bytes } => {
                    let begun = self.bucket.ledger.begin_read(&object);
                    assert!(begun.is_some(), "nobody writes any more");
                    self.perform(course, ObjectClaim::Read { object, write, size_bytes }, due_ns);
                }
                HeldContent::Nothing => match self.find_nothing(&object) {
                    Ok(()) => self.count(course, OperationKind::Read, 0, due_ns),
                    Err(bad) => course.fail(bad),
                },
                HeldContent::Unknown => {}
            }
        }
    }

    fn load(&mut self, course: &PhaseRun) {
        let (begin_ns, end_ns) = course.window();
        let pace = pace(&course.load, course.segments, self.number);
        let mut next = 0;
        while !course.is_over() {
            let due_ns = pace.due_ns(next);
            if course.passed_ns() >= end_ns || due_ns.is_some_and(|due_ns| due_ns >= end_ns) {
                break;
            }
            next += 1;
            let Some(action) = self.mission.next_action() else { return };
            if !due_ns.is_none_or(|due_ns| wait_until(course, due_ns)) {
                return;
            }
            // In a closed loop it is due now: what an object is waited for is the load's own doing.
            match self.claim(course, action) {
                Some(claim) => {
                    self.perform(course, claim, due_ns.unwrap_or_else(|| course.passed_ns()));
                }
                None => return,
            }
        }
        let end_ns = course.passed_ns().min(end_ns);
        for number in next.. {
            let Some(due_ns) = pace.due_ns(number).filter(|due_ns| *due_ns < end_ns) else { break };
            let Some(action) = self.mission.next_action() else { break };
            if due_ns >= begin_ns {
                course.tally(self.number).miss(kind(action.verb), end_ns - due_ns);
            }
        }
    }

    /// An object for the operation; none when time is over, or when there is none for long.
    fn claim(&mut self, course: &PhaseRun, mut action: Action) -> Option<ObjectClaim> {
        let ledger = &self.bucket.ledger;
        for _ in 0..WAITS_MAX {
            for _ in 0..TRIES {
                let object = format!("{}/{}", action.container, action.object);
                let size_bytes = action.size_bytes;
                let operation = self.main.operations.get(action.operation);
                let part_bytes = operation.and_then(|operation| operation.part_bytes);
                match action.verb {
                    Verb::Read => {
                        if let Some((write, size_bytes)) = ledger.begin_read(&object) {
                            return Some(ObjectClaim::Read { object, write, size_bytes });
                        }
                    }
                    Verb::Write => {
                        if let Some(object) = ledger.begin_write_of_removed() {
                            return Some(ObjectClaim::Write { object, size_bytes, part_bytes });
                        }
                        if ledger.begin_write(&object) {
                            return Some(ObjectClaim::Write { object, size_bytes, part_bytes });
                        }
                    }
                    Verb::Delete => {
                        if ledger.begin_delete(&object) {
                            return Some(ObjectClaim::Delete { object });
                        }
                    }
                    Verb::List => return Some(ObjectClaim::List { container: action.container }),
                    Verb::MakeContainer | Verb::RemoveContainer => {
                        unreachable!("loads have no works that do everything once")
                    }
                }
                action = self.mission.elsewhere(action);
            }
            if course.is_over() {
                return None;
            }
            thread::sleep(WAIT);
        }
        let what = match action.verb {
            Verb::Read => "could be read",
            Verb::Write => "could be written",
            _ => "could be removed",
        };
        let why = format!("for 10 s there was no object that {what}: give the load more objects");
        course.fail(Bad::Refused(why));
        None
    }

    /// Does it, and counts it.
    fn perform(&mut self, course: &PhaseRun, claim: ObjectClaim, due_ns: u64) {
        let kind = claim.kind();
        match self.act(claim) {
            Ok(bytes) => self.count(course, kind, bytes, due_ns),
            Err(bad) => {
                self.client.disconnect();
                course.fail(bad);
            }
        }
    }

    fn count(&self, course: &PhaseRun, kind: OperationKind, bytes: u64, due_ns: u64) {
        course.done.fetch_add(1, Ordering::Relaxed);
        let (begin_ns, answered_ns) = (course.window().0, course.passed_ns());
        if let Some(at_ns) = due_ns.checked_sub(begin_ns) {
            let latency_ns = answered_ns.saturating_sub(due_ns);
            course.tally(self.number).answer(kind, bytes, at_ns, latency_ns);
        }
    }

    /// Its bytes.
    fn act(&mut self, claim: ObjectClaim) -> std::result::Result<u64, Bad> {
        let ledger = &self.bucket.ledger;
        match claim {
            ObjectClaim::Read { object, write, size_bytes } => {
                let read = self.read(&object, write, size_bytes);
                ledger.end_read(&object);
                read
            }
            ObjectClaim::Write { object, size_bytes, part_bytes } => {
                self.writes += 1;
                let write = write_number(self.bucket.salt, self.number, self.writes);
                let written = self.write(&object, write, size_bytes, part_bytes);
                let held = match written {
                    Ok(_) => HeldContent::Body { write, size_bytes },
                    Err(_) => HeldContent::Unknown,
                };
                ledger.end_change(&object, held);
                written.map(|_| size_bytes)
            }
            ObjectClaim::Delete { object } => {
                let removed = self.remove(&object);
                ledger.end_change(
                    &object,
                    removed.as_ref().map_or(HeldContent::Unknown, |_| HeldContent::Nothing),
                );
                removed.map(|_| 0)
            }
            ObjectClaim::List { container } => {
                let (path, query) = (self.bucket.root(), self.bucket.listing(&container));
                let answered = self.client.ask("GET", &path, &query, |_| {});
                let told = |why: String| Bad::Refused(format!("list {path}?{query}: {why}"));
                let answered = answered.map_err(|error| told(error.to_string()))?;
                if answered.status == 200 { Ok(0) } else { Err(told(answered.why())) }
            }
        }
    }

    /// Reads an object, and looks whether it is what was written.
    fn read(&mut self, object: &str, write: u64, size_bytes: u64) -> std::result::Result<u64, Bad> {
        let path = self.bucket.path(object);
        let (bodies, verifies) = (&self.bucket.bodies, self.verifies);
        let (mut at, mut wrong_at) = (0, None);
        let answered = self.client.ask("GET", &path, "", |piece| {
            if verifies && wrong_at.is_none() {
                wrong_at = bodies.wrong_at(write, at, piece);
            }
            at += piece.len() as u64;
        });
        let answered = answered.map_err(|error| Bad::Refused(format!("GET {path}: {error}")))?;
        if answered.status == 404 {
            return Err(Bad::Wrong(format!(
                "{path} is not there, and was written: {}",
                answered.why()
            )));
        }
        if answered.status != 200 {
            return Err(Bad::Refused(format!("GET {path}: {}", answered.why())));
        }
        if answered.bytes != size_bytes {
            let what =
                format!("{path} has {} bytes, and {size_bytes} were written", answered.bytes);
            return Err(Bad::Wrong(what));
        }
        match wrong_at {
            None => Ok(size_bytes),
            Some(byte) => Err(Bad::Wrong(format!(
                "byte {byte} of {path} is not what its last write left there"
            ))),
        }
    }

    /// That an object that was removed is gone.
    fn find_nothing(&mut self, object: &str) -> std::result::Result<(), Bad> {
        let path = self.bucket.path(object);
        let answered = self.client.ask("GET", &path, "", |_| {});
        let answered = answered.map_err(|error| Bad::Refused(format!("GET {path}: {error}")))?;
        match answered.status {
            404 => Ok(()),
            200 => Err(Bad::Wrong(format!("{path} is there, and was removed"))),
            _ => Err(Bad::Refused(format!("GET {path}: {}", answered.why()))),
        }
    }

    /// Writes the body of a write, in parts where it is longer than one.
    fn write(
        &mut self,
        object: &str,
        write: u64,
        size_bytes: u64,
        part_bytes: Option<u64>,
    ) -> std::result::Result<(), Bad> {
        let (path, bodies) = (self.bucket.path(object), &self.bucket.bodies);
        let make = |at, into: &mut [u8]| bodies.fill(write, at, into);
        let answered = self.client.put(&path, size_bytes, part_bytes, make);
        judged(Verb::Write, &path, answered)
    }

    fn remove(&mut self, object: &str) -> std::result::Result<(), Bad> {
        let path = self.bucket.path(object);
        let answered = self.client.ask("DELETE", &path, "", |_| {});
        judged(Verb::Delete, &path, answered)
    }
}

fn judged(
    verb: Verb,
    path: &str,
    answered: io::Result<S3Response>,
) -> std::result::Result<(), Bad> {
    let told = |why: String| Bad::Refused(format!("{} {path}: {why}", method(verb)));
    let answered = answered.map_err(|error| told(error.to_string()))?;
    if is_success(verb, answered.status) { Ok(()) } else { Err(told(answered.why())) }
}

/// When operations of a worker are due: of readers of segments as often as these end, by chance.
fn pace(load: &LoadSpec, segments: Option<Segments>, worker: u32) -> Pace {
    let even = Pace::of_job(load.rate, worker, load.jobs * load.depth);
    even.spread(segments.map_or(0.0, Segments::spread))
}

/// Waits until an operation is due; whether nobody wants to stop.
fn wait_until(course: &PhaseRun, due_ns: u64) -> bool {
    loop {
        let now_ns = course.passed_ns();
        if now_ns >= due_ns {
            return true;
        }
        if course.is_over() {
            return false;
        }
        thread::sleep(Duration::from_nanos(due_ns - now_ns).min(TICK));
    }
}

fn kind(verb: Verb) -> OperationKind {
    match verb {
        Verb::Read => OperationKind::Read,
        Verb::List => OperationKind::List,
        Verb::Delete | Verb::RemoveContainer => OperationKind::Delete,
        Verb::Write | Verb::MakeContainer => OperationKind::Write,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_of_segments_do_not_march_in_step() {
        let load = LoadSpec { jobs: 100, depth: 1, rate: Some(10.0), ..LoadSpec::default() };
        let due_ns = |segments| {
            let pace = pace(&load, segments, 3);
            (1..4).map(|number| pace.due_ns(number).unwrap()).collect::<Vec<u64>>()
        };
        let even = [10_300_000_000, 20_300_000_000, 30_300_000_000];
        assert_eq!(due_ns(None), even);
        let spread = due_ns(Some(Segments { least_s: 8, most_s: 14 }));
        assert!(
            spread
                .iter()
                .zip(even)
                .all(|(one, even)| *one != even && one.abs_diff(even) < 1_500_000_000)
        );
    }
}
