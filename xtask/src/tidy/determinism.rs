//! Below access, time, sleep, threads and randomness come from the reactor, so that one seed gives one run.
//!
//! Clippy's list of disallowed methods holds for a whole workspace; this one holds for the layers it is about.

use crate::tidy::source::{code_only, without_tests};
use crate::tidy::tree::{Finding, SourceFile, Tree};

const LAYERS: [&str; 13] = [
    "varve-types",
    "varve-stdx",
    "varve-parity",
    "varve-media",
    "varve-logstore",
    "varve-engine",
    "varve-dispatch",
    "varve-dataset",
    "varve-dataset-content",
    "varve-object",
    "varve-register",
    "varve-membership",
    "varve-media-redundancy",
];

/// Files of these that open drives of a real machine: the system may not answer, so that another thread has to ask.
const OF_REAL_MACHINES: [&str; 1] = ["crates/varve-media-redundancy/src/places.rs"];

/// What is banned, and what to use instead.
const BANNED: [(&str, &str); 9] = [
    ("Instant::now", "Reactor::now"),
    ("SystemTime::now", "Reactor::unix_time_ms"),
    ("thread::sleep", "Reactor::sleep"),
    ("thread::spawn", "Reactor::spawn, or a shard thread started in apps/"),
    ("thread::Builder", "Reactor::spawn, or a shard thread started in apps/"),
    ("rand::", "Reactor::random_u64, or a generator seeded from it"),
    ("getrandom", "Reactor::random_u64"),
    ("RandomState", "an ordered map, or a hasher with a fixed seed"),
    ("collections::Hash", "an ordered map, or hashbrown with a hasher of a fixed seed"),
];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let shipped = |file: &&SourceFile| {
        let is_real = OF_REAL_MACHINES.contains(&file.path.as_str());
        file.path.contains("/src/") && !file.is_test() && !is_real
    };
    for file in tree.rust().filter(|file| LAYERS.contains(&file.crate_name())).filter(shipped) {
        for (number, line) in without_tests(&code_only(&file.text)).lines().enumerate() {
            for (name, instead) in BANNED.iter().filter(|(name, _)| line.contains(name)) {
                let what = format!("`{name}` makes runs differ: use {instead}");
                findings.push(Finding::line(&file.path, number + 1, what));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::findings_of;

    #[test]
    fn clocks_and_chance_below_access_are_found() {
        let code = "//! X.\nfn f() {\n    let t = std::time::Instant::now();\n}\n#[cfg(test)]\nmod tests {\n    fn g() { thread::sleep(x) }\n}\n";
        let files = [
            ("crates/varve-engine/src/a.rs", code),
            ("crates/varve-engine/tests/a.rs", code),
            ("crates/varve-engine/examples/a.rs", code),
            ("crates/varve-access-nbd/src/a.rs", code),
        ];
        let found = findings_of(check, &files);
        assert_eq!(
            found,
            ["crates/varve-engine/src/a.rs:3: `Instant::now` makes runs differ: use Reactor::now"]
        );
    }
}
