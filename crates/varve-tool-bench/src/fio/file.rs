//! The text of a job file: sections of options, those of `[global]` in front of the ones of each later section.

use crate::error::{Error, Result};

/// Where fio would go: the target that is named beside the file stands for these.
pub(super) const PLACES: [&str; 31] = [
    "ioengine",
    "filename",
    "filename_format",
    "directory",
    "nrfiles",
    "nr_files",
    "openfiles",
    "file_service_type",
    "create_serialize",
    "create_on_open",
    "create_fsync",
    "create_only",
    "allow_file_create",
    "fallocate",
    "unlink",
    "overwrite",
    "uri",
    "clientname",
    "clustername",
    "pool",
    "rbdname",
    "hostname",
    "port",
    "protocol",
    "namenode",
    "volume",
    "brick",
    "nfs_url",
    "cont",
    "chunk_size",
    "object_class",
];

/// Options of a command line that say where and how fio reports.
const REPORTS: [&str; 8] = [
    "output",
    "output_format",
    "minimal",
    "eta",
    "eta_newline",
    "status_interval",
    "terse_version",
    "append_terse",
];

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
    /// Reads a job file; variables are those of this process's environment.
    ///
    /// # Errors
    /// `Fio`, with the line that is wrong.
    pub fn read(text: &str) -> Result<Self> {
        Self::read_with(text, |name| std::env::var(name).ok())
    }

    /// Reads a job file whose variables have these values.
    ///
    /// # Errors
    /// `Fio`, with the line that is wrong.
    pub fn read_with(text: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let (mut global, mut sections) = (Vec::new(), Vec::<FioSection>::new());
        // Whether options go to the last section; else to all later ones, once a section began.
        let mut place = None;
        for (line, text) in (1..).zip(text.lines()) {
            if line > LINES_MAX {
                return Err(refused(line, "a job file of more than 10000 lines"));
            }
            // fio ends a line at a comment, also behind a value.
            let text = text.split(['#', ';']).next().unwrap_or_default().trim();
            if text.is_empty() {
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
                return Err(refused(line, &format!("`{text}` is not an option: NAME=VALUE")));
            }
            let value = match filled_in(&value, &variable) {
                Ok(value) => value,
                // The target stands for places, wherever they would be.
                Err(_) if PLACES.contains(&name.as_str()) => value,
                Err(unset) => {
                    let what = format!("option `{name}`: the variable `{unset}` is not set");
                    return Err(refused(line, &what));
                }
            };
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

impl FioFile {
    /// Reads the arguments of a command line of fio, `fio` itself in front or not. Lines are numbers of arguments.
    ///
    /// # Errors
    /// `Fio`, with the argument that is wrong.
    pub fn of_arguments(arguments: &[String]) -> Result<Self> {
        let (mut global, mut sections) = (Vec::new(), Vec::<FioSection>::new());
        let mut words = (1..).zip(arguments).peekable();
        words.next_if(|(line, word)| *line == 1 && word.rsplit('/').next() == Some("fio"));
        while let Some((line, word)) = words.next() {
            let Some(option) = word.strip_prefix("--").filter(|option| !option.is_empty()) else {
                let what = format!("`{word}` is not an option: job files are run by --fio-job");
                return Err(refused(line, &what));
            };
            let (name, value) = match option.split_once('=') {
                Some((name, value)) => (name, value.to_owned()),
                None => {
                    let value = words.next_if(|(_, next)| !next.starts_with('-'));
                    (option, value.map_or("1".to_owned(), |(_, value)| value.clone()))
                }
            };
            let name = name.replace('-', "_");
            if REPORTS.contains(&name.as_str()) {
                continue;
            }
            if name == "name" {
                sections.push(FioSection { name: value, line, options: global.clone() });
                continue;
            }
            let option = FioOption { line, name, value };
            match sections.last_mut() {
                Some(section) => section.options.push(option),
                None => global.push(option),
            }
        }
        if sections.is_empty() {
            return Err(refused(1, "no job: --name=NAME begins one"));
        }
        Ok(Self { sections })
    }
}

/// A value with its variables, `${NAME}`; else the name of one that is not set.
fn filled_in(
    value: &str,
    variable: &impl Fn(&str) -> Option<String>,
) -> std::result::Result<String, String> {
    let (mut out, mut rest) = (String::new(), value);
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, behind)) = after.split_once('}') else { break };
        out.push_str(before);
        out.push_str(&variable(name).ok_or_else(|| name.to_owned())?);
        rest = behind;
    }
    out.push_str(rest);
    Ok(out)
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
        let text = "# fio\n[global]\nbs = 4k ; not 8k\ndirect=1\n\n[a]\nrw=read # or not\n; more\n[global]\nbs=8k\n[b]\nstonewall\n";
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
    fn variables_come_from_the_environment() {
        let text = "[a]\nsize=${MIB}m\nfilename=${NOWHERE}/x\nbs=${K}${K}k\n";
        let variable = |name: &str| match name {
            "MIB" => Some("64".to_owned()),
            "K" => Some("4".to_owned()),
            _ => None,
        };
        let file = FioFile::read_with(text, variable).unwrap();
        let values: Vec<&str> =
            file.sections[0].options.iter().map(|one| one.value.as_str()).collect();
        assert_eq!(values, ["64m", "${NOWHERE}/x", "44k"]);
    }

    #[test]
    fn command_lines_are_job_files() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let line = "fio --direct=1 --bs 16k --name=a --rw=randread --time_based --output-format=json --name=b --stonewall";
        let file = FioFile::of_arguments(&words(line)).unwrap();
        let same = "[global]\ndirect=1\nbs=16k\n[a]\nrw=randread\ntime_based\n[b]\nstonewall\n";
        let of = |file: &FioFile| {
            let sections = file.sections.iter().map(|section| {
                let options = section.options.iter();
                let options = options.map(|one| (one.name.clone(), one.value.clone()));
                (section.name.clone(), options.collect::<Vec<_>>())
            });
            sections.collect::<Vec<_>>()
        };
        assert_eq!(of(&file), of(&FioFile::read(same).unwrap()));
        for (wrong, line) in [("fio job.fio", 2), ("--rw=read", 1), ("fio", 1), ("--name=a -x", 2)]
        {
            match FioFile::of_arguments(&words(wrong)) {
                Err(Error::Fio { line: found, .. }) => assert_eq!(found, line, "{wrong}"),
                other => panic!("{wrong}: {other:?}"),
            }
        }
    }

    #[test]
    fn lines_that_are_none_are_named() {
        for (text, line) in [
            ("bs=4k\n[a]\n", 1),
            ("[a]\n\n[b\n", 3),
            ("[a]\nbs=4k\nwhat is this\n", 3),
            ("[a]\nbs=${NO_SUCH_VARIABLE}\n", 2),
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
