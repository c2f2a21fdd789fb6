//! The text of a job file: sections of options, those of `[global]` in front of the ones of each later section.

use crate::error::{Error, Result};

/// Longest job file, in lines.
const LINES_MAX: usize = 10_000;

/// A job file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FioFile {
    /// Its jobs, in order.
    pub sections: Vec<FioSection>,
}

/// A job with the options that hold for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FioSection {
    /// Its name.
    pub name: String,
    /// Line on which it begins.
    pub line: usize,
    /// Its options; of one that is said again the last one holds.
    pub options: Vec<FioOption>,
}

/// An option.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FioOption {
    /// Line on which it stands; 0 of one that comes from elsewhere.
    pub line: usize,
    /// Its name.
    pub name: String,
    /// Its value; `1` of one that has none.
    pub value: String,
}

impl FioFile {
    /// Reads a job file.
    ///
    /// # Errors
    /// `Fio`, with the line that is wrong.
    pub fn read(text: &str) -> Result<Self> {
        let (mut global, mut sections) = (Vec::new(), Vec::<FioSection>::new());
        // Whether options go to the last section; else to all later ones, once a section began.
        let mut place = None;
        for (line, text) in (1..).zip(text.lines()) {
            if line > LINES_MAX {
                return Err(refused(line, "a job file of more than 10000 lines"));
            }
            let text = text.trim();
            if text.is_empty() || text.starts_with(['#', ';']) {
                continue;
            }
            if let Some(name) = text.strip_prefix('[') {
                let name = name.strip_suffix(']').map(str::trim).filter(|name| !name.is_empty());
                let name = name.ok_or_else(|| refused(line, "a section is [NAME]"))?;
                let is_global = name == "global";
                if !is_global {
                    let options = global.clone();
                    sections.push(FioSection { name: name.to_owned(), line, options });
                }
                place = Some(is_global);
                continue;
            }
            let (name, value) = text.split_once('=').unwrap_or((text, "1"));
            let (name, value) = (name.trim().to_owned(), value.trim().to_owned());
            if name.is_empty() || name.contains(char::is_whitespace) {
                return Err(refused(line, &format!("`{text}` is no option: NAME=VALUE")));
            }
            if value.contains("${") {
                return Err(refused(
                    line,
                    &format!("option `{name}`: variables are not filled in"),
                ));
            }
            let option = FioOption { line, name, value };
            match (place, sections.last_mut()) {
                (Some(true), _) => global.push(option),
                (Some(false), Some(section)) => section.options.push(option),
                _ => return Err(refused(line, "an option stands before the first section")),
            }
        }
        if sections.is_empty() {
            return Err(refused(1, "no job: a section other than [global]"));
        }
        Ok(Self { sections })
    }
}

/// What is wrong on a line.
pub(crate) fn refused(line: usize, reason: &str) -> Error {
    Error::Fio { line, reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_global_hold_for_later_sections() {
        let text = "# fio\n[global]\nbs = 4k\ndirect=1\n\n[a]\nrw=read\n; more\n[global]\nbs=8k\n[b]\nstonewall\n";
        let file = FioFile::read(text).unwrap();
        let of = |section: &FioSection| {
            let pairs = section.options.iter();
            pairs.map(|one| format!("{}:{}={}", one.line, one.name, one.value)).collect::<Vec<_>>()
        };
        assert_eq!((file.sections[0].name.as_str(), file.sections[0].line), ("a", 6));
        assert_eq!(of(&file.sections[0]), ["3:bs=4k", "4:direct=1", "7:rw=read"]);
        assert_eq!(of(&file.sections[1]), ["3:bs=4k", "4:direct=1", "10:bs=8k", "12:stonewall=1"]);
    }

    #[test]
    fn lines_that_are_none_are_named() {
        for (text, line) in [
            ("bs=4k\n[a]\n", 1),
            ("[a]\n\n[b\n", 3),
            ("[a]\nbs=4k\nwhat is this\n", 3),
            ("[a]\nfilename=${HOME}/x\n", 2),
            ("[]\n", 1),
            ("[global]\nbs=4k\n", 1),
            ("", 1),
        ] {
            match FioFile::read(text) {
                Err(Error::Fio { line: found, .. }) => assert_eq!(found, line, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
    }
}
