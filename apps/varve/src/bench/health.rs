//! Whether the measured system is well while it is measured: a command of the user's says so by its exit code.

use std::process::Stdio;
use std::time::{Duration, Instant};

use super::background::Background;
use super::shell::ends_well;
use crate::failure::Result;

/// Time between two looks.
const INTERVAL: Duration = Duration::from_secs(5);

/// Longest time for an answer.
const ANSWER: Duration = Duration::from_secs(10);

/// Asks at the beginning, every five seconds, and at the end.
pub(crate) struct Health {
    thread: Background<Option<String>>,
}

impl Health {
    /// Begins to ask.
    pub(crate) fn watch(command: &str) -> Result<Self> {
        let (command, began) = (command.to_owned(), Instant::now());
        let thread = Background::start("health", move |end| {
            loop {
                let at = began.elapsed();
                if let Err(why) = ask(&command) {
                    return Some(format!(
                        "`{command}` {why}, {:.0} s from the beginning",
                        at.as_secs_f64()
                    ));
                }
                if end.comes_within(INTERVAL) {
                    return ask(&command).err().map(|why| format!("`{command}` {why} at the end"));
                }
            }
        })?;
        Ok(Self { thread })
    }

    /// Asks once more; why the system was not well, if it was not at any time.
    pub(crate) fn end(self) -> Option<String> {
        self.thread.end()
    }
}

/// Runs the command; what it did instead of ending well.
fn ask(command: &str) -> std::result::Result<(), String> {
    let began = Instant::now();
    if ends_well(command, Stdio::null(), || began.elapsed() >= ANSWER)? {
        return Ok(());
    }
    Err(format!("gave no answer within {} s", ANSWER.as_secs()))
}
