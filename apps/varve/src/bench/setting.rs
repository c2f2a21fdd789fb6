//! Settings of the measured system that a load is run under, one after another: commands of the user's make them.

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::failure::{Failure, Result};
use crate::watch::Watch;

/// How often it is seen whether a command has ended.
const TICK: Duration = Duration::from_millis(20);

/// A setting, as users name it, and the command of a shell that makes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Setting {
    pub(crate) name: String,
    command: String,
}

impl Setting {
    /// Reads `NAME=COMMAND`.
    pub(crate) fn read(text: &str) -> std::result::Result<Self, String> {
        let parts = text.split_once('=').map(|(name, command)| (name.trim(), command.trim()));
        match parts {
            Some((name, command)) if !name.is_empty() && !command.is_empty() => {
                Ok(Self { name: name.to_owned(), command: command.to_owned() })
            }
            _ => Err(format!("`{text}` is no NAME=COMMAND")),
        }
    }

    /// Runs the command and waits until it has ended, or somebody stops the run: then the command is killed.
    ///
    /// # Errors
    /// When it cannot be started, or does not end with 0: then the system has some other setting.
    pub(crate) fn make(&self, watch: &Watch) -> Result<()> {
        watch.say(format!("make the setting {}", self.name));
        let failed = |why: String| {
            Failure::new(format!("setting {}: `{}` {why}", self.name, self.command))
                .hint("nothing was measured under a setting that was not made")
        };
        let mut shell = Command::new("sh");
        shell.args(["-c", &self.command]).stdin(Stdio::null()).stdout(Stdio::null());
        let started = shell.spawn();
        let mut child = started.map_err(|error| failed(format!("could not start: {error}")))?;
        loop {
            match child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => return Err(failed(format!("ended with {status}"))),
                Ok(None) if watch.is_stopped() => {
                    let _it_may_have_ended = child.kill();
                    let _nothing_to_learn = child.wait();
                    return Ok(());
                }
                Ok(None) => std::thread::sleep(TICK),
                Err(error) => return Err(failed(format!("could not be waited for: {error}"))),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_have_a_name_and_a_command() {
        let setting = Setting::read("read-ahead 16 KB=echo 16 > ra; a=b").unwrap();
        assert_eq!(
            (setting.name.as_str(), setting.command.as_str()),
            ("read-ahead 16 KB", "echo 16 > ra; a=b")
        );
        for wrong in ["", "name", "=true", "name=", " = "] {
            assert!(Setting::read(wrong).is_err(), "{wrong}");
        }
    }
}
