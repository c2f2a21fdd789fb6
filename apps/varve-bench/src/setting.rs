//! Settings of the measured system that a load is run under, one after another: commands of the user's make them.

use std::process::Stdio;

use varve_client::{Failure, Progress, Result};

use super::shell::ends_well;

/// A setting, as users name it, and the command of a shell that makes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShellSetting {
    /// What it is called in reports.
    pub name: String,
    command: String,
}

impl ShellSetting {
    /// Reads `NAME=COMMAND`.
    pub(crate) fn read(text: &str) -> std::result::Result<Self, String> {
        let parts = text.split_once('=').map(|(name, command)| (name.trim(), command.trim()));
        match parts {
            Some((name, command)) if !name.is_empty() && !command.is_empty() => {
                Ok(Self { name: name.to_owned(), command: command.to_owned() })
            }
            _ => Err(format!("`{text}` must be NAME=COMMAND")),
        }
    }

    /// Runs the command and waits until it has ended, or somebody stops the run: then the command is killed.
    ///
    /// # Errors
    /// When it cannot be started, or does not end with 0: then the system has some other setting.
    pub(crate) fn make(&self, watch: &Progress) -> Result<()> {
        watch.say(format!("apply the setting {}", self.name));
        let made = ends_well(&self.command, Stdio::inherit(), || watch.is_stopped());
        made.map(drop).map_err(|why| {
            Failure::new(format!("setting {}: `{}` {why}", self.name, self.command))
                .hint("nothing was measured under a setting that was not made")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_have_a_name_and_a_command() {
        let setting = ShellSetting::read("read-ahead 16 KB=echo 16 > ra; a=b").unwrap();
        assert_eq!(
            (setting.name.as_str(), setting.command.as_str()),
            ("read-ahead 16 KB", "echo 16 > ra; a=b")
        );
        for wrong in ["", "name", "=true", "name=", " = "] {
            assert!(ShellSetting::read(wrong).is_err(), "{wrong}");
        }
    }
}
