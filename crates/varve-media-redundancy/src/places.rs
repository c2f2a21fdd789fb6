//! Looking at places where drives may be, none of which may hold up the others. Called where a pool in files is opened.
//!
//! PLACES-1. Whatever hangs is given up after the patience of a drive, all places together: so a start is late by one
//!     patience however many drives hang.
//! PLACES-2. What the system says of a drive, rather than of this process, is an error of the drive (OPEN-5): an I/O
//!     error, a file system that was shut down, a device that is gone. Permissions, limits and mounts that are for
//!     reading only are none.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use varve_media::{DriveFiles, DriveIdentity, Error, Result};

/// What the system says of the name of a device that is gone: no such device or address, no such device, no medium.
const GONE: [i32; 3] = [6, 19, 123];

/// What it says of a drive that fails: an I/O error, a time-out, a structure that needs cleaning, a remote I/O error.
/// Not that a file system is for reading only: so does the sandbox of a process whose drives are in order (PLACES-2).
const FAILING: [i32; 4] = [5, 110, 117, 121];

/// A place with nothing to lock, or nothing that can be read.
pub(crate) struct FailedPlace {
    pub(crate) path: String,
    pub(crate) error: Error,
    /// Whether the system says that nothing is there.
    pub(crate) is_absent: bool,
}

/// Finds and locks the drives at these paths (PLACES-1). Blocks.
pub(crate) fn open_all(
    paths: &[PathBuf],
    patience_nanos: u64,
    is_read_only: bool,
) -> Vec<std::result::Result<DriveFiles, FailedPlace>> {
    let look: fn(&Path) -> std::result::Result<DriveFiles, FailedPlace> = match is_read_only {
        true => |path: &Path| open(path, DriveFiles::open_to_read),
        false => |path: &Path| open(path, DriveFiles::open),
    };
    let answers = in_time(paths, patience_nanos, look).into_iter().zip(paths);
    let answers = answers.map(|(answer, path)| match answer {
        Ok(answer) => answer,
        Err(error) => {
            Err(FailedPlace { path: path.display().to_string(), error, is_absent: false })
        }
    });
    answers.collect()
}

fn open(
    path: &Path,
    open: fn(&Path) -> Result<DriveFiles>,
) -> std::result::Result<DriveFiles, FailedPlace> {
    open(path).map_err(|error| FailedPlace {
        path: path.display().to_string(),
        is_absent: is_absent(path),
        error: blame(path, error),
    })
}

/// What a drive says of itself, in time. Blocks.
pub(crate) fn identify(path: &Path, patience_nanos: u64) -> Result<DriveIdentity> {
    let mut answers = in_time(&[path.to_owned()], patience_nanos, DriveIdentity::read);
    answers.pop().unwrap_or_else(|| Err(silent(&path.display().to_string(), patience_nanos)))?
}

/// What `look` says of paths that may be devices which do not answer: in threads of their own, that are given up.
/// [`Error::Io`] where it does not return in time, and [`Error::Open`] where there is no thread.
fn in_time<T: Send + 'static>(
    paths: &[PathBuf],
    patience_nanos: u64,
    look: fn(&Path) -> T,
) -> Vec<Result<T>> {
    let (sender, answers) = mpsc::channel();
    let mut found: Vec<Option<Result<T>>> = paths.iter().map(|_| None).collect();
    for ((at, path), place) in paths.iter().enumerate().zip(&mut found) {
        let (sender, owned) = (sender.clone(), path.clone());
        // Whoever waits may have given it up.
        let run = move || drop(sender.send((at, look(&owned))));
        if let Err(error) = thread::Builder::new().name("look".to_owned()).spawn(run) {
            let path = path.display().to_string();
            *place = Some(Err(Error::Open { path, reason: error.to_string() }));
        }
    }
    drop(sender);
    // PLACES-1: with the last answer, or when the time is over.
    let end = Instant::now() + Duration::from_nanos(patience_nanos);
    let left = || end.saturating_duration_since(Instant::now());
    while let Ok((at, answer)) = answers.recv_timeout(left()) {
        if let Some(place) = found.get_mut(at) {
            *place = Some(Ok(answer));
        }
    }
    let silent = |path: &PathBuf| Err(silent(&path.display().to_string(), patience_nanos));
    found.into_iter().zip(paths).map(|(it, path)| it.unwrap_or_else(|| silent(path))).collect()
}

/// Whether the system says that nothing is at a path, or that the device of that name is gone.
pub(crate) fn is_absent(path: &Path) -> bool {
    match fs::metadata(path) {
        Err(error) => error.kind() == io::ErrorKind::NotFound,
        Ok(found) if found.file_type().is_block_device() => {
            File::open(path).is_err_and(|error| is_one_of(&error, &GONE))
        }
        Ok(_) => false,
    }
}

/// An error to open something of a drive, as one of the drive where it is that (PLACES-2).
pub(crate) fn blame(path: &Path, error: Error) -> Error {
    let Error::Open { path: file, reason } = &error else { return error };
    let open = |path: &Path| match fs::metadata(path)?.is_dir() {
        true => fs::read_dir(path).map(drop),
        false => File::options().read(true).write(true).open(path).map(drop),
    };
    let fails = |path: &Path| open(path).is_err_and(|error| is_one_of(&error, &FAILING));
    if !fails(Path::new(file)) && !fails(path) {
        return error;
    }
    let (path, reason) = (file.clone(), reason.clone());
    Error::Io { operation: "open", path, offset: 0, len: 0, reason }
}

fn is_one_of(error: &io::Error, codes: &[i32]) -> bool {
    error.raw_os_error().is_some_and(|code| codes.contains(&code))
}

/// A drive that did not answer.
pub(crate) fn silent(path: &str, patience_nanos: u64) -> Error {
    Error::Io {
        operation: "read",
        path: path.to_owned(),
        offset: 0,
        len: 0,
        reason: format!("no answer for {} ms", patience_nanos / 1_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_that_hang_are_given_up_together() {
        let paths = ["/hangs-1", "/hangs-2", "/answers"].map(PathBuf::from);
        let look = |path: &Path| {
            if path.ends_with("answers") {
                return 7;
            }
            thread::sleep(Duration::from_secs(30));
            0
        };
        let answers = in_time(&paths, 50_000_000, look);
        assert!(matches!(answers[..], [Err(Error::Io { .. }), Err(Error::Io { .. }), Ok(7)]));
    }

    #[test]
    fn a_permission_that_lacks_is_no_error_of_the_drive() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "").unwrap();
        let reason = "permission denied".to_owned();
        let error = Error::Open { path: path.display().to_string(), reason };
        assert!(matches!(blame(dir.path(), error), Error::Open { .. }));
    }
}
