//! Goal: `varve volume list` shows every volume, however many. Method: more volumes than one page holds.

use serde_json::json;
use varve_access_admin::MemoryBackend;

use crate::rig::{Api, varve};

#[test]
fn people_get_a_table_and_programs_json() {
    let api = Api::start();
    let table = api.varve(&["volume", "list"]).ok();
    let mut lines = table.lines();
    let header: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
    assert_eq!(header, ["NAME", "SIZE", "BLOCK", "CLIENTS", "CREATED"]);
    assert!(lines.next().unwrap().starts_with("busy  1 GiB  4 KiB        1"), "{table}");
    let json = api.varve(&["volume", "list", "--json"]).json();
    assert_eq!(json["volumes"][0]["name"], "busy");
    assert_eq!(json["volumes"][0]["openers"], 1);
    assert_eq!(json["volumes"][0]["dedup"], "auto");
    assert_eq!(json["volumes"][0]["compression"], "lz4");
}

#[test]
fn what_volumes_hold_is_shown_when_asked_for() {
    let api = Api::start();
    let table = api.varve(&["volume", "list", "--space"]).ok();
    let header: Vec<&str> = table.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(header[..4], ["VOLUME", "SIZE", "LOGICAL", "REFERENCED"]);
    assert!(table.lines().nth(1).unwrap().starts_with("busy    1 GiB  512 MiB "), "{table}");
    let json = api.varve(&["volume", "list", "--space", "--json"]).json();
    assert_eq!(json["volumes"][0]["logical_bytes"], 512 << 20);
}

#[test]
fn a_listing_longer_than_a_page_is_whole() {
    let api = Api::over(MemoryBackend::with_volumes(2500));
    let json = api.varve(&["volume", "list", "--json"]).json();
    let names: Vec<_> = json["volumes"].as_array().unwrap().iter().map(|v| &v["name"]).collect();
    assert_eq!((names.len(), names[0], names[2499]), (2500, &json!("v0000"), &json!("v2499")));
    assert!(names.is_sorted_by_key(|name| name.as_str()), "each name once, in order");
}

#[test]
fn the_daemon_is_found_by_either_address() {
    let api = Api::start();
    let socket = format!("unix:{}", api.socket().display());
    let token = api.token();
    let token = ["--token-file", token.to_str().unwrap()];
    for (address, shown) in [(socket.as_str(), &[][..]), (api.tcp(), &token[..])] {
        let list = ["volume", "list", "--addr", address];
        let table = varve(&[&list[..], shown].concat()).ok();
        assert!(table.contains("busy"), "{table}");
    }
}

#[test]
fn a_daemon_at_a_tcp_address_wants_its_token() {
    let api = Api::start();
    let list = ["volume", "list", "--addr", api.tcp()];
    let said = varve(&list).refused(1);
    assert!(said.contains("the request lacks the token"), "{said}");
    assert!(said.contains("--token-file or VARVE_TOKEN_FILE"), "{said}");
    let said = varve(&[&list[..], &["--token-file", "/nonexistent"]].concat()).refused(2);
    assert!(said.contains("read the token file /nonexistent"), "{said}");
    let other = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(other.path(), "x".repeat(40)).unwrap();
    let other = ["--token-file", other.path().to_str().unwrap()];
    let said = varve(&[&list[..], &other].concat()).refused(1);
    assert!(said.contains("this is not the token"), "{said}");
}

#[test]
fn without_a_daemon_it_says_how_to_start_one() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().to_str().unwrap();
    let said = varve(&["volume", "list", "--data", data]).refused(1);
    assert!(said.contains("no daemon answers at unix:"), "{said}");
    assert!(said.contains(&format!("varve serve --data {data}")), "{said}");
}
