//! Access logs: a file for each bucket that has one, lines as Amazon's server access logs have them.
//!
//! Lines go to a thread, which writes what has come together and flushes it when nothing more waits; a file that is
//! full is set aside, and the oldest of those goes. A line that finds no room in the queue, or cannot be written, is
//! dropped and counted: requests never wait for a log.

mod entry;

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::{self, JoinHandle};

pub(crate) use entry::{LogEntry, ResponseRecord, number};

use crate::answers::error::{Error, Result};

/// Longest file, in bytes, but for the line that exceeds it.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Files of a bucket: the one that is written, and those set aside.
const FILES_MAX: usize = 4;
/// Lines that may wait: some 4 MiB.
const WAITING_MAX: usize = 8192;
/// Files open at once.
const OPEN_MAX: usize = 64;

/// Where lines go.
pub(crate) struct AccessLog {
    /// None once it ends.
    lines: Option<SyncSender<LogLine>>,
    dropped: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

struct LogLine {
    bucket: String,
    text: String,
}

impl AccessLog {
    /// Logs into files `BUCKET.log` of a directory, which is made.
    pub(crate) fn start(directory: PathBuf) -> Result<Self> {
        let failed = |source| Error::File {
            what: format!("make the directory of access logs {}", directory.display()),
            source,
        };
        fs::DirBuilder::new().mode(0o700).recursive(true).create(&directory).map_err(failed)?;
        let (sender, lines) = mpsc::sync_channel(WAITING_MAX);
        let dropped = Arc::new(AtomicU64::new(0));
        let files = Files {
            directory: directory.clone(),
            file_bytes_max: FILE_BYTES_MAX,
            open: HashMap::new(),
            dropped: Arc::clone(&dropped),
            unflushed: 0,
            failing: false,
        };
        let thread = thread::Builder::new()
            .name("s3-log".to_owned())
            .spawn(move || files.run(&lines))
            .map_err(failed)?;
        Ok(Self { lines: Some(sender), dropped, thread: Some(thread) })
    }

    /// Adds a line to a bucket's log, without waiting.
    pub(crate) fn add(&self, bucket: String, text: String) {
        let sent = self.lines.as_ref().map(|lines| lines.try_send(LogLine { bucket, text }));
        if !matches!(sent, Some(Ok(()))) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Lines that were not written.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

impl Drop for AccessLog {
    /// Writes what waits.
    fn drop(&mut self) {
        drop(self.lines.take());
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the writer of access logs panicked");
        }
    }
}

/// The writer's state.
struct Files {
    directory: PathBuf,
    file_bytes_max: u64,
    open: HashMap<String, LogFile>,
    dropped: Arc<AtomicU64>,
    /// Lines since the last flush.
    unflushed: u64,
    /// Lines could not be written, which was said.
    failing: bool,
}

struct LogFile {
    file: BufWriter<File>,
    bytes: u64,
}

impl Files {
    fn run(mut self, lines: &Receiver<LogLine>) {
        while let Ok(line) = lines.recv() {
            self.write(&line);
            while let Ok(line) = lines.try_recv() {
                self.write(&line);
            }
            self.flush();
        }
    }

    fn write(&mut self, line: &LogLine) {
        match self.try_write(line) {
            Ok(()) => self.unflushed += 1,
            Err(error) => {
                // What is in its buffer may be lost too; the next line opens the file again.
                self.open.remove(&line.bucket);
                self.lost(&error, 1);
            }
        }
    }

    fn flush(&mut self) {
        let flushed: io::Result<()> = self.open.values_mut().try_for_each(|open| open.file.flush());
        let lines = std::mem::take(&mut self.unflushed);
        match flushed {
            Ok(()) if lines > 0 && self.failing => {
                self.failing = false;
                tracing::info!("access logs are written again");
            }
            Ok(()) => {}
            Err(error) => {
                self.open.clear();
                self.lost(&error, lines);
            }
        }
    }

    /// Counts lines that may be lost, and says once that logging fails.
    fn lost(&mut self, error: &io::Error, lines: u64) {
        self.dropped.fetch_add(lines, Ordering::Relaxed);
        if !self.failing {
            let directory = self.directory.display();
            tracing::warn!(%directory, %error, "access logs cannot be written");
        }
        self.failing = true;
    }

    fn try_write(&mut self, line: &LogLine) -> io::Result<()> {
        let path = self.directory.join(format!("{}.log", line.bucket));
        if self.open.len() >= OPEN_MAX && !self.open.contains_key(&line.bucket) {
            for mut open in self.open.drain() {
                open.1.file.flush()?;
            }
        }
        let mut open = match self.open.remove(&line.bucket) {
            Some(open) => open,
            None => LogFile::open(&path)?,
        };
        if open.bytes >= self.file_bytes_max {
            open.file.flush()?;
            set_aside(&path)?;
            open = LogFile::open(&path)?;
        }
        open.file.write_all(line.text.as_bytes())?;
        open.bytes += line.text.len() as u64;
        self.open.insert(line.bucket.clone(), open);
        Ok(())
    }
}

impl LogFile {
    fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        let bytes = file.metadata()?.len();
        Ok(Self { file: BufWriter::new(file), bytes })
    }
}

/// `x.log` becomes `x.log.1`, that `x.log.2` and so on; the last one goes.
fn set_aside(path: &Path) -> io::Result<()> {
    let numbered = |number: usize| match number {
        0 => path.to_owned(),
        _ => PathBuf::from(format!("{}.{number}", path.display())),
    };
    for number in (0..FILES_MAX - 1).rev() {
        match fs::rename(numbered(number), numbered(number + 1)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(directory: &Path, file_bytes_max: u64) -> Files {
        Files {
            directory: directory.to_owned(),
            file_bytes_max,
            open: HashMap::new(),
            dropped: Arc::default(),
            unflushed: 0,
            failing: false,
        }
    }

    fn line(bucket: &str, text: &str) -> LogLine {
        LogLine { bucket: bucket.to_owned(), text: format!("{text}\n") }
    }

    #[test]
    fn every_bucket_has_a_file_that_goes_on_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("logs");
        for round in 0..2 {
            let log = AccessLog::start(path.clone()).unwrap();
            for number in 0..100 {
                log.add("one".to_owned(), format!("{round} {number}\n"));
                log.add("two".to_owned(), "x\n".to_owned());
            }
            drop(log);
        }
        let one = fs::read_to_string(path.join("one.log")).unwrap();
        let lines: Vec<&str> = one.lines().collect();
        assert_eq!((lines.len(), lines[0], lines[199]), (200, "0 0", "1 99"));
        assert_eq!(fs::read_to_string(path.join("two.log")).unwrap().len(), 400);
    }

    #[test]
    fn a_full_file_is_set_aside_and_the_oldest_goes() {
        let dir = tempfile::tempdir().unwrap();
        let (sender, lines) = mpsc::sync_channel(WAITING_MAX);
        for number in 0..100 {
            sender.send(line("b", &format!("{number:09}"))).unwrap();
        }
        drop(sender);
        files(dir.path(), 100).run(&lines);
        let mut found = Vec::new();
        for entry in fs::read_dir(dir.path()).unwrap() {
            let entry = entry.unwrap();
            assert_eq!(entry.metadata().unwrap().len(), 100);
            found.push(entry.file_name().into_string().unwrap());
        }
        found.sort();
        assert_eq!(found, ["b.log", "b.log.1", "b.log.2", "b.log.3"]);
        let newest = fs::read_to_string(dir.path().join("b.log")).unwrap();
        assert!(newest.starts_with("000000090\n"), "{newest}");
    }

    #[test]
    fn more_buckets_than_open_files_lose_no_line() {
        let dir = tempfile::tempdir().unwrap();
        let mut files = files(dir.path(), 1 << 20);
        for _ in 0..2 {
            for number in 0..3 * OPEN_MAX {
                files.write(&line(&format!("b{number}"), "x"));
            }
        }
        assert!(files.open.len() <= OPEN_MAX);
        drop(files);
        for number in 0..3 * OPEN_MAX {
            let path = dir.path().join(format!("b{number}.log"));
            assert_eq!(fs::read_to_string(path).unwrap(), "x\nx\n");
        }
    }

    #[test]
    fn what_cannot_be_written_is_counted_and_logging_goes_on() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("bad.log")).unwrap();
        let mut files = files(dir.path(), 1 << 20);
        files.write(&line("bad", "x"));
        assert_eq!((files.dropped.load(Ordering::Relaxed), files.failing), (1, true));
        files.write(&line("good", "x"));
        files.flush();
        assert_eq!((files.dropped.load(Ordering::Relaxed), files.failing), (1, false));
    }
}
