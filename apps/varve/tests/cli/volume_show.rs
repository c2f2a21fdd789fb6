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
        "open by",
    ];
    assert_eq!(labels, expected);
    assert!(text.contains("size         1 GiB\n"), "{text}");
    assert!(text.contains("dedup        off\ncompression  lz4\n"), "{text}");
}

#[test]
fn json_is_what_the_api_says() {
    let json = Api::start().varve(&["volume", "show", "busy", "--json"]).json();
    let expected = serde_json::json!({
        "id": 1, "name": "busy", "namespace": "default", "size_bytes": 1 << 30,
        "block_size_bytes": 4096, "created_unix_ms": 1_767_225_600_000u64, "openers": 1,
        "dedup": false, "compression": "lz4",
    });
    assert_eq!(json, expected);
}

#[test]
fn an_unknown_name_is_refused() {
    let said = Api::start().varve(&["volume", "show", "odd/name ü"]).refused(1);
    assert!(said.starts_with("error: no volume `odd/name ü`"), "{said}");
}
