//! Goal: `varve volume set` changes how new data are reduced, and nothing that is stored. Method: a memory backend
//! behind the real API; and a daemon with a client whose writes before and after a change are looked up in the stopped
//! pool. An exclusive volume has one client at a time.

use serde_json::Value;

use crate::daemon::Home;
use crate::nbd::Client;
use crate::rig::Api;
use crate::stored::{BLOCK, contents};

/// What NBD clients are told when there is no space.
const ENOSPC: u32 = 28;

/// Blocks of a write that fills segments by itself and so bypasses the lane: what it holds is stored when it is
/// answered.
const LARGE: usize = 1024;

#[test]
fn an_open_volume_changes_part_by_part() {
    let api = Api::start();
    let said = api.varve(&["volume", "set", "busy", "--compression", "zstd:7"]).ok();
    assert_eq!(said, "volume busy: dedup auto, compression zstd:7\n");
    let json = api.varve(&["volume", "set", "busy", "--dedup", "on", "--json"]).json();
    assert_eq!((&json["dedup"], &json["compression"]), (&true.into(), &"zstd:7".into()));
    assert_eq!(json["size_bytes"], 1 << 30, "the rest stays");
    let both = ["volume", "set", "busy", "--dedup", "off", "--compression", "off"];
    assert!(api.varve(&both).ok().contains("dedup off, compression off"));
    let shown = api.varve(&["volume", "show", "busy"]).ok();
    assert!(shown.contains("dedup               off\ncompression         off\n"), "{shown}");
    let said = api.varve(&["volume", "set", "busy", "--quota", "10GiB"]).ok();
    assert_eq!(said, "volume busy: dedup off, compression off, quota 10 GiB\n");
    let shown = api.varve(&["volume", "show", "busy"]).ok();
    assert!(shown.contains("quota               10 GiB\n"), "{shown}");
    let said = api.varve(&["volume", "set", "busy", "--quota", "0"]).refused(2);
    assert!(said.contains("write `none` for no limit"), "{said}");
    let said = api.varve(&["volume", "set", "busy", "--quota", "none"]).ok();
    assert_eq!(said, "volume busy: dedup off, compression off, no quota\n");
    let json = api.varve(&["volume", "set", "busy", "--quota", "none", "--json"]).json();
    assert_eq!(json["quota_bytes"], Value::Null);
    let said = api.varve(&["volume", "set", "busy", "--exclusive", "on"]).ok();
    assert_eq!(said, "volume busy: dedup off, compression off, exclusive\n");
    let shown = api.varve(&["volume", "show", "busy"]).ok();
    assert!(shown.contains("exclusive           on\n"), "{shown}");
    let json = api.varve(&["volume", "set", "busy", "--exclusive", "off", "--json"]).json();
    assert_eq!(json["exclusive"], false);
}

#[test]
fn a_second_client_of_an_exclusive_volume_is_refused() {
    let home = Home::new();
    let daemon = home.serve(&[]);
    let socket = home.path().join("nbd.sock");
    home.varve(&["volume", "create", "v", "--size", "1GiB"]).ok();
    let clients = [home.connect("v"), home.connect("v")];
    assert!(clients.iter().all(Client::can_multi_conn));
    let refused = home.varve(&["volume", "set", "v", "--exclusive", "on"]).refused(1);
    assert!(refused.contains("in use by 2 clients"), "{refused}");
    home.varve(&["volume", "disconnect", "v"]).ok();
    drop(clients);
    home.varve(&["volume", "set", "v", "--exclusive", "on"]).ok();
    home.varve(&["volume", "snapshot", "create", "v@one"]).ok();
    let looks = Client::look(&socket, "v");
    let mut holder = home.connect("v");
    drop(looks); // Whoever only asks neither keeps it nor is refused.
    drop(Client::look(&socket, "v"));
    assert!(!holder.can_multi_conn());
    let why = Client::refusal(&socket, "v");
    let own = format!("process {} of user", std::process::id());
    assert!(why.contains("`v` is exclusive") && why.contains(&own), "{why}");
    assert!(why.contains("varve volume disconnect v"), "{why}");
    assert!(home.connect("v@one").can_multi_conn(), "its snapshots are not exclusive");
    holder.write(0, &contents(1, 1));
    home.varve(&["volume", "disconnect", "v"]).ok();
    let mut next = home.connect("v");
    assert_eq!(next.read(0, BLOCK), contents(1, 1));
    daemon.signal("KILL");
    daemon.end();
    let _daemon = home.serve(&[]);
    let again = home.connect("v");
    assert!(!again.can_multi_conn(), "it is stored");
    assert!(Client::refusal(&socket, "v").contains("is exclusive"));
    // The only client keeps the volume when it becomes exclusive, and others may come when it no longer is.
    home.varve(&["volume", "set", "v", "--exclusive", "off"]).ok();
    drop(home.connect("v"));
    drop(again);
}

#[test]
fn a_quota_stops_a_client_and_is_still_there_after_a_kill() {
    let home = Home::new();
    let daemon = home.serve(&[]);
    home.varve(&["volume", "create", "v", "--size", "1GiB", "--quota", "4MiB"]).ok();
    let mut client = home.connect("v");
    client.write(0, &contents(1, LARGE));
    assert_eq!(client.try_write(64 << 20, &contents(2, 1)), ENOSPC);
    client.write(4096, &contents(3, 100));
    daemon.signal("KILL");
    daemon.end();
    let _daemon = home.serve(&[]);
    let mut client = home.connect("v");
    assert_eq!(client.try_write(64 << 20, &contents(2, 1)), ENOSPC);
    home.varve(&["volume", "set", "v", "--quota", "8MiB"]).ok();
    client.write(64 << 20, &contents(2, LARGE));
    assert_eq!(client.try_write(200 << 20, &contents(2, 1)), ENOSPC);
    home.varve(&["volume", "set", "v", "--quota", "none"]).ok();
    client.write(200 << 20, &contents(2, 1));
    let said = home.varve(&["volume", "set", "v", "--quota", "1KiB"]).refused(1);
    assert!(said.contains("invalid quota 1 KiB: must be from 4 KiB"), "{said}");
}

#[test]
fn changes_of_nothing_or_to_the_unknown_are_misuse() {
    let api = Api::start();
    let said = api.varve(&["volume", "set", "busy"]).refused(2);
    assert!(said.contains("nothing to change in volume `busy`"), "{said}");
    assert!(said.contains("try: say --dedup auto|on|off"), "{said}");
    let said = api.varve(&["volume", "set", "busy", "--dedup", "yes"]).refused(2);
    assert!(said.contains("possible values: auto, on, off"), "{said}");
    for unknown in ["gzip", "lz4:1", "zstd:20"] {
        let said = api.varve(&["volume", "set", "busy", "--compression", unknown]).refused(2);
        assert!(said.contains("use off, lz4, zstd or zstd:LEVEL"), "{said}");
    }
    let said = api.varve(&["volume", "set", "none", "--dedup", "on"]).refused(1);
    assert!(said.contains("no volume `none`"), "{said}");
}

/// Blocks that no two of them hold alike, and that compress to a fraction.
fn compressible(first: u64) -> Vec<u8> {
    let mut bytes = contents(first, LARGE);
    for block in bytes.chunks_exact_mut(BLOCK) {
        block[64..].fill(b'v');
    }
    bytes
}

/// Chunk and stored bytes of each block of the volume.
fn blocks(runs: &[Value]) -> Vec<(u64, u64)> {
    let mut blocks = Vec::new();
    for run in runs {
        let number = |name: &str| run[name].as_u64().unwrap();
        let count = number("block_count");
        for index in 0..count {
            assert_eq!(number("block") + index, blocks.len() as u64, "no block is missing");
            blocks.push((number("chunk") + index, number("stored_bytes") / count));
        }
    }
    blocks
}

#[test]
fn what_an_open_volume_writes_follows_the_change_and_what_is_stored_stays() {
    let home = Home::new();
    let daemon = home.serve(&[]);
    home.varve(&[
        "volume",
        "create",
        "v",
        "--size",
        "64MiB",
        "--dedup",
        "off",
        "--compression",
        "off",
    ])
    .ok();
    let mut client = home.connect("v");
    let mut parts = (0u64..).map(|part| part * (LARGE * BLOCK) as u64);
    let mut write = |bytes: Vec<u8>| client.write(parts.next().unwrap(), &bytes);
    write(compressible(1));
    home.varve(&["volume", "set", "v", "--compression", "zstd"]).ok();
    write(compressible(2));
    home.varve(&["volume", "set", "v", "--compression", "off"]).ok();
    write(compressible(3));
    write(compressible(3));
    home.varve(&["volume", "set", "v", "--compression", "lz4", "--dedup", "on"]).ok();
    write(compressible(4));
    write(compressible(4));
    daemon.signal("TERM");
    daemon.end();

    let dump = home.varve(&["dump", "map", "v", "--json"]).ok();
    let runs: Vec<Value> = dump.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let blocks = blocks(&runs);
    let parts: Vec<&[(u64, u64)]> = blocks.chunks_exact(LARGE).collect();
    assert_eq!(parts.len(), 6);
    let stored_whole = |part: &[(u64, u64)]| part.iter().all(|(_, bytes)| *bytes == BLOCK as u64);
    let stored_small = |part: &[(u64, u64)]| part.iter().all(|(_, bytes)| *bytes < 1024);
    assert!(stored_whole(parts[0]) && stored_small(parts[1]), "{dump}");
    assert!(stored_whole(parts[2]) && stored_whole(parts[3]) && parts[2] != parts[3], "{dump}");
    assert!(stored_small(parts[4]), "{dump}");
    assert_eq!(parts[4], parts[5], "the same chunks");

    let keys = home.varve(&["dump", "keys"]).ok();
    assert!(keys.contains(" dedup on compression lz4 "), "{keys}");
    let _daemon = home.serve(&[]);
    let kept = home.varve(&["volume", "show", "v", "--json"]).json();
    assert_eq!((&kept["dedup"], &kept["compression"]), (&true.into(), &"lz4".into()));
}
