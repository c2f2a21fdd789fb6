//! fio as what makes the load: started for each phase, and its output read.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use varve_client::{Failure, Progress, Result};
use varve_tool_bench::fio::{FioCommand, FioOutput, FioPlace};
use varve_tool_bench::{JobPhase, LoadSpec, Measurement};

/// How often progress is told and the wish to end looked at.
const TICK: Duration = Duration::from_millis(100);

/// What fio puts a load on, and how.
#[derive(Clone, Debug)]
pub struct FioGoal {
    /// Where the load goes.
    pub place: FioPlace,
    /// Engine that does it, as fio calls it.
    pub engine: String,
}

impl FioGoal {
    /// That fio is there.
    pub(super) fn check() -> Result<()> {
        let told = Command::new("fio").arg("--version").output();
        told.map(drop).map_err(|error| {
            Failure::new(format!("start fio: {error}")).hint("install it, or leave --fio out")
        })
    }

    /// Runs a phase to its end; what fio measured in it.
    pub(super) fn run(
        &self,
        load: &LoadSpec,
        size_bytes: Option<u64>,
        phase: JobPhase,
        watch: &Progress,
        name: &str,
    ) -> Result<Measurement> {
        let command = FioCommand { load, place: &self.place, engine: &self.engine, size_bytes };
        let arguments = match phase {
            JobPhase::Fill => command.fill(),
            JobPhase::Load { ramp_ns, duration_ns } => {
                command.load(ramp_ns / 1_000_000, duration_ns / 1_000_000)
            }
            JobPhase::ReadBack => unreachable!("fio verifies nothing here"),
        };
        let arguments = arguments.map_err(|error| Failure::misuse(error.to_string()))?;
        let output = output(&arguments, watch, name)?;
        let run = output.runs.first().ok_or_else(|| Failure::new("fio measured nothing"))?;
        Ok(run.measured())
    }
}

/// Lets fio run a job file as it is, until it ends or Ctrl-C; what it measured, and whether it was ended early.
pub fn run_job_file(file: &str) -> Result<(FioOutput, bool)> {
    FioGoal::check()?;
    let watch = Progress::open_ended();
    // A name that begins like an option is none.
    let file = if file.starts_with('-') { format!("./{file}") } else { file.to_owned() };
    let output = output(&["--output-format=json+".to_owned(), file], &watch, "job file");
    watch.end();
    output.map(|output| (output, watch.is_stopped()))
}

/// Starts fio and reads what it prints.
fn output(arguments: &[String], watch: &Progress, name: &str) -> Result<FioOutput> {
    let mut command = Command::new("fio");
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let started = command.spawn();
    let mut child = started.map_err(|error| Failure::new(format!("start fio: {error}")))?;
    let (printed, complained) = thread::scope(|scope| {
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let printed = scope.spawn(|| text(stdout));
        let complained = scope.spawn(|| text(stderr));
        let began = Instant::now();
        let mut is_told = false;
        // Both ends close with fio; one that is told to end prints what it has until then.
        while !printed.is_finished() {
            watch.say(format!("{name}  fio, {} s", began.elapsed().as_secs()));
            if watch.is_stopped() && !is_told {
                is_told = true; // A second time would end it without a word.
                interrupt(&child);
            }
            thread::park_timeout(TICK);
        }
        (printed.join().unwrap_or_default(), complained.join().unwrap_or_default())
    });
    let status = child.wait().map_err(|error| Failure::new(format!("wait for fio: {error}")))?;
    if !status.success() && !watch.is_stopped() {
        let line = complained.lines().chain(printed.lines()).find(|line| !line.trim().is_empty());
        let why = line.unwrap_or("it says nothing").trim();
        let what = format!("fio ended with {status}: {why}");
        return Err(Failure::new(what).hint(format!("fio {}", arguments.join(" "))));
    }
    FioOutput::read(&printed).map_err(|error| Failure::new(error.to_string()))
}

fn text(from: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    // What was printed until an error is told all the same.
    let _read = from.map(|mut from| from.read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// What Ctrl-C does, for a fio that got none.
fn interrupt(child: &Child) {
    let id = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
    if let Some(id) = id {
        let _it_is_gone = rustix::process::kill_process(id, rustix::process::Signal::INT);
    }
}
