//! Commits: a subject of at most 65 characters, `layer: imperative`, and a body that says why.
//!
//! Commits after the one that the list of ratchets names are judged. Where git or that commit is missing, as in a
//! shallow clone, none are: they were judged where they were made.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::tidy::ratchets::place::CountedPlace;
use crate::tidy::ratchets::sources::Sources;
use crate::tidy::tree::Tree;

const SUBJECT_CHARACTERS_MAX: usize = 65;
/// As many are looked at.
const COMMITS_MAX: &str = "1000";

/// Verbs that end as other forms do.
const VERBS: [&str; 14] = [
    "bring", "embed", "exceed", "feed", "focus", "need", "ping", "proceed", "ring", "seed", "shed",
    "speed", "string", "succeed",
];

/// First words of subjects that are no commands.
const NO_VERBS: [&str; 16] = [
    "a", "all", "also", "an", "fewer", "is", "its", "less", "more", "new", "no", "now", "some",
    "the", "this", "wip",
];

/// Lines that belong to tools.
const TRAILERS: [&str; 5] =
    ["Change-Id:", "Co-authored-by:", "Reviewed-by:", "Signed-off-by:", "(cherry picked"];

/// One commit.
pub(crate) struct Commit {
    pub(crate) id: String,
    pub(crate) subject: String,
    pub(crate) body: String,
}

impl Commit {
    /// Those after `since`, newest first; none where they cannot be read.
    pub(crate) fn read(root: &Path, since: &str) -> Option<Vec<Self>> {
        let output = Command::new("git")
            .args(["log", "--no-merges", "--format=%h%x1f%s%x1f%b%x1e", "--max-count", COMMITS_MAX])
            .arg(format!("{since}..HEAD"))
            .arg("--")
            .current_dir(root)
            .output()
            .ok()
            .filter(|output| output.status.success())?;
        Some(Self::parse(&String::from_utf8_lossy(&output.stdout)))
    }

    fn parse(log: &str) -> Vec<Self> {
        let commits = log.split('\u{1e}').filter_map(|commit| {
            let mut parts = commit.trim_start().splitn(3, '\u{1f}').map(str::to_owned);
            Some(Self { id: parts.next()?, subject: parts.next()?, body: parts.next()? })
        });
        commits.collect()
    }

    fn faults(&self, layers: &BTreeSet<String>) -> Vec<String> {
        let mut faults = Vec::new();
        let characters = self.subject.chars().count();
        if characters > SUBJECT_CHARACTERS_MAX {
            faults.push(format!("the subject has {characters} characters"));
        }
        match self.subject.split_once(": ") {
            Some((layer, _)) if !layers.contains(layer) => {
                faults.push(format!("`{layer}` is not a crate, a directory or a part of one"));
            }
            Some((_, what)) if !is_imperative(what) => {
                faults.push("the subject does not begin with a verb in the imperative".to_owned());
            }
            Some(_) => {}
            None => faults.push("the subject names no layer".to_owned()),
        }
        let is_prose = |line: &str| {
            !line.trim().is_empty() && !TRAILERS.iter().any(|trailer| line.starts_with(trailer))
        };
        if !self.body.lines().any(is_prose) {
            faults.push("no body says why".to_owned());
        }
        faults
    }
}

/// The commits that have faults.
pub(crate) fn count(sources: &Sources<'_>) -> Vec<CountedPlace> {
    let layers = layers(sources.tree);
    let mut found = Vec::new();
    for commit in sources.commits.iter().flatten() {
        let faults = commit.faults(&layers);
        if !faults.is_empty() {
            found.push(CountedPlace::whole(
                &commit.id,
                format!("{}: {}", commit.subject, faults.join("; ")),
            ));
        }
    }
    found
}

/// Whether a text seems to begin with a verb in the imperative: programs know verbs by their endings only.
fn is_imperative(text: &str) -> bool {
    let word = text.split(' ').next().unwrap_or_default();
    let is_word = word.starts_with(|letter: char| letter.is_ascii_lowercase());
    let is_other_form = word.ends_with("ed")
        || word.ends_with("ing")
        || word.ends_with('s') && !word.ends_with("ss");
    is_word && (VERBS.contains(&word) || !is_other_form && !NO_VERBS.contains(&word))
}

/// What stands in front of subjects: crates by their names with and without those of their families, what lies in the
/// top directory, and the parts of applications, `xtask`, `tests` and `bench`.
fn layers(tree: &Tree) -> BTreeSet<String> {
    let mut layers = BTreeSet::new();
    for file in &tree.files {
        let parts: Vec<&str> = file.path.split('/').collect();
        let name = |part: &str| part.split('.').next().unwrap_or_default().to_lowercase();
        layers.insert(name(parts[0]));
        match parts[..] {
            ["crates", package, ..] => {
                let mut package = package;
                while let Some((_, shorter)) = package.split_once('-') {
                    layers.insert(shorter.to_owned());
                    package = shorter;
                }
            }
            ["apps", package, ref rest @ ..] => {
                let short = package.strip_prefix("varve-").unwrap_or(package);
                layers.extend([package.to_owned(), short.to_owned()]);
                if let ["src", part, ..] = rest {
                    layers.insert(name(part));
                }
            }
            ["xtask", "src", part, ..] | ["tests" | "bench", part, ..] => {
                layers.extend([name(part)])
            }
            _ => {}
        }
    }
    layers.retain(|layer| !layer.is_empty());
    layers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::ratchets::sources::places_in_commits;

    const FILES: [(&str, &str); 4] = [
        ("crates/varve-access-nbd/src/lib.rs", ""),
        ("apps/varve/src/cli.rs", ""),
        ("docs/format.md", ""),
        ("xtask/src/tidy/mod.rs", ""),
    ];

    fn faults(subject: &str, body: &str) -> Vec<String> {
        let commit =
            Commit { id: "abc".to_owned(), subject: subject.to_owned(), body: body.to_owned() };
        places_in_commits(count, &FILES, vec![commit])
    }

    #[test]
    fn commits_that_say_what_and_why_pass() {
        for layer in ["nbd", "access-nbd", "cli", "docs", "tidy", "apps", "varve"] {
            let found = faults(&format!("{layer}: pass a flush on"), "It was lost.\n");
            assert!(found.is_empty(), "{found:?}");
        }
        for verb in ["embed", "bring", "compress", "refuse"] {
            assert!(is_imperative(&format!("{verb} x")), "{verb}");
        }
    }

    #[test]
    fn subjects_and_bodies_with_faults_are_counted_once_a_commit() {
        let all =
            faults("mind: a very long subject that goes on and on and on until it is too long", "");
        assert_eq!(all.len(), 1, "{all:?}");
        assert!(all[0].contains("has 73 characters; `mind` is not a crate"), "{all:?}");
        assert!(all[0].ends_with("no body says why"), "{all:?}");
        assert!(faults("Pass a flush on", "It was lost.")[0].ends_with("names no layer"));
        for form in ["passed", "passing", "passes", "a", "Pass", "wip"] {
            assert!(!is_imperative(&format!("{form} flush")), "{form}");
        }
        let trailer = faults("nbd: pass a flush on", "\nSigned-off-by: A <a@b>\n");
        assert!(trailer[0].ends_with("no body says why"), "{trailer:?}");
    }

    #[test]
    fn the_log_is_read_back() {
        let log = "a1\u{1f}nbd: pass\u{1f}Why.\n\nMore.\n\u{1e}\nb2\u{1f}cli: print\u{1f}\u{1e}\n";
        let commits = Commit::parse(log);
        let read: Vec<_> =
            commits.iter().map(|commit| (commit.id.as_str(), commit.body.as_str())).collect();
        assert_eq!(read, [("a1", "Why.\n\nMore.\n"), ("b2", "")]);
    }

    #[test]
    fn history_that_is_not_there_is_left_out() {
        let directory = tempfile::tempdir().unwrap();
        assert!(Commit::read(directory.path(), "HEAD").is_none());
        let git = |arguments: &[&str]| {
            let done =
                Command::new("git").args(arguments).current_dir(directory.path()).output().unwrap();
            assert!(done.status.success(), "{done:?}");
        };
        git(&["init", "--quiet"]);
        let commit = [
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
            "commit",
            "--quiet",
            "--allow-empty",
            "-m",
        ];
        git(&[&commit[..], &["first"]].concat());
        git(&[&commit[..], &["nbd: second", "-m", "Why."]].concat());
        let read = Commit::read(directory.path(), "HEAD~1").unwrap();
        assert_eq!(read.len(), 1);
        assert_eq!((read[0].subject.as_str(), read[0].body.trim()), ("nbd: second", "Why."));
        let unknown = "0123456789012345678901234567890123456789";
        assert!(Commit::read(directory.path(), unknown).is_none());
    }
}
