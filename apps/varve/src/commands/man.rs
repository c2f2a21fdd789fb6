//! `varve man`: manual pages, one a command, as packages install them.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use varve_client::{Failure, Result};

use crate::examples;

/// Write a manual page for each command into a directory
#[derive(Args, Debug)]
pub(crate) struct Man {
    /// Directory to write to, created if there is none
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

impl Man {
    pub(crate) fn run(self) -> Result<String> {
        let mut command = examples::command();
        command.build();
        let failed = |error: std::io::Error| {
            let directory = self.directory.display();
            Failure::new(format!("write manual pages to {directory}: {error}"))
        };
        fs::create_dir_all(&self.directory).map_err(failed)?;
        let count = write_pages(&self.directory, &command, "varve").map_err(failed)?;
        Ok(format!("wrote {count} manual pages to {}\n", self.directory.display()))
    }
}

/// Writes the page of a command and those of its subcommands; returns how many.
fn write_pages(directory: &Path, command: &clap::Command, name: &str) -> std::io::Result<usize> {
    let page = clap_mangen::Man::new(
        command
            .clone()
            .name(clap::builder::Str::from(name.to_owned()))
            .bin_name(name.replace('-', " ")),
    );
    let mut bytes = Vec::new();
    page.render(&mut bytes)?;
    fs::write(directory.join(format!("{name}.1")), bytes)?;
    let mut count = 1;
    let inner = command.get_subcommands().filter(|inner| inner.get_name() != "help");
    for inner in inner {
        count += write_pages(directory, inner, &format!("{name}-{}", inner.get_name()))?;
    }
    Ok(count)
}
