//! The project's own tool: what CI runs, the habits that a program can check, and the longer runs.

mod changelog;
mod ci;
mod fuzz;
mod sim;
mod step;
mod test_programs;
mod tidy;
mod times;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Checks and longer runs of this repository
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Everything CI checks without a daemon: format, lints, tidy, tests, figures of the README, documentation
    Ci,
    /// The project's habits: layers, names, sizes, documentation, determinism
    Tidy(tidy::TidyOptions),
    /// `ci`, and the whole-process tests under tests/
    Test,
    /// The simulator: random runs, or the replay of one
    Sim(sim::Sim),
    /// The fuzz targets
    Fuzz(fuzz::Fuzz),
    /// CHANGELOG.md: what users notice of the changes since the last release, above the releases
    Changelog(changelog::Changelog),
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Ci => ci::ci(),
        Command::Tidy(options) => tidy::tidy(&options),
        Command::Test => ci::test(),
        Command::Sim(sim) => sim.run(),
        Command::Fuzz(fuzz) => fuzz.run(),
        Command::Changelog(changelog) => changelog.run(),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
