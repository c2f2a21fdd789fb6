//! Reads the configuration file. Every complaint names file, line and column and says what is allowed.

use std::fs;
use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use varve_client::{Failure, Result};

use crate::config::settings::{DriveSetting, Settings};
use crate::config::table::{Raw, SETTINGS, Setting};

/// Where the settings are described.
const PAGE: &str = "`varve serve --settings` describes every setting";

/// What lists them without a page.
const ALL: &str = "`varve serve --settings` lists all settings";

/// Letters in which a name may differ from the one that was meant.
const NEAR_EDITS: usize = 2;

/// Name of the configuration file that a data directory may hold.
pub const CONFIG_FILE: &str = "varve.toml";

/// The settings of a data directory for commands that open its pool themselves: defaults, then its file.
pub fn read_data(data: &Path) -> Result<Settings> {
    let mut settings = Settings { data: data.to_owned(), ..Settings::default() };
    let file = data.join(CONFIG_FILE);
    if file.exists() {
        read(&file, &mut settings)?;
        data.clone_into(&mut settings.data);
    }
    Ok(settings)
}

/// Applies the file at `path` to `settings`.
pub fn read(path: &Path, settings: &mut Settings) -> Result<()> {
    let text = fs::read_to_string(path).map_err(|error| {
        Failure::misuse(format!("read configuration {}: {error}", path.display()))
            .hint("give a readable file with --config, or leave it out for the defaults")
    })?;
    let name = path.display().to_string();
    apply(FileText { name: &name, text: &text }, settings)
}

/// A file's name and text, to say where something is.
#[derive(Clone, Copy)]
struct FileText<'a> {
    name: &'a str,
    text: &'a str,
}

impl FileText<'_> {
    /// A complaint about the bytes at `span`.
    fn at(&self, span: &Range<usize>, what: &str) -> Failure {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        Failure::misuse(format!("{}:{line}:{column}: {what}", self.name))
    }
}

fn apply(source: FileText<'_>, settings: &mut Settings) -> Result<()> {
    let document = DeTable::parse(source.text).map_err(|error| {
        let span = error.span().unwrap_or(0..0);
        source.at(&span, error.message()).hint(PAGE)
    })?;
    apply_table(source, "", document.get_ref(), settings)
}

fn apply_table(
    source: FileText<'_>,
    prefix: &str,
    table: &DeTable<'_>,
    settings: &mut Settings,
) -> Result<()> {
    // In the order of the file: the first complaint is the topmost.
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    for (key, value) in entries {
        let full = format!("{prefix}{}", key.get_ref());
        match (find(&full), value.get_ref()) {
            (Some(setting), _) => apply_value(source, setting, value, settings)?,
            (None, DeValue::Table(inner)) if is_table(&full) && full != "drive" => {
                apply_table(source, &format!("{full}."), inner, settings)?;
            }
            (None, DeValue::Array(drives)) if full == "drive" => {
                for drive in drives.iter() {
                    apply_drive(source, drive, settings)?;
                }
            }
            _ => return Err(unknown(source, &key.span(), &full)),
        }
    }
    Ok(())
}

fn apply_drive(
    source: FileText<'_>,
    drive: &Spanned<DeValue<'_>>,
    settings: &mut Settings,
) -> Result<()> {
    let DeValue::Table(table) = drive.get_ref() else {
        return Err(source
            .at(&drive.span(), "a drive is not a table")
            .hint("[[drive]] with path and size"));
    };
    settings.drives.push(DriveSetting::default());
    apply_table(source, "drive.", table, settings)?;
    let drive_setting = settings.drives.last().expect("pushed above");
    if drive_setting.path.as_os_str().is_empty() {
        return Err(source.at(&drive.span(), "a drive has no `path`").hint(PAGE));
    }
    Ok(())
}

fn apply_value(
    source: FileText<'_>,
    setting: &Setting,
    value: &Spanned<DeValue<'_>>,
    settings: &mut Settings,
) -> Result<()> {
    let read = setting.form.read(&raw(value.get_ref()));
    let value = read.map_err(|reason| {
        source.at(&value.span(), &format!("`{}`: {reason}", setting.key)).hint(format!(
            "{} (default: {})",
            setting.form.allowed(),
            setting.default
        ))
    })?;
    setting.apply(settings, value);
    Ok(())
}

fn raw<'a>(value: &'a DeValue<'_>) -> Raw<'a> {
    match value {
        DeValue::String(text) => Raw::Text(text),
        DeValue::Boolean(on) => Raw::Switch(*on),
        DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => Raw::Integer(number),
            Err(_) => Raw::Other("a number of more than 64 bits"),
        },
        DeValue::Array(items) => {
            let texts = items.iter().map(|item| item.get_ref().as_str());
            texts.collect::<Option<Vec<_>>>().map_or(Raw::Other("this list"), Raw::List)
        }
        DeValue::Float(_) => Raw::Other("a fraction"),
        DeValue::Datetime(_) => Raw::Other("a date"),
        DeValue::Table(_) => Raw::Other("a table"),
    }
}

fn find(key: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.key == key)
}

/// Whether some setting's key lies in the table `name`.
fn is_table(name: &str) -> bool {
    SETTINGS
        .iter()
        .any(|setting| setting.key.strip_prefix(name).is_some_and(|rest| rest.starts_with('.')))
}

/// The complaint about a key that no setting has: names the settings beside it.
fn unknown(source: FileText<'_>, span: &Range<usize>, key: &str) -> Failure {
    let parent = key.rsplit_once('.').map(|(parent, _)| format!("{parent}."));
    let parent = parent.unwrap_or_default();
    let beside: Vec<&str> = SETTINGS
        .iter()
        .map(|setting| setting.key)
        .filter(|known| !parent.is_empty() && known.starts_with(&parent))
        .collect();
    let failure = source.at(span, &format!("`{key}` is not a setting"));
    let near = |known: &&str| strsim::damerau_levenshtein(key, known) <= NEAR_EDITS;
    match SETTINGS.iter().map(|setting| setting.key).find(near) {
        Some(near) => failure.hint(format!("did you mean `{near}`? {ALL}")),
        None if beside.is_empty() => failure.hint(ALL),
        None => failure.hint(beside.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> Result<Settings> {
        let mut settings = Settings::default();
        apply(FileText { name: "v.toml", text }, &mut settings).map(|()| settings)
    }

    #[track_caller]
    fn refused(text: &str, expected: &str) {
        let message = settings(text).map(|_| ()).unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    }

    #[test]
    fn a_whole_file_is_applied() {
        let read = settings(
            "shards = 4\n[[drive]]\npath = \"/a\"\nsize = \"2GiB\"\n[[drive]]\npath = \"/b\"\n\
             [memory]\nbudget = \"1GiB\"\n[nbd]\nlisten = [\"unix:x\"]\ntls.required = true\n[log]\nlevel = \"info\"",
        )
        .unwrap();
        assert_eq!((read.shards, read.memory.0, read.drives.len()), (4, 1 << 30, 2));
        assert_eq!(read.drives[0].size.map(|size| size.0), Some(2 << 30));
        assert_eq!(read.nbd_addresses()[0].to_string(), "unix:x");
        assert!(read.nbd.tls.required);
    }

    #[test]
    fn the_example_of_the_documentation_is_valid() {
        let head = include_str!("document_head.md");
        let example = head.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
        assert_eq!(settings(example).unwrap().drives.len(), 1);
    }

    #[test]
    fn unknown_keys_are_refused_where_they_stand() {
        refused(
            "shards = 1\n[memory]\nbudgt = \"1GiB\"",
            "v.toml:3:1: `memory.budgt` is not a setting",
        );
        refused("[memory]\nbudgt = \"1GiB\"", "did you mean `memory.budget`?");
        refused("[memory]\nsomething = 1", "try: memory.budget");
        refused("  colour = 1", "v.toml:1:3: `colour` is not a setting");
        refused("[colour]\nx = 1", "`colour` is not a setting");
        refused("[drive]\npath = \"x\"", "`drive` is not a setting");
        refused("[[drive]]\npath = \"x\"\nspeed = 1", "v.toml:3:1: `drive.speed`");
    }

    #[test]
    fn values_out_of_range_are_refused_with_what_is_allowed() {
        refused("shards = 999", "v.toml:1:10: `shards`: 999 is out of range");
        refused("shards = 999", "try: 0 to 256 shards");
        refused("shards = -1", "-1 is out of range");
        refused("shards = 99999999999999999999", "");
        refused("shards = 1.5", "must be a whole number, not a fraction");
        refused("shards = \"4\"", "must be a whole number, not text");
        refused("shard = 4", "did you mean `shards`? `varve serve --settings`");
        refused("[memory]\nbudjet = 4", "did you mean `memory.budget`?");
        refused("[nbd]\nlisten = \"127.0.0.1:1\"", "must be a list of addresses");
        refused(
            "[memory]\nbudget = \"1KiB\"",
            "v.toml:2:10: `memory.budget`: 1 KiB is out of range",
        );
        refused("[memory]\nbudget = \"1Gx\"", "unknown unit `Gx`");
        refused("[log]\nlevel = \"loud\"", "\"error\", \"warn\"");
        refused("[nbd]\nlisten = [\"example.org:1\"]", "neither");
        refused(
            "[nbd]\nlisten = [1]",
            "must be a list of addresses, such as [\"127.0.0.1:10809\"], not this list",
        );
        refused("[[drive]]\nsize = \"1GiB\"", "a drive has no `path`");
        refused("drive = [1]", "a drive is not a table");
    }

    #[test]
    fn broken_toml_is_refused_where_it_breaks() {
        refused("shards = 1\nshards = 2", "v.toml:2:1:");
        refused("shards = ", "v.toml:1:");
    }
}
