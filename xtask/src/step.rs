//! Runs the commands that the checks consist of, and counts the tests they report.

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result};

use crate::times::Times;

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().expect("xtask lies in the repository").to_owned()
}

/// How many tests ran, and how they ended.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct TestCounts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
    /// What failed, as far as its output names it: repeated at the end, below everything that ran after it.
    pub(crate) failures: Vec<String>,
    pub(crate) times: Times,
}

impl TestCounts {
    /// One check that is no test of its own, such as a lint run.
    pub(crate) fn one(title: &str, ok: bool) -> Self {
        let failures = if ok { vec![] } else { vec![title.to_owned()] };
        Self { passed: u64::from(ok), failed: u64::from(!ok), failures, ..Self::default() }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.failures.extend(other.failures);
        self.times.add(other.times);
    }

    /// Prints what took long, what failed and the closing line; whether nothing failed.
    pub(crate) fn report(self) -> bool {
        let Self { passed, failed, skipped, failures, times } = self;
        times.print();
        for failure in failures {
            println!("failed: {failure}");
        }
        if skipped == 0 {
            println!("{passed} passed, {failed} failed");
        } else {
            println!("{passed} passed, {failed} failed, {skipped} skipped");
        }
        failed == 0
    }

    /// Counts what a line of output says of tests.
    pub(crate) fn read_line(&mut self, line: &str) {
        self.times.read_line(line);
        if is_result(line) {
            self.add(Self::of_line(line).unwrap_or_default());
        } else if is_failure(line) {
            self.failures.push(line.to_owned());
        }
    }

    /// Reads `… N passed[;,] N failed[;,] …` as cargo's test harness and `tests/run` print it.
    pub(crate) fn of_line(line: &str) -> Option<Self> {
        let number_before = |word: &str| {
            let before = line.split_once(word)?.0.trim_end();
            before.rsplit(' ').next()?.parse::<u64>().ok()
        };
        let passed = number_before(" passed")?;
        let failed = number_before(" failed")?;
        let skipped = number_before(" skipped").or(number_before(" ignored")).unwrap_or(0);
        Some(Self { passed, failed, skipped, ..Self::default() })
    }
}

/// Runs stages one after the other and adds up what they report.
#[derive(Default)]
pub(crate) struct StageRunner {
    counts: TestCounts,
}

impl StageRunner {
    /// What all stages reported.
    pub(crate) fn into_counts(self) -> TestCounts {
        self.counts
    }

    /// Adds what is no stage of its own.
    pub(crate) fn add(&mut self, counts: TestCounts) {
        self.counts.add(counts);
    }

    /// A command in the root of the repository.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(root());
        command
    }

    /// Runs a command: one check, that passed if the command succeeded. Returns whether it did.
    pub(crate) fn run(&mut self, title: &str, command: &mut Command) -> Result<bool> {
        let begin = Instant::now();
        println!("== {title}");
        let status = command.status().with_context(|| format!("start {command:?}"))?;
        Ok(self.end(title, begin, TestCounts::one(title, status.success())))
    }

    /// Runs a command: one check. What it printed on its standard output, if it succeeded.
    pub(crate) fn run_for_output(
        &mut self,
        title: &str,
        command: &mut Command,
    ) -> Result<Option<String>> {
        let begin = Instant::now();
        println!("== {title}");
        let output = command.stderr(Stdio::inherit()).output();
        let output = output.with_context(|| format!("start {command:?}"))?;
        let is_ok = self.end(title, begin, TestCounts::one(title, output.status.success()));
        let text = String::from_utf8(output.stdout).context("read the output of a command")?;
        Ok(is_ok.then_some(text))
    }

    /// Runs a command and adds up the test results in its output. A command that fails without a failed test counts
    /// as one. Returns whether none failed.
    pub(crate) fn run_counting(&mut self, title: &str, command: &mut Command) -> Result<bool> {
        println!("== {title}");
        let begin = Instant::now();
        // Both in one pipe: cargo names the programs on the one, and they print their results on the other.
        let (output, input) = io::pipe().context("create a pipe")?;
        command.stdout(input.try_clone().context("share a pipe")?).stderr(input);
        let mut child = command.spawn().with_context(|| format!("start {command:?}"))?;
        // Drops this side's ends, so that the pipe ends with the child.
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut counts = TestCounts::default();
        for line in BufReader::new(output).split(b'\n') {
            let line = line.context("read test output")?;
            let line = String::from_utf8_lossy(&line);
            println!("{line}");
            counts.read_line(&line);
        }
        let status = child.wait().context("wait for the tests")?;
        if !status.success() && counts.failed == 0 {
            counts.add(TestCounts::one(title, false));
        }
        Ok(self.end(title, begin, counts))
    }

    /// Adds what a stage reported and says how long it took; whether nothing in it failed.
    pub(crate) fn end(&mut self, title: &str, begin: Instant, mut counts: TestCounts) -> bool {
        let took = begin.elapsed();
        let is_ok = counts.failed == 0;
        let outcome = if is_ok { "ok" } else { "FAILED" };
        println!("== {title}: {outcome} in {} s", took.as_secs());
        counts.times.add_stage(title, took);
        self.counts.add(counts);
        is_ok
    }
}

/// A line that reports results: cargo's, or one that consists of nothing else.
fn is_result(line: &str) -> bool {
    line.starts_with("test result: ")
        || line.starts_with(|c: char| c.is_ascii_digit()) && line.contains(" passed, ")
}

/// A line that names a test that failed: cargo's, or one of `tests/run`.
fn is_failure(line: &str) -> bool {
    line.starts_with("test ") && line.ends_with(" ... FAILED") || line.starts_with("FAIL ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_read_from_both_forms() {
        let cargo = "test result: ok. 5 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out";
        assert!(is_result(cargo));
        let counts = TestCounts { passed: 5, failed: 1, skipped: 2, ..TestCounts::default() };
        assert_eq!(TestCounts::of_line(cargo), Some(counts.clone()));
        assert!(is_result("5 passed, 1 failed, 2 skipped"));
        assert_eq!(TestCounts::of_line("5 passed, 1 failed, 2 skipped"), Some(counts));
        assert_eq!(
            TestCounts::of_line("12 passed, 0 failed"),
            Some(TestCounts { passed: 12, ..TestCounts::default() })
        );
        assert!(!is_result("test that_5 passed, or so ... ok"));
        assert_eq!(TestCounts::of_line("nothing"), None);
    }

    fn counts_of(title: &str, script: &str) -> (bool, TestCounts) {
        let mut stages = StageRunner::default();
        let mut command = stages.command("sh");
        let is_ok = stages.run_counting(title, command.args(["-c", script])).unwrap();
        (is_ok, stages.into_counts())
    }

    #[test]
    fn a_command_that_dies_without_a_result_counts_as_failed() {
        let (is_ok, counts) = counts_of("dies", "echo hello; exit 3");
        assert!(!is_ok);
        assert_eq!((counts.failed, counts.failures), (1, vec!["dies".to_owned()]));
    }

    #[test]
    fn results_of_several_programs_add_up() {
        let script = "echo 'test that ... FAILED'; echo 'test result: ok. 2 passed; 0 failed; 0 ignored'; echo '3 passed, 1 failed'; exit 1";
        let (_, counts) = counts_of("adds", script);
        let failures = vec!["test that ... FAILED".to_owned()];
        assert_eq!((counts.passed, counts.failed, counts.skipped), (5, 1, 0));
        assert_eq!(counts.failures, failures);
    }
}
