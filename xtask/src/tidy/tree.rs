//! The files of the repository as the checks see them, and what a check says about one.

use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Every file that is or would be committed.
pub(crate) struct Tree {
    pub(crate) files: Vec<SourceFile>,
}

/// One file.
pub(crate) struct SourceFile {
    /// Path from the root of the repository.
    pub(crate) path: String,
    /// Size in bytes.
    pub(crate) size_bytes: u64,
    /// Its text; empty when it has none.
    pub(crate) text: String,
}

/// What a check found.
pub(crate) struct Finding {
    path: String,
    line: Option<usize>,
    what: String,
}

impl Finding {
    /// About a file as a whole.
    pub(crate) fn file(path: &str, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: None, what: what.into() }
    }

    /// About one line, counted from 1.
    pub(crate) fn line(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: Some(line), what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.path, self.what),
            None => write!(f, "{}: {}", self.path, self.what),
        }
    }
}

impl SourceFile {
    /// Whether it is Rust source.
    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Whether all of it is test code.
    pub(crate) fn is_test(&self) -> bool {
        let parts: Vec<&str> = self.path.split('/').collect();
        let inside = |name| parts.iter().rev().skip(1).any(|part| *part == name);
        inside("tests") || inside("benches") || inside("fuzz") || self.path.ends_with("/tests.rs")
    }

    /// The crate or top-level directory it lies in, such as `varve-engine`.
    pub(crate) fn crate_name(&self) -> &str {
        let mut parts = self.path.split('/');
        match parts.next() {
            Some("crates" | "apps") => parts.next().unwrap_or_default(),
            first => first.unwrap_or_default(),
        }
    }
}

impl Tree {
    /// Reads what git tracks or would add.
    pub(crate) fn load(root: &Path) -> Result<Self> {
        let output = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(root)
            .output()
            .context("run git ls-files")?;
        ensure!(output.status.success(), "git ls-files failed in {}", root.display());
        let mut files = Vec::new();
        for path in output.stdout.split(|byte| *byte == 0).filter(|path| !path.is_empty()) {
            let path = String::from_utf8(path.to_vec()).context("a file name is not UTF-8")?;
            // Deleted but not staged yet, or a link to elsewhere.
            let Ok(metadata) = fs::symlink_metadata(root.join(&path)) else { continue };
            if !metadata.is_file() {
                continue;
            }
            let text = fs::read_to_string(root.join(&path)).unwrap_or_default();
            files.push(SourceFile { path, size_bytes: metadata.len(), text });
        }
        Ok(Self { files })
    }

    /// A tree made of these paths and texts.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let file = |(path, text): &(&str, &str)| SourceFile {
            path: (*path).to_owned(),
            size_bytes: text.len() as u64,
            text: (*text).to_owned(),
        };
        Self { files: files.iter().map(file).collect() }
    }

    /// The Rust files.
    pub(crate) fn rust(&self) -> impl Iterator<Item = &SourceFile> {
        self.files.iter().filter(|file| file.is_rust())
    }

    /// The file at `path`.
    pub(crate) fn file(&self, path: &str) -> Option<&SourceFile> {
        self.files.iter().find(|file| file.path == path)
    }
}

/// Paths that differ from the upstream, or from the last commit where there is none.
pub(crate) fn changed(root: &Path) -> Vec<String> {
    let list = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).current_dir(root).output().ok();
        let output = output.filter(|output| output.status.success())?;
        let paths = String::from_utf8_lossy(&output.stdout);
        Some(paths.lines().map(str::to_owned).collect::<Vec<_>>())
    };
    let upstream = ["diff", "--name-only", "--merge-base", "@{upstream}"];
    let tracked = list(&upstream).or_else(|| list(&["diff", "--name-only", "HEAD"]));
    let untracked = list(&["ls-files", "--others", "--exclude-standard"]);
    [tracked, untracked].into_iter().flatten().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_know_their_crate_and_whether_they_are_tests() {
        let tree = Tree::of(&[
            ("crates/varve-engine/src/write.rs", ""),
            ("crates/varve-engine/src/write/tests.rs", ""),
            ("apps/varve/tests/cli/rig.rs", ""),
            ("xtask/src/main.rs", ""),
        ]);
        let facts: Vec<_> = tree.rust().map(|file| (file.crate_name(), file.is_test())).collect();
        let expected =
            [("varve-engine", false), ("varve-engine", true), ("varve", true), ("xtask", false)];
        assert_eq!(facts, expected);
    }
}
