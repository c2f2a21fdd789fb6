//! The one binary: `varve serve` is the daemon, every other subcommand is a client of its admin API.

mod cells;
mod cli;
mod command_line;
mod commands;
mod examples;
mod explicit_flags;
mod local_pool;
mod misuse;
mod output;
mod plan;
mod waiting;

use std::env;
use std::io::{self, IsTerminal, Write};

use clap::FromArgMatches;
use varve_client::Failure;
use varve_stdx::end_process;

use crate::command_line::Cli;
use crate::output::print;

#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ! {
    let arguments: Vec<String> =
        env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned()).collect();
    let as_json = misuse::asks_for_json(&arguments);
    let code = match read(&arguments).and_then(Cli::run).and_then(|text| print(&text)) {
        Ok(()) => 0,
        Err(failure) => {
            let text = match as_json {
                true => failure.to_json(),
                false if is_coloured() => failure.to_coloured(),
                false => failure.to_string(),
            };
            // Nobody is left to tell when stderr is closed too.
            let _ = writeln!(io::stderr(), "{text}");
            failure.exit_code()
        }
    };
    // A daemon has threads that still run, also some of libraries.
    end_process(code)
}

/// Whether errors go to a terminal that shows colours, and nobody asked for none (`NO_COLOR`).
fn is_coloured() -> bool {
    let refuses = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let is_dumb = env::var_os("TERM").is_none_or(|term| term == "dumb");
    io::stderr().is_terminal() && !refuses && !is_dumb
}

/// Reads the command line. Help, and what the parser refuses for reasons of its own, end the process.
fn read(arguments: &[String]) -> Result<Cli, Failure> {
    let matches = examples::command().try_get_matches();
    matches.and_then(|matches| Cli::from_arg_matches(&matches)).map_err(|error| {
        let explained = misuse::explain(&error, arguments);
        let as_json = || misuse::of_parser(&error).filter(|_| misuse::asks_for_json(arguments));
        explained.or_else(as_json).unwrap_or_else(|| error.exit())
    })
}
