//! Runs a workload of COSBench on S3 servers: stages one after another, in each its works side by side, in each a
//! thread for every worker.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use time::OffsetDateTime;
use varve_client::{Failure, Progress, Result};
use varve_stdx::checksum64;
use varve_tool_bench::DataSpec;
use varve_tool_bench::cosbench::{
    Action, SharedCursors, Tally, TallyLine, Verb, WorkEnd, WorkSpec, WorkerPlan, Workload,
    Workstage,
};
use varve_tool_bench::s3::Bodies;

use super::s3::{S3Client, S3Request, S3Server, S3Settings};

/// Operations before a share of failures means something.
const OPERATIONS_MIN: u64 = 100;

/// How often the wish to end is looked at while nothing is done.
const TICK: Duration = Duration::from_millis(50);

/// The server of a work: what is said on the command line, else what its settings say.
fn server(settings: &S3Settings, work: &WorkSpec) -> Result<S3Server> {
    settings.server(&format!("work {}", work.name), |key| work.storage.get(key).cloned())
}

/// Runs it, with bodies of `data`, until a work ends early or Ctrl-C; a line for each operation of what was run.
pub fn run_workload(
    workload: &Workload,
    settings: &S3Settings,
    data: &DataSpec,
) -> Result<Vec<TallyLine>> {
    let works = workload.stages.iter().flat_map(|stage| &stage.works);
    works
        .filter(|work| !work.operations.is_empty())
        .try_for_each(|work| server(settings, work).map(drop))?;
    let watch = Progress::open_ended();
    let mut lines = Vec::new();
    for (number, stage) in (1..).zip(&workload.stages) {
        let name = format!("s{number}-{}", stage.name);
        watch.say(name.clone());
        let done = run_stage(stage, &name, settings, data, &watch)?;
        let has_failed = done.iter().any(|line| line.failed.is_some());
        lines.extend(done);
        if has_failed || watch.is_stopped() {
            break;
        }
        let until = Instant::now() + Duration::from_secs(stage.closure_delay_s);
        while Instant::now() < until && !watch.is_stopped() {
            thread::sleep(TICK);
        }
    }
    watch.end();
    Ok(lines)
}

fn run_stage(
    stage: &Workstage,
    name: &str,
    settings: &S3Settings,
    data: &DataSpec,
    watch: &Progress,
) -> Result<Vec<TallyLine>> {
    let works: Vec<&WorkSpec> =
        stage.works.iter().filter(|work| !work.operations.is_empty()).collect();
    thread::scope(|scope| {
        let started: Vec<_> = works
            .into_iter()
            .map(|work| {
                let run = move || WorkRun::start(work, settings, data, watch)?.run(name);
                scope.spawn(run)
            })
            .collect();
        let mut lines = Vec::new();
        for work in started {
            match work.join() {
                Ok(done) => lines.extend(done?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(lines)
    })
}

/// A work under way: what its workers share.
struct WorkRun<'a> {
    work: Arc<WorkSpec>,
    server: S3Server,
    bodies: Bodies,
    watch: &'a Progress,
    together: Arc<SharedCursors>,
    begun: Instant,
    /// Tells its bodies from those of other runs.
    salt: u64,
    operations: AtomicU64,
    bytes: AtomicU64,
    failures: AtomicU64,
    is_over: AtomicBool,
    first_error: Mutex<Option<String>>,
}

impl<'a> WorkRun<'a> {
    fn start(
        work: &WorkSpec,
        settings: &S3Settings,
        data: &DataSpec,
        watch: &'a Progress,
    ) -> Result<Self> {
        Ok(Self {
            together: SharedCursors::new(work),
            server: server(settings, work)?,
            bodies: Bodies::new(*data),
            work: Arc::new(work.clone()),
            watch,
            begun: Instant::now(),
            salt: salt(),
            operations: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            first_error: Mutex::new(None),
        })
    }

    /// Its lines.
    fn run(&self, stage: &str) -> Result<Vec<TallyLine>> {
        let mut tallies = vec![Tally::default(); self.work.operations.len()];
        let joined: Vec<_> = thread::scope(|scope| {
            let workers: Vec<_> = (0..self.work.workers)
                .map(|number| {
                    let worker = Worker::new(self, number);
                    thread::Builder::new().spawn_scoped(scope, move || worker.run())
                })
                .collect();
            workers.into_iter().map(|worker| worker.map(thread::ScopedJoinHandle::join)).collect()
        });
        for worker in joined {
            match worker {
                Ok(Ok(done)) => {
                    for (all, one) in tallies.iter_mut().zip(&done) {
                        all.merge(one);
                    }
                }
                Ok(Err(panic)) => std::panic::resume_unwind(panic),
                Err(error) => return Err(Failure::new(format!("start a thread: {error}"))),
            }
        }
        let seconds = match self.work.end {
            WorkEnd::Runtime(seconds) => self.measured_s(seconds),
            _ => self.begun.elapsed().as_secs_f64(),
        };
        let failed = self.is_failing(1).then(|| self.why());
        let lines = self.work.operations.iter().zip(tallies).map(|(operation, tally)| TallyLine {
            stage: stage.to_owned(),
            name: self.work.name.clone(),
            kind: kind(operation.verb),
            seconds,
            tally,
            failed: failed.clone(),
        });
        Ok(lines.collect())
    }

    /// Length of the window that counts, of `runtime` s or less if the work ended before.
    fn measured_s(&self, runtime: u64) -> f64 {
        let passed = self.begun.elapsed().as_secs_f64() - self.work.ramp_up_s as f64;
        passed.clamp(0.0, runtime as f64)
    }

    /// Whether the next operation may begin; it counts as begun.
    fn take(&self) -> bool {
        if self.is_over.load(Ordering::Relaxed) || self.watch.is_stopped() {
            return false;
        }
        match self.work.end {
            WorkEnd::Runtime(seconds) => {
                let all = self.work.ramp_up_s + seconds + self.work.ramp_down_s;
                self.begun.elapsed() < Duration::from_secs(all)
            }
            WorkEnd::Operations(operations) => {
                return self.operations.fetch_add(1, Ordering::Relaxed) < operations;
            }
            WorkEnd::Bytes(bytes) => self.bytes.load(Ordering::Relaxed) < bytes,
            WorkEnd::Once => true,
        }
        .then(|| self.operations.fetch_add(1, Ordering::Relaxed))
        .is_some()
    }

    /// Whether an operation that began then counts.
    fn counts(&self, began: Instant) -> bool {
        let WorkEnd::Runtime(seconds) = self.work.end else { return true };
        let at = began.duration_since(self.begun);
        let ramp = Duration::from_secs(self.work.ramp_up_s);
        (ramp..ramp + Duration::from_secs(seconds)).contains(&at)
    }

    fn fail(&self, error: String) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        let mut first = self.first_error.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert(error);
        drop(first);
        if self.is_failing(OPERATIONS_MIN) {
            self.is_over.store(true, Ordering::Relaxed);
        }
    }

    /// Whether more operations failed than are accepted, of at least so many.
    fn is_failing(&self, operations_min: u64) -> bool {
        let (failures, all) =
            (self.failures.load(Ordering::Relaxed), self.operations.load(Ordering::Relaxed));
        let accepted = u128::from(self.work.failures_accepted);
        let is_more = u128::from(failures) * 1_000_000 > accepted * u128::from(all);
        failures > 0 && is_more && (accepted == 0 || all >= operations_min)
    }

    fn why(&self) -> String {
        let first = self.first_error.lock().unwrap_or_else(PoisonError::into_inner);
        first.clone().unwrap_or_default()
    }
}

/// A worker: one connection, one operation at a time.
struct Worker<'a> {
    run: &'a WorkRun<'a>,
    mission: WorkerPlan,
    client: S3Client,
    number: u32,
    writes: u64,
}

impl<'a> Worker<'a> {
    fn new(run: &'a WorkRun<'a>, number: u32) -> Self {
        Self {
            run,
            mission: WorkerPlan::new(&run.work, number, u64::from(number), &run.together),
            client: S3Client::new(&run.server),
            number,
            writes: 0,
        }
    }

    /// Works until the work is over; what it did of each operation.
    fn run(mut self) -> Vec<Tally> {
        let mut tallies = vec![Tally::default(); self.run.work.operations.len()];
        while self.run.take() {
            let Some(action) = self.mission.next_action() else { break };
            let began = Instant::now();
            let done = self.act(&action);
            let tally = self.run.counts(began).then(|| tallies.get_mut(action.operation)).flatten();
            match done {
                Ok((bytes, processing)) => {
                    self.run.bytes.fetch_add(bytes, Ordering::Relaxed);
                    if let Some(tally) = tally {
                        tally.succeed(bytes, us(began.elapsed()), us(processing));
                    }
                }
                Err(error) => {
                    self.client.disconnect();
                    if let Some(tally) = tally {
                        tally.fail();
                    }
                    self.run.fail(error);
                }
            }
        }
        tallies
    }

    /// Does it; its bytes, and the time until its answer began.
    fn act(&mut self, action: &Action) -> std::result::Result<(u64, Duration), String> {
        let path = match action.object.as_str() {
            "" => format!("/{}", action.container),
            object => format!("/{}/{object}", action.container),
        };
        let method = method(action.verb);
        let query = if action.verb == Verb::List { "list-type=2" } else { "" };
        let request = S3Request { method, path: &path, query, length: action.size_bytes };
        self.writes += 1;
        let write = write_number(self.run.salt, self.number, self.writes);
        let bodies = &self.run.bodies;
        let make = |at, into: &mut [u8]| bodies.fill(write, at, into);
        let answered = match action.verb {
            Verb::Write => {
                let operation = self.run.work.operations.get(action.operation);
                let part_bytes = operation.and_then(|operation| operation.part_bytes);
                self.client.put(&path, action.size_bytes, part_bytes, make)
            }
            _ => self.client.call(request, make, |_| {}),
        };
        let answered = answered.map_err(|error| format!("{method} {path}: {error}"))?;
        if !is_success(action.verb, answered.status) {
            return Err(format!("{method} {path}: {}", answered.why()));
        }
        let is_read = action.verb == Verb::Read;
        Ok((if is_read { answered.bytes } else { action.size_bytes }, answered.processing))
    }
}

/// A number of a write that no other has: of no worker, and of no run with another salt.
pub(super) fn write_number(salt: u64, worker: u32, write: u64) -> u64 {
    checksum64(&[salt, u64::from(worker), write].map(u64::to_le_bytes).concat())
}

/// A salt that no other run has.
pub(super) fn salt() -> u64 {
    let now = OffsetDateTime::now_utc().unix_timestamp_nanos();
    checksum64(&[now, i128::from(std::process::id())].map(i128::to_le_bytes).concat())
}

pub(super) fn method(verb: Verb) -> &'static str {
    match verb {
        Verb::MakeContainer | Verb::Write => "PUT",
        Verb::RemoveContainer | Verb::Delete => "DELETE",
        Verb::Read | Verb::List => "GET",
    }
}

/// As COSBench calls it.
pub(super) fn kind(verb: Verb) -> &'static str {
    match verb {
        Verb::MakeContainer => "init",
        Verb::RemoveContainer => "dispose",
        Verb::Read => "read",
        Verb::Write => "write",
        Verb::Delete => "delete",
        Verb::List => "list",
    }
}

/// Containers that are there already, or gone already, are what was asked for.
pub(super) fn is_success(verb: Verb, status: u16) -> bool {
    match verb {
        Verb::MakeContainer => matches!(status, 200 | 409),
        Verb::RemoveContainer => matches!(status, 200 | 204 | 404),
        Verb::Delete => matches!(status, 200 | 204),
        Verb::Read | Verb::Write | Verb::List => status == 200,
    }
}

fn us(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
