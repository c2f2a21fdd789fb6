//! Goal: `varve volume show` prints one volume. Method: a memory backend behind the real API.

use crate::rig::Api;

#[test]
fn every_property_has_a_line() {
    let api = Api::start();
    let text = api.varve(&["volume", "show", "busy"]).ok();
    let labels: Vec<&str> = text.lines().filter_map(|line| line.split("  ").next()).collect();
    let expected = [
        "volume",
        "namespace",
        "id",
        "size",
        "block size",
        "dedup",
        "compression",
        "created",
        "clients",
        "logical",
        "referenced",
        "unique",
        "freed when deleted",
        "snapshots",
    ];
    assert_eq!(labels, expected);
    assert!(text.contains("size                1 GiB\n"), "{text}");
    assert!(text.contains("dedup               auto\ncompression         lz4\n"), "{text}");
    assert!(text.contains("freed when deleted  192 MiB\n"), "{text}");
    api.varve(&["volume", "snapshot", "create", "busy@a"]).ok();
    let text = api.varve(&["volume", "show", "busy"]).ok();
    let expected =
        "snapshots           1\nfreed without them  96 MiB\nfreed with them     288 MiB\n";
    assert!(text.ends_with(expected), "{text}");
}

#[test]
fn json_is_what_the_api_says_of_both() {
    let json = Api::start().varve(&["volume", "show", "busy", "--json"]).json();
    let expected = serde_json::json!({
        "id": 1, "name": "busy", "namespace": "default", "size_bytes": 1 << 30,
        "block_size_bytes": 4096, "created_unix_ms": 1_767_225_600_000u64, "openers": 1,
        "dedup": "auto", "compression": "lz4", "exclusive": false,
        "space": {
            "name": "busy", "namespace": "default", "size_bytes": 1 << 30, "logical_bytes": 512 << 20,
            "referenced_bytes": 384 << 20, "unique_bytes": 256 << 20, "freed_bytes": 192 << 20,
            "snapshots": 0, "snapshots_freed_bytes": 0, "whole_freed_bytes": 192 << 20,
        },
    });
    assert_eq!(json, expected);
}

#[test]
fn an_unknown_name_is_refused() {
    let said = Api::start().varve(&["volume", "show", "odd/name ü"]).refused(1);
    assert!(said.starts_with("error: no volume `odd/name ü`"), "{said}");
}
