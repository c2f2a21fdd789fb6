//! Where the time of a run goes: its stages, and its slowest tests.

use std::time::Duration;

/// Tests that are listed.
const SLOWEST: usize = 20;

/// What took how long.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Times {
    stages: Vec<Timed>,
    tests: Vec<Timed>,
    /// The test program that runs, as cargo named it.
    program: Option<String>,
}

/// Something that took a while.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Timed {
    name: String,
    took: Duration,
}

impl Times {
    /// Counts a stage; several of one title count as one.
    pub(crate) fn add_stage(&mut self, title: &str, took: Duration) {
        match self.stages.iter_mut().find(|stage| stage.name == title) {
            Some(stage) => stage.took += took,
            None => self.stages.push(Timed { name: title.to_owned(), took }),
        }
    }

    /// Takes the times out of a line that cargo, its test harness or `tests/run` printed.
    pub(crate) fn read_line(&mut self, line: &str) {
        if let Some(program) = program(line) {
            self.program = Some(program);
        } else if let Some((_, seconds)) = line.split_once("; finished in ") {
            let name = self.program.take().unwrap_or_default();
            self.add_test(&name, seconds.trim_end_matches('s'));
        } else if let Some(test) = line.strip_prefix("PASS ")
            && let Some((name, seconds)) = test.split_once(' ')
        {
            self.add_test(name, seconds.trim_end_matches(" s"));
        }
    }

    fn add_test(&mut self, name: &str, seconds: &str) {
        let took =
            seconds.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        if let Some(took) = took {
            self.tests.push(Timed { name: name.to_owned(), took });
        }
    }

    pub(crate) fn add(&mut self, other: Self) {
        for stage in other.stages {
            self.add_stage(&stage.name, stage.took);
        }
        self.tests.extend(other.tests);
    }

    /// The stages in their order, then the slowest tests.
    pub(crate) fn print(mut self) {
        if self.stages.is_empty() {
            return;
        }
        println!("== times of stages");
        for stage in &self.stages {
            println!("{:>8.1} s  {}", stage.took.as_secs_f64(), stage.name);
        }
        println!("== slowest test programs");
        self.tests.sort_by_key(|test| std::cmp::Reverse(test.took));
        for test in self.tests.iter().take(SLOWEST) {
            println!("{:>8.1} s  {}", test.took.as_secs_f64(), test.name);
        }
    }
}

/// The test program that a line of cargo says it runs.
fn program(line: &str) -> Option<String> {
    let line = line.trim_start();
    if let Some(package) = line.strip_prefix("Doc-tests ") {
        return Some(format!("{package} (documentation)"));
    }
    let (source, path) = line.strip_prefix("Running ")?.split_once(" (")?;
    let file = path.trim_end_matches(')').rsplit('/').next()?;
    let program = file.rsplit_once('-').map_or(file, |(name, _)| name);
    Some(format!("{program} {}", source.trim_start_matches("unittests ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_from_all_forms() {
        let mut times = Times::default();
        for line in [
            "     Running unittests src/lib.rs (target/debug/deps/varve_engine-0a1b)",
            "test result: ok. 5 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.25s",
            "   Doc-tests varve_stdx",
            "test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.50s",
            "PASS stalls 65.6 s",
            "PASS of another kind",
        ] {
            times.read_line(line);
        }
        let found: Vec<_> =
            times.tests.iter().map(|test| (test.name.as_str(), test.took.as_millis())).collect();
        let documentation = "varve_stdx (documentation)";
        assert_eq!(
            found,
            [("varve_engine src/lib.rs", 1250), (documentation, 500), ("stalls", 65_600)]
        );
    }

    #[test]
    fn stages_of_one_title_are_one() {
        let mut times = Times::default();
        times.add_stage("seeds", Duration::from_secs(2));
        let mut others = Times::default();
        others.add_stage("seeds", Duration::from_secs(3));
        others.add_stage("docs", Duration::from_secs(1));
        times.add(others);
        let seconds: Vec<_> = times.stages.iter().map(|stage| stage.took.as_secs()).collect();
        assert_eq!(seconds, [5, 1]);
    }
}
