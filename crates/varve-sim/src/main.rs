//! `varve-sim`: runs seeds, or replays one.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use varve_sim::{SeedOutcome, WorldConfig, WorldKind, catch_panics, run_world};

/// Runs the storage stack in a simulated world, cuts its power and checks what is left.
#[derive(Parser, Debug)]
#[command(name = "varve-sim")]
struct Options {
    /// Number of seeds to run; 1000, or one if `--seed` is given alone
    #[arg(long)]
    seeds: Option<u64>,
    /// First seed; given alone, its world is printed too
    #[arg(long)]
    seed: Option<u64>,
    /// Goes on until that many power cuts were made, whatever `--seeds` says
    #[arg(long)]
    cuts: Option<u64>,
    /// In worlds on redundant drives, also cuts the power of a copy of the machine each so many steps, about, and opens
    /// and judges what is left; the lives of a seed stay as they are
    #[arg(long, value_name = "STEPS", default_value_t = 0)]
    side_cuts: u64,
    /// Threads to use
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Kind of the worlds
    #[arg(long, value_enum, default_value_t = WorldKind::Seeded)]
    kind: WorldKind,
    /// Goes on after a failing seed
    #[arg(long)]
    keep_going: bool,
}

impl Options {
    /// The world of a seed.
    fn world(&self, seed: u64) -> WorldConfig {
        WorldConfig { side_cut_steps: self.side_cuts, ..self.kind.world(seed) }
    }

    /// The command that runs the world of a seed again.
    fn replay(&self, seed: u64) -> String {
        match self.kind {
            WorldKind::Seeded => format!("cargo xtask sim --seed {seed}"),
            kind if self.side_cuts > 0 => {
                let steps = self.side_cuts;
                format!("cargo xtask sim --seed {seed} -- --kind {kind} --side-cuts {steps}")
            }
            kind => format!("cargo xtask sim --seed {seed} -- --kind {kind}"),
        }
    }
}

#[derive(Default)]
struct Totals {
    seeds: AtomicU64,
    cuts: AtomicU64,
    side_cuts: AtomicU64,
    acknowledged: AtomicU64,
    bypassed: AtomicU64,
    lost_lanes: AtomicU64,
    damaged_copies: AtomicU64,
    steps: AtomicU64,
    stop: AtomicBool,
    failures: Mutex<Vec<(u64, String)>>,
}

impl Totals {
    fn add(&self, outcome: &SeedOutcome) {
        self.seeds.fetch_add(1, Ordering::Relaxed);
        self.cuts.fetch_add(outcome.cuts, Ordering::Relaxed);
        self.side_cuts.fetch_add(outcome.side_cuts, Ordering::Relaxed);
        self.acknowledged.fetch_add(outcome.acknowledged, Ordering::Relaxed);
        self.bypassed.fetch_add(u64::from(outcome.bypassed_bytes > 0), Ordering::Relaxed);
        self.steps.fetch_add(outcome.steps, Ordering::Relaxed);
        self.lost_lanes.fetch_add(u64::from(outcome.lane_loss_found), Ordering::Relaxed);
        self.damaged_copies.fetch_add(outcome.damaged_copies, Ordering::Relaxed);
    }

    /// Power cuts of machines, and of copies.
    fn all_cuts(&self) -> u64 {
        self.cuts.load(Ordering::Relaxed) + self.side_cuts.load(Ordering::Relaxed)
    }

    fn print(&self, since: Duration) {
        let (seeds, cuts) = (self.seeds.load(Ordering::Relaxed), self.all_cuts());
        let rate = |count: u64| {
            u64::try_from(u128::from(count) * 1000 / since.as_millis().max(1)).unwrap_or(u64::MAX)
        };
        println!(
            "{seeds} seeds ({}/s), {} with writes past the lane, {cuts} power cuts ({}/s), {} of them aside, {} acknowledged requests, {} steps, {} lost lanes found, {} segments with pages damaged, {} s",
            rate(seeds),
            self.bypassed.load(Ordering::Relaxed),
            rate(cuts),
            self.side_cuts.load(Ordering::Relaxed),
            self.acknowledged.load(Ordering::Relaxed),
            self.steps.load(Ordering::Relaxed),
            self.lost_lanes.load(Ordering::Relaxed),
            self.damaged_copies.load(Ordering::Relaxed),
            since.as_secs()
        );
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    catch_panics();
    if std::env::var_os("VARVE_SIM_LOG").is_some() {
        let log = tracing_subscriber::fmt()
            .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE);
        log.without_time().with_ansi(false).with_target(false).with_writer(std::io::stderr).init();
    }
    let single = options.cuts.is_none() && options.seeds.is_none();
    if let (Some(seed), true) = (options.seed, single) {
        println!("{:#?}", options.world(seed));
        let outcome = run_world(options.world(seed));
        println!("{outcome:#?}");
        return if outcome.failure.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let first = options.seed.unwrap_or(0);
    let next = AtomicU64::new(first);
    let totals = Totals::default();
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..options.threads.max(1) {
            scope.spawn(|| work(&options, first, &next, &totals));
        }
        scope.spawn(|| {
            let mut printed = Instant::now();
            while !totals.stop.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(20));
                if printed.elapsed() >= Duration::from_secs(10) {
                    printed = Instant::now();
                    totals.print(begin.elapsed());
                }
            }
        });
    });
    totals.print(begin.elapsed());
    let mut failures = totals.failures.into_inner().expect("no thread panicked");
    failures.sort();
    for (seed, failure) in &failures {
        println!("seed {seed} failed: {failure}");
        println!("  replay: {}", options.replay(*seed));
    }
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn work(options: &Options, first: u64, next: &AtomicU64, totals: &Totals) {
    while !totals.stop.load(Ordering::Relaxed) {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        let enough = match options.cuts {
            Some(cuts) => totals.all_cuts() >= cuts,
            None => seed >= first + options.seeds.unwrap_or(1000),
        };
        if enough {
            break;
        }
        let outcome = run_world(options.world(seed));
        totals.add(&outcome);
        if let Some(failure) = outcome.failure {
            let mut failures = totals.failures.lock().expect("no thread panicked");
            failures.push((seed, failure));
            if !options.keep_going {
                break;
            }
        }
    }
    totals.stop.store(true, Ordering::Relaxed);
}
