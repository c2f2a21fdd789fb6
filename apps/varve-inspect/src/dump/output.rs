//! Where a dump goes: standard output, buffered; and how much could not be read.

use std::fmt::Display;
use std::io::{self, BufWriter, Stdout, Write};

use serde_json::Value;
use varve_client::{Failure, Result};

/// Lines for standard output.
pub struct Output {
    to: BufWriter<Stdout>,
    is_json: bool,
    /// What kept the last line from being written; a reader that went away early is no failure.
    error: Option<io::Error>,
    unreadable: u64,
}

impl Output {
    /// Nothing yet; lists are JSON, an object a line, or text.
    pub fn new(is_json: bool) -> Self {
        Self { to: BufWriter::new(io::stdout()), is_json, error: None, unreadable: 0 }
    }

    /// Whether nobody reads any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.error.is_some()
    }

    pub(crate) fn line(&mut self, text: impl Display) {
        if self.error.is_none() {
            self.error = writeln!(self.to, "{text}").err();
        }
    }

    /// One row of a list, in the form that was asked for (DUMP-2).
    pub(crate) fn row(&mut self, json: impl FnOnce() -> Value, text: impl FnOnce() -> String) {
        if self.is_json {
            self.line(json());
        } else {
            self.line(text());
        }
    }

    /// Says in its place that something cannot be read (DUMP-1).
    pub(crate) fn unreadable(&mut self, what: impl Display, why: impl Display) {
        self.unreadable += 1;
        let (what, why) = (what.to_string(), why.to_string());
        self.row(
            || serde_json::json!({ "unreadable": what, "why": why }),
            || format!("{what}: unreadable: {why}"),
        );
    }

    /// Writes out what is left.
    pub fn end(mut self) -> Result<String> {
        let error = self.error.take().or_else(|| self.to.flush().err());
        match error {
            Some(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(Failure::new(format!("write to standard output: {error}")))
            }
            _ if self.unreadable > 0 => {
                let things = if self.unreadable == 1 { "structure" } else { "structures" };
                Err(Failure::new(format!("{} {things} could not be read", self.unreadable))
                    .hint("`varve check` says what it means"))
            }
            _ => Ok(String::new()),
        }
    }
}
