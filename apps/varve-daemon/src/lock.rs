//! The data directory and its lock: one daemon a directory.
//!
//! The kernel releases the lock when the process ends, however it ends; the file itself stays.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use varve_client::{Failure, Result};

/// The kernel releases the locks of a process that was killed once it has taken it apart, which takes seconds on a busy
/// machine.
const PATIENCE: Duration = Duration::from_secs(3);

const PAUSE: Duration = Duration::from_millis(50);

/// Takes a lock with `attempt`, which fails at once; while another process holds it (`is_held`), again for up to 3 s.
/// Blocks the thread.
///
/// # Errors
/// The last one of `attempt`.
pub(crate) fn take_lock<T, E>(
    mut attempt: impl FnMut() -> std::result::Result<T, E>,
    is_held: impl Fn(&E) -> bool,
) -> std::result::Result<T, E> {
    let begin = Instant::now();
    loop {
        match attempt() {
            Err(error) if is_held(&error) && begin.elapsed() < PATIENCE => thread::sleep(PAUSE),
            outcome => return outcome,
        }
    }
}

/// Held for as long as the daemon runs.
pub(crate) struct DataLock {
    file: File,
}

impl DataLock {
    /// Makes the data directory where it is absent and takes its lock. Refused while another process holds it, but not
    /// at once: one that was killed holds it a moment longer.
    pub(crate) fn take(data: &Path) -> Result<Self> {
        let failed = |what: &str, error: std::io::Error| {
            Failure::new(format!("{what} {}: {error}", data.display()))
                .hint("choose a directory that this user can write with --data")
        };
        make_durably(data).map_err(|error| failed("create data directory", error))?;
        let path = data.join("lock");
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path);
        let mut file = file.map_err(|error| failed("open the lock of data directory", error))?;
        match take_lock(|| file.try_lock(), |error| matches!(error, TryLockError::WouldBlock)) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(held(data, &mut file)),
            Err(TryLockError::Error(error)) => return Err(failed("lock data directory", error)),
        }
        // Written in place, which a full file system allows; only the message for a second daemon needs it.
        let _ = write_holder(&mut file, &std::process::id().to_string());
        Ok(Self { file })
    }
}

impl Drop for DataLock {
    /// Takes the process out of the file: another one may get its number.
    fn drop(&mut self) {
        let _ = write_holder(&mut self.file, "");
    }
}

fn write_holder(file: &mut File, holder: &str) -> std::io::Result<()> {
    file.rewind()?;
    writeln!(file, "{holder:<10}")
}

/// Makes a directory and what is absent above it. Durable on return.
fn make_durably(path: &Path) -> std::io::Result<()> {
    let path = std::path::absolute(path)?;
    let absent = path.ancestors().take_while(|path| !path.exists()).count();
    DirBuilder::new().mode(0o700).recursive(true).create(&path)?;
    path.ancestors().skip(1).take(absent).try_for_each(|parent| File::open(parent)?.sync_all())
}

fn held(data: &Path, file: &mut File) -> Failure {
    let mut pid = String::new();
    // Only for the message: without a number it still says enough.
    let _ = file.take(32).read_to_string(&mut pid);
    let by = match pid.trim() {
        "" => "another process".to_owned(),
        pid => format!("process {pid}"),
    };
    let data = data.display();
    Failure::new(format!("data directory {data} is already served by {by}"))
        .hint(format!("`varve status --data {data}` asks it; SIGTERM ends it"))
}

/// Replaces a file so that it holds either its old or its new content after a crash. Durable on return.
pub(crate) fn replace_durably(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let next = path.with_extension("new");
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&next)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&next, path)?;
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_for_a_moment_is_waited_for_and_nothing_else() {
        let mut left = 3;
        let taken = take_lock(
            || {
                left -= 1;
                if left == 0 { Ok(()) } else { Err("held") }
            },
            |error| *error == "held",
        );
        assert_eq!((taken, left), (Ok(()), 0));
        let mut attempts = 0;
        let failed = take_lock::<(), _>(
            || {
                attempts += 1;
                Err("damaged")
            },
            |error| *error == "held",
        );
        assert_eq!((failed, attempts), (Err("damaged"), 1));
    }

    #[test]
    fn a_second_holder_is_refused_and_told_who_holds_it() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("deep").join("data");
        let lock = DataLock::take(&data).unwrap();
        let refused = DataLock::take(&data).err().unwrap().to_string();
        let pid = std::process::id();
        assert!(refused.contains(&format!("already served by process {pid}")), "{refused}");
        drop(lock);
        assert_eq!(fs::read_to_string(data.join("lock")).unwrap().trim(), "", "nobody to end");
        assert!(DataLock::take(&data).is_ok());
    }

    #[test]
    fn a_data_path_that_is_a_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        let refused = DataLock::take(&file).err().unwrap().to_string();
        assert!(refused.contains("create data directory"), "{refused}");
    }

    #[test]
    fn a_replaced_file_has_its_new_content_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f.json");
        replace_durably(&path, b"long content").unwrap();
        replace_durably(&path, b"short").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"short");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
