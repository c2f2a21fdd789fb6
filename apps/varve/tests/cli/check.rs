//! Goal: `varve check` finds every damaged byte that counts, says whose it is, and writes nothing. Method: single bytes
//! of each stored structure of small pools are turned over and back; what each byte is, the format's own decoders say.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use varve_access_admin::MemoryBackend;
use varve_logstore::format::segment::StripHeader;
use varve_logstore::format::summary::SummaryEntry;

use crate::daemon::Home;
use crate::rig::Api;
use crate::stored::{BLOCK, SEGMENT_BYTES, Stored, bytes_at, contents, flip, lose, places_of};

/// What NBD says of what cannot be read or written.
const EIO: u32 = 5;

/// Copies of the superblock, their distance, and where roots begin.
const COPIES: u64 = 4;
const COPY_STRIDE: u64 = 1 << 20;
const ROOTS: u64 = COPIES * COPY_STRIDE;
/// A root's slot with 256 KiB of contents, and how many a side there are: the pool's and two shards'.
const ROOT_SLOT_BYTES: u64 = (256 << 10) + 4096;
const ROOT_COUNT: u64 = 3;
const ROOT_HEADER_BYTES: u64 = 64;

#[test]
fn a_pool_that_is_served_is_checked_by_its_daemon() {
    let home = Home::new();
    let daemon = home.serve(&[]);
    home.varve(&["volume", "create", "v", "--size", "1GiB"]).ok();
    let mut client = home.connect("v");
    for (round, snapshot) in ["v@a", "v@b", "v@c"].into_iter().enumerate() {
        let at = (round as u64) << 26; // On both shards.
        client.write(at, &contents(round as u64, 300));
        client.write(0, &contents(10 + round as u64, 200));
        home.varve(&["volume", "snapshot", "create", snapshot]).ok();
    }
    home.varve(&["volume", "snapshot", "delete", "v@b"]).ok();
    let text = home.varve(&["check", "--online"]).ok();
    assert!(text.starts_with("3 datasets, ") && text.contains(" followed: 0 errors\n"), "{text}");
    let json = home.varve(&["check", "--online", "--json"]).json();
    assert_eq!((&json["state"], &json["report"]["dangling"]), (&"done".into(), &0.into()));
    assert!(json["references"].as_u64().unwrap() > 600, "{json}");
    let offline = home.varve(&["check"]).refused(2);
    assert!(offline.contains("in use"), "{offline}");
    drop(daemon);
    let said = home.varve(&["check", "--online"]).refused(2);
    assert!(said.contains("no daemon answers"), "{said}");
}

#[test]
fn a_daemon_tells_of_a_map_that_it_cannot_read() {
    let pool = Stored::clean();
    let file = pool.file("segments");
    let is_of_a_map = |place: u64| {
        let both: Vec<_> =
            places_of(&file, place).into_iter().map(|place| (&*file, place)).collect();
        let (_, report) = pool.check_flipped(&both);
        codes(&report).contains(&"map_unreadable")
    };
    let mut places = pool.rows(&["segments"]).into_iter().flat_map(|row| {
        let start = row["segment"].as_u64().unwrap() * SEGMENT_BYTES;
        let (_, parts) = parts(&bytes_at(&file, start, usize::try_from(SEGMENT_BYTES).unwrap()));
        let pages =
            parts.into_iter().filter(|part| matches!(part.what, Some(SummaryEntry::Page { .. })));
        pages.map(move |page| start + (page.from + page.to) / 2).collect::<Vec<u64>>()
    });
    let place = places.find(|place| is_of_a_map(*place)).expect("the map has pages");
    places_of(&file, place).into_iter().for_each(|place| flip(&file, place));
    let _daemon = pool.serve();
    let run = pool.varve(&["check", "--online"]);
    assert_eq!(run.code, 1, "{} {}", run.stdout, run.stderr);
    assert!(run.stdout.starts_with("error: v cannot be followed: "), "{}", run.stdout);
    let json = pool.varve(&["check", "--online", "--json"]);
    assert_eq!(json.code, 1, "it stays so");
}

#[test]
fn what_a_daemon_finds_wrong_is_told_and_ends_with_1() {
    let api = Api::over(MemoryBackend::default());
    let clean = "0 datasets, 1000 references followed: 0 errors\n\
                 3 chunks of 12 KiB that nothing named any more given back\n";
    assert_eq!(api.varve(&["check", "--online"]).ok(), clean);
    api.varve(&["volume", "create", "damaged", "--size", "1GiB"]).ok();
    let run = api.varve(&["check", "--online"]);
    assert_eq!(run.code, 1);
    assert!(run.stdout.starts_with("error: damaged: block 7 names 12"), "{}", run.stdout);
    assert!(run.stderr.contains("the pool has 1 error"), "{}", run.stderr);
    api.varve(&["volume", "delete", "damaged"]).ok();
    api.varve(&["volume", "create", "unserved", "--size", "1GiB"]).ok();
    let run = api.varve(&["check", "--online"]);
    assert_eq!(run.code, 2, "{}", run.stdout);
    assert!(run.stdout.starts_with("not checked: 1 block that names"), "{}", run.stdout);
    assert!(run.stderr.contains("not everything was checked"), "{}", run.stderr);
    let said = api.varve(&["check", "--online", "--quick"]).refused(2);
    assert!(said.contains("cannot be used with"), "{said}");
}

#[track_caller]
fn assert_counts(checked: &(i32, Value), errors: u64, warnings: u64) {
    let (code, report) = checked;
    let found = (report["errors"].as_u64().unwrap(), report["warnings"].as_u64().unwrap());
    assert_eq!(found, (errors, warnings), "{report:#}");
    assert_eq!(*code, i32::from(errors > 0));
}

fn codes(report: &Value) -> Vec<&str> {
    let findings = report["findings"].as_array().unwrap();
    findings.iter().map(|finding| finding["code"].as_str().unwrap()).collect()
}

#[track_caller]
fn assert_error(checked: &(i32, Value), wanted: &str) {
    assert_eq!(checked.0, 1, "{:#}", checked.1);
    assert!(codes(&checked.1).contains(&wanted), "{wanted}: {:#}", checked.1);
}

#[test]
fn a_sound_pool_is_clean_and_stays_as_it_is() {
    for pool in [Stored::clean(), Stored::new("KILL", |client| client.write(0, &contents(1, 700)))]
    {
        let before = pool.state();
        let checked = pool.check();
        assert_counts(&checked, 0, 0);
        let live: u64 = checked.1["shards"].as_array().unwrap().iter().map(chunks).sum();
        assert!(live >= 384, "{:#}", checked.1);
        let text = pool.varve(&["check"]).ok();
        assert!(text.ends_with(": clean: 0 errors, 0 warnings, 0 notes\n"), "{text}");
        pool.varve(&["check", "--quick"]).ok();
        for dump in ["superblock", "roots", "pool", "lane", "segments", "keys"] {
            pool.varve(&["dump", dump]).ok();
        }
        pool.varve(&["dump", "map", "v"]).ok();
        assert_eq!(pool.state(), before, "nothing was written");
    }
}

fn chunks(shard: &Value) -> u64 {
    shard["chunks"].as_u64().unwrap()
}

#[test]
fn a_file_that_a_drive_lacks_is_missing_and_not_damaged() {
    let pool = Stored::clean();
    let (file, elsewhere) = (pool.file("segments"), pool.file("elsewhere"));
    std::fs::rename(&file, &elsewhere).unwrap();
    let checked = pool.check();
    assert_counts(&checked, 1, 0);
    assert_eq!(codes(&checked.1), ["file_missing"]);
    let text = pool.varve(&["check"]);
    assert!(text.stdout.starts_with("error: the file segments of drive "), "{}", text.stdout);
    assert!(text.stdout.contains(": incomplete: 1 error, "), "{}", text.stdout);
    let said = pool.varve(&["serve", "--nbd", "unix:nbd.sock"]).refused(1);
    assert!(said.contains("the file segments of drive ") && said.contains("missing"), "{said}");
    std::fs::rename(&elsewhere, &file).unwrap();
    assert_counts(&pool.check(), 0, 0);
}

#[test]
fn what_redundancy_hides_is_a_warning() {
    let pool = Stored::clean();
    let meta = pool.file("meta");
    for copy in 0..COPIES {
        let at = copy * COPY_STRIDE + [0, 48, 700, 4095][usize::try_from(copy).unwrap()];
        let checked = pool.check_flipped(&[(&meta, at)]);
        assert_counts(&checked, 0, 1);
        assert_eq!(codes(&checked.1), ["superblock_copy"]);
        assert_eq!(checked.1["findings"][0]["path_offset"], copy * COPY_STRIDE);
    }
    for root in 0..ROOT_COUNT {
        for side in 0..2 {
            let start = ROOTS + (side * ROOT_COUNT + root) * ROOT_SLOT_BYTES;
            for within in [0, 16, 60, ROOT_HEADER_BYTES + 20] {
                let checked = pool.check_flipped(&[(&meta, start + within)]);
                assert_counts(&checked, 0, 1);
                assert_eq!(codes(&checked.1), ["root_side"], "root {root} side {side} at {within}");
            }
            let len = bytes_at(&meta, start + 40, 4);
            let len = u32::from_le_bytes(len.try_into().unwrap());
            let padding = start + ROOT_HEADER_BYTES + u64::from(len);
            assert_counts(&pool.check_flipped(&[(&meta, padding)]), 0, 0);
        }
    }
    // Beside the copies, and behind the last root: nothing.
    for at in [4096, COPY_STRIDE - 1, ROOTS + 2 * ROOT_COUNT * ROOT_SLOT_BYTES + 5] {
        assert_counts(&pool.check_flipped(&[(&meta, at)]), 0, 0);
    }
}

#[test]
fn what_redundancy_does_not_hide_is_an_error() {
    let pool = Stored::clean();
    let meta = pool.file("meta");
    let copies: Vec<(&Path, u64)> = (0..3).map(|copy| (&*meta, copy * COPY_STRIDE + 90)).collect();
    let checked = pool.check_flipped(&copies);
    assert_error(&checked, "superblock");
    assert!(!checked.1.to_string().contains("rewrites it"), "no start does: {:#}", checked.1);
    for root in 0..ROOT_COUNT {
        let side = |side| (&*meta, ROOTS + (side * ROOT_COUNT + root) * ROOT_SLOT_BYTES + 70);
        assert_error(&pool.check_flipped(&[side(0), side(1)]), "root");
    }
    assert_counts(&pool.check(), 0, 0);
}

/// What the bytes of a segment are.
struct Part {
    from: u64,
    to: u64,
    what: Option<SummaryEntry>,
}

/// Units and gaps of a segment.
fn parts(segment: &[u8]) -> (StripHeader, Vec<Part>) {
    let (header, _) = StripHeader::decode(segment).unwrap();
    let start = header.summary_offset as usize;
    let summary = &segment[start..start + header.summary_bytes() as usize];
    let mut parts = Vec::new();
    for entry in summary.chunks_exact(SummaryEntry::LEN) {
        let entry = SummaryEntry::decode(entry).unwrap();
        let Some(unit) = entry.unit() else { continue };
        let from = u64::from(unit.offset());
        parts.push(Part { from, to: from + u64::from(unit.stored_len), what: Some(entry) });
    }
    parts.sort_by_key(|part| part.from);
    let (mut gaps, mut end) = (Vec::new(), StripHeader::LEN as u64);
    let behind = Part { from: start as u64, to: start as u64, what: None };
    for part in parts.iter().chain([&behind]) {
        if part.from > end {
            gaps.push(Part { from: end, to: part.from, what: None });
        }
        end = part.to;
    }
    parts.extend(gaps);
    (header, parts)
}

#[test]
fn every_byte_of_a_segment_that_counts_is_verified() {
    let pool = Stored::clean();
    let file = pool.file("segments");
    let map = pool.rows(&["map", "v"]);
    let is_live = |segment: u32, offset: u64| {
        map.iter().find_map(|run| {
            let start = run["offset"].as_u64().unwrap();
            let bytes = run["stored_bytes"].as_u64().unwrap();
            let hit = run["segment"] == segment && (start..start + bytes).contains(&offset);
            hit.then(|| run["block"].as_u64().unwrap() + (offset - start) / BLOCK as u64)
        })
    };
    let mut seen = std::collections::BTreeSet::new();
    for row in pool.rows(&["segments"]) {
        let number = u32::try_from(row["segment"].as_u64().unwrap()).unwrap();
        let start = u64::from(number) * SEGMENT_BYTES;
        // What there is of it twice is damaged twice.
        let at = |offset: u64| {
            let places = places_of(&file, start + offset).into_iter();
            pool.check_flipped(&places.map(|place| (&*file, place)).collect::<Vec<_>>())
        };
        let (header, parts) =
            parts(&bytes_at(&file, start, usize::try_from(SEGMENT_BYTES).unwrap()));
        if at(50).0 == 0 {
            // A segment that nothing needs: the checkpoint before the last.
            assert!(!map.iter().any(|run| run["segment"] == number), "segment {number} is in use");
            assert_counts(&at(50), 0, 0);
            continue;
        }
        for offset in [0, 30, 4095] {
            assert_error(&at(offset), "header_damaged");
        }
        for offset in [0, header.summary_bytes() - 1] {
            assert_error(&at(u64::from(header.summary_offset + offset)), "summary_damaged");
        }
        let end = u64::from(header.summary_offset + header.summary_bytes());
        for offset in [end, SEGMENT_BYTES - 1] {
            assert_counts(&at(offset), 0, 0);
        }
        let mut of_kind = std::collections::BTreeMap::new();
        for part in parts {
            let live = is_live(number, part.from);
            let kind = match &part.what {
                None => "gap",
                Some(SummaryEntry::Data { .. }) if live.is_some() => "live data",
                Some(SummaryEntry::Data { .. }) => "dead data",
                Some(SummaryEntry::KeyPut { .. } | SummaryEntry::KeyDelete { .. }) => "key",
                Some(SummaryEntry::Page { .. }) => "page",
                Some(SummaryEntry::TablePage { .. }) => "table page",
                Some(SummaryEntry::UsageBlob { .. }) => "usage",
                Some(SummaryEntry::DeathBlob { .. }) => "deaths",
                Some(SummaryEntry::DeltaBlob { .. }) => "updates",
                Some(other) => panic!("{other:?} has no unit"),
            };
            let done = of_kind.entry(kind).or_insert(0);
            *done += 1;
            if *done > 3 {
                continue;
            }
            seen.insert(kind);
            for offset in [part.from, (part.from + part.to) / 2, part.to - 1] {
                let checked = at(offset);
                match kind {
                    "gap" => assert_counts(&checked, 0, 0),
                    "live data" => {
                        assert_counts(&checked, 1, 0);
                        let finding = &checked.1["findings"][0];
                        let wanted = (&"chunk_damaged".into(), &"v".into(), &live.into());
                        let found = (&finding["code"], &finding["volume"], &finding["block"]);
                        assert_eq!(found, wanted, "{finding:#}");
                        assert_eq!(finding["segment"], number);
                        assert_eq!(finding["path_offset"], start + part.from);
                    }
                    "dead data" | "key" => assert_counts(&checked, 0, 1),
                    // Pages of the checkpoint before share segments with those of the last: they need not be in use.
                    _ => assert_ne!(codes(&checked.1), Vec::<&str>::new(), "{kind} at {offset}"),
                }
            }
        }
    }
    let kinds = ["dead data", "deaths", "gap", "key", "live data", "page", "table page", "usage"];
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), kinds);
    assert_counts(&pool.check(), 0, 0);
}

#[test]
fn a_damaged_page_costs_nothing_while_its_copy_is_whole() {
    let pool = Stored::clean();
    let file = pool.file("segments");
    let mut needed = 0;
    for row in pool.rows(&["segments"]) {
        let start = row["segment"].as_u64().unwrap() * SEGMENT_BYTES;
        let starts = places_of(&file, start);
        if starts.len() == 1 {
            continue;
        }
        let (_, parts) = parts(&bytes_at(&file, start, usize::try_from(SEGMENT_BYTES).unwrap()));
        let is_blob = |part: &&Part| matches!(part.what, Some(SummaryEntry::UsageBlob { .. }));
        for part in parts.iter().filter(is_blob) {
            let places: Vec<_> = starts.iter().map(|start| (&*file, start + part.from)).collect();
            for place in &places {
                let (code, report) = pool.check_flipped(&[*place]);
                assert_eq!((code, report["errors"].as_u64()), (0, Some(0)), "{report:#}");
            }
            // Accounts of earlier checkpoints are in no use.
            needed += u32::from(pool.check_flipped(&places).0 == 1);
        }
    }
    assert!(needed > 0, "no account of segments that counts has a copy");
}

#[test]
fn a_lane_counts_only_until_it_is_drained() {
    let pool = Stored::clean();
    for lane in ["lane-0000", "lane-0001"] {
        let file = pool.file(lane);
        assert_counts(&pool.check_flipped(&[(&file, 40), (&file, 5000)]), 0, 0);
    }
}

#[test]
fn damage_to_acknowledged_frames_is_told() {
    // One write a frame, and more frames than can have been under way. The first ones may be drained: a mark pass
    // begins with the daemon.
    let pool = Stored::new("KILL", |client| {
        for block in 0..200 {
            client.write(block * BLOCK as u64, &contents(block, 1));
        }
    });
    let (shard, frames) = ["0", "1"]
        .map(|shard| (shard, pool.rows(&["lane", "--shard", shard])))
        .into_iter()
        .max_by_key(|(_, rows)| rows.len())
        .unwrap();
    let frames: Vec<u64> = frames.iter().filter_map(|row| row["position"].as_u64()).collect();
    assert!(frames.len() >= 200);
    let acknowledged = frames[frames.len() - 10];
    let file = pool.file(&format!("lane-000{shard}"));
    for within in [8, 600, 4000] {
        let checked = pool.check_flipped(&[(&file, acknowledged + within)]);
        assert_error(&checked, "lane_damaged");
        assert_eq!(checked.1["findings"][0]["shard"].to_string(), shard);
    }
    // The newest frame looks like one that power loss cut short: that cannot be told.
    assert_counts(&pool.check_flipped(&[(&file, *frames.last().unwrap() + 8)]), 0, 0);
}

#[test]
fn a_lost_lane_is_told_and_opened_only_when_the_loss_is_accepted() {
    let pool = Stored::new("KILL", |client| client.write(0, &contents(1, 20)));
    for lane in ["lane-0000", "lane-0001"] {
        lose(&pool.file(lane));
    }
    let checked = pool.check();
    assert_error(&checked, "lane_lost");
    assert_eq!(checked.1["errors"], 2, "{:#}", checked.1);
    let arguments = ["serve", "--nbd", "unix:nbd.sock"];
    let said = pool.varve(&arguments).refused(1);
    assert!(said.contains("the journal lane was lost or is an older copy"), "{said}");
    assert!(said.contains("start once with --accept-lost-journal"), "{said}");
    let daemon = pool.serve_with(&["--accept-lost-journal"]);
    daemon.signal("KILL");
    let (_, said) = daemon.end();
    assert!(said.contains("the loss of acknowledged writes is accepted"), "{said}");
    assert_counts(&pool.check(), 0, 0);
    drop(pool.serve());
}

#[test]
fn a_damaged_shard_does_not_keep_the_others_from_serving() {
    let pool = Stored::new("KILL", |client| {
        client.write(0, &contents(1, 8));
        client.write(64 << 20, &contents(2, 8)); // On the other shard.
    });
    // The volume is named on the other shard.
    for side in 0..2 {
        flip(&pool.file("meta"), ROOTS + (side * ROOT_COUNT + 1) * ROOT_SLOT_BYTES + 70);
    }
    let daemon = pool.serve();
    let run = pool.varve(&["status", "--check"]);
    assert_eq!(run.code, 3, "{} {}", run.stdout, run.stderr);
    let status = pool.varve(&["status", "--json"]).json();
    assert_eq!(status["state"], "degraded", "{status:#}");
    assert_eq!(status["shards"][0]["state"], "damaged", "{status:#}");
    let trouble = status["shards"][0]["trouble"].as_str().unwrap();
    assert!(trouble.contains("root"), "{trouble}");
    assert!(status["shards"][1]["trouble"].is_null(), "{status:#}");
    let troubles = status["troubles"].to_string();
    assert!(troubles.contains("names of volumes and snapshots cannot be changed: "), "{troubles}");
    let begun = Instant::now();
    let mut client = pool.connect("v");
    let mut errors = [0, 64 << 20].map(|offset| client.try_write(offset, &contents(3, 8)));
    errors.sort_unstable();
    assert_eq!(errors, [0, EIO], "the regions of one shard are served, those of the other refused");
    assert!(begun.elapsed() < Duration::from_secs(15), "requests for a damaged shard do not wait");
    drop(client);
    let said = pool.varve(&["volume", "delete", "v"]).refused(1);
    assert!(said.contains("names cannot be changed") && said.contains("try: "), "{said}");
    daemon.signal("TERM");
    let (status, said) = daemon.end();
    assert!(status.success(), "{said}");
    assert!(said.contains("a shard is not served, and the others are"), "{said}");
    // What was damaged is whole again, and so is the pool.
    for side in 0..2 {
        flip(&pool.file("meta"), ROOTS + (side * ROOT_COUNT + 1) * ROOT_SLOT_BYTES + 70);
    }
    let daemon = pool.serve();
    let mut client = pool.connect("v");
    assert_eq!([0, 64 << 20].map(|offset| client.try_write(offset, &contents(4, 8))), [0, 0]);
    drop(client);
    pool.varve(&["volume", "delete", "v"]).ok();
    drop(daemon);
}

#[test]
fn damage_to_a_chain_is_told() {
    // Several data segments after the checkpoint, and frames that say so.
    let pool = Stored::new("KILL", |client| {
        for part in 0..56 {
            client.write(part << 18, &contents(part, 64));
        }
    });
    let file = pool.file("segments");
    let rows = pool.rows(&["segments"]);
    let first = rows.iter().find(|row| row["kind"] == "data" && row["chain_seq"] == 1).unwrap();
    let start = first["segment"].as_u64().unwrap() * SEGMENT_BYTES;
    assert_error(&pool.check_flipped(&[(&file, start + 40)]), "chain_broken");
    assert_counts(&pool.check(), 0, 0);
}

#[test]
fn a_check_that_cannot_be_made_ends_with_2() {
    let home = Home::new();
    assert!(home.varve(&["check"]).refused(2).contains("no pool in varve-data"));
    let daemon = home.serve(&[]);
    let said = home.varve(&["check"]).refused(2);
    assert!(said.contains("a daemon has the pool open"), "{said}");
    assert!(said.contains("`varve check --online`"), "{said}");
    assert_eq!(home.varve(&["dump", "pool"]).refused(2), said);
    drop(daemon);
    assert_eq!(home.varve(&["check", "--quick"]).code, 0);
    assert_eq!(home.varve(&["check", "--drive", "drive"]).code, 0);
    let said = home.varve(&["--addr", "unix:x", "check"]).refused(2);
    assert!(said.contains("this command needs none"), "{said}");
    assert!(home.varve(&["check", "--drive", "nowhere"]).refused(2).contains("nowhere"));
}

#[test]
fn a_quick_check_leaves_data_out_and_says_so() {
    let pool = Stored::clean();
    let file = pool.file("segments");
    let run = &pool.rows(&["map", "v"])[0];
    let at = run["segment"].as_u64().unwrap() * SEGMENT_BYTES + run["offset"].as_u64().unwrap();
    flip(&file, at);
    let text = pool.varve(&["check", "--quick"]).ok();
    assert!(
        text.contains("0 errors, 0 warnings, 0 notes, data not verified (--quick)\n"),
        "{text}"
    );
    let run = pool.varve(&["check"]);
    assert_eq!(run.code, 1);
    assert!(run.stdout.starts_with("error: chunk "), "{}", run.stdout);
    assert!(run.stdout.contains("(volume v block "), "{}", run.stdout);
    assert_eq!(run.stderr, "error: the pool has 1 error\n");
}
