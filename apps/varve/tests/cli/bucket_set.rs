//! Goal: `varve bucket set` changes how new objects are reduced, part by part, and it stays. Method: a memory backend
//! behind the real API; and a daemon that is killed after the change.

use serde_json::json;

use crate::daemon::Home;
use crate::rig::Api;

#[test]
fn a_bucket_changes_part_by_part() {
    let api = Api::start();
    api.varve(&["bucket", "create", "photos"]).ok();
    let said = api.varve(&["bucket", "set", "photos", "--compression", "zstd:7"]).ok();
    assert_eq!(said, "bucket photos: dedup auto, compression zstd:7\n");
    let json = api.varve(&["bucket", "set", "photos", "--dedup", "on", "--json"]).json();
    assert_eq!((&json["dedup"], &json["compression"]), (&true.into(), &"zstd:7".into()));
    let shown = api.varve(&["bucket", "show", "photos"]).ok();
    assert!(shown.contains("dedup         on\ncompression   zstd:7\n"), "{shown}");
}

#[test]
fn what_cannot_be_is_refused() {
    let api = Api::start();
    api.varve(&["bucket", "create", "photos"]).ok();
    let said = api.varve(&["bucket", "set", "photos"]).refused(2);
    assert!(said.contains("nothing to change in bucket `photos`"), "{said}");
    assert!(api.varve(&["bucket", "set", "photos", "--dedup", "maybe"]).refused(2).contains("on"));
    let level = ["bucket", "set", "photos", "--compression", "zstd:20"];
    assert!(api.varve(&level).refused(2).contains("zstd:LEVEL"));
    let said = api.varve(&["bucket", "set", "none", "--dedup", "on"]).refused(1);
    assert!(said.contains("no bucket `none`"), "{said}");
}

#[test]
fn what_was_set_survives_a_kill() {
    let home = Home::new();
    let daemon = home.serve(&["--s3", "127.0.0.1:0"]);
    let create = ["bucket", "create", "backups", "--dedup", "on", "--compression", "zstd:3"];
    home.varve(&create).ok();
    home.varve(&["bucket", "create", "photos"]).ok();
    home.varve(&["bucket", "set", "photos", "--compression", "off"]).ok();
    daemon.signal("KILL");
    daemon.end();
    let _daemon = home.serve(&["--s3", "127.0.0.1:0"]);
    let kept = [("backups", json!(true), "zstd:3"), ("photos", json!("auto"), "off")];
    for (name, dedup, compression) in kept {
        let shown = home.varve(&["bucket", "show", name, "--json"]).json();
        assert_eq!(
            (&shown["dedup"], &shown["compression"]),
            (&dedup, &compression.into()),
            "{name}"
        );
    }
    let space = home.varve(&["df", "--json"]).json();
    let names = space["buckets"].as_array().unwrap().iter().map(|bucket| &bucket["name"]);
    assert_eq!(names.collect::<Vec<_>>(), ["backups", "photos"]);
}
