//! `CHANGELOG.md`: all files of `changes/` as one section, by area, above the sections of releases.
//!
//! A file begins with a line `Area: WORD`; `tidy` refuses one that does not, and a `CHANGELOG.md` that is not what this
//! makes of them. Branches that each add a file meet in the generated one: whoever joins them writes it again.

use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::{Context, Result, bail};
use clap::Args;

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

/// The generated file.
pub(crate) const FILE: &str = "CHANGELOG.md";

/// What it begins with.
const INTRODUCTION: &str = "# Changelog

Generated from [changes/](changes), which has a file for each change that users notice: `cargo xtask changelog --write`. A
release puts its version and date in place of `Unreleased`, and empties `changes/`.

";

/// Heading of the changes since the last release.
const UNRELEASED: &str = "## Unreleased\n";

/// What to do with it.
#[derive(Args)]
pub(crate) struct Changelog {
    /// Write CHANGELOG.md instead of printing it
    #[arg(long)]
    write: bool,
}

impl Changelog {
    pub(crate) fn run(&self) -> Result<bool> {
        let path = root().join(FILE);
        let read = |path: &Path| {
            fs::read_to_string(path).with_context(|| format!("read {}", path.display()))
        };
        let folder = root().join(FOLDER);
        let entries =
            fs::read_dir(&folder).with_context(|| format!("list {}", folder.display()))?;
        let paths = entries.map(|entry| entry.map(|entry| entry.path()));
        let paths: io::Result<Vec<PathBuf>> = paths.collect();
        let mut paths = paths.with_context(|| format!("list {}", folder.display()))?;
        paths.sort();
        let texts: Vec<String> = paths.iter().map(|path| read(path)).collect::<Result<_>>()?;
        let wrong = texts.iter().zip(&paths).find(|(text, _)| parse(text).is_none());
        if let Some((_, path)) = wrong {
            bail!("{} does not {}", path.display(), first_line());
        }
        let made = changelog(texts.iter().map(String::as_str), &read(&path)?);
        if self.write {
            fs::write(&path, made).with_context(|| format!("write {}", path.display()))?;
        } else {
            print!("{made}");
        }
        Ok(true)
    }
}

/// The whole file: the changes, and the sections of releases as they are in `before`.
pub(crate) fn changelog<'a>(changes: impl Iterator<Item = &'a str>, before: &str) -> String {
    let changes: Vec<_> = changes.filter_map(parse).collect();
    let from_heading =
        |text: &str| text.find("\n## ").map_or_else(String::new, |at| text[at..].to_owned());
    let sections = from_heading(before);
    let releases = match sections.strip_prefix('\n').and_then(|text| text.strip_prefix(UNRELEASED))
    {
        Some(rest) => from_heading(rest),
        None => sections,
    };
    format!("{INTRODUCTION}{}{releases}", section(&changes))
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
fn section(changes: &[(&str, &str)]) -> String {
    let mut section = UNRELEASED.to_owned();
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
        let sections = "## Unreleased\n\n### NBD\n\n- d\n\n### S3\n\n- **A.** b\n  c\n- e\n\n  f\n";
        assert_eq!(changelog(files.into_iter(), ""), format!("{INTRODUCTION}{sections}"));
    }

    #[test]
    fn sections_of_releases_stay() {
        let releases = "\n## 1.1, 2 May\n\n### S3\n\n- a\n\n## 1.0, 1 May\n";
        let before = format!("{INTRODUCTION}{UNRELEASED}\n### NBD\n\n- gone\n{releases}");
        let made = changelog(["Area: nbd\nd\n"].into_iter(), &before);
        assert_eq!(made, format!("{INTRODUCTION}{UNRELEASED}\n### NBD\n\n- d\n{releases}"));
        assert_eq!(changelog(["Area: nbd\nd\n"].into_iter(), &made), made);
        let released = format!("{INTRODUCTION}{}", &releases[1..]);
        let made = changelog(["Area: nbd\nd\n"].into_iter(), &released);
        assert_eq!(made, format!("{INTRODUCTION}{UNRELEASED}\n### NBD\n\n- d\n{releases}"));
    }

    #[test]
    fn a_change_without_an_area_or_a_text_is_none() {
        for text in ["", "Area: s3", "Area: s3\n\n", "area: s3\na\n", "Area: x\na\n", "**A.**\nb\n"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
