//! A daemon of the built binary, with a small drive in a directory of its own.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};

use tempfile::TempDir;

use crate::nbd::Client;
use crate::rig::{Run, varve_in};

/// A directory under the build's own, where O_DIRECT works, in which daemons of one pool are started.
pub(crate) struct Home {
    dir: TempDir,
    shards: u16,
}

/// A daemon that serves. Killed when dropped.
pub(crate) struct Daemon {
    child: Child,
    lines: BufReader<ChildStdout>,
    errors: BufReader<ChildStderr>,
    banner: String,
}

/// What a small pool is started with; paths are relative, as socket paths must be short.
const SMALL: &[&str] = &["serve", "--nbd", "unix:nbd.sock", "--drive", "drive=256MiB"];

impl Home {
    /// For a pool of two shards.
    pub(crate) fn new() -> Self {
        Self::of_shards(2)
    }

    pub(crate) fn of_shards(shards: u16) -> Self {
        let dir = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let config = "[journal]\nlane_size = \"16MiB\"\n[memory]\nbudget = \"128MiB\"\n[s3]\nlisten = \"none\"\n";
        std::fs::create_dir(dir.path().join("varve-data")).unwrap();
        std::fs::write(dir.path().join("varve-data/varve.toml"), config).unwrap();
        Self { dir, shards }
    }

    /// Adds settings to the configuration, for the next daemon.
    pub(crate) fn configure(&self, settings: &str) {
        let path = self.path().join("varve-data/varve.toml");
        let before = std::fs::read_to_string(&path).unwrap();
        std::fs::write(path, before + settings).unwrap();
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Runs a command in the directory.
    pub(crate) fn varve(&self, arguments: &[&str]) -> Run {
        varve_in(self.path(), arguments)
    }

    /// Opens a volume over NBD.
    pub(crate) fn connect(&self, volume: &str) -> Client {
        Client::open(&self.path().join("nbd.sock"), volume)
    }

    /// Starts a daemon and waits until it serves.
    pub(crate) fn serve(&self, more: &[&str]) -> Daemon {
        let shards = self.shards.to_string();
        self.spawn(&[SMALL, &["--shards", &shards], more].concat())
    }

    /// The same on the drives that the data directory remembers.
    pub(crate) fn serve_remembered(&self) -> Daemon {
        self.spawn(&["serve", "--nbd", "unix:nbd.sock"])
    }

    fn spawn(&self, arguments: &[&str]) -> Daemon {
        let mut child = Command::new(env!("CARGO_BIN_EXE_varve"))
            .args(arguments)
            .current_dir(self.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        let mut banner = String::new();
        while !banner.contains("attach it:") {
            if lines.read_line(&mut banner).unwrap() == 0 {
                let mut said = String::new();
                errors.read_to_string(&mut said).unwrap();
                panic!("the daemon ended with {}: {said}", child.wait().unwrap());
            }
        }
        Daemon { child, lines, errors, banner }
    }
}

impl Daemon {
    /// What it printed once it served.
    pub(crate) fn banner(&self) -> &str {
        &self.banner
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal such as `TERM`.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.pid().to_string()]).status();
        assert!(sent.unwrap().success());
    }

    /// Waits for the end: all that it printed on either output behind the first lines.
    pub(crate) fn rest(mut self) -> String {
        let mut printed = String::new();
        self.lines.read_to_string(&mut printed).unwrap();
        self.errors.read_to_string(&mut printed).unwrap();
        printed
    }

    /// Waits for the end: how it ended and what it said on standard error.
    pub(crate) fn end(mut self) -> (ExitStatus, String) {
        let status = self.child.wait().unwrap();
        let mut said = String::new();
        self.errors.read_to_string(&mut said).unwrap();
        (status, said)
    }

    /// Waits until it says something with these words on standard error; the line.
    pub(crate) fn says(&mut self, words: &str) -> String {
        loop {
            let mut line = String::new();
            assert!(
                self.errors.read_line(&mut line).unwrap() > 0,
                "it ended and never said {words}"
            );
            if line.contains(words) {
                return line;
            }
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
