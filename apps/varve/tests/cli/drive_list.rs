//! Goal: `varve drive list` shows each drive with its state. Method: a memory backend behind the real API.

use varve_access_admin::MemoryBackend;

use crate::rig::Api;

#[test]
fn a_failed_drive_is_seen() {
    let text = Api::over(MemoryBackend::with_failed_drive()).varve(&["drive", "list"]).ok();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("DRIVE  STATE "), "{text}");
    assert!(lines[1].contains("live") && lines[1].ends_with("/srv/drive-0"), "{text}");
    assert!(lines[2].contains("failed") && lines[2].contains("3 reads, 2 checksums"), "{text}");
}

#[test]
fn a_condition_is_what_the_drive_says_and_never_guessed() {
    let text = Api::over(MemoryBackend::with_failed_drive()).varve(&["drive", "list"]).ok();
    let column = text.find("CONDITION").unwrap();
    let conditions: Vec<&str> = text
        .lines()
        .skip(1)
        .map(|line| line[column..].split_whitespace().next().unwrap())
        .collect();
    assert_eq!(conditions, ["worn", "-"], "{text}");
}

#[test]
fn drives_without_redundancy_are_in_use() {
    let text = Api::start().varve(&["drive", "ls"]).ok();
    assert!(text.contains("in use") && text.contains("varve-data/drive"), "{text}");
}

#[test]
fn programs_see_identities_and_bytes() {
    let api = Api::over(MemoryBackend::with_failed_drive());
    let json = api.varve(&["drive", "list", "--json"]).json();
    let drive = &json["drives"][1];
    assert_eq!((&drive["number"], &drive["state"]), (&1.into(), &"failed".into()));
    assert_eq!(
        (&drive["id"], &drive["size_bytes"]),
        (&"01".repeat(16).into(), &(68u64 << 30).into())
    );
}
