//! Goal: `varve volume create` makes what was asked for or says why not. Method: a memory backend behind the real API.

use crate::rig::Api;

#[test]
fn a_volume_is_made_with_size_and_block() {
    let api = Api::start();
    let said = api.varve(&["volume", "create", "vm1", "--size", "20GiB"]).ok();
    assert_eq!(said, "created volume vm1 of 20 GiB\n");
    let made = api.varve(&[
        "volume",
        "create",
        "big",
        "--size",
        "1TiB",
        "--block-size",
        "16KiB",
        "--json",
    ]);
    let made = made.json();
    assert_eq!(made["size_bytes"], 1u64 << 40);
    assert_eq!(made["block_size_bytes"], 16384);
}

#[test]
fn reduction_is_as_asked_or_the_default() {
    let api = Api::start();
    let create = ["volume", "create", "plain", "--size", "1GiB", "--json"];
    let plain = api.varve(&create).json();
    assert_eq!((&plain["dedup"], &plain["compression"]), (&"auto".into(), &"lz4".into()));
    let asked = ["--dedup", "on", "--compression", "zstd"];
    let create = [&["volume", "create", "asked", "--size", "1GiB", "--json"], &asked[..]].concat();
    let asked = api.varve(&create).json();
    assert_eq!((&asked["dedup"], &asked["compression"]), (&true.into(), &"zstd:3".into()));
}

#[test]
fn a_size_far_beyond_the_pool_is_noted() {
    let api = Api::start();
    let made = api.varve(&["volume", "create", "huge", "--size", "10TiB"]);
    assert_eq!((made.code, made.stdout.as_str()), (0, "created volume huge of 10 TiB\n"));
    assert!(made.stderr.contains("room for 64 GiB of 10 TiB"), "{}", made.stderr);
    api.varve(&["volume", "create", "quiet", "--size", "10TiB", "--json"]).json();
}

#[test]
fn a_taken_name_is_refused() {
    let api = Api::start();
    let said = api.varve(&["volume", "create", "busy", "--size", "1GiB"]).refused(1);
    assert!(said.starts_with("error: volume `busy` already exists"), "{said}");
}

#[test]
fn sizes_are_read_as_people_write_them() {
    let api = Api::start();
    for (name, size, bytes) in
        [("a", "20GB", 20_000_000_000_u64), ("b", "20G", 20 << 30), ("c", "1.5TiB", 3 << 39)]
    {
        let made = api.varve(&["volume", "create", name, "--size", size, "--json"]).json();
        assert_eq!(made["size_bytes"], bytes, "{size}");
    }
    let said = api.varve(&["volume", "create", "v", "--size", "20Gb/s"]).refused(2);
    assert!(said.contains("unknown unit `Gb/s`"), "{said}");
    let said = api.varve(&["volume", "create", "v", "--size", "-5GiB"]).refused(2);
    assert!(said.contains("invalid size `-5GiB`"), "{said}");
    let said = api.varve(&["volume", "resize", "busy", "--size", "99999999TiB"]).refused(2);
    assert!(said.contains("size `99999999TiB` is too large"), "{said}");
    let said =
        api.varve(&["volume", "create", "v", "--size", "1GiB", "--block-size", "8GiB"]).refused(2);
    assert!(said.contains("block size 8 GiB is not possible"), "{said}");
}
