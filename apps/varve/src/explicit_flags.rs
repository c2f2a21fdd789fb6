//! Which flags of `varve bench run` stand on the command line: a preset that takes none of them refuses them instead of
//! doing nothing with them.

use std::ffi::OsString;

use clap::CommandFactory;
use clap::parser::ValueSource;

use crate::command_line::Cli;

/// Flags of the subcommand at `path` that stand on the command line, but those that every command has.
pub(crate) fn explicit_flags(path: &[&str]) -> Vec<String> {
    flags_of(path, std::env::args_os().collect())
}

fn flags_of(path: &[&str], line: Vec<OsString>) -> Vec<String> {
    let command = Cli::command();
    let Ok(matches) = command.clone().try_get_matches_from(line) else { return Vec::new() };
    let mut at = Some((&command, &matches));
    for name in path {
        at = at.and_then(|(command, matches)| {
            command.find_subcommand(name).zip(matches.subcommand_matches(name))
        });
    }
    let Some((command, matches)) = at else { return Vec::new() };
    let said = command.get_arguments().filter(|argument| {
        let source = matches.value_source(argument.get_id().as_str());
        !argument.is_global_set() && source == Some(ValueSource::CommandLine)
    });
    said.filter_map(|argument| argument.get_long()).map(|flag| format!("--{flag}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_that_were_said_are_told_from_those_with_a_default() {
        let of = |line: &str| {
            let line = line.split(' ').map(OsString::from).collect();
            flags_of(&["bench", "run"], line)
        };
        assert!(of("varve --data d bench run scale-1000x50").is_empty());
        assert!(of("varve bench run scale-1000x50 --addr unix:/a").is_empty());
        let said = "varve bench run scale-1000x50 --save d --repeat=1 --json --seed 1 --ramp 2s";
        assert_eq!(of(said), ["--ramp", "--repeat", "--save", "--json", "--seed"]);
        assert!(of("varve bench scale --json").is_empty());
    }
}
