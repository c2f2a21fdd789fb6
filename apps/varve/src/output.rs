//! Standard output of commands.

use std::io::{self, Write};

use varve_client::Failure;

/// Prints what a command has to say. A reader that went away early, as `head` does, is no failure.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}
