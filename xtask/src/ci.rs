//! What CI runs. Every step runs even if an earlier one failed, so that one run shows everything.
//!
//! Lints, documentation and tests are built with one optimization: build scripts, the C code that they compile, macros
//! and types of dependencies are then built once for all of them.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};

use crate::fuzz::FuzzTargets;
use crate::step::{StageRunner, TestCounts};
use crate::test_programs::TestPrograms;
use crate::{sim, tidy};

/// How long CI fuzzes.
const FUZZ_SECONDS: usize = 60;

/// Format, lints, tidy, tests, fresh seeds of the simulator, fuzzing, the figures of the README, and documentation.
pub(crate) fn ci() -> Result<bool> {
    let mut stages = StageRunner::default();
    check(&mut stages)?;
    fuzz(&mut stages)?;
    Ok(stages.into_counts().report())
}

/// Installs what whole-process tests need, then `ci`, then these tests on the binary that the tests of crates built: it
/// checks more than a release does, and is there. `tests/run` by itself, and `make soak`, take a release build. Not
/// beside each other: on two processors builds take all there is, and tests have limits of time.
pub(crate) fn test() -> Result<bool> {
    let begin = Instant::now();
    let mut stages = StageRunner::default();
    let mut packages = stages.command("tests/run");
    stages.run("packages", packages.arg("--install-only"))?;
    check(&mut stages)?;
    fuzz(&mut stages)?;
    let mut processes = stages.command("tests/run");
    processes.env("VARVE", target_directory()?.join("debug/varve"));
    stages.run_counting("whole processes", &mut processes)?;
    println!("== all stages: {} s", begin.elapsed().as_secs());
    Ok(stages.into_counts().report())
}

/// Builds the fuzz targets and runs them for a while.
fn fuzz(stages: &mut StageRunner) -> Result<()> {
    let targets = FuzzTargets::find(&[])?;
    if targets.build(stages)? {
        targets.run(stages, FUZZ_SECONDS)?;
    }
    Ok(())
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

/// The tests of all crates, then the examples in documentation. Examples that are programs are linked only where a
/// test starts them: the lints have compiled them.
fn test_crates(stages: &mut StageRunner) -> Result<()> {
    if let Some(programs) = TestPrograms::build(stages, Path::new(&cargo()))? {
        programs.run(stages)?;
    }
    let mut documentation = stages.command(cargo());
    documentation.args(["test", "--workspace", "--no-fail-fast", "--doc"]);
    stages.run_counting("examples in documentation", &mut documentation)?;
    Ok(())
}

/// The cargo that runs this.
fn cargo() -> OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Where cargo puts what it builds.
pub(crate) fn target_directory() -> Result<PathBuf> {
    let metadata = tidy::metadata()?;
    let directory = metadata["target_directory"]
        .as_str()
        .context("cargo metadata names no target directory")?;
    Ok(directory.into())
}
