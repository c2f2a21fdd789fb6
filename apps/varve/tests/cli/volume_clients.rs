//! Goal: `varve volume clients` names who has volumes open. Method: a memory backend behind the real API.

use crate::rig::Api;

#[test]
fn clients_are_named_with_what_they_have_open() {
    let api = Api::start();
    api.varve(&["volume", "create", "idle", "--size", "1GiB"]).ok();
    for arguments in [&["volume", "clients", "busy"][..], &["volume", "clients"]] {
        let said = api.varve(arguments).ok();
        for part in ["CLIENT", "busy", "10.0.0.7:40001", "read, write"] {
            assert!(said.contains(part), "{said}");
        }
    }
    assert_eq!(api.varve(&["volume", "clients", "idle"]).ok(), "no NBD clients\n");
    assert!(api.varve(&["volume", "clients", "absent"]).refused(1).contains("no volume `absent`"));
}

#[test]
fn programs_get_json() {
    let api = Api::start();
    let said = api.varve(&["volume", "clients", "busy", "--json"]).ok();
    let json: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(json["clients"][0]["export"], "busy");
    assert_eq!(json["clients"][0]["id"], 1);
    assert_eq!(json["clients"][0]["requests"], 2);
}
