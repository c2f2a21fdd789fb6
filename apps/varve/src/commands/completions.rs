//! `varve completions`: a script that completes commands and options in a shell.

use clap::{Args, CommandFactory};
use clap_complete::Shell;
use varve_client::Result;

use crate::command_line::Cli;

/// Print a completion script for a shell
#[derive(Args, Debug)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self) -> Result<String> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "varve", &mut script);
        Ok(String::from_utf8(script).expect("completion scripts are text"))
    }
}
