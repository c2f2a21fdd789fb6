//! What CI runs. Every step runs even if an earlier one failed, so that one run shows everything.
//!
//! Lints, documentation and tests are built with one optimization: build scripts, the C code that they compile, macros
//! and types of dependencies are then built once for all of them.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Instant;
use std::{fs, thread};

use anyhow::{Context, Result};

use crate::fuzz::FuzzTargets;
use crate::step::{Priority, StageRunner, TestCounts};
use crate::{sim, tidy};

/// How long CI fuzzes.
const FUZZ_SECONDS: usize = 120;

/// Format, lints, tidy, tests, fresh seeds of the simulator, fuzzing, the figures of the README, and documentation.
pub(crate) fn ci() -> Result<bool> {
    let mut stages = StageRunner::new(Priority::Normal);
    check(&mut stages)?;
    let targets = FuzzTargets::find(&[])?;
    if targets.build(&mut stages)? {
        targets.run(&mut stages, FUZZ_SECONDS)?;
    }
    Ok(stages.into_counts().report())
}

/// Installs what whole-process tests need, then all of `ci` with these tests, on a release build, beside it: they wait
/// more than they compute. What they print is shown when both have ended. Fuzzing, which takes all processors, and
/// tests that measure times come last.
pub(crate) fn test() -> Result<bool> {
    let begin = Instant::now();
    let mut stages = StageRunner::new(Priority::Normal);
    let mut packages = stages.command("tests/run");
    stages.run("packages", packages.arg("--install-only"))?;
    let directory = target_directory()?;
    let log = directory.join("whole-processes.log");
    println!("== whole processes: beside what follows, with their output in {}", log.display());
    let targets = FuzzTargets::find(&[])?;
    stages.set_priority(Priority::Low);
    let (checked, beside) = thread::scope(|scope| {
        let beside = scope.spawn(|| test_processes(&directory, &log, &targets));
        let checked = check(&mut stages);
        println!("== waiting for the whole processes");
        (checked, beside.join().expect("no thread panicked"))
    });
    let output = fs::read(&log).unwrap_or_default();
    print!("{}", String::from_utf8_lossy(&output));
    checked?;
    let (counts, ready) = beside?;
    stages.add(counts);
    stages.set_priority(Priority::Normal);
    if ready.are_targets_built {
        targets.run(&mut stages, FUZZ_SECONDS)?;
    }
    if ready.is_release_built {
        let mut timed = stages.command("tests/run");
        timed.arg("--timed").env("VARVE", release_binary(&directory));
        stages.run_counting("whole processes that measure times", &mut timed)?;
    }
    println!("== all stages: {} s", begin.elapsed().as_secs());
    Ok(stages.into_counts().report())
}

/// What is checked without a daemon, but for fuzzing.
fn check(stages: &mut StageRunner) -> Result<()> {
    let mut format = stages.command(cargo());
    stages.run("format", format.args(["fmt", "--all", "--", "--check"]))?;
    let mut lints = stages.command(cargo());
    // Not `--profile test`: cargo would check binaries, and libraries that nobody uses, in the form for tests alone.
    lints.args(["clippy", "--config", "profile.dev.opt-level=1", "--workspace", "--all-targets"]);
    lints.arg("--all-features");
    stages.run("lints", lints.args(["--", "-D", "warnings"]))?;
    println!("== tidy");
    stages.add(TestCounts::one("tidy", tidy::tidy(&tidy::TidyOptions::default())?));
    let mut documentation = stages.command(cargo());
    documentation.args(["doc", "--profile", "test", "--workspace", "--no-deps"]);
    documentation.arg("--document-private-items");
    documentation.env("RUSTDOCFLAGS", "-D warnings -A rustdoc::private-intra-doc-links");
    stages.run("documentation", &mut documentation)?;
    test_crates(stages)?;
    sim::fresh_seeds(stages)?;
    let mut readme = stages.command("bench/compare");
    stages.run("figures of the README", readme.arg("--check-readme"))?;
    Ok(())
}

/// The tests of all crates. Examples are linked only where a test starts them: the lints have compiled them.
fn test_crates(stages: &mut StageRunner) -> Result<()> {
    let mut example = stages.command(cargo());
    example.args(["build", "--profile", "test", "--workspace", "--example", "memory_server"]);
    stages.run("example that tests start", &mut example)?;
    for (title, targets) in
        [("tests", &["--lib", "--bins", "--tests"][..]), ("examples in documentation", &["--doc"])]
    {
        let mut tests = stages.command(cargo());
        tests.args(["test", "--workspace", "--no-fail-fast"]).args(targets);
        stages.run_counting(title, &mut tests)?;
    }
    Ok(())
}

/// What is built beside the checks, for what follows them.
struct BuildOutcome {
    is_release_built: bool,
    are_targets_built: bool,
}

/// Builds the release and runs the whole-process tests that measure no times on it; then builds the fuzz targets.
fn test_processes(
    directory: &Path,
    log: &Path,
    targets: &FuzzTargets,
) -> Result<(TestCounts, BuildOutcome)> {
    let mut stages = StageRunner::with_log(log)?;
    let mut build = stages.command(cargo());
    build.args(["build", "--release", "--bin", "varve"]);
    let is_release_built = stages.run("release build", &mut build)?;
    if is_release_built {
        let mut processes = stages.command("tests/run");
        processes.arg("--untimed").env("VARVE", release_binary(directory));
        stages.run_counting("whole processes", &mut processes)?;
    }
    stages.set_priority(Priority::Low);
    let are_targets_built = targets.build(&mut stages)?;
    Ok((stages.into_counts(), BuildOutcome { is_release_built, are_targets_built }))
}

/// The cargo that runs this.
fn cargo() -> OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

fn release_binary(directory: &Path) -> PathBuf {
    directory.join("release/varve")
}

/// Where cargo puts what it builds.
pub(crate) fn target_directory() -> Result<PathBuf> {
    let metadata = tidy::metadata()?;
    let directory = metadata["target_directory"]
        .as_str()
        .context("cargo metadata names no target directory")?;
    Ok(directory.into())
}
