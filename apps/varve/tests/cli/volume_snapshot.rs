//! Goal: `varve volume snapshot` takes, lists, protects and deletes snapshots, and goes back to one. Method: a memory
//! backend behind the real API, and a daemon whose volume is written, snapshot, written again and rolled back.

use varve_access_admin::MemoryBackend;

use crate::daemon::Home;
use crate::rig::Api;

#[test]
fn snapshots_are_taken_listed_and_deleted() {
    let api = Api::over(MemoryBackend::with_volumes(2));
    let said = api.varve(&["volume", "snapshot", "create", "v0000@a", "v0001@a"]).ok();
    assert_eq!(said, "took snapshot v0000@a of 1 GiB\ntook snapshot v0001@a of 1 GiB\n");
    api.varve(&["volume", "snapshot", "create", "v0000@b"]).ok();
    let listed = api.varve(&["volume", "snapshot", "list", "v0000"]).ok();
    let names: Vec<_> = listed.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(names, ["NAME", "v0000@a", "v0000@b"]);
    let json = api.varve(&["volume", "snapshot", "list", "--json"]).json();
    assert_eq!(json["snapshots"].as_array().unwrap().len(), 3);
    let said = api.varve(&["volume", "snapshot", "delete", "v0000@a", "v0000@b"]).ok();
    assert_eq!(said, "deleted snapshot v0000@a\ndeleted snapshot v0000@b\n");
    let said = api.varve(&["volume", "snapshot", "delete", "v0001@a", "v0000@b"]).refused(1);
    assert!(said.contains("no snapshot `v0000@b` (those before it are deleted)"), "{said}");
    assert!(api.varve(&["volume", "snapshot", "list"]).ok().starts_with("no snapshots"));
    api.varve(&["volume", "snapshot", "create", "v0000@a", "v0001@a"]).ok();
    let json = api.varve(&["volume", "snapshot", "delete", "v0000@a", "v0001@a", "--json"]).json();
    assert_eq!(json, serde_json::json!({ "deleted": ["v0000@a", "v0001@a"] }));
}

#[test]
fn what_snapshots_hold_is_shown_when_asked_for() {
    let api = Api::start();
    let list = ["volume", "snapshot", "list", "busy", "--space"];
    assert!(api.varve(&list).ok().starts_with("no snapshots"));
    api.varve(&["volume", "snapshot", "create", "busy@a"]).ok();
    let expected = "\
NAME     SIZE  LOGICAL  REFERENCED   UNIQUE   FREED
busy@a  1 GiB  512 MiB     384 MiB  128 MiB  96 MiB
";
    assert_eq!(api.varve(&list).ok(), expected);
    let json = api.varve(&[&list[..], &["--json"]].concat()).json();
    assert_eq!(json["snapshots"][0]["freed_bytes"], 96 << 20);
    assert_eq!(json["volume"]["snapshots_freed_bytes"], 96 << 20);
    let said = api.varve(&["volume", "snapshot", "list", "--space"]).refused(2);
    assert!(said.contains("<VOLUME>"), "{said}");
}

#[test]
fn long_lists_come_in_pages() {
    let api = Api::over(MemoryBackend::with_volumes(1200));
    let names: Vec<String> = (0..1200).map(|number| format!("v{number:04}@a")).collect();
    for names in names.chunks(600) {
        let all: Vec<&str> = ["volume", "snapshot", "create"]
            .into_iter()
            .chain(names.iter().map(String::as_str))
            .collect();
        api.varve(&all).ok();
    }
    let json = api.varve(&["volume", "snapshot", "list", "--json"]).json();
    assert_eq!(json["snapshots"].as_array().unwrap().len(), 1200);
}

#[test]
fn protected_snapshots_stay() {
    let api = Api::over(MemoryBackend::with_volumes(1));
    api.varve(&["volume", "snapshot", "create", "v0000@a"]).ok();
    let said = api.varve(&["volume", "snapshot", "protect", "v0000@a"]).ok();
    assert_eq!(said, "snapshot v0000@a: protected\n");
    let said = api.varve(&["volume", "snapshot", "delete", "v0000@a"]).refused(1);
    assert!(said.contains("is protected"), "{said}");
    let json = api.varve(&["volume", "snapshot", "unprotect", "v0000@a", "--json"]).json();
    assert_eq!(json["protected"], false);
    api.varve(&["volume", "snapshot", "delete", "v0000@a"]).ok();
}

#[test]
fn names_without_a_snapshot_are_misuse() {
    let api = Api::start();
    for verb in ["create", "delete", "rollback", "protect", "unprotect"] {
        let said = api.varve(&["volume", "snapshot", verb, "busy"]).refused(2);
        assert!(said.contains("write VOLUME@SNAPSHOT"), "{said}");
    }
    api.varve(&["volume", "snapshot", "create", "busy@a"]).ok();
    let said = api.varve(&["volume", "snapshot", "rollback", "busy@a"]).refused(1);
    assert!(said.contains("is open by 1 client"), "{said}");
}

#[test]
fn a_volume_goes_back_to_its_snapshot() {
    let home = Home::new();
    let _daemon = home.serve(&[]);
    home.varve(&["volume", "create", "v", "--size", "100MiB"]).ok();
    home.connect("v").write(70 << 20, &[1; 8192]);
    home.varve(&["volume", "snapshot", "create", "v@one"]).ok();
    home.connect("v").write(70 << 20, &[2; 4096]);
    let whole = [[2; 4096], [1; 4096]].concat();
    assert_eq!(home.connect("v").read(70 << 20, 8192), whole);
    assert_eq!(home.connect("v@one").read(70 << 20, 8192), [1; 8192]);
    let mut tries = 0;
    // The daemon may not have seen yet that the reader left.
    while home.varve(&["volume", "snapshot", "rollback", "v@one"]).code != 0 {
        tries += 1;
        assert!(tries < 100, "the volume stays open");
    }
    assert_eq!(home.connect("v").read(70 << 20, 8192), [1; 8192]);
}
