//! Pools with known contents, stopped in order or killed, and single bytes of theirs turned over and back.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::daemon::{Daemon, Home};
use crate::nbd::Client;
use crate::rig::Run;

pub(crate) const BLOCK: usize = 4096;

/// A figure of the pool that is served.
pub(crate) fn pool_figure(home: &Home, key: &str) -> u64 {
    home.varve(&["pool", "show", "--json"]).json()[key].as_u64().unwrap()
}

/// Creates volume `v` and fills so many percent of the pool with it; the client stays connected.
pub(crate) fn fill_pool(home: &Home, percent: u64) -> Client {
    let capacity = pool_figure(home, "capacity_bytes");
    home.varve(&["volume", "create", "v", "--size", "1GiB"]).ok();
    let mut client = home.connect("v");
    let mut part = 0;
    while pool_figure(home, "used_bytes") < capacity * percent / 100 {
        (part..part + 8).for_each(|part| client.write(part << 20, &contents(part, 256)));
        part += 8;
    }
    client
}

/// A pool that no daemon serves.
pub(crate) struct Stored {
    home: Home,
}

/// Blocks that no two of them hold alike.
pub(crate) fn contents(first: u64, blocks: usize) -> Vec<u8> {
    let mut state = first.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut bytes = vec![0; blocks * BLOCK];
    for word in bytes.chunks_exact_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        word.copy_from_slice(&state.to_le_bytes());
    }
    bytes
}

impl Stored {
    /// A pool whose volume `v` was written by `write`, whose daemon was then ended by a signal.
    pub(crate) fn new(signal: &str, write: impl Fn(&mut Client)) -> Self {
        Self::used(signal, |home| write(&mut home.connect("v")))
    }

    /// A pool with a volume `v`, whose daemon was ended by a signal after it was used.
    fn used(signal: &str, work: impl Fn(&Home)) -> Self {
        let home = Home::new();
        let daemon = home.serve(&[]);
        home.varve(&["volume", "create", "v", "--size", "1GiB"]).ok();
        work(&home);
        Self { home }.ended(daemon, signal)
    }

    fn ended(self, daemon: Daemon, signal: &str) -> Self {
        daemon.signal(signal);
        daemon.end();
        self
    }

    /// One that was stopped in order: data, overwritten data, keys, pages, all kinds of segments but reclaimed ones.
    pub(crate) fn clean() -> Self {
        let pool = Self::new("TERM", |client| {
            for part in 0..6u64 {
                client.write(part << 18, &contents(part, 64));
            }
        });
        // Another life: what is overwritten soon would not leave the lane.
        let daemon = pool.serve();
        let mut client = pool.home.connect("v");
        client.write(0, &contents(100, 8)); // What they held before is dead now.
        client.write(64 << 20, &contents(50, 16)); // On the other shard.
        pool.varve(&["volume", "resize", "v", "--size", "1GiB"]).ok(); // A key beside data that are alive.
        drop(client);
        pool.ended(daemon, "TERM")
    }

    pub(crate) fn varve(&self, arguments: &[&str]) -> Run {
        self.home.varve(arguments)
    }

    pub(crate) fn serve(&self) -> Daemon {
        self.serve_with(&[])
    }

    pub(crate) fn serve_with(&self, more: &[&str]) -> Daemon {
        self.home.serve(more)
    }

    pub(crate) fn connect(&self, volume: &str) -> Client {
        self.home.connect(volume)
    }

    pub(crate) fn path(&self) -> &Path {
        self.home.path()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.home.path().join("drive").join(name)
    }

    /// Every file of the pool with what it holds and when it was changed.
    pub(crate) fn state(&self) -> Vec<(PathBuf, u64, std::time::SystemTime)> {
        let mut state = Vec::new();
        for directory in ["drive", "varve-data"] {
            for entry in fs::read_dir(self.home.path().join(directory)).unwrap() {
                let path = entry.unwrap().path();
                if !path.is_file() {
                    continue; // The socket of a daemon that was killed.
                }
                let hash = varve_stdx::checksum64(&fs::read(&path).unwrap());
                state.push((path.clone(), hash, fs::metadata(&path).unwrap().modified().unwrap()));
            }
        }
        state.sort();
        state
    }

    /// `check --json`: exit code and report.
    pub(crate) fn check(&self) -> (i32, Value) {
        let run = self.varve(&["check", "--json"]);
        let report = serde_json::from_str(&run.stdout);
        (run.code, report.unwrap_or_else(|error| panic!("{error}: {} {}", run.stdout, run.stderr)))
    }

    /// Checks with the byte at each of `places` turned over.
    pub(crate) fn check_flipped(&self, places: &[(&Path, u64)]) -> (i32, Value) {
        for (path, offset) in places {
            flip(path, *offset);
        }
        let checked = self.check();
        for (path, offset) in places {
            flip(path, *offset);
        }
        checked
    }

    /// Rows of a dump with `--json`.
    pub(crate) fn rows(&self, arguments: &[&str]) -> Vec<Value> {
        let all = [&["dump"], arguments, &["--json"]].concat();
        self.varve(&all).ok().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// Turns one byte over.
pub(crate) fn flip(path: &Path, offset: u64) {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[byte[0] ^ 0x55], offset).unwrap();
}

/// Bytes of a segment of a small pool.
pub(crate) const SEGMENT_BYTES: u64 = 2 << 20;

/// Where a byte of a segment is in the file of segments: there, and in the segment's second copy, which begins with the
/// same header.
pub(crate) fn places_of(file: &Path, offset: u64) -> Vec<u64> {
    let (start, within) = (offset / SEGMENT_BYTES * SEGMENT_BYTES, offset % SEGMENT_BYTES);
    let header = bytes_at(file, start, BLOCK);
    let slots = fs::metadata(file).unwrap().len() / SEGMENT_BYTES;
    let starts = (0..slots).map(|slot| slot * SEGMENT_BYTES);
    let same = starts.filter(|other| *other == start || bytes_at(file, *other, BLOCK) == header);
    same.map(|start| start + within).collect()
}

/// Makes zeros of a whole file.
pub(crate) fn lose(path: &Path) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    let len = file.metadata().unwrap().len();
    file.set_len(0).unwrap();
    file.set_len(len).unwrap();
}

/// Bytes of a file.
pub(crate) fn bytes_at(path: &Path, offset: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    File::open(path).unwrap().read_exact_at(&mut bytes, offset).unwrap();
    bytes
}
