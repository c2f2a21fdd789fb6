//! Commands of the user's, run by a shell to their end.

use std::process::{Command, Stdio};
use std::time::Duration;

/// How often it is seen whether a command has ended.
const TICK: Duration = Duration::from_millis(20);

/// Runs a command until it has ended, or `is_given_up` says so: then it is killed. Says whether it ended by itself, and
/// well; else what it did instead of ending well.
pub(super) fn ends_well(
    command: &str,
    stderr: Stdio,
    is_given_up: impl Fn() -> bool,
) -> std::result::Result<bool, String> {
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
    let mut child = shell.spawn().map_err(|error| format!("could not be started: {error}"))?;
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(true),
            Ok(Some(status)) => return Err(format!("ended with {status}")),
            Ok(None) if is_given_up() => break,
            Ok(None) => std::thread::sleep(TICK),
            Err(error) => return Err(format!("could not be waited for: {error}")),
        }
    }
    let _it_may_have_ended = child.kill();
    let _nothing_to_learn = child.wait();
    Ok(false)
}
