//! The changes that users notice: all files of `changes/` as one section of `CHANGELOG.md`, by area.
//!
//! A file begins with a line `Area: WORD`; `tidy` refuses one that does not. The section is printed and not kept in the
//! tree until a release: branches that each add a file do not meet in one.

use std::path::PathBuf;
use std::{fs, io};

use anyhow::{Context, Result};

use crate::step::root;

/// What changes are grouped by: the word in the first line of a file, and the heading.
const AREAS: [(&str, &str); 8] = [
    ("engine", "Engine"),
    ("nbd", "NBD"),
    ("s3", "S3"),
    ("cli", "Command line and admin API"),
    ("plan", "Planner"),
    ("bench", "Benchmark"),
    ("rados", "RADOS"),
    ("operations", "Operations"),
];

const FOLDER: &str = "changes";

/// Prints all changes since the last release.
pub(crate) fn print() -> Result<bool> {
    let folder = root().join(FOLDER);
    let entries = fs::read_dir(&folder).with_context(|| format!("list {}", folder.display()))?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let paths: io::Result<Vec<PathBuf>> = paths.collect();
    let mut paths = paths.with_context(|| format!("list {}", folder.display()))?;
    paths.sort();
    let mut changes = Vec::new();
    for path in paths {
        let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        let (heading, text) = parse(&text)
            .with_context(|| format!("{} does not {}", path.display(), first_line()))?;
        changes.push((heading, text.to_owned()));
    }
    print!("{}", section(&changes));
    Ok(true)
}

/// The heading of a change's area and its text; none where the first line names no area, or nothing follows it.
pub(crate) fn parse(text: &str) -> Option<(&'static str, &str)> {
    let (first, text) = text.split_once('\n')?;
    let word = first.strip_prefix("Area: ")?;
    let (_, heading) = AREAS.into_iter().find(|(known, _)| *known == word)?;
    Some((heading, text.trim())).filter(|(_, text)| !text.is_empty())
}

/// What a change has to do.
pub(crate) fn first_line() -> String {
    format!("begin with `Area: ` and one of {}", AREAS.map(|(word, _)| word).join(", "))
}

/// The areas that have changes, in their order, and in each its changes in the order given.
fn section(changes: &[(&str, String)]) -> String {
    let mut section = "## Unreleased\n".to_owned();
    for (_, heading) in AREAS {
        let texts = changes.iter().filter(|(area, _)| *area == heading);
        for (index, (_, text)) in texts.enumerate() {
            if index == 0 {
                section.push_str(&format!("\n### {heading}\n\n"));
            }
            section.push_str(&item(text));
        }
    }
    section
}

/// A text as an item of a list.
fn item(text: &str) -> String {
    let mut item = String::new();
    for (number, line) in text.lines().enumerate() {
        let indent = match (number, line) {
            (0, _) => "- ",
            (_, "") => "",
            _ => "  ",
        };
        item.push_str(&format!("{indent}{line}\n"));
    }
    item
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_stand_under_their_areas() {
        let files = ["Area: s3\n\n**A.** b\nc\n", "Area: nbd\nd\n", "Area: s3\n\ne\n\nf\n"];
        let changes: Vec<(&str, String)> = files
            .into_iter()
            .filter_map(parse)
            .map(|(heading, text)| (heading, text.to_owned()))
            .collect();
        assert_eq!(
            section(&changes),
            "## Unreleased\n\n### NBD\n\n- d\n\n### S3\n\n- **A.** b\n  c\n- e\n\n  f\n"
        );
    }

    #[test]
    fn a_change_without_an_area_or_a_text_is_none() {
        for text in ["", "Area: s3", "Area: s3\n\n", "area: s3\na\n", "Area: x\na\n", "**A.**\nb\n"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
