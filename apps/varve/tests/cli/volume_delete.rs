//! Goal: `varve volume delete` deletes what nobody uses. Method: a memory backend behind the real API.

use crate::rig::Api;

#[test]
fn a_closed_volume_is_deleted() {
    let api = Api::start();
    api.varve(&["volume", "create", "vm1", "--size", "1GiB"]).ok();
    assert_eq!(api.varve(&["volume", "delete", "vm1"]).ok(), "deleted volume vm1\n");
    assert!(api.varve(&["volume", "delete", "vm1"]).refused(1).contains("no volume `vm1`"));
    api.varve(&["volume", "create", "vm2", "--size", "1GiB"]).ok();
    let json = api.varve(&["volume", "delete", "vm2", "--json"]).json();
    assert_eq!(json, serde_json::json!({ "deleted": ["vm2"] }));
}

#[test]
fn several_volumes_go_up_to_the_first_that_is_refused() {
    let api = Api::start();
    for name in ["vm1", "vm2", "vm3", "vm4"] {
        api.varve(&["volume", "create", name, "--size", "1GiB"]).ok();
    }
    let said = api.varve(&["volume", "delete", "vm1", "vm2"]).ok();
    assert_eq!(said, "deleted volume vm1\ndeleted volume vm2\n");
    let said = api.varve(&["volume", "delete", "vm3", "busy", "vm4"]).refused(1);
    assert!(said.contains("is open by 1 client (those before it are deleted)"), "{said}");
    let listed = api.varve(&["volume", "list"]).ok();
    assert!(
        listed.contains("vm4") && listed.contains("busy") && !listed.contains("vm3"),
        "{listed}"
    );
    assert!(api.varve(&["volume", "delete"]).refused(2).contains("<NAME>..."));
}

#[test]
fn snapshots_go_with_their_volume_only_when_asked_to() {
    let api = Api::start();
    api.varve(&["volume", "create", "vm1", "--size", "1GiB"]).ok();
    api.varve(&["volume", "snapshot", "create", "vm1@a"]).ok();
    let said = api.varve(&["volume", "delete", "vm1"]).refused(1);
    assert!(said.contains("has snapshots"), "{said}");
    api.varve(&["volume", "delete", "vm1", "--snapshots"]).ok();
    assert!(!api.varve(&["volume", "snapshot", "list"]).ok().contains("vm1"));
}

#[test]
fn an_open_volume_stays() {
    let api = Api::start();
    let said = api.varve(&["volume", "delete", "busy"]).refused(1);
    assert!(said.contains("volume `busy` is open by 1 client"), "{said}");
    assert!(api.varve(&["volume", "list"]).ok().contains("busy"));
}
