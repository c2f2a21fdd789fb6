//! `varve bench run`: puts a load on a target and prints what it measured.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use varve_bench::{
    BenchBucket, BenchReport, CephArgs, ClientPart, EngineGoal, FioGoal, LoadArgs, LoadTarget,
    ObjectsArgs, ObjectsPlan, RadosGoal, RunPlan, SavedResult, SweepArgs, System, TargetArg,
    Timelines, VolumesGoal, aim, block_work, can_run, describe, json, known, lives_work, load_of,
    milliseconds, objects_plans, objects_work, processes, run, run_clients, run_job_file, segments,
    size_of,
};
use varve_client::age::now_unix_ms;
use varve_client::{Failure, Result};
use varve_tool_bench::cosbench::{Verb, WorkEnd, Workload};
use varve_tool_bench::fio::{FioCommand, FioFile, FioPlace};
use varve_tool_bench::{
    DataSpec, LoadSpec, Metric, Preset, PresetStep, PresetWork, Target, VolumeWork,
};
use varve_types::limits::MEDIA_ALIGN;
use varve_types::{ByteCount, parse_size};

use crate::cli::Global;
use crate::commands::bench::{read_text, scale};
use crate::explicit_flags::explicit_flags;
use crate::output::print;

/// Times of a load of the user's own, in ms.
const RAMP_MS: u64 = 2000;
const DURATION_MS: u64 = 10_000;

/// Bytes of native objects that are written and read where nobody says how many.
const RADOS_BYTES: u64 = 1 << 30;

/// Most connections to an S3 server.
const CONNECTIONS_MAX: u32 = 4096;

/// Put a load on a file, a device, an NBD export or a bucket of an S3 server, and measure it
#[derive(Args, Debug)]
#[command(
    after_help = "Targets: PATH of a file or block device (O_DIRECT), nbd://HOST[:PORT]/EXPORT, nbd+unix:///EXPORT?socket=PATH,\n\
                  memory:SIZE, null:SIZE, which answers at once and keeps nothing, rbd:POOL/IMAGE (by fio), rados:POOL, native objects of one block each,\n\
                  volumes:SIZE, volumes of the daemon of --data or --addr, one for each job, engine:VOLUME, a volume of the pool of --data in this process\n\
                  while no daemon serves it, and s3://BUCKET[/FOLDER], objects of a bucket that is there, in a folder of their own (varve-bench). Objects and volumes that a run made are removed at its end.\n\
                  Ctrl-C ends a run with what was measured until then."
)]
pub(crate) struct BenchRun {
    /// Preset to run instead of a load of your own; `varve bench list` has them
    #[arg(conflicts_with_all = ["mix", "block", "reads", "pattern", "jobs", "depth", "objects", "object_sizes", "lists", "deletes"])]
    preset: Option<String>,

    /// Job file of fio whose jobs are the loads, one after another, instead of a load of your own; what it says of
    /// ioengine and files, --target says. With --fio, fio itself runs it as it is
    #[arg(long, value_name = "FILE", conflicts_with_all = ["preset", "mix", "block", "reads", "pattern", "jobs", "depth", "rate", "durable", "zeros", "duplicates", "compression", "seed"])]
    fio_job: Option<PathBuf>,

    /// What to measure; a preset of whole volumes has none
    #[arg(long, value_parser = aim, value_name = "TARGET")]
    target: Option<TargetArg>,

    /// Run the load in fio, with this I/O engine [default: io_uring for files, nbd for exports; rbd: targets always run
    /// in fio, with rbd]
    #[arg(long, value_name = "ENGINE", conflicts_with = "from")]
    fio: Option<Option<String>>,

    /// Where the part of a block target that is used begins
    #[arg(long, value_parser = parse_size, value_name = "SIZE")]
    from: Option<ByteCount>,

    /// Bytes of the target to use, from there or from its beginning; of objects fewer, so that they are about as many
    /// bytes [default: the preset's, or all]
    #[arg(long, value_parser = parse_size, value_name = "SIZE")]
    size: Option<ByteCount>,

    /// Allow writes to a file, a device, an export or a folder that holds objects: they destroy what it holds
    #[arg(long)]
    overwrite: bool,

    /// Write each block once before anything is measured
    #[arg(long)]
    fill: bool,

    /// Fill the pool of the daemon of --data or --addr to this share of its capacity before anything is measured, with
    /// volumes that are removed at the end
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=95), conflicts_with = "clients", value_name = "PERCENT")]
    fill_pool: Option<u8>,

    /// Leave that out where a preset does it
    #[arg(long, conflicts_with = "fill", requires = "preset")]
    no_fill: bool,

    /// Time before each measurement, under load [default: the preset's, or 2s]
    #[arg(long, value_parser = milliseconds, value_name = "TIME")]
    ramp: Option<u64>,

    /// Time that is measured [default: the preset's, or 10s]
    #[arg(long, value_parser = milliseconds, value_name = "TIME")]
    duration: Option<u64>,

    /// Measurements one after another; from two on the mean has a 95 % interval
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000), value_name = "COUNT")]
    repeat: u32,

    /// Client processes on a file, a device or an export, among which jobs and rate are divided, each with an equal
    /// part of the target; their results are merged [default: as many as the source of a preset had, or 1]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=64), conflicts_with_all = ["at", "fio", "fio_job", "settle", "client"], value_name = "COUNT")]
    clients: Option<u32>,

    /// Which of several clients this is
    #[arg(long, hide = true, requires_all = ["json", "target"])]
    client: Option<ClientPart>,

    /// Begin the first ramp at this time, in s since 1970, so that several hosts measure together: `varve bench merge`
    /// merges their results
    #[arg(long, value_name = "UNIX_S", conflicts_with = "settle")]
    at: Option<u64>,

    /// Before the first measurement do the load until its rate is level, for up to this time
    #[arg(long, value_parser = milliseconds, value_name = "TIME")]
    settle: Option<u64>,

    /// Command of a shell that ends with 0 while the measured system is well; a run in which it does not is marked as
    /// invalid [default: what the daemon of --data or --addr says of itself, of its own exports and buckets]
    #[arg(long, value_name = "COMMAND")]
    healthy: Option<String>,

    /// Process to look at beside this one, by id or name, such as the server's; may be given more than once
    #[arg(long, value_parser = processes, value_name = "PROCESS")]
    process: Vec<Vec<u32>>,

    /// Ask the daemon of --data or --addr how long its drives take, and report whether they explain the latency
    #[arg(long)]
    server: bool,

    /// What the network of the measured server carries, in Gbit/s, which objects/s of a preset of COSBench stand beside
    #[arg(long, value_parser = gbit, requires = "preset", value_name = "GBIT")]
    nic_gbit: Option<f64>,

    /// Admin socket of a Ceph daemon whose counters are kept with the result; may be given more than once
    #[arg(long, value_name = "SOCKET")]
    ceph: Vec<PathBuf>,

    /// Save the results to a new folder: report with histograms, facts of the machine, what it did meanwhile
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,

    /// Print JSON, with histograms; fields are added over time, never renamed
    #[arg(long)]
    json: bool,

    // Last, since its heading holds for all that follows.
    #[command(flatten)]
    load: LoadArgs,

    #[command(flatten)]
    sweep: SweepArgs,

    #[command(flatten)]
    objects: ObjectsArgs,

    #[command(flatten)]
    ceph_args: CephArgs,

    /// Command line of fio whose jobs are the loads, behind --: -- fio --name=a --rw=randread --bs=4k --runtime=30
    #[arg(last = true, value_name = "FIO", conflicts_with_all = ["preset", "fio_job", "mix", "block", "reads", "pattern", "jobs", "depth", "rate", "durable", "zeros", "duplicates", "compression", "seed"])]
    fio_line: Vec<String>,
}

impl BenchRun {
    pub(crate) fn run(self, global: &Global) -> Result<String> {
        if let (Some(path), Some(engine)) = (&self.fio_job, &self.fio) {
            return self.run_by_fio(path, engine.as_deref());
        }
        let load = self.load.spec()?;
        let preset = self.preset.as_deref().map(known).transpose()?;
        preset.as_ref().map_or(Ok(()), can_run)?;
        if let (Some(preset), None) = (&preset, &self.target)
            && let Some(lives) = lives_work(preset)
        {
            takes_no_flags(preset)?;
            let save = self.save.as_deref();
            save.map_or(Ok(()), SavedResult::check)?;
            if !self.json {
                print(&format!("{}\n", describe(preset).1))?;
            }
            let source_s = match preset.metric {
                Metric::Wall { seconds } => Some(seconds),
                _ => None,
            };
            return scale::lives(global, &scale::spec(&lives), source_s, save, self.json);
        }
        let Some(target) = &self.target else {
            return Err(Failure::misuse("nothing to measure is named").hint("say --target"));
        };
        if let (Some(preset), Some(_)) = (&preset, self.nic_gbit)
            && preset.metric != Metric::Network
        {
            let what = format!("the score of `{}` has nothing to do with --nic-gbit", preset.id);
            return Err(Failure::misuse(what));
        }
        let plans = self.plans_on(target, preset.as_ref(), &load, global)?;
        let mut plans = self.sweep.loads(plans)?;
        if let Some(part) = self.client {
            plans.iter_mut().try_for_each(|plan| take_part(plan, part))?;
        }
        plans.iter().try_for_each(check_connections)?;
        if plans.iter().any(|plan| plan.duration_ms == 0) {
            return Err(Failure::misuse("nothing is measured in no time"));
        }
        if let Some(first) = plans.first_mut() {
            first.at_unix_ms = self.at.map(|at| at.saturating_mul(1000));
        }
        if self.at.is_some_and(|at| at.saturating_mul(1000) <= now_unix_ms()) {
            return Err(Failure::misuse("--at has passed").hint("say --at $(date -d '+1 min' +%s)"));
        }
        self.save.as_deref().map_or(Ok(()), SavedResult::check)?;
        let head = preset.as_ref().map(|preset| format!("{}\n", describe(preset).1));
        let head = head.filter(|_| !self.json).unwrap_or_default();
        let clients = self.clients(preset.as_ref(), &plans);
        if clients > 1 {
            let part = ClientPart { number: 0, count: clients };
            plans.iter_mut().try_for_each(|plan| take_part(plan, part))?;
            let (saved, timelines) = run_clients(clients, &plans, &global.client())?;
            return Ok(head + &saved.save_and_render(timelines, self.save.as_deref(), self.json)?);
        }
        let saved = self.measured(&plans, preset.as_ref(), global)?;
        if self.json { json(&saved) } else { Ok(head + &saved.text()) }
    }

    /// Runs the loads; their result, in a folder too if one is named.
    fn measured(
        &self,
        plans: &[RunPlan],
        preset: Option<&Preset>,
        global: &Global,
    ) -> Result<SavedResult> {
        let system = System::now();
        let (plans, outcomes): (Vec<_>, Vec<_>) = run(plans, &global.client())?.into_iter().unzip();
        let mut runs: Vec<BenchReport> = plans
            .iter()
            .zip(&outcomes)
            .map(|(plan, outcome)| BenchReport::of(plan, outcome))
            .collect();
        BenchReport::beside_first(&mut runs);
        let saved = SavedResult {
            preset: preset.map(|preset| preset.id.clone()),
            system,
            hosts: Vec::new(),
            within: self.sweep.within(&runs),
            nic_gbit: self.nic_gbit,
            scores: Vec::new(),
            runs,
        };
        let saved = saved.scored();
        self.save.as_deref().map_or(Ok(()), |dir| saved.write(dir, Timelines::of(&outcomes)))?;
        Ok(saved)
    }

    /// Client processes: as many as are asked for, else those of the source, where they can share the target and
    /// nothing is said that one process does alone.
    fn clients(&self, preset: Option<&Preset>, plans: &[RunPlan]) -> u32 {
        let is_shared = |plan: &RunPlan| {
            let can_part = matches!(plan.goal, LoadTarget::Disk(Target::File(_) | Target::Nbd(_)));
            can_part && plan.setting.is_none() && plan.pool_percent.is_none()
        };
        let is_alone = self.client.is_some() || self.at.is_some() || self.settle.is_some();
        let of_source = match preset.map(|preset| &preset.work) {
            Some(PresetWork::Block(work)) if !is_alone && plans.iter().all(is_shared) => {
                work.clients
            }
            _ => 1,
        };
        self.clients.unwrap_or(of_source)
    }

    /// Lets fio run a job file.
    fn run_by_fio(&self, path: &Path, engine: Option<&str>) -> Result<String> {
        let idle = idle_flags(&["--fio-job", "--fio", "--overwrite", "--save", "--json"]);
        if engine.is_some() || !idle.is_empty() {
            let flags = if engine.is_some() { "engine".to_owned() } else { idle.join(", ") };
            let what =
                format!("a job file that fio runs says all that is done, and takes no {flags}");
            return Err(Failure::misuse(what).hint(
                "say --fio alone, or leave it out: this generator does the jobs on --target",
            ));
        }
        self.save.as_deref().map_or(Ok(()), SavedResult::check)?;
        let Some(file) = path.to_str().filter(|file| *file != "-") else {
            return Err(Failure::misuse("fio reads the job file itself").hint("name a file"));
        };
        if !self.overwrite && !FioFile::only_reads(&read_text(path)?) {
            let what = format!("the jobs of {file} may write, which destroys what is there");
            return Err(Failure::misuse(what).hint("say --overwrite if nobody needs it"));
        }
        let system = System::now();
        let (output, is_interrupted) = run_job_file(file)?;
        let output = output.with_rates().map_err(|error| Failure::new(error.to_string()))?;
        let system = system.measured_by(output.version.clone());
        let mut saved = SavedResult { system, ..SavedResult::of_fio(&output) };
        if is_interrupted {
            saved.runs.iter_mut().for_each(BenchReport::end_early);
        }
        saved.save_and_render(Timelines::default(), self.save.as_deref(), self.json)
    }

    /// The loads on a target.
    fn plans_on(
        &self,
        target: &TargetArg,
        preset: Option<&Preset>,
        load: &LoadSpec,
        global: &Global,
    ) -> Result<Vec<RunPlan>> {
        match target {
            TargetArg::Disk(target) => {
                let goal = self.goal(target)?;
                self.disk_plans(goal, target.keeps_data(), preset, load)
            }
            TargetArg::Rbd(place) => {
                let goal = LoadTarget::Fio(self.fio_goal(place.clone()));
                self.disk_plans(goal, true, preset, load)
            }
            TargetArg::Engine(volume) => {
                self.check_own("engine:")?;
                let goal = LoadTarget::Engine(EngineGoal::of(&pool_data(global)?, volume)?);
                self.disk_plans(goal, true, preset, load)
            }
            TargetArg::Rados(pool) => {
                let goal = self.rados_goal(pool, preset, load)?;
                self.disk_plans(LoadTarget::Rados(goal), false, preset, load)
            }
            TargetArg::Volumes(size_bytes) => {
                self.check_own("volumes:")?;
                let goal = VolumesGoal { size_bytes: *size_bytes, work: VolumeWork::default() };
                self.disk_plans(LoadTarget::Volumes(goal), false, preset, load)
            }
            TargetArg::Bucket(_) if self.fio.is_some() || self.from.is_some() => {
                Err(Failure::misuse("--fio and --from are of blocks, not of objects"))
            }
            TargetArg::Bucket(_) if self.has_fio_jobs() => {
                Err(Failure::misuse("jobs of fio are loads of blocks, not of objects"))
            }
            TargetArg::Bucket(name) => {
                ObjectsArgs::check(load)?;
                let (workload, is_own) = match preset {
                    None => (self.objects.workload(load)?, true),
                    Some(preset) => (preset_workload(preset)?, false),
                };
                let server = self.objects.server()?;
                let data = DataSpec { seed: load.seed, ..load.data };
                let bucket = Arc::new(BenchBucket::new(name.clone(), server, data));
                let size_bytes = self.size.map(|size| size.0);
                let objects = objects_plans(workload, size_bytes, bucket, self.overwrite);
                let segments = preset.and_then(segments);
                let objects = objects.into_iter().map(|plan| ObjectsPlan { segments, ..plan });
                self.objects_plans(objects.collect(), load, is_own)
            }
        }
    }

    /// Objects of a load, or of the largest of a preset.
    fn rados_goal(
        &self,
        pool: &str,
        preset: Option<&Preset>,
        load: &LoadSpec,
    ) -> Result<RadosGoal> {
        self.check_own("rados:")?;
        let work = preset.map(|preset| block_work(preset.clone())).transpose()?;
        let sizes = work.iter().flat_map(|work| &work.steps).map(|step| step.block_bytes);
        let object_bytes = sizes.max().unwrap_or(load.bytes_max());
        let own_bytes = work.as_ref().and_then(|work| work.size_bytes);
        let size_bytes = self.size.map(|size| size.0).or(own_bytes).unwrap_or(RADOS_BYTES);
        self.ceph_args.connect(pool, object_bytes, size_bytes)
    }

    /// Loads on a block target.
    fn disk_plans(
        &self,
        goal: LoadTarget,
        keeps_data: bool,
        preset: Option<&Preset>,
        load: &LoadSpec,
    ) -> Result<Vec<RunPlan>> {
        let plans = match preset {
            None if self.has_fio_jobs() => self.fio_plans(&goal, load)?,
            None => vec![self.plan(goal, *load)],
            Some(preset) => self.plans(preset, &goal, load)?,
        };
        plans.iter().try_for_each(|plan| self.check(plan, keeps_data))?;
        Ok(plans)
    }

    /// That nothing is said of a target that is made for the run which it cannot have.
    fn check_own(&self, target: &str) -> Result<()> {
        let has_clients = self.clients.is_some_and(|clients| clients > 1);
        if self.fio.is_some() || self.has_fio_jobs() || self.from.is_some() || has_clients {
            let what = format!("{target} targets are this generator's own, and one client's");
            return Err(
                Failure::misuse(what).hint("leave --fio, --fio-job, --from and --clients out")
            );
        }
        Ok(())
    }

    /// A block target, and who makes the load on it.
    fn goal(&self, target: &Target) -> Result<LoadTarget> {
        if self.fio.is_none() {
            return Ok(LoadTarget::Disk(target.clone()));
        }
        let place = match target {
            Target::File(path) => FioPlace::File(path.clone()),
            Target::Nbd(uri) => FioPlace::Nbd(uri.to_string()),
            Target::Memory { .. } | Target::Null { .. } => {
                return Err(Failure::misuse("fio measures files, devices, exports and images"));
            }
        };
        Ok(LoadTarget::Fio(self.fio_goal(place)))
    }

    fn fio_goal(&self, place: FioPlace) -> FioGoal {
        let engine = self.fio.clone().flatten().unwrap_or_else(|| place.engine().to_owned());
        FioGoal { place, engine }
    }

    /// Whether loads are jobs of fio, of a file or of a command line.
    fn has_fio_jobs(&self) -> bool {
        self.fio_job.is_some() || !self.fio_line.is_empty()
    }

    /// The loads of a job file or of a command line of fio.
    fn fio_plans(&self, goal: &LoadTarget, common: &LoadSpec) -> Result<Vec<RunPlan>> {
        let (place, hint, file) = match &self.fio_job {
            Some(path) => {
                let hint = "let fio itself run it: add --fio; or import what fio printed: `varve bench import`";
                (path.display().to_string(), hint, FioFile::read(&read_text(path)?))
            }
            None => {
                let hint = "let fio run it, and import what it prints: `varve bench import`";
                ("fio".to_owned(), hint, FioFile::of_arguments(&self.fio_line))
            }
        };
        let told = |error: varve_tool_bench::Error| {
            Failure::misuse(format!("{place}, {error}")).hint(hint)
        };
        let needs_runtime = self.duration.is_none();
        let jobs = file.and_then(|file| file.jobs(needs_runtime)).map_err(told)?;
        let plans = jobs.into_iter().enumerate().map(|(index, job)| {
            let note = job.beside.as_ref().map(|before| {
                let what = "which fio would run at the same time, runs before it";
                format!("job `{}`: `{before}`, {what}", job.name)
            });
            let seed = if job.is_repeatable { job.load.seed } else { now_unix_ms() };
            let load = LoadSpec { seed, verify: common.verify || job.load.verify, ..job.load };
            RunPlan {
                from_bytes: self.from.map_or(job.from_bytes, |from| from.0),
                note,
                size_bytes: self.size.map(|size| size.0).or(job.size_bytes),
                fill: index == 0 && self.fill,
                ramp_ms: self.ramp.unwrap_or(job.ramp_ms),
                duration_ms: self.duration.or(job.duration_ms).unwrap_or(DURATION_MS),
                ..self.plan(goal.clone(), load)
            }
        });
        Ok(plans.collect())
    }

    /// Loads on a bucket; the first one writes the objects for all.
    fn objects_plans(
        &self,
        objects: Vec<ObjectsPlan>,
        common: &LoadSpec,
        is_own: bool,
    ) -> Result<Vec<RunPlan>> {
        if self.no_fill {
            let what = "the objects of a bucket are there only within a run";
            return Err(Failure::misuse(what).hint("leave --no-fill out; --size makes them fewer"));
        }
        let plans = objects.into_iter().enumerate().map(|(index, objects)| {
            let main = Arc::clone(&objects.main);
            let percent = |verb| {
                let of_verb = main.operations.iter().filter(|operation| operation.verb == verb);
                u8::try_from(of_verb.map(|operation| operation.ratio).sum::<u64>()).unwrap_or(100)
            };
            let mut load = LoadSpec { read_percent: percent(Verb::Read), ..*common };
            let mut times = (RAMP_MS, DURATION_MS);
            if !is_own {
                (load.jobs, load.depth) = (main.workers, 1);
                let readers = objects.segments.filter(|_| load.rate.is_none());
                load.rate =
                    readers.map(|of| of.rate(main.workers, load.read_percent)).or(load.rate);
                let WorkEnd::Runtime(duration_s) = main.end else {
                    unreachable!("loads of presets end by their time")
                };
                times = (main.ramp_up_s * 1000, duration_s * 1000);
            }
            load.check().map_err(|error| Failure::misuse(error.to_string()))?;
            let needs_objects = load.read_percent > 0 || percent(Verb::Delete) > 0;
            let is_filled = self.fill || needs_objects || !is_own;
            let objects = match is_filled {
                true => objects,
                false => ObjectsPlan { prepared: (0, 0), ..objects },
            };
            Ok(RunPlan {
                fill: index == 0 && is_filled,
                size_bytes: None,
                ramp_ms: self.ramp.unwrap_or(times.0),
                duration_ms: self.duration.unwrap_or(times.1),
                ..self.plan(LoadTarget::Objects(objects), load)
            })
        });
        plans.collect()
    }

    /// A load of the user's own.
    fn plan(&self, goal: LoadTarget, load: LoadSpec) -> RunPlan {
        RunPlan {
            note: None,
            load,
            goal,
            from_bytes: self.from.map_or(0, |from| from.0),
            size_bytes: self.size.map(|size| size.0),
            fill: self.fill,
            pool_percent: self.fill_pool,
            ramp_ms: self.ramp.unwrap_or(RAMP_MS),
            duration_ms: self.duration.unwrap_or(DURATION_MS),
            repeats: self.repeat,
            at_unix_ms: None,
            in_step: false,
            settle_ms: self.settle,
            healthy: self.healthy.clone(),
            processes: self.process.concat(),
            ceph: self.ceph.clone(),
            setting: None,
            is_set: false,
            asks_server: self.server,
            search_p99_ms: None,
        }
    }

    /// The loads of a preset; the first one fills the target for all.
    fn plans(&self, preset: &Preset, goal: &LoadTarget, common: &LoadSpec) -> Result<Vec<RunPlan>> {
        let work = block_work(preset.clone())?;
        let own = self.plan(goal.clone(), *common);
        let goal_of = |step: &PresetStep| match (goal, step.volumes) {
            (LoadTarget::Volumes(goal), work) => {
                Ok(LoadTarget::Volumes(VolumesGoal { work: work.unwrap_or_default(), ..*goal }))
            }
            (_, Some(_)) => {
                let what = format!("`{}` makes clones and snapshots of volumes", preset.id);
                Err(Failure::misuse(what).hint("say --target volumes:SIZE, beside a daemon"))
            }
            (goal, None) => Ok(goal.clone()),
        };
        let goals = work.steps.iter().map(goal_of).collect::<Result<Vec<LoadTarget>>>()?;
        let steps = work.steps.iter().zip(goals).enumerate();
        let plans = steps.map(|(index, (step, goal))| RunPlan {
            // Volumes are made anew for each load.
            fill: (index == 0 || matches!(goal, LoadTarget::Volumes(_)))
                && (work.fill || own.fill)
                && !self.no_fill,
            size_bytes: match &goal {
                LoadTarget::Volumes(volumes) => Some(volumes.used_bytes()),
                _ => own.size_bytes.or(work.size_bytes),
            },
            goal,
            load: LoadSpec { rate: common.rate.or(step.rate), ..load_of(&work, step, common) },
            ramp_ms: self.ramp.unwrap_or(work.ramp_s * 1000),
            duration_ms: self.duration.unwrap_or(work.duration_s * 1000),
            search_p99_ms: match preset.metric {
                // A rate of the user's own is one load, and hosts would not look for the same number.
                Metric::Capped { p99_ms } if common.rate.is_none() && self.at.is_none() => {
                    Some(p99_ms)
                }
                _ => None,
            },
            ..own.clone()
        });
        Ok(plans.collect())
    }

    fn check(&self, plan: &RunPlan, keeps_data: bool) -> Result<()> {
        let writes = plan.fill || plan.load.read_percent < 100;
        if !plan.from_bytes.is_multiple_of(MEDIA_ALIGN as u64) {
            return Err(Failure::misuse("--from must be a multiple of 4 KiB"));
        }
        if let LoadTarget::Fio(goal) = &plan.goal {
            let (load, place, engine) = (&plan.load, &goal.place, goal.engine.as_str());
            let command = FioCommand { load, place, engine, size_bytes: plan.size_bytes };
            let told = command.load(plan.ramp_ms, plan.duration_ms);
            told.map_err(|error| Failure::misuse(error.to_string()))?;
        }
        if writes && keeps_data && !self.overwrite {
            let what = format!("this load writes, which destroys what {} holds", plan.goal);
            return Err(Failure::misuse(what).hint("say --overwrite if nobody needs it"));
        }
        if plan.load.verify
            && matches!(&plan.goal, LoadTarget::Disk(target) if !target.can_verify())
        {
            return Err(Failure::misuse("a null target keeps nothing that could be verified"));
        }
        if plan.load.verify && !writes {
            let failure = Failure::misuse("nothing is written that could be verified");
            return Err(failure.hint("write with --fill, or with less than 100 % --reads"));
        }
        Ok(())
    }
}

/// The data directory of the pool that an engine: target is in.
fn pool_data(global: &Global) -> Result<PathBuf> {
    if global.addr.is_some() {
        let what = "`--addr` names a daemon, and an engine: target is a pool without one";
        return Err(Failure::misuse(what).hint("name the pool by its data directory: --data"));
    }
    Ok(global.data())
}

/// Flags that were said and would do nothing, but those that do something.
fn idle_flags(used: &[&str]) -> Vec<String> {
    let mut said = explicit_flags(&["bench", "run"]);
    said.retain(|flag| !used.contains(&flag.as_str()));
    said
}

/// Refuses flags that would do nothing, beside a preset that makes volumes and says all of what is done with them.
fn takes_no_flags(preset: &Preset) -> Result<()> {
    let idle = idle_flags(&["--json", "--save"]);
    if idle.is_empty() {
        return Ok(());
    }
    let what = format!("`{}` says all that is done, and takes no {}", preset.id, idle.join(", "));
    Err(Failure::misuse(what).hint("`varve bench scale` has flags for volumes, sizes and depth"))
}

/// Leaves a client its part of a load.
fn take_part(plan: &mut RunPlan, part: ClientPart) -> Result<()> {
    let ClientPart { number, count } = part;
    let LoadTarget::Disk(target @ (Target::File(_) | Target::Nbd(_))) = &plan.goal else {
        return Err(Failure::misuse("several clients need one file, device or export"));
    };
    let size_bytes = match plan.size_bytes {
        Some(size_bytes) => size_bytes,
        None => size_of(target)?.saturating_sub(plan.from_bytes),
    };
    if !plan.load.jobs.is_multiple_of(count) {
        let what = format!("{} jobs cannot be divided among {count} clients", plan.load.jobs);
        return Err(Failure::misuse(what).hint("say --jobs with a multiple of --clients"));
    }
    let unit_bytes = plan.load.block_bytes as u64;
    let part_bytes = size_bytes / u64::from(count) / unit_bytes * unit_bytes;
    plan.from_bytes += u64::from(number) * part_bytes;
    plan.size_bytes = Some(part_bytes);
    plan.load.jobs /= count;
    plan.load.rate = plan.load.rate.map(|rate| rate / f64::from(count));
    plan.load.seed = plan.load.seed.wrapping_add(u64::from(number));
    plan.in_step = true;
    plan.load.check().map_err(|error| Failure::misuse(error.to_string()))
}

/// Reads what a network carries.
fn gbit(text: &str) -> std::result::Result<f64, String> {
    let read = text.parse::<f64>().ok().filter(|gbit| *gbit > 0.0 && *gbit <= 1e6);
    read.ok_or_else(|| format!("invalid rate `{text}`: give Gbit/s"))
}

/// Whether an S3 server is asked for more connections than can be.
fn check_connections(plan: &RunPlan) -> Result<()> {
    let connections = plan.load.jobs * plan.load.depth;
    if matches!(plan.goal, LoadTarget::Objects(_)) && connections > CONNECTIONS_MAX {
        let what = format!("{connections} connections are more than {CONNECTIONS_MAX}");
        return Err(Failure::misuse(what).hint("--jobs × --depth is their number"));
    }
    Ok(())
}

fn preset_workload(preset: &Preset) -> Result<Workload> {
    Workload::read(&objects_work(preset.clone())?)
        .map_err(|error| Failure::misuse(error.to_string()))
}
