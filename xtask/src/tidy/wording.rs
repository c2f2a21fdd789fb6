//! Habits of wording that readers stumble over, in what users read: documents, help, errors and log lines.

use crate::tidy::tree::{Finding, SourceFile, Tree};

/// A phrase, words that may follow it all the same, and what to write.
struct Habit {
    phrase: &'static str,
    unless: &'static [&'static str],
    instead: &'static str,
}

const HABITS: [Habit; 17] = [
    Habit { phrase: "user of s3", unless: &[], instead: "`S3 user`" },
    Habit { phrase: "users of s3", unless: &[], instead: "`S3 users`" },
    Habit { phrase: "bucket of s3", unless: &[], instead: "`S3 bucket`" },
    Habit { phrase: "buckets of s3", unless: &[], instead: "`S3 buckets`" },
    Habit { phrase: "objects of s3", unless: &[], instead: "`S3 objects`" },
    Habit { phrase: "address of s3", unless: &[], instead: "`S3 address`" },
    Habit {
        phrase: "is no ",
        unless: &["longer", "more", "less", "larger", "smaller", "better", "other", "such", "need"],
        instead: "`invalid …`, or `is not a …`",
    },
    Habit { phrase: "is told", unless: &[], instead: "shown, reported, or who does what" },
    Habit { phrase: "are told", unless: &[], instead: "shown, reported, or who does what" },
    Habit { phrase: "if not said", unless: &[], instead: "`default …`" },
    Habit { phrase: "may be said", unless: &[], instead: "`may be given`" },
    Habit { phrase: "makes a volume", unless: &[" hold"], instead: "`creates a volume`" },
    Habit { phrase: "makes a pool", unless: &[], instead: "`creates a pool`" },
    Habit { phrase: "gone on with", unless: &[], instead: "`resumed`, or `run it again`" },
    Habit { phrase: "least important", unless: &[], instead: "`minimum`" },
    Habit { phrase: "as nobody's", unless: &[], instead: "`without an owner`" },
    Habit { phrase: "` tells", unless: &[], instead: "`shows`, `lists` or `prints`" },
];

/// Documents for users, beside every page of `docs/operating`.
const PAGES: [&str; 5] =
    ["README.md", "docs/s3.md", "docs/nbd.md", "docs/durability.md", "docs/plan.md"];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        for (number, line) in file.text.lines().enumerate() {
            let Some(seen) = seen_by_users(file, line).map(str::to_lowercase) else { continue };
            for habit in HABITS.iter().filter(|habit| habit.is_in(&seen)) {
                let what = format!("`{}`: write {}", habit.phrase.trim(), habit.instead);
                findings.push(Finding::line(&file.path, number + 1, what));
            }
        }
    }
    findings
}

/// The part of a line that users may read.
fn seen_by_users<'a>(file: &SourceFile, line: &'a str) -> Option<&'a str> {
    if PAGES.contains(&file.path.as_str()) || file.path.starts_with("docs/operating/") {
        return Some(line);
    }
    if !file.is_rust() || file.is_test() || file.crate_name() == "xtask" {
        return None;
    }
    let line = line.trim_start();
    let is_help = file.path.starts_with("apps/varve/src/commands/") && line.starts_with("/// ");
    if is_help {
        return Some(line);
    }
    let is_code = !line.starts_with("//") && !line.contains("assert");
    line.find('"').filter(|_| is_code).map(|at| line.get(at..).unwrap_or_default())
}

impl Habit {
    fn is_in(&self, text: &str) -> bool {
        text.match_indices(self.phrase).any(|(at, _)| {
            let before = text.get(..at).unwrap_or_default();
            let behind = text.get(at + self.phrase.len()..).unwrap_or_default();
            let is_there = self.phrase == "is no " && before.ends_with("there ");
            !is_there && !self.unless.iter().any(|word| behind.starts_with(word))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::findings_of;

    #[test]
    fn habits_are_found_where_users_read() {
        let files = [
            (
                "README.md",
                "A name is no size.\nIt is no longer there.\nThere is no such bucket.\n`df` tells\n",
            ),
            ("docs/rfcs/1.md", "A name is no size.\n"),
            ("crates/a/src/b.rs", "// is no size\nlet a = \"`x` is no size\"; // makes a pool\n"),
            ("crates/a/tests/b.rs", "\"is no size\""),
            ("apps/varve/src/commands/c.rs", "    /// Level, 3 if not said\n    //! users of S3\n"),
        ];
        let found = findings_of(check, &files);
        let places: Vec<&str> = found.iter().filter_map(|line| line.split(": ").next()).collect();
        assert_eq!(
            places,
            [
                "README.md:1",
                "README.md:4",
                "crates/a/src/b.rs:2",
                "crates/a/src/b.rs:2",
                "apps/varve/src/commands/c.rs:1"
            ]
        );
    }
}
