//! Command lines that the parser refuses: where other tools would take them, the command that people look for is named,
//! and programs get JSON where they ask for it.

use clap::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use varve_client::Failure;

/// Words that are not commands: the command before them, the words, and what to do instead.
const POINTERS: &[(&str, &[&str], &str)] = &[
    (
        "",
        &["snapshot", "snapshots"],
        "`varve volume snapshot`, such as `varve volume snapshot create vm1@monday`",
    ),
    ("", &["version"], "`varve --version`; `varve status` shows the version of the daemon"),
    (
        "volume",
        &["rename", "mv"],
        "a volume keeps its name: `varve volume clone OLD NEW` gives its data another, and `varve volume delete OLD` follows",
    ),
];

/// Options without which nobody creates a pool on RADOS.
const RADOS_OPTIONS: [&str; 3] = ["--rados", "--data-pool", "--meta-pool"];

/// Whether errors are for a program: the command line has `--json`. A client that `bench run` starts has it too, yet
/// reports to a terminal.
pub(crate) fn asks_for_json(arguments: &[String]) -> bool {
    let mut options = arguments.iter().take_while(|argument| *argument != "--");
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    options.any(|argument| argument == "--json") && !has("--client")
}

/// The parser's error as a failure; none for a help page.
pub(crate) fn of_parser(error: &Error) -> Option<Failure> {
    let is_help = error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if is_help || !error.use_stderr() {
        return None;
    }
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let what = text.lines().take_while(|line| !line.is_empty()).map(str::trim);
    let failure = Failure::misuse(what.collect::<Vec<_>>().join(" "));
    let tip = text.lines().find_map(|line| line.trim().strip_prefix("tip: "));
    Some(match tip {
        Some(tip) => failure.hint(tip),
        None => failure,
    })
}

/// The failure to report instead of the parser's error, for a command line that is known to be a mistake of newcomers.
pub(crate) fn explain(error: &Error, arguments: &[String]) -> Option<Failure> {
    let command = command(error)?;
    match error.kind() {
        ErrorKind::InvalidSubcommand => pointer(&command, error),
        ErrorKind::UnknownArgument | ErrorKind::MissingRequiredArgument
            if !is_about_rados(arguments) =>
        {
            pool_on_drives(&command)
        }
        _ => None,
    }
}

fn pointer(command: &str, error: &Error) -> Option<Failure> {
    let ContextValue::String(word) = error.get(ContextKind::InvalidSubcommand)? else {
        return None;
    };
    let (_, _, hint) = POINTERS
        .iter()
        .find(|(before, words, _)| *before == command && words.contains(&word.as_str()))?;
    let typed = format!("varve {command} {word}").replace("  ", " ");
    Some(Failure::misuse(format!("there is no command `{typed}`")).hint(*hint))
}

fn is_about_rados(arguments: &[String]) -> bool {
    let is_option = |argument: &String| RADOS_OPTIONS.iter().any(|it| argument.starts_with(it));
    arguments.iter().any(is_option)
}

/// What to do with drives where a command is for pools on RADOS alone.
fn pool_on_drives(command: &str) -> Option<Failure> {
    let (what, hint) = match command {
        "pool create" => (
            "a pool is created on drives by `varve pool create --drive …`, or on Ceph's RADOS by `varve pool create --rados …`",
            "`varve pool create --drive /dev/nvme0n1`, with one --drive for each; `varve serve --drive …` creates it at its first start, too",
        ),
        "pool attach" => (
            "a pool on drives is not attached: `varve serve --drive …` finds the pool that is on them; `varve pool attach` is for pools on Ceph's RADOS",
            "`varve serve --data NEW --drive /dev/nvme0n1`, with one --drive for each drive of the pool",
        ),
        _ => return None,
    };
    Some(Failure::misuse(what).hint(hint))
}

/// The command whose arguments were refused, such as `volume create`; empty for `varve` itself.
fn command(error: &Error) -> Option<String> {
    let ContextValue::StyledStr(usage) = error.get(ContextKind::Usage)? else { return None };
    let usage = usage.to_string();
    let words = usage.split_whitespace().skip(2); // `Usage:` and the program.
    let words: Vec<&str> = words.take_while(|word| !word.starts_with(['[', '<', '-'])).collect();
    Some(words.join(" "))
}
