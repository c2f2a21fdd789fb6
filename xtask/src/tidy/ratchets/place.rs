//! A place that a ratchet counts.

use std::fmt;

use serde::Serialize;

/// Where something is that should not be there, and how much of it.
#[derive(Serialize, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct CountedPlace {
    /// Path from the root of the repository, or the id of a commit.
    pub(crate) path: String,
    /// Line, counted from 1; none for all of it.
    pub(crate) line: Option<usize>,
    /// What is there.
    pub(crate) what: String,
    /// What it counts where the largest place is the figure, such as the fields of a struct; else 1.
    pub(crate) size: usize,
}

impl CountedPlace {
    /// One thing at a line.
    pub(crate) fn line(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: Some(line), what: what.into(), size: 1 }
    }

    /// One thing of a file or commit as a whole.
    pub(crate) fn whole(path: &str, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: None, what: what.into(), size: 1 }
    }

    /// The same as something that counts `size`.
    pub(crate) fn of_size(self, size: usize) -> Self {
        Self { size, ..self }
    }
}

impl fmt::Display for CountedPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.path, self.what),
            None => write!(f, "{}: {}", self.path, self.what),
        }
    }
}
