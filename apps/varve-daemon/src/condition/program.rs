//! Programs that may hang with a drive: each has a time limit, and nobody waits for one that does not end
//! (CONDITION-2).

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Where programs of administrators are, which the path of a service may lack.
const DIRECTORIES: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];
/// Longest output that is read.
const OUTPUT_BYTES_MAX: u64 = 1 << 20;
/// How long a program may take to end once it is killed, or has closed its output.
const END_MAX: Duration = Duration::from_secs(1);
/// Pause between two looks whether it has.
const END_PAUSE: Duration = Duration::from_millis(10);

/// What a program printed, and whether it exited with 0.
#[derive(Debug)]
pub(super) struct ProgramOutput {
    pub(super) bytes: Vec<u8>,
    pub(super) has_succeeded: bool,
}

/// Why there is no output.
#[derive(Debug)]
pub(super) enum ProgramFailure {
    /// It cannot be started, or its output cannot be read.
    Io(io::Error),
    /// It took too long. It is killed, and has ended unless it is here.
    Late(Option<Child>),
}

/// Where a program is.
pub(super) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).chain(DIRECTORIES.map(PathBuf::from));
    directories.map(|directory| directory.join(name)).find(|path| path.is_file())
}

/// Runs a program for as long as `limit` at most.
pub(super) fn run(
    program: &Path,
    arguments: &[&str],
    limit: Duration,
) -> Result<ProgramOutput, ProgramFailure> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(ProgramFailure::Io)?;
    let output = match read(&mut child, limit) {
        Ok(Some(output)) => output,
        outcome => {
            // It may have ended meanwhile.
            let _ = child.kill();
            let is_ended = ended(&mut child).is_some();
            return Err(match outcome {
                Err(error) => ProgramFailure::Io(error),
                Ok(_) => ProgramFailure::Late((!is_ended).then_some(child)),
            });
        }
    };
    match ended(&mut child) {
        Some(has_succeeded) => Ok(ProgramOutput { bytes: output, has_succeeded }),
        None => {
            let _ = child.kill();
            let is_ended = ended(&mut child).is_some();
            Err(ProgramFailure::Late((!is_ended).then_some(child)))
        }
    }
}

/// All that a program prints; `None` when that is not known in time. What reads ends with the program.
fn read(child: &mut Child, limit: Duration) -> io::Result<Option<Vec<u8>>> {
    let Some(output) = child.stdout.take() else { return Ok(Some(Vec::new())) };
    let (sender, receiver) = mpsc::sync_channel(1);
    thread::Builder::new().name("program".to_owned()).spawn(move || {
        let mut bytes = Vec::new();
        let read = output.take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes);
        // Nobody may wait any more.
        let _ = sender.send(read.map(|_| bytes));
    })?;
    receiver.recv_timeout(limit).ok().transpose()
}

/// Whether a program that is about to end has succeeded; `None` when it does not end.
fn ended(child: &mut Child) -> Option<bool> {
    let until = Instant::now() + END_MAX;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status.success()),
            Ok(None) if Instant::now() < until => thread::sleep(END_PAUSE),
            Ok(None) | Err(_) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> Result<ProgramOutput, ProgramFailure> {
        run(&find("sh").unwrap(), &["-c", script], limit)
    }

    #[test]
    fn output_and_outcome_are_those_of_the_program() {
        let done = shell("echo out; echo error >&2; exit 4", Duration::from_secs(60)).unwrap();
        assert_eq!((&done.bytes[..], done.has_succeeded), (&b"out\n"[..], false));
        assert!(shell("exit 0", Duration::from_secs(60)).unwrap().has_succeeded);
        let missing = run(Path::new("/nowhere"), &[], Duration::from_secs(60));
        assert!(matches!(missing, Err(ProgramFailure::Io(_))));
    }

    #[test]
    fn one_that_does_not_end_is_killed() {
        let begin = Instant::now();
        for script in ["exec sleep 600", "exec sleep 600 >&-"] {
            let late = shell(script, Duration::from_millis(50));
            assert!(matches!(late, Err(ProgramFailure::Late(None))), "{script}: {late:?}");
        }
        assert!(begin.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn endless_output_ends() {
        let done = shell("exec yes", Duration::from_secs(60)).unwrap();
        assert_eq!(done.bytes.len(), 1 << 20);
        assert!(!done.has_succeeded);
    }
}
