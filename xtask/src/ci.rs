//! What CI runs. Every step runs even if an earlier one failed, so that one run shows everything.

use std::env;
use std::process::Command;

use anyhow::{Context, Result};

use crate::step::{self, TestCounts};
use crate::{fuzz, sim, tidy};

fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments);
    command
}

/// How long CI fuzzes.
const FUZZ_SECONDS: usize = 120;

/// Format, lints, tidy, tests, fresh seeds of the simulator, fuzzing, the figures of the README, and documentation.
pub(crate) fn ci() -> Result<TestCounts> {
    let mut counts = TestCounts::default();
    counts.add(step::run("format", &mut cargo(&["fmt", "--all", "--", "--check"]))?);
    let lints =
        ["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"];
    counts.add(step::run("lints", &mut cargo(&lints))?);
    println!("== tidy");
    counts.add(TestCounts::one("tidy", tidy::tidy(&tidy::TidyOptions::default())?));
    let tests = ["test", "--workspace", "--no-fail-fast"];
    counts.add(step::run_counting("tests", &mut cargo(&tests))?);
    counts.add(sim::fresh_seeds()?);
    counts.add(fuzz::fuzz(FUZZ_SECONDS, &[])?);
    let mut readme = Command::new("bench/compare");
    counts.add(step::run("figures of the README", readme.arg("--check-readme"))?);
    let mut docs = cargo(&["doc", "--workspace", "--no-deps", "--document-private-items"]);
    docs.env("RUSTDOCFLAGS", "-D warnings -A rustdoc::private-intra-doc-links");
    counts.add(step::run("documentation", &mut docs)?);
    Ok(counts)
}

/// Installs what the tests need, then `ci`, then the tests that run whole processes, on a release build.
pub(crate) fn test() -> Result<bool> {
    let mut counts = TestCounts::default();
    counts.add(step::run("packages", Command::new("tests/run").arg("--install-only"))?);
    counts.add(ci()?);
    let build = ["build", "--release", "--bin", "varve"];
    let built = step::run("release build", &mut cargo(&build))?;
    let is_built = built.failed == 0;
    counts.add(built);
    if is_built {
        let binary = target_directory()?.join("release/varve");
        let mut processes = Command::new("tests/run");
        counts.add(step::run_counting("whole processes", processes.env("VARVE", binary))?);
    }
    Ok(counts.report())
}

/// Where cargo puts what it builds.
pub(crate) fn target_directory() -> Result<std::path::PathBuf> {
    let metadata = tidy::metadata()?;
    let directory = metadata["target_directory"]
        .as_str()
        .context("cargo metadata names no target directory")?;
    Ok(directory.into())
}
