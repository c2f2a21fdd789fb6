//! Goal: `varve salvage` copies everything out of a pool that can be read, says exactly what cannot, and changes
//! nothing of the pool. Method: pools with known contents, whole, with a damaged unit, a lost journal, and a shard that
//! does not open.

use std::fs;
use std::path::Path;

use varve_logstore::format::segment::StripHeader;
use varve_logstore::format::summary::SummaryEntry;

use crate::stored::{BLOCK, SEGMENT_BYTES, Stored, bytes_at, contents, flip, lose, places_of};

fn image(pool: &Stored, directory: &str) -> Vec<u8> {
    bytes_at(&pool.path().join(directory).join("v.raw"), 0, 128 << 20)
}

fn is_there(image: &[u8], at: usize, wanted: &[u8]) -> bool {
    image.get(at..at + wanted.len()) == Some(wanted)
}

/// Where the units of segments lie in the file, with what they are.
fn units(pool: &Stored, file: &Path) -> Vec<(u64, SummaryEntry)> {
    let rows = pool.rows(&["segments"]).into_iter();
    let numbers = rows.map(|row| row["segment"].as_u64().unwrap());
    let mut units = Vec::new();
    for start in numbers.map(|number| number * SEGMENT_BYTES) {
        let bytes = bytes_at(file, start, usize::try_from(SEGMENT_BYTES).unwrap());
        let (header, _) = StripHeader::decode(&bytes).unwrap();
        let summary = header.summary_offset as usize..;
        let entries = varve_logstore::chain_reader::decode_summary(
            &header,
            &bytes[summary][..header.summary_bytes() as usize],
        );
        for entry in entries.unwrap() {
            if let Some(unit) = entry.unit() {
                units.push((start + u64::from(unit.offset()), entry));
            }
        }
    }
    units
}

/// What a copy that is not whole says of what is missing.
fn lossy(pool: &Stored) -> String {
    let run = pool.varve(&["salvage", "--to", "out"]);
    assert_eq!(run.code, 1, "{} {}", run.stdout, run.stderr);
    assert!(run.stderr.starts_with("error: not everything could be read\n"), "{}", run.stderr);
    run.stdout
}

#[test]
fn a_whole_pool_is_copied_whole_and_stays_as_it_is() {
    let pool = Stored::clean();
    let before = pool.state();
    let said = pool.varve(&["salvage", "--to", "out"]).ok();
    assert!(said.starts_with("v: ") && said.contains("all of it"), "{said}");
    assert_eq!(pool.state(), before);
    let image = image(&pool, "out");
    assert!(is_there(&image, 0, &contents(100, 8)));
    assert!(is_there(&image, 1 << 18, &contents(1, 64)));
    assert!(is_there(&image, 64 << 20, &contents(50, 16)));
    assert!(image[2 << 20..64 << 20].iter().all(|byte| *byte == 0));
    assert_eq!(fs::metadata(pool.path().join("out/v.raw")).unwrap().len(), 1 << 30);
    assert!(pool.varve(&["salvage", "--to", "out"]).refused(2).contains("is not empty"));
    let said = pool.varve(&["salvage", "--to", "none", "--volume", "w"]);
    assert_eq!((said.code, &*said.stdout), (1, "lost: volume w: no such name can be read\n"));
}

#[test]
fn long_names_and_sizes_beyond_those_of_files_are_copied_too() {
    let pool = Stored::clean();
    let daemon = pool.serve();
    let name = "n".repeat(247);
    pool.varve(&["volume", "create", &name, "--size", "1MiB"]).ok();
    pool.varve(&["volume", "create", "huge", "--size", "32PiB", "--json"]).ok();
    daemon.signal("TERM");
    daemon.end();
    let said = pool.varve(&["salvage", "--to", "out"]).ok();
    assert_eq!(said.lines().filter(|line| line.contains("all of it")).count(), 3, "{said}");
    assert!(pool.path().join("out/huge.raw").exists(), "{said}");
}

#[test]
fn damage_takes_away_what_it_hits_and_no_more() {
    let pool = Stored::clean();
    let file = pool.file("segments");
    let wanted = contents(1, 64);
    let is_it = |entry: &SummaryEntry| matches!(entry, SummaryEntry::Data { block, .. } if *block == (1 << 18) / BLOCK as u64 + 3);
    let units = units(&pool, &file);
    let (place, _) = units.iter().find(|(_, entry)| is_it(entry)).unwrap();
    flip(&file, place + 5);
    let said = lossy(&pool);
    assert!(said.contains("4 KiB cannot be read"), "{said}");
    let list = fs::read_to_string(pool.path().join("out/v.unreadable")).unwrap();
    assert!(list.starts_with(&format!("{} + 4096: ", (1 << 18) + 3 * BLOCK)), "{list}");
    let image = image(&pool, "out");
    assert!(is_there(&image, 1 << 18, &wanted[..3 * BLOCK]));
    assert!(is_there(&image, (1 << 18) + 4 * BLOCK, &wanted[4 * BLOCK..]));
}

#[test]
fn a_lost_journal_is_reported() {
    let pool = Stored::new("KILL", |client| client.write(0, &contents(1, 20)));
    lose(&pool.file("lane-0000"));
    lose(&pool.file("lane-0001"));
    let said = lossy(&pool);
    for shard in 0..2 {
        let lost = format!(
            "lost: writes that the journal of shard {shard} alone held: the journal lane was lost"
        );
        assert!(said.contains(&lost), "{said}");
    }
}

#[test]
fn a_shard_that_does_not_open_is_read_at_its_checkpoint() {
    let pool = Stored::clean();
    let file = pool.file("segments");
    let units = units(&pool, &file);
    for (place, entry) in &units {
        if matches!(entry, SummaryEntry::UsageBlob { .. }) {
            for place in places_of(&file, place + 70) {
                flip(&file, place);
            }
        }
    }
    assert_eq!(pool.check().0, 1);
    let said = lossy(&pool);
    assert!(said.contains("it is read as its last checkpoint has it"), "{said}");
    assert!(said.contains("v: "), "{said}");
    let image = image(&pool, "out");
    assert!(is_there(&image, 0, &contents(100, 8)));
    assert!(is_there(&image, 64 << 20, &contents(50, 16)));
}
