//! Goal: `varve dump` prints what is stored, the same text for the same bytes, and survives any bytes. Method: a pool
//! of known contents, its text without what differs from pool to pool compared with a file; then the same pool with
//! noise written over it.

use std::fs;
use std::path::Path;

use crate::stored::{Stored, bytes_at, contents, flip};

const DUMPS: &[&[&str]] = &[
    &["superblock"],
    &["roots"],
    &["pool"],
    &["lane"],
    &["lane", "--shard", "1"],
    &["frame", "0"],
    &["segments"],
    &["segment", "0"],
    &["segment", "2"],
    &["map", "v"],
    &["map", "stream:1"],
    &["keys"],
];

/// Lines that a root of a shard has or lacks by what was written and when.
const CHANCE: [&str; 3] = ["  deaths ", "  deltas ", "  copy "];

/// Ids, times, checksums and addresses differ from run to run; names, order and form do not.
fn form(text: &str) -> String {
    let mut form = String::new();
    for line in text.lines().filter(|line| !CHANCE.iter().any(|name| line.starts_with(name))) {
        let words = line.split(' ').map(|word| {
            let digits = word.chars().any(|c| c.is_ascii_digit());
            if digits || word.contains('/') { "#" } else { word }
        });
        let line = words.collect::<Vec<_>>().join(" ");
        // Which shard a part of a volume lies on is drawn, and with it how often and where a line comes.
        if !form.lines().any(|before| before == line) {
            form.push_str(line.trim_end());
            form.push('\n');
        }
    }
    form
}

#[test]
fn dumps_have_the_published_form() {
    let pool = Stored::clean();
    let mut all = String::new();
    for dump in [&["superblock"][..], &["pool"], &["roots"], &["frame"]] {
        let text = if dump[0] == "frame" {
            let keys = pool.rows(&["keys"]);
            let home = keys.iter().find(|row| row["kind"] == "volume").unwrap();
            let shard = home["shard"].to_string();
            // A mount begins with a frame without records.
            let frames = pool.rows(&["lane", "--shard", &shard]);
            let first = frames.iter().find(|frame| frame["records"] != 0).unwrap();
            pool.varve(&["dump", "frame", &first["position"].to_string(), "--shard", &shard]).ok()
        } else {
            pool.varve(&[&["dump"], dump].concat()).ok()
        };
        all.push_str(&format!("$ varve dump {}\n{}", dump.join(" "), form(&text)));
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots/dump-form.txt");
    if std::env::var_os("VARVE_UPDATE_SNAPSHOTS").is_some() {
        fs::write(&path, &all).unwrap();
    }
    assert_eq!(
        all,
        fs::read_to_string(&path).unwrap_or_default(),
        "VARVE_UPDATE_SNAPSHOTS=1 writes it"
    );
}

#[test]
fn a_map_leads_to_the_bytes_of_a_volume() {
    let pool = Stored::clean();
    let wanted = contents(3, 64);
    let (first, last) = ((3 << 18) / 4096, (4 << 18) / 4096);
    let mut found = 0;
    for run in pool.rows(&["map", "v"]) {
        let number = |name: &str| run[name].as_u64().unwrap();
        for index in 0..number("block_count") {
            let block = number("block") + index;
            if !(first..last).contains(&block) {
                continue;
            }
            let at = number("segment") * (2 << 20) + number("offset") + index * 4096;
            let start = usize::try_from((block - first) * 4096).unwrap();
            assert_eq!(bytes_at(&pool.file("segments"), at, 4096), wanted[start..start + 4096]);
            found += 1;
        }
    }
    assert_eq!(found, 64);
    let keys = pool.rows(&["keys"]);
    let volume = keys.iter().find(|row| row["kind"] == "volume").unwrap();
    assert_eq!((&volume["volume"], &volume["size_bytes"]), (&"v".into(), &(1u64 << 30).into()));
    assert!(pool.varve(&["dump", "map", "w"]).refused(1).contains("no volume w"));
    assert!(
        pool.varve(&["dump", "map", "stream:x"]).refused(2).contains("is not a volume or stream")
    );
    assert!(
        pool.varve(&["dump", "segment", "128"]).refused(2).contains("its segments are 0 to 127")
    );
    assert!(pool.varve(&["dump", "frame", "7"]).refused(2).contains("no frame begins at 7"));
    assert!(pool.varve(&["dump", "lane", "--shard", "9"]).refused(2).contains("2 lanes"));
}

#[test]
fn damage_is_said_in_its_place_and_the_rest_is_printed() {
    let pool = Stored::clean();
    flip(&pool.file("meta"), 100);
    let run = pool.varve(&["dump", "superblock"]);
    assert_eq!(run.code, 1);
    assert!(run.stdout.starts_with("copy 0 in "), "{}", run.stdout);
    assert!(
        run.stdout.contains(" at 0: unreadable: checksum mismatch\ncopy 1 in "),
        "{}",
        run.stdout
    );
    let run = pool.varve(&["dump", "pool"]);
    assert_eq!(run.code, 0, "one copy of four is not needed");
}

#[test]
fn no_bytes_make_a_dump_or_a_check_panic() {
    let pool = Stored::clean();
    let mut seed = 1u64;
    for round in 0..12 {
        // Noise over the beginnings of structures; the superblocks are left alone in most rounds, or nothing else would
        // be reached.
        let mut spots = Vec::new();
        for (name, from, step, count) in [
            ("meta", 4u64 << 20, 135_168, 6u64),
            ("lane-0000", 0, 4096, 64),
            ("segments", 0, 2 << 20, 12),
        ] {
            for index in 0..count {
                seed = seed
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let within = (seed >> 33) % 4096;
                if (seed >> 60).is_multiple_of(2) {
                    spots.push((pool.file(name), from + index * step + within));
                }
            }
        }
        if round % 4 == 3 {
            spots.extend((0..3).map(|copy| (pool.file("meta"), (copy << 20) + round)));
        }
        for (path, offset) in &spots {
            flip(path, *offset);
        }
        for dump in DUMPS {
            let run = pool.varve(&[&["dump"], *dump].concat());
            assert!(
                (0..=2).contains(&run.code) && !run.stderr.contains("panicked"),
                "{dump:?} {}",
                run.stderr
            );
        }
        let run = pool.varve(&["check"]);
        assert!((0..=1).contains(&run.code), "{}", run.stderr);
        assert!(
            !run.stdout.contains("panicked") && !run.stderr.contains("panicked"),
            "{}",
            run.stderr
        );
        for (path, offset) in &spots {
            flip(path, *offset);
        }
    }
    assert_eq!(pool.varve(&["check"]).code, 0, "everything is as it was");
}
