//! Runs the fuzz targets on the pinned compiler: libFuzzer needs the compiler's coverage counters, which are options of
//! code generation, and no sanitizer, as the code under test has no unsafe blocks of its own.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use std::{fs, thread};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::step::{self, StageRunner, TestCounts};

/// What makes LLVM insert the counters that libFuzzer looks at.
const COVERAGE: &str = "--cfg fuzzing -Ccodegen-units=1 -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";

/// Without a target of its own, build scripts would be built with the counters too.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Most memory of one target.
const MEMORY_MIB: u32 = 1024;

/// The fuzz targets: each decodes bytes that nobody vouches for.
#[derive(Args)]
pub(crate) struct Fuzz {
    /// How long to fuzz in all; targets share it
    #[arg(long, default_value_t = 120)]
    seconds: usize,

    /// Only these targets
    targets: Vec<String>,
}

impl Fuzz {
    pub(crate) fn run(&self) -> Result<bool> {
        let mut stages = StageRunner::default();
        let targets = FuzzTargets::find(&self.targets)?;
        if targets.build(&mut stages)? {
            targets.run(&mut stages, self.seconds)?;
        }
        Ok(stages.into_counts().report())
    }
}

/// Targets, and where their programs are.
pub(crate) struct FuzzTargets {
    directory: PathBuf,
    build_directory: PathBuf,
    names: Vec<String>,
}

impl FuzzTargets {
    /// All targets, or only those that are named.
    pub(crate) fn find(only: &[String]) -> Result<Self> {
        let directory = step::root().join("fuzz");
        let mut names = names(&directory)?;
        if let Some(unknown) = only.iter().find(|name| !names.contains(name)) {
            bail!("no fuzz target {unknown}; there are {}", names.join(", "));
        }
        names.retain(|name| only.is_empty() || only.contains(name));
        Ok(Self { directory, build_directory: step::root().join("target/fuzz"), names })
    }

    /// Builds all targets there are; whether that succeeded.
    pub(crate) fn build(&self, stages: &mut StageRunner) -> Result<bool> {
        let mut build = stages.command("cargo");
        build.args(["build", "--release", "--manifest-path", "fuzz/Cargo.toml"]);
        build.args(["--target", TARGET, "--target-dir"]).arg(&self.build_directory);
        stages.run("build the fuzz targets", build.env("RUSTFLAGS", COVERAGE))
    }

    /// Runs each target for its share of `seconds`, as many at a time as there are processors.
    pub(crate) fn run(&self, stages: &mut StageRunner, seconds: usize) -> Result<()> {
        let begin = Instant::now();
        let workers = thread::available_parallelism().map_or(1, usize::from).min(self.names.len());
        let share = (seconds * workers / self.names.len().max(1)).max(1);
        println!("== fuzz {} targets for {share} s each", self.names.len());
        let next = AtomicUsize::new(0);
        let results = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|| {
                    while let Some(target) = self.names.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let result = self.run_target(target, share);
                        results.lock().expect("no thread panicked").push((target, result));
                    }
                });
            }
        });
        let mut counts = TestCounts::default();
        for (target, result) in results.into_inner().expect("no thread panicked") {
            counts.add(TestCounts::one(&format!("fuzz {target}"), result?));
        }
        counts.times.add_stage("fuzz", begin.elapsed());
        stages.add(counts);
        Ok(())
    }

    /// Fuzzes one target; prints the end of its output when it fails. What it learns stays in `fuzz/corpus`, an input
    /// that fails in `fuzz/artifacts`.
    fn run_target(&self, target: &str, seconds: usize) -> Result<bool> {
        let [corpus, artifacts] =
            ["corpus", "artifacts"].map(|kind| self.directory.join(kind).join(target));
        for folder in [&corpus, &artifacts] {
            fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
        }
        let seeds: PathBuf = self.directory.join("seeds").join(target);
        let program = self.build_directory.join(TARGET).join("release").join(target);
        let mut command = Command::new(&program);
        command
            .arg(format!("-max_total_time={seconds}"))
            .arg(format!("-rss_limit_mb={MEMORY_MIB}"));
        command.arg("-timeout=20").arg(format!("-artifact_prefix={}/", artifacts.display()));
        command.arg(&corpus);
        if seeds.is_dir() {
            command.arg(&seeds);
        }
        let output = command.output().with_context(|| format!("start fuzz target {target}"))?;
        let text = String::from_utf8_lossy(&output.stderr);
        let lines: Vec<_> = text.lines().collect();
        if output.status.success() {
            println!("fuzz {target}: {}", lines.last().unwrap_or(&"no output"));
            return Ok(true);
        }
        for line in lines.iter().skip(lines.len().saturating_sub(40)) {
            println!("{line}");
        }
        println!("FAIL fuzz {target}: replay: {} FILE", program.display());
        Ok(false)
    }
}

/// The names of the targets.
fn names(directory: &Path) -> Result<Vec<String>> {
    let folder = directory.join("fuzz_targets");
    let entries = fs::read_dir(&folder).with_context(|| format!("list {}", folder.display()))?;
    let mut names = Vec::new();
    for entry in entries {
        let path = entry.context("list the fuzz targets")?.path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.file_stem().context("a target has a name")?;
            names.push(name.to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}
