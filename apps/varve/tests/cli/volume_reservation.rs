//! Goal: a volume with a reservation can be written in full, whatever others write. Method: the real daemon on a small
//! pool, which another volume fills until it is refused; with a snapshot and kills in between.

use serde_json::Value;

use crate::daemon::Home;
use crate::nbd::Client;
use crate::rig::Api;
use crate::stored::{BLOCK, contents};

/// What NBD clients are told when there is no space.
const ENOSPC: u32 = 28;

const MIB: u64 = 1 << 20;
/// Blocks of a large write.
const LARGE: usize = 256;
const RESERVED_BYTES: u64 = 8 * MIB;

/// Writes up to the first refusal of a large and then of a small write in each part of the volume.
fn fill(client: &mut Client, first: u64) -> u64 {
    let mut written = 0;
    for blocks in [LARGE, 1] {
        for region in 0..8 {
            let mut at = region * 256 * MIB + written;
            loop {
                let data = contents(first + at, blocks);
                match client.try_write(at, &data) {
                    0 => written += data.len() as u64,
                    ENOSPC => break,
                    other => panic!("error {other} at {at}"),
                }
                at += data.len() as u64;
            }
        }
    }
    written
}

/// Writes all of it with what cannot be made smaller, and reads a part back.
fn write_all(client: &mut Client, first: u64) {
    let step = LARGE * BLOCK;
    for at in (0..RESERVED_BYTES).step_by(step) {
        client.write(at, &contents(first + at, LARGE));
    }
    assert_eq!(client.read(0, step), contents(first, LARGE));
}

fn amount(json: &Value, field: &str) -> u64 {
    json[field].as_u64().unwrap_or_else(|| panic!("{field} of {json}"))
}

#[test]
fn a_full_pool_takes_all_of_a_reserved_volume() {
    let home = Home::new();
    let daemon = home.serve(&[]);
    let size = format!("{}MiB", RESERVED_BYTES / MIB);
    home.varve(&["volume", "create", "r", "--size", &size, "--reservation", "full"]).ok();
    home.varve(&["volume", "create", "other", "--size", "4GiB", "--compression", "off"]).ok();
    let shown = home.varve(&["volume", "show", "r"]).ok();
    assert!(shown.contains("8 MiB (8 MiB not held yet)"), "{shown}");
    assert!(fill(&mut home.connect("other"), 1 << 40) > RESERVED_BYTES);
    write_all(&mut home.connect("r"), 2 << 40);
    let refused = home.varve(&["volume", "snapshot", "create", "r@s"]).refused(1);
    assert!(refused.contains("cannot reserve"), "{refused}");
    daemon.signal("KILL");
    daemon.end();

    let daemon = home.serve(&[]);
    fill(&mut home.connect("other"), 3 << 40);
    write_all(&mut home.connect("r"), 4 << 40);
    home.varve(&["volume", "delete", "other"]).ok();
    home.varve(&["check", "--online"]).ok(); // What the other one held is free now.
    home.varve(&["volume", "snapshot", "create", "r@s"]).ok();
    let json = home.varve(&["volume", "show", "r", "--json"]).json();
    assert_eq!(amount(&json, "reserved_bytes"), RESERVED_BYTES);
    assert_eq!(amount(&json, "outstanding_bytes"), RESERVED_BYTES, "the snapshot has what it held");
    let space = home.varve(&["df", "--json"]).json();
    assert!(amount(&space, "outstanding_bytes") > RESERVED_BYTES);
    assert!(home.varve(&["df"]).ok().contains("reserved "));
    let listed = home.varve(&["volume", "list"]).ok();
    assert!(listed.contains("RESERVED") && listed.contains("8 MiB"), "{listed}");
    home.varve(&["volume", "create", "other", "--size", "4GiB", "--compression", "off"]).ok();
    fill(&mut home.connect("other"), 5 << 40);
    daemon.signal("KILL");
    daemon.end();

    let daemon = home.serve(&[]);
    fill(&mut home.connect("other"), 6 << 40);
    write_all(&mut home.connect("r"), 7 << 40);
    let json = home.varve(&["volume", "show", "r", "--json"]).json();
    assert!(amount(&json, "outstanding_bytes") < RESERVED_BYTES, "{json}");
    home.varve(&["volume", "set", "r", "--reservation", "none"]).ok();
    let json = home.varve(&["volume", "show", "r", "--json"]).json();
    assert_eq!(json["reserved_bytes"], Value::Null);
    daemon.signal("TERM");
    daemon.end();
    home.varve(&["check"]).ok();
}

#[test]
fn more_than_there_is_and_parts_of_volumes_are_refused() {
    let home = Home::new();
    let _daemon = home.serve(&[]);
    let huge = ["volume", "create", "h", "--size", "1TiB", "--reservation", "full"];
    let said = home.varve(&huge).refused(1);
    assert!(
        said.contains("cannot reserve ") && said.contains("iB are free and unreserved"),
        "{said}"
    );
    assert!(home.varve(&["volume", "list"]).ok().contains("no volumes"), "nothing is left of it");
    let api = Api::start();
    let said = api.varve(&["volume", "set", "busy", "--reservation", "10GiB"]).refused(2);
    assert!(said.contains("neither `full` nor `none`"), "{said}");
    let said = api.varve(&["volume", "set", "busy", "--reservation", "full"]).ok();
    assert!(said.contains("space reserved for all of it"), "{said}");
}
