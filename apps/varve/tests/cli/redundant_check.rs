//! Goal: `varve check`, `varve dump` and `varve salvage` look at a redundant pool with the drives that are there: what
//! other drives hide is a warning, what is lost with drives an error, and nothing is written. Method: a small pool of
//! three directories; strips and labels are damaged where `varve dump` says that they are, and drives are moved away.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::daemon::Home;
use crate::stored::{contents, flip};

const DRIVES: [&str; 3] = ["a", "b", "c"];
const LABEL_BYTES: u64 = 4096;

struct RedundantPool {
    home: Home,
}

/// A strip as `varve dump strip` lists it.
struct ListedStrip {
    path: PathBuf,
    offset: u64,
}

impl RedundantPool {
    /// One that was written and stopped in order.
    fn stopped() -> Self {
        let home = Home::new();
        let drives = DRIVES.iter().map(|name| format!("{name}=512MiB"));
        let drives: Vec<String> = drives.flat_map(|name| ["--drive".to_owned(), name]).collect();
        let mut create = vec!["pool", "create", "--data", "varve-data", "--protect", "ec:2+1"];
        create.extend(["--lane-size", "16MiB", "--shards", "2", "--yes"]);
        create.extend(drives.iter().map(String::as_str));
        home.varve(&create).ok();
        let daemon = home.serve_remembered();
        home.varve(&["volume", "create", "v", "--size", "1GiB"]).ok();
        let mut client = home.connect("v");
        for part in 0..4_u64 {
            client.write(part << 20, &contents(part, 200));
        }
        drop(client);
        daemon.signal("TERM");
        daemon.end();
        Self { home }
    }

    fn check(&self) -> (i32, Value) {
        let run = self.home.varve(&["check", "--json"]);
        let report = serde_json::from_str(&run.stdout);
        (run.code, report.unwrap_or_else(|error| panic!("{error}: {} {}", run.stdout, run.stderr)))
    }

    /// What is found by code, with the severity of each.
    fn findings(&self) -> (i32, Vec<(String, String)>) {
        let (code, report) = self.check();
        let all = report["findings"].as_array().unwrap().iter();
        let text = |finding: &Value, key: &str| finding[key].as_str().unwrap().to_owned();
        let mut found: Vec<_> = all.map(|it| (text(it, "severity"), text(it, "code"))).collect();
        found.dedup();
        (code, found)
    }

    #[track_caller]
    fn assert_found(&self, code: i32, severity: &str, name: &str) {
        let (found_code, found) = self.findings();
        assert_eq!(found_code, code, "{found:?}");
        assert!(found.contains(&(severity.to_owned(), name.to_owned())), "{name}: {found:?}");
    }

    /// A segment with data, and its strips.
    fn strips(&self) -> (u64, Vec<ListedStrip>) {
        let rows = self.home.varve(&["dump", "segments", "--json"]).ok();
        let rows = rows.lines().map(|row| serde_json::from_str::<Value>(row).unwrap());
        let data =
            rows.filter(|row| row["kind"] == "data").max_by_key(|row| row["used_bytes"].as_u64());
        let slot = data.expect("data were written")["segment"].as_u64().unwrap();
        let text = self.home.varve(&["dump", "strip", &slot.to_string()]).ok();
        let lines =
            text.lines().filter(|line| line.starts_with("strip ") && line.contains(" on drive "));
        let strips = lines.map(|line| {
            let (_, place) = line.split_once(" in ").unwrap();
            let (path, offset) = place.rsplit_once(" at ").unwrap();
            ListedStrip { path: self.home.path().join(path), offset: offset.parse().unwrap() }
        });
        (slot, strips.collect())
    }

    fn away(&self, name: &str) {
        let aside = self.home.path().join("aside");
        fs::create_dir_all(&aside).unwrap();
        fs::rename(self.home.path().join(name), aside.join(name)).unwrap();
    }

    fn state(&self) -> Vec<u64> {
        let files = DRIVES.iter().flat_map(|name| ["meta", "segments"].map(|file| (name, file)));
        let hash = |path: &Path| varve_stdx::checksum64(&fs::read(path).unwrap());
        files.map(|(name, file)| hash(&self.home.path().join(name).join(file))).collect()
    }
}

#[test]
fn a_redundant_pool_is_checked_with_what_is_there() {
    let pool = RedundantPool::stopped();
    let before = pool.state();
    assert_eq!(pool.findings(), (0, vec![]));
    let (slot, strips) = pool.strips();
    assert_eq!(strips.len(), 3);
    let tables = pool.home.varve(&["dump", "drives"]).ok();
    assert_eq!(tables.matches("side 0 of the drive table").count(), 3, "{tables}");
    let layout = pool.home.varve(&["dump", "layout"]).ok();
    assert!(layout.contains("journal of shard 1") && layout.contains("zone 0: "), "{layout}");

    for (at, severity, code) in
        [(LABEL_BYTES + 100, "warning", "strip_damaged"), (50, "warning", "label")]
    {
        let ListedStrip { path, offset } = &strips[1];
        flip(path, offset + at);
        pool.assert_found(0, severity, code);
        let dumped = pool.home.varve(&["dump", "strip", &slot.to_string()]);
        assert_eq!(dumped.code, 1, "{}", dumped.stdout);
        flip(path, offset + at);
    }
    // Two of three are one too many.
    for strip in &strips[..2] {
        flip(&strip.path, strip.offset + LABEL_BYTES + 100);
    }
    assert_eq!(pool.check().0, 1);
    for strip in &strips[..2] {
        flip(&strip.path, strip.offset + LABEL_BYTES + 100);
    }
    assert_eq!(pool.state(), before, "nothing is written");
}

#[test]
fn what_is_lost_with_drives_is_said() {
    let pool = RedundantPool::stopped();
    pool.away("b");
    let (code, found) = pool.findings();
    let warning = |code: &str| ("warning".to_owned(), code.to_owned());
    assert_eq!((code, found), (0, vec![warning("drive_missing"), warning("exposed")]));
    let run = pool.home.varve(&["salvage", "--to", "rescue"]);
    assert_eq!(run.code, 0, "{} {}", run.stdout, run.stderr);
    let image = fs::read(pool.home.path().join("rescue/v.raw")).unwrap();
    for part in 0..4_u64 {
        let expected = contents(part, 200);
        let at = usize::try_from(part << 20).unwrap();
        assert!(image[at..at + expected.len()] == expected, "part {part}");
    }
    pool.away("c");
    pool.assert_found(1, "error", "exposed");
    pool.assert_found(1, "warning", "maybe_old");
    let text = pool.home.varve(&["check"]).stdout;
    assert!(text.contains("drive 1 (") && text.contains("without the drives 1, 2"), "{text}");
}
