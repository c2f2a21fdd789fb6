//! The programs that cargo makes of the tests, run side by side: some compute, others wait for processes of theirs.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Instant;
use std::{str, thread};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::step::{StageRunner, TestCounts, root};

/// They take longest, so they begin first: none of them is left over at the end.
const LONGEST: [&str; 2] = ["cli", "planted_bugs"];

/// A program of tests.
#[derive(Clone, PartialEq, Eq, Debug)]
struct TestProgram {
    /// As cargo names it: where its source is.
    source: String,
    executable: PathBuf,
    /// Of its package: where cargo runs it.
    directory: PathBuf,
    is_longest: bool,
}

/// All of them.
pub(crate) struct TestPrograms(Vec<TestProgram>);

impl TestPrograms {
    /// Has cargo build them: those of libraries, binaries and test targets, and the example that tests start. `None`
    /// when that failed.
    pub(crate) fn build(stages: &mut StageRunner, cargo: &Path) -> Result<Option<Self>> {
        let mut build = stages.command(cargo);
        build.args(["test", "--workspace", "--no-run", "--lib", "--bins", "--tests"]);
        build.args(["--example", "memory_server", "--message-format", "json-render-diagnostics"]);
        let Some(messages) = stages.run_for_output("build the tests", &mut build)? else {
            return Ok(None);
        };
        let programs = messages.lines().map(program_of);
        let mut programs: Vec<_> =
            programs.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
        ensure!(!programs.is_empty(), "cargo built no test programs");
        programs.sort_by_key(|program| !program.is_longest);
        Ok(Some(Self(programs)))
    }

    /// Runs all of them, as many at a time as there are processors. What one prints is shown when it has ended.
    pub(crate) fn run(self, stages: &mut StageRunner) -> Result<()> {
        println!("== tests");
        let begin = Instant::now();
        let queue = Mutex::new(VecDeque::from(self.0));
        let counts = Mutex::new(Ok(TestCounts::default()));
        let next = || queue.lock().expect("no thread panicked").pop_front();
        let workers = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|| {
                    while let Some(program) = next() {
                        let outcome = program.run();
                        let mut counts = counts.lock().expect("no thread panicked");
                        match (&mut *counts, outcome.and_then(|outcome| outcome.report())) {
                            (Ok(counts), Ok(of_program)) => counts.add(of_program),
                            (counts @ Ok(_), Err(error)) => *counts = Err(error),
                            (Err(_), _) => {}
                        }
                    }
                });
            }
        });
        stages.end("tests", begin, counts.into_inner().expect("no thread panicked")?);
        Ok(())
    }
}

/// What a program printed, and how it ended.
struct Outcome<'a> {
    program: &'a TestProgram,
    output: Vec<u8>,
    has_succeeded: bool,
}

impl TestProgram {
    fn run(&self) -> Result<Outcome<'_>> {
        let (mut output, input) = io::pipe().context("create a pipe")?;
        let mut command = Command::new(&self.executable);
        command.current_dir(&self.directory).env("CARGO_MANIFEST_DIR", &self.directory);
        command
            .stdin(Stdio::null())
            .stdout(input.try_clone().context("share a pipe")?)
            .stderr(input);
        let child = command.spawn();
        // Drops this side's ends, so that the pipe ends with the child.
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = child.with_context(|| format!("start {}", self.executable.display()))?;
        let mut bytes = Vec::new();
        output.read_to_end(&mut bytes).context("read test output")?;
        let status = child.wait().context("wait for the tests")?;
        Ok(Outcome { program: self, output: bytes, has_succeeded: status.success() })
    }
}

impl Outcome<'_> {
    /// Prints it as cargo would, and counts. A program that fails without a failed test counts as one.
    fn report(&self) -> Result<TestCounts> {
        let TestProgram { source, executable, .. } = self.program;
        let text = String::from_utf8_lossy(&self.output);
        let heading = format!("     Running {source} ({})", executable.display());
        let mut counts = TestCounts::default();
        let mut out = io::stdout().lock();
        for line in std::iter::once(heading.as_str()).chain(text.lines()) {
            io::Write::write_fmt(&mut out, format_args!("{line}\n"))
                .context("print test output")?;
            counts.read_line(line);
        }
        if !self.has_succeeded && counts.failed == 0 {
            counts.add(TestCounts::one(source, false));
        }
        Ok(counts)
    }
}

/// The test program that a message of cargo announces, if it does.
fn program_of(line: &str) -> Result<Option<TestProgram>> {
    let message: Value = serde_json::from_str(line).context("read a message of cargo")?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return Ok(None);
    }
    let Some(executable) = text(&message["executable"]).map(PathBuf::from) else { return Ok(None) };
    let manifest =
        text(&message["manifest_path"]).map(PathBuf::from).context("a package has a manifest")?;
    let path =
        text(&message["target"]["src_path"]).map(PathBuf::from).context("a target has a source")?;
    let name = text(&message["target"]["name"]).context("a target has a name")?;
    let directory = manifest.parent().context("a manifest is in a directory")?.to_owned();
    let source = path.strip_prefix(root()).unwrap_or(&path).display().to_string();
    let is_longest = LONGEST.contains(&name.as_str());
    Ok(Some(TestProgram { source, executable, directory, is_longest }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_messages_of_test_programs_count() {
        let message = |test: bool, executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/r/crates/a/Cargo.toml","profile":{{"test":{test}}},
                "target":{{"name":"cli","src_path":"/r/crates/a/tests/cli/main.rs"}},"executable":{executable}}}"#
            )
        };
        let program = program_of(&message(true, r#""/t/cli-0a""#)).unwrap().unwrap();
        assert_eq!(program.directory, Path::new("/r/crates/a"));
        assert_eq!(
            (program.source.as_str(), program.is_longest),
            ("/r/crates/a/tests/cli/main.rs", true)
        );
        assert_eq!(program_of(&message(false, r#""/t/cli-0a""#)).unwrap(), None);
        assert_eq!(program_of(&message(true, "null")).unwrap(), None);
        assert_eq!(program_of(r#"{"reason":"build-finished","success":true}"#).unwrap(), None);
        assert!(program_of("no JSON").is_err());
    }

    #[test]
    fn a_program_that_dies_counts_as_one_failed_test() {
        let program = TestProgram {
            source: "dies".to_owned(),
            executable: "/bin/false".into(),
            directory: root(),
            is_longest: false,
        };
        let outcome = program.run().unwrap();
        assert!(!outcome.has_succeeded && outcome.output.is_empty());
        let counts = outcome.report().unwrap();
        assert_eq!((counts.failed, counts.failures), (1, vec!["dies".to_owned()]));
    }
}
