//! Goal: job files that nobody here wrote run, or are refused for an engine that no target stands for. Method: fio's
//! own examples, of Debian's package `fio-examples`; fio's licence keeps copies out of this repository.

use std::fs;
use std::path::Path;

use varve_tool_bench::fio::FioFile;

/// Where Debian installs them.
const EXAMPLES: &str = "/usr/share/doc/fio/examples";

/// Examples that run or are refused for their engine at least, in percent: others ask for what this generator does not
/// do, and are told so.
const UNDERSTOOD_PERCENT_MIN: usize = 60;

#[test]
fn fio_s_own_examples_run_or_name_what_is_missing() {
    let folder = Path::new(EXAMPLES);
    assert!(folder.is_dir(), "install fio-examples, as tests/packages says");
    let (mut all, mut run, mut engines, mut others) = (0, 0, 0, Vec::new());
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "fio") {
            continue;
        }
        all += 1;
        let text = fs::read_to_string(&path).unwrap();
        let variable = |_: &str| Some("1".to_owned());
        // As with --duration, which says how long.
        match FioFile::read_with(&text, variable).and_then(|file| file.jobs(false)) {
            Ok(jobs) => {
                assert!(!jobs.is_empty(), "{}", path.display());
                run += 1;
            }
            Err(error) => {
                let reason = error.to_string();
                assert!(reason.starts_with("line "), "{}: {reason}", path.display());
                if reason.contains("is an engine that no target here stands for") {
                    engines += 1;
                } else {
                    others.push(format!("{}: {reason}", path.display()));
                }
            }
        }
    }
    let report = format!("{all} files: {run} run, {engines} other engines\n{}", others.join("\n"));
    println!("{report}");
    assert!(all >= 80, "{report}");
    assert!((run + engines) * 100 >= all * UNDERSTOOD_PERCENT_MIN, "{report}");
}
