//! Goal: `varve df` says what is stored and what reduction gave. Method: a memory backend behind the real API; and
//! daemons whose volumes hold known data, looked at while they serve, after a kill, after deletions and after a
//! restart.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::daemon::Home;
use crate::rig::Api;
use crate::stored::{BLOCK, contents};

/// Blocks of a write that fills segments by itself.
const LARGE: usize = 1024;

/// Bytes of such a write.
const LARGE_BYTES: u64 = (LARGE * BLOCK) as u64;

/// Longest wait for what happens in the background.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn people_see_amounts_and_ratios() {
    let api = Api::start();
    api.varve(&["volume", "create", "other", "--size", "2GiB"]).ok();
    let expected = "\
size               68 GiB
capacity           64 GiB
used               3 GiB (4 %)
free               61 GiB
logical            1.5 GiB
unique             768 MiB
stored             576 MiB
waiting            72 MiB
metadata           2.4 GiB
dedup ratio        2.00x
compression ratio  1.33x
reduction ratio    2.67x

VOLUME   SIZE  LOGICAL  REFERENCED    FREED  SNAPSHOTS  SNAPS FREE  BOTH FREE
busy    1 GiB  512 MiB     384 MiB  192 MiB          0         0 B    192 MiB
other   2 GiB    1 GiB     768 MiB  384 MiB          0         0 B    384 MiB
";
    assert_eq!(api.varve(&["df"]).ok(), expected);
}

#[test]
fn buckets_have_a_table_of_their_own() {
    let api = Api::start();
    api.varve(&["bucket", "create", "empty"]).ok();
    api.varve(&["bucket", "create", "full", "--dedup", "on"]).ok();
    let expected = "
BUCKET  LOGICAL  DISTINCT  REFERENCED    FREED  DEDUP  COMPRESSION
empty       0 B       0 B         0 B      0 B  1.00x        1.00x
full      3 MiB   1.5 MiB     2.2 MiB  1.1 MiB  2.00x        1.33x
";
    let said = api.varve(&["df"]).ok();
    assert!(said.ends_with(expected), "{said}");
}

#[test]
fn programs_see_bytes() {
    let json = Api::start().varve(&["df", "--json"]).json();
    assert_eq!(json["logical_bytes"], 512 << 20);
    assert_eq!(json["volumes"][0]["size_bytes"], 1 << 30);
}

fn bytes(space: &Value, field: &str) -> u64 {
    space[field].as_u64().unwrap()
}

/// Names and logical bytes of the volumes.
fn volumes(space: &Value) -> Vec<(&str, u64)> {
    let volumes = space["volumes"].as_array().unwrap().iter();
    volumes
        .map(|volume| (volume["name"].as_str().unwrap(), bytes(volume, "logical_bytes")))
        .collect()
}

/// What `df` says, after what must always hold was looked at.
#[track_caller]
fn space(home: &Home) -> Value {
    let space = home.varve(&["df", "--json"]).json();
    let sum: u64 = volumes(&space).iter().map(|(_, logical)| logical).sum();
    assert_eq!(bytes(&space, "logical_bytes"), sum);
    let named = bytes(&space, "referenced_bytes") + bytes(&space, "waiting_bytes");
    assert_eq!(bytes(&space, "stored_bytes"), named);
    let live = bytes(&space, "stored_bytes") + bytes(&space, "metadata_bytes");
    assert_eq!(bytes(&space, "used_bytes"), live);
    let whole = bytes(&space, "used_bytes") + bytes(&space, "free_bytes");
    assert_eq!(bytes(&space, "capacity_bytes"), whole);
    space
}

/// Waits until `df` says so: what was written last may wait for its place, and what was deleted for mark.
#[track_caller]
fn until(home: &Home, settled: impl Fn(&Value) -> bool) -> Value {
    let begin = Instant::now();
    loop {
        let space = space(home);
        if settled(&space) {
            return space;
        }
        assert!(begin.elapsed() < PATIENCE, "{space}");
    }
}

/// Whether the pool holds so many writes, and chunks for so many.
fn holds(logical: u64, unique: u64) -> impl Fn(&Value) -> bool {
    move |space| {
        bytes(space, "logical_bytes") == logical * LARGE_BYTES
            && bytes(space, "unique_bytes") == unique * LARGE_BYTES
    }
}

/// A volume is deleted as soon as the daemon saw its client leave.
#[track_caller]
fn delete(home: &Home, volume: &str) {
    let begin = Instant::now();
    while home.varve(&["volume", "delete", volume]).code != 0 {
        assert!(begin.elapsed() < PATIENCE, "{volume} stays");
    }
}

/// Blocks that no two of them hold alike, and that compress to a fraction.
fn compressible(first: u64) -> Vec<u8> {
    let mut bytes = contents(first, LARGE);
    for block in bytes.chunks_exact_mut(BLOCK) {
        block[64..].fill(b'v');
    }
    bytes
}

/// A ratio as people see it, of amounts as programs do.
#[expect(clippy::cast_precision_loss, reason = "small pools")]
fn ratio(space: &Value, before: &str, after: &str) -> String {
    format!("{:.2}x", bytes(space, before) as f64 / bytes(space, after) as f64)
}

#[test]
fn amounts_follow_writes_deletions_and_restarts() {
    let home = Home::of_shards(1); // Equal data are found within a shard.
    let daemon = home.serve(&[]);
    for name in ["a", "b"] {
        let size = ["--size", "64MiB", "--dedup", "on", "--compression", "off"];
        home.varve(&[&["volume", "create", name], &size[..]].concat()).ok();
        home.connect(name).write(0, &contents(1, LARGE));
    }
    home.varve(&["volume", "create", "c", "--size", "64MiB", "--compression", "lz4"]).ok();
    home.connect("c").write(8 << 20, &compressible(2));

    let full = until(&home, holds(3, 2));
    assert_eq!(volumes(&full), [("a", LARGE_BYTES), ("b", LARGE_BYTES), ("c", LARGE_BYTES)]);
    let (stored, whole) = (bytes(&full, "stored_bytes"), LARGE_BYTES);
    assert!(stored > whole && stored < whole * 3 / 2, "one is stored whole, one small: {full}");
    let text = home.varve(&["df"]).ok();
    for line in [
        "dedup ratio        1.50x\n".to_owned(),
        format!("compression ratio  {}\n", ratio(&full, "unique_bytes", "stored_bytes")),
        format!("reduction ratio    {}\n", ratio(&full, "logical_bytes", "stored_bytes")),
    ] {
        assert!(text.contains(&line), "{line} is not in {text}");
    }

    daemon.signal("KILL");
    daemon.end();
    let daemon = home.serve(&[]);
    let recovered = until(&home, holds(3, 2));
    assert_eq!(recovered["stored_bytes"], full["stored_bytes"]);
    delete(&home, "b");
    until(&home, holds(2, 2)); // The other volume names its chunks.
    delete(&home, "a");
    let small = until(&home, holds(1, 1)); // They were shared: mark frees them.
    assert!(bytes(&small, "stored_bytes") <= LARGE_BYTES / 2, "{small}");
    assert_eq!(volumes(&small), [("c", LARGE_BYTES)]);

    daemon.signal("TERM");
    daemon.end();
    let _daemon = home.serve(&[]);
    let kept = space(&home);
    assert!(holds(1, 1)(&kept), "{kept}");
    assert_eq!(kept["stored_bytes"], small["stored_bytes"]);
}

#[test]
fn shards_are_summed_up() {
    let home = Home::new();
    let daemon = home.serve(&[]);
    home.varve(&["volume", "create", "v", "--size", "1GiB", "--compression", "off"]).ok();
    let empty = space(&home);
    assert!(holds(0, 0)(&empty), "{empty}");
    let text = home.varve(&["df"]).ok();
    assert!(text.contains("reduction ratio    1.00x\n"), "{text}");
    let mut client = home.connect("v");
    for region in 0..8 {
        client.write(region << 26, &contents(region, LARGE));
    }
    daemon.signal("TERM");
    daemon.end();
    let _daemon = home.serve(&[]);
    let full = space(&home);
    assert!(holds(8, 8)(&full), "{full}");
    let whole = 8 * LARGE_BYTES;
    assert!((whole..whole / 50 * 51).contains(&bytes(&full, "stored_bytes")), "{full}");
}
