//! Runs a load: a thread with a loop for each job, and phases that all of them begin together.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use varve_client::age::now_unix_ms;
use varve_client::{Client, Failure, Progress, Result};
use varve_media::Disk;
use varve_reactor::{Loop, LoopConfig, Reactor};
use varve_tool_bench::{
    Error, Job, JobPart, JobPhase, JobWatch, LoadSpec, Measurement, Target, has_settled,
};
use varve_types::ErrorKind;

use super::background::Background;
use super::ballast::PoolFill;
use super::clients;
use super::crowd::Crowd;
use super::engine::EngineGoal;
use super::fio::FioGoal;
use super::health::HealthWatch;
use super::outcome::{Repeat, RunOutcome, Settlement};
use super::plan::{LoadTarget, RunPlan};
use super::rados::RadosGoal;
use super::sampler::Sampler;
use super::search::Search;
use super::volumes::{Fleet, TakenSnapshots};

/// How often progress is told and the wish to end looked at.
const TICK: Duration = Duration::from_millis(100);

/// Length of a round whose rate is compared with others, in ns.
const ROUND_NS: u64 = 1_000_000_000;

type JobResult<T> = varve_tool_bench::Result<T>;

/// Why nothing was measured.
enum MeasureError {
    /// The target could not be had for so many jobs.
    NotHad(Failure),
    Failed(Failure),
}

impl From<Failure> for MeasureError {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

type Measuring = std::result::Result<RunOutcome, MeasureError>;

/// Runs them one after another, and behind one that a number of jobs is looked for with those that the search takes.
/// Ctrl-C ends them early, with what was measured until then: what was run, and what came of it, of one at least.
pub fn run(plans: &[RunPlan], client: &Client) -> Result<Vec<(RunPlan, RunOutcome)>> {
    let watch = Progress::open_ended();
    let ballast = PoolFill::new(client.clone());
    let around = RunContext { client, watch: &watch, ballast: &ballast };
    let mut outcomes = Vec::new();
    let measured = plans.iter().try_for_each(|plan| measure_all(plan, around, &mut outcomes));
    let lightened = ballast.remove();
    // What a run wrote is removed however it ended.
    let cleaned = match plans.first().map(|plan| &plan.goal) {
        Some(LoadTarget::Objects(plan)) => plan.bucket.clean(&watch),
        Some(LoadTarget::Rados(goal)) => {
            watch.say("remove the objects of this run");
            goal.clean()
        }
        Some(LoadTarget::Engine(goal)) => {
            watch.say("leave a clean pool");
            goal.close()
        }
        Some(LoadTarget::Disk(_) | LoadTarget::Fio(_) | LoadTarget::Volumes(_)) | None => Ok(()),
    };
    watch.end();
    measured.and(cleaned).and(lightened)?;
    outcomes.retain(|(_, outcome)| !outcome.repeats.is_empty());
    if outcomes.is_empty() {
        return Err(Failure::new("interrupted before anything was measured"));
    }
    Ok(outcomes)
}

/// What a run has around it.
#[derive(Clone, Copy)]
struct RunContext<'a> {
    client: &'a Client,
    watch: &'a Progress,
    ballast: &'a PoolFill,
}

/// Measures a load, and those that follow from it.
fn measure_all(
    plan: &RunPlan,
    around: RunContext<'_>,
    outcomes: &mut Vec<(RunPlan, RunOutcome)>,
) -> Result<()> {
    let (mut search, mut is_search) = (Search::default(), false);
    let mut next = Some(plan.clone());
    while let Some(plan) = next.filter(|_| !around.watch.is_stopped()) {
        let outcome = match (measure(&plan, around), outcomes.last_mut()) {
            (Ok(outcome), _) => outcome,
            // What was measured until then is not lost because a target does not take more.
            (Err(MeasureError::NotHad(failure)), Some((_, last))) if is_search => {
                let text =
                    format!("{} volumes could not be had: {}", plan.load.jobs, failure.what());
                last.notes.push(("search".to_owned(), text));
                return if plan.in_step { clients::give_up() } else { Ok(()) };
            }
            (Err(MeasureError::NotHad(failure) | MeasureError::Failed(failure)), _) => {
                return Err(failure);
            }
        };
        next = search.next(&plan, &outcome)?;
        is_search = true;
        outcomes.push((plan, outcome));
    }
    Ok(())
}

fn measure(plan: &RunPlan, around: RunContext<'_>) -> Measuring {
    let RunContext { client, watch, .. } = around;
    let setting = plan.setting.as_ref().filter(|_| !plan.is_set);
    setting.map_or(Ok(()), |setting| setting.make(watch))?;
    watch.say(format!("open {}", plan.goal));
    match &plan.goal {
        LoadTarget::Disk(target) => {
            measure_crew(plan, Places::One(OpenTarget::Disk(target.clone())), around)
        }
        LoadTarget::Rados(goal) => {
            measure_crew(plan, Places::One(OpenTarget::Rados(goal.clone())), around)
        }
        LoadTarget::Engine(goal) => {
            goal.start()?;
            measure_crew(plan, Places::One(OpenTarget::Engine(goal.clone())), around)
        }
        LoadTarget::Volumes(goal) => {
            let fill = |target: &Target, load: LoadSpec| fill_whole(plan, target, load, watch);
            let fleet = Fleet::make(*goal, &plan.load, client.clone(), watch, &fill);
            let fleet = fleet.map_err(MeasureError::NotHad)?;
            let measured = measure_fleet(plan, &fleet, around);
            let removed = fleet.remove(watch);
            let outcome = measured?;
            removed?;
            Ok(outcome)
        }
        LoadTarget::Fio(goal) => {
            FioGoal::check()?;
            let (load, size_bytes) = (&plan.load, plan.size_bytes);
            let run = |phase: JobPhase, name: &str| goal.run(load, size_bytes, phase, watch, name);
            let mut outcome = measure_phases(plan, around, &run)?;
            outcome.size_bytes = plan.size_bytes.unwrap_or(0);
            Ok(outcome)
        }
        LoadTarget::Objects(objects) => {
            let crowd = Crowd::start(objects, plan.load)?;
            let mut outcome =
                measure_phases(plan, around, &|phase, name| crowd.run(phase, watch, name))?;
            outcome.size_bytes = objects.prepared.1;
            outcome.complaint = crowd.complaint();
            Ok(outcome)
        }
    }
}

fn measure_crew(plan: &RunPlan, places: Places, around: RunContext<'_>) -> Measuring {
    let watch = around.watch;
    let crew = Crew::start(plan, &places).map_err(MeasureError::NotHad)?;
    let run = |phase: JobPhase, name: &str| crew.run(phase, watch, name);
    let measured = measure_phases(plan, around, &run);
    let size_bytes = crew.size_bytes;
    crew.end();
    measured.map(|outcome| RunOutcome { size_bytes, ..outcome })
}

/// A load on volumes of its own, and what is done with them meanwhile.
fn measure_fleet(plan: &RunPlan, fleet: &Fleet, around: RunContext<'_>) -> Measuring {
    let watch = around.watch;
    let crew = Crew::start(plan, &Places::Each(fleet.targets.clone()));
    let crew = crew.map_err(MeasureError::NotHad)?;
    let taken = RefCell::new(TakenSnapshots::default());
    let run = |phase: JobPhase, name: &str| {
        let is_load = matches!(phase, JobPhase::Load { .. });
        let taker = if is_load { fleet.take_snapshots()? } else { None };
        let measured = crew.run(phase, watch, name);
        if let Some(more) = taker.map(Background::end) {
            let mut taken = taken.borrow_mut();
            taken.snapshots += more.snapshots;
            taken.clones += more.clones;
            taken.failures += more.failures;
        }
        measured
    };
    let mut outcome = measure_phases(plan, around, &run)?;
    outcome.size_bytes = crew.size_bytes;
    crew.end();
    let TakenSnapshots { snapshots, clones, failures } = *taken.borrow();
    if snapshots + failures > 0 {
        let text =
            format!("{snapshots} and {clones} clones were made meanwhile, {failures} failed");
        outcome.notes.push(("snapshots".to_owned(), text));
    }
    let reduced = fleet.reduction()?.map(|text| ("reduced".to_owned(), text));
    outcome.notes.extend(reduced);
    Ok(outcome)
}

/// Writes a target once as a whole.
fn fill_whole(plan: &RunPlan, target: &Target, load: LoadSpec, watch: &Progress) -> Result<()> {
    let whole = RunPlan { load, from_bytes: 0, size_bytes: None, ..plan.clone() };
    let crew = Crew::start(&whole, &Places::One(OpenTarget::Disk(target.clone())))?;
    let filled = crew.run(JobPhase::Fill, watch, "fill");
    crew.end();
    filled.map(drop)
}

/// Bytes of a target.
pub fn size_of(target: &Target) -> Result<u64> {
    let event_loop = Loop::new(LoopConfig::default());
    let mut event_loop = event_loop.map_err(|error| Failure::new(format!("io_uring: {error}")))?;
    let (reactor, place) = (event_loop.handle(), OpenTarget::Disk(target.clone()));
    event_loop.run(async move { place.open(&reactor).await.map(|disk| disk.size()) })
}

/// What the jobs of a crew open.
enum Places {
    /// All of them the same one, of which each has a part.
    One(OpenTarget),
    /// Each its own.
    Each(Vec<Target>),
}

/// What a job opens.
#[derive(Clone)]
enum OpenTarget {
    Disk(Target),
    Engine(EngineGoal),
    Rados(RadosGoal),
}

impl Places {
    fn of_job(&self, job: u32) -> (OpenTarget, bool) {
        match self {
            Self::One(place) => (place.clone(), false),
            Self::Each(targets) => (OpenTarget::Disk(targets[job as usize].clone()), true),
        }
    }
}

impl OpenTarget {
    async fn open(&self, reactor: &Reactor) -> Result<Rc<dyn Disk>> {
        match self {
            Self::Engine(goal) => goal.open(reactor).await,
            Self::Disk(target) => target.open(reactor).map_err(|error| to_failure(&error)),
            Self::Rados(goal) => goal.open(),
        }
    }
}

impl fmt::Display for OpenTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disk(target) => target.fmt(f),
            Self::Engine(goal) => write!(f, "engine:{}", goal.volume),
            Self::Rados(goal) => write!(f, "rados:{}", goal.pool),
        }
    }
}

/// Runs a phase of that name to its end.
type Run<'a> = &'a dyn Fn(JobPhase, &str) -> Result<Measurement>;

fn measure_phases(plan: &RunPlan, around: RunContext<'_>, run: Run<'_>) -> Measuring {
    let watch = around.watch;
    if plan.fill {
        run(JobPhase::Fill, "fill")?;
    }
    let fill = |target: &Target, load: LoadSpec| fill_whole(plan, target, load, watch);
    let percent = plan.pool_percent.filter(|_| !watch.is_stopped());
    let full = percent.map(|percent| around.ballast.reach(percent, watch, &fill)).transpose()?;
    // What clients start asks for all of them.
    let health = match plan.in_step {
        true => None,
        false => HealthWatch::begin(plan, around.client)?,
    };
    let settling = match plan.settle_ms {
        None => Settlement::NotAsked,
        Some(most_ms) => settle(run, most_ms, watch)?,
    };
    if plan.in_step && !clients::step()? {
        return Err(MeasureError::NotHad(Failure::new("another client did not get its own")));
    }
    plan.at_unix_ms.map_or(Ok(()), |at| wait_until(at, watch))?;
    let repeats = measure_repeats(plan, run, around)?;
    if plan.in_step {
        clients::measured()?;
    }
    let mut outcome = RunOutcome {
        size_bytes: 0,
        repeats,
        settling,
        health: health.map(HealthWatch::end),
        verified: None,
        complaint: None,
        notes: full.map(|text| ("filled".to_owned(), text)).into_iter().collect(),
        is_interrupted: false,
    };
    if plan.load.verify && !watch.is_stopped() {
        let read = run(JobPhase::ReadBack, "read back")?;
        outcome.verified = (!watch.is_stopped()).then_some(read.reads.operations);
    }
    outcome.is_interrupted = watch.is_stopped();
    Ok(outcome)
}

/// Waits until a point of time, so that several hosts begin together.
fn wait_until(at_unix_ms: u64, watch: &Progress) -> Result<()> {
    let late_ms = now_unix_ms().saturating_sub(at_unix_ms);
    if late_ms > 0 {
        let what = format!("everything was ready {} s after --at", late_ms as f64 / 1000.0);
        return Err(Failure::new(what).hint("name a later time: opening and filling take theirs"));
    }
    watch.say("wait for --at");
    while !watch.is_stopped() {
        let left_ms = at_unix_ms.saturating_sub(now_unix_ms());
        if left_ms == 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(left_ms).min(TICK));
    }
    Ok(())
}

/// Does the load, round by round, until its rate has settled.
fn settle(run: Run<'_>, most_ms: u64, watch: &Progress) -> Result<Settlement> {
    let began = Instant::now();
    let passed_ms = || u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    let mut rates = Vec::new();
    while passed_ms() < most_ms && !watch.is_stopped() {
        let round = JobPhase::Load { ramp_ns: 0, duration_ns: ROUND_NS };
        let measured = run(round, "settle")?;
        rates.push(measured.per_second(measured.operations()));
        if has_settled(&rates) {
            return Ok(Settlement::After { ms: passed_ms() });
        }
    }
    Ok(Settlement::Never { ms: passed_ms() })
}

fn measure_repeats(plan: &RunPlan, run: Run<'_>, around: RunContext<'_>) -> Result<Vec<Repeat>> {
    let RunContext { client, watch, .. } = around;
    // What clients start looks for all of them.
    let sampler = (!plan.in_step)
        .then(|| Sampler::start(plan, vec![std::process::id()], client))
        .transpose()?;
    let phase = JobPhase::Load {
        ramp_ns: plan.ramp_ms * 1_000_000,
        duration_ns: plan.duration_ms * 1_000_000,
    };
    let mut repeats = Vec::new();
    for repeat in 1..=plan.repeats {
        if watch.is_stopped() {
            break;
        }
        let begin = Instant::now() + Duration::from_millis(plan.ramp_ms);
        let began_unix_ms = now_unix_ms() + plan.ramp_ms;
        let measured = run(phase, &format!("run {repeat} of {}", plan.repeats))?;
        if measured.window_ns > 0 {
            let end = begin + Duration::from_nanos(measured.window_ns);
            let usage = sampler.as_ref().and_then(|sampler| sampler.within(begin, end));
            let timeline = sampler.as_ref().map(|sampler| sampler.timeline(begin, end));
            let timeline = timeline.unwrap_or_default();
            repeats.push(Repeat { measured, began_unix_ms, usage, timeline });
        }
    }
    sampler.into_iter().for_each(|mut sampler| sampler.end());
    Ok(repeats)
}

/// The threads of all jobs.
struct Crew {
    /// Tells each job its next phase.
    phases: Vec<Sender<JobPhase>>,
    answers: Receiver<JobResult<Measurement>>,
    watches: Vec<Arc<JobWatch>>,
    threads: Vec<JoinHandle<()>>,
    size_bytes: u64,
}

impl Crew {
    /// Starts a thread for each job, and waits until all of them have opened the target.
    fn start(plan: &RunPlan, places: &Places) -> Result<Self> {
        let (ready_to, ready) = mpsc::channel();
        let (answer_to, answers) = mpsc::channel();
        let (mut phases, mut watches, mut threads) = (Vec::new(), Vec::new(), Vec::new());
        for job in 0..plan.load.jobs {
            let (phase_to, phases_of_job) = mpsc::channel();
            let watch = Arc::new(JobWatch::default());
            let (place, is_own) = places.of_job(job);
            let member = Member {
                place,
                is_own,
                part: (plan.from_bytes, plan.size_bytes),
                load: plan.load,
                job,
                watch: Arc::clone(&watch),
                phases: phases_of_job,
            };
            let (ready_to, answer_to) = (ready_to.clone(), answer_to.clone());
            let thread = std::thread::Builder::new().name(format!("job {job}"));
            let spawned = thread.spawn(move || member.work(ready_to, &answer_to));
            threads
                .push(spawned.map_err(|error| Failure::new(format!("start a thread: {error}")))?);
            phases.push(phase_to);
            watches.push(watch);
        }
        drop(ready_to);
        let opened: Vec<Result<u64>> = ready.iter().collect();
        assert_eq!(opened.len(), threads.len(), "every job says whether it is ready");
        let crew = Self { phases, answers, watches, threads, size_bytes: 0 };
        match opened.into_iter().collect::<Result<Vec<u64>>>() {
            Ok(sizes) => Ok(Self { size_bytes: sizes.into_iter().min().unwrap_or(0), ..crew }),
            Err(failure) => {
                // Nobody has the target open when this is told.
                crew.end();
                Err(failure)
            }
        }
    }

    /// Runs a phase of all jobs; what they measured together.
    fn run(&self, phase: JobPhase, watch: &Progress, name: &str) -> Result<Measurement> {
        for job in &self.phases {
            job.send(phase).map_err(|_| Failure::new("a job ended before its time"))?;
        }
        let (began, done_before) = (Instant::now(), self.operations());
        let mut all = Measurement::default();
        let mut failed = None;
        let mut left = self.phases.len();
        while left > 0 {
            match self.answers.recv_timeout(TICK) {
                Ok(answer) => {
                    left -= 1;
                    match answer {
                        Ok(measured) => all.merge_job(&measured),
                        Err(error) => failed = failed.or(Some(error)),
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Failure::new("a job ended before its time"));
                }
            }
            if failed.is_some() || watch.is_stopped() {
                self.watches.iter().for_each(|watch| watch.stop());
            }
            let done = (self.operations() - done_before) as f64;
            let rate = done / began.elapsed().as_secs_f64().max(0.001);
            watch.say(format!("{name}  {rate:.0} operations/s"));
        }
        failed.map_or(Ok(all), |error| Err(to_failure(&error)))
    }

    fn operations(&self) -> u64 {
        self.watches.iter().map(|watch| watch.operations()).sum()
    }

    fn end(self) {
        drop(self.phases);
        for thread in self.threads {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

/// What the thread of a job knows.
struct Member {
    place: OpenTarget,
    /// Whether it has the place for itself.
    is_own: bool,
    /// Where the part that all jobs use begins, and its bytes.
    part: (u64, Option<u64>),
    load: LoadSpec,
    job: u32,
    watch: Arc<JobWatch>,
    phases: Receiver<JobPhase>,
}

impl Member {
    fn work(self, ready: Sender<Result<u64>>, answers: &Sender<JobResult<Measurement>>) {
        let mut event_loop = match Loop::new(LoopConfig::default()) {
            Ok(event_loop) => event_loop,
            Err(error) => {
                let _nobody_waits = ready.send(Err(Failure::new(format!("io_uring: {error}"))));
                return;
            }
        };
        let reactor = event_loop.handle();
        let Self { place, is_own, part, load, job, watch, phases } = self;
        let whole = LoadSpec { jobs: if is_own { 1 } else { load.jobs }, ..load };
        let number = if is_own { 0 } else { job };
        let opened = event_loop.run(async move {
            let (from_bytes, size_bytes) = part;
            let (disk, size_bytes) = open(&reactor, &place, from_bytes, size_bytes).await?;
            let part = whole.part_of_job(number, from_bytes, size_bytes);
            let part = JobPart { job, ..part.map_err(|error| to_failure(&error))? };
            let job =
                Job::new(&reactor, disk, &load, part, watch).map_err(|error| to_failure(&error))?;
            Ok((job, size_bytes))
        });
        let job = match opened {
            Ok((job, size_bytes)) => {
                let _nobody_waits = ready.send(Ok(size_bytes));
                drop(ready); // Its other end waits until all are gone.
                job
            }
            Err(failure) => {
                let _nobody_waits = ready.send(Err(failure));
                return;
            }
        };
        for phase in phases {
            let job = job.clone();
            let measured = event_loop.run(async move { job.run(phase).await });
            if answers.send(measured).is_err() {
                return;
            }
        }
    }
}

/// A disk, and how many bytes of it from `from_bytes` on are used: `size_bytes`, else all that follow.
async fn open(
    reactor: &Reactor,
    place: &OpenTarget,
    from_bytes: u64,
    size_bytes: Option<u64>,
) -> Result<(Rc<dyn Disk>, u64)> {
    let disk = place.open(reactor).await?;
    let has_bytes = disk.size();
    let follow_bytes = has_bytes.saturating_sub(from_bytes);
    let size_bytes = size_bytes.unwrap_or(follow_bytes);
    if size_bytes > follow_bytes {
        let what =
            if from_bytes == 0 { "fewer than --size" } else { "fewer than --from and --size" };
        return Err(Failure::misuse(format!("{place} has {has_bytes} bytes, {what}")));
    }
    Ok((disk, size_bytes))
}

fn to_failure(error: &Error) -> Failure {
    let what = error.to_string();
    match (error, error.kind()) {
        (Error::Mismatch { .. }, _) => Failure::new(what)
            .hint("nothing else may write to the target; else it lost or damaged data"),
        (Error::Handshake { .. }, _) => {
            Failure::new(what).hint("see whether the server runs, and what it exports")
        }
        (_, ErrorKind::Invalid) => Failure::misuse(what),
        _ => Failure::new(what),
    }
}
