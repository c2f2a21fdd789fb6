//! What a command says when it fails: what, where, and what to do; and the exit code.

use std::fmt;

use serde_json::json;
use varve_types::ErrorKind;

/// Result of a command and its parts.
pub type Result<T> = std::result::Result<T, Failure>;

/// Colours of a terminal: those of the parser's own errors.
const RED: &str = "\x1b[1;31m";
const GREEN: &str = "\x1b[32m";
const PLAIN: &str = "\x1b[0m";

/// A failure as people read it.
#[derive(Clone, Debug)]
pub struct Failure {
    what: String,
    hint: Option<String>,
    misuse: bool,
    /// The kind that the daemon gave it, where it came from there.
    kind: Option<String>,
    /// Exit code that the command documents, if it has one for this.
    code: Option<u8>,
}

impl Failure {
    /// The command was understood but could not be carried out: exit code 1.
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), hint: None, misuse: false, kind: None, code: None }
    }

    /// The command line or configuration is wrong: exit code 2.
    pub fn misuse(what: impl Into<String>) -> Self {
        Self { what: what.into(), hint: None, misuse: true, kind: None, code: None }
    }

    /// A failure with an exit code that the command documents.
    pub fn with_code(what: impl Into<String>, code: u8) -> Self {
        Self { code: Some(code), ..Self::new(what) }
    }

    /// The same for a command that could not begin: exit code 2.
    pub fn before_anything(self) -> Self {
        Self { misuse: true, ..self }
    }

    /// Adds where it happened.
    pub fn within(self, place: &str) -> Self {
        Self { what: format!("{place}: {}", self.what), ..self }
    }

    /// Adds what the user can do.
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Adds the kind that the daemon gave it.
    pub fn of_kind(self, kind: impl Into<String>) -> Self {
        Self { kind: Some(kind.into()), ..self }
    }

    /// Whether the daemon gave it this kind.
    pub fn is(&self, kind: ErrorKind) -> bool {
        self.kind.as_deref() == Some(kind.to_string().replace(' ', "_").as_str())
    }

    /// Says something before what failed.
    pub fn prefixed(self, text: &str) -> Self {
        Self { what: format!("{text}{}", self.what), ..self }
    }

    /// Says something behind what failed.
    pub fn followed(self, text: &str) -> Self {
        Self { what: format!("{}{text}", self.what), ..self }
    }

    /// What failed, without what to do.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// What to do.
    pub fn advice(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// The same for a terminal, with the parser's colours.
    pub fn to_coloured(&self) -> String {
        let hint = self.hint.as_ref();
        let hint = hint.map_or_else(String::new, |hint| format!("\n  {GREEN}try:{PLAIN} {hint}"));
        format!("{RED}error:{PLAIN} {}{hint}", self.what)
    }

    /// The same for programs: one object in one line.
    pub fn to_json(&self) -> String {
        let Self { what, hint, kind, .. } = self;
        json!({"error": {"kind": kind, "message": what, "hint": hint}}).to_string()
    }

    /// 1 failed, 2 misused, or one that the command documents.
    pub fn exit_code(&self) -> u8 {
        self.code.unwrap_or(if self.misuse { 2 } else { 1 })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.what)?;
        match &self.hint {
            Some(hint) => write!(f, "\n  try: {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_change_no_word() {
        let failure = Failure::new("no volume `v`").hint("`varve volume list`");
        let [bare, coloured] = [failure.to_string(), failure.to_coloured()];
        assert_eq!(bare, "error: no volume `v`\n  try: `varve volume list`");
        let stripped = [RED, GREEN, PLAIN].iter().fold(coloured, |text, it| text.replace(it, ""));
        assert_eq!(stripped, bare);
    }
}
