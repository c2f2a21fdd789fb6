//! Goal: `varve user policy` shows, sets and clears what a user may do. Method: a memory backend behind the real API.

use crate::rig::Api;

#[test]
fn a_policy_is_shown_as_it_was_set() {
    let api = Api::start();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("policy.json");
    let policy = "{\n  \"Statement\": [{\"Effect\": \"Allow\", \"Action\": \"s3:*\", \"Resource\": \"*\"}]\n}\n";
    std::fs::write(&file, policy).unwrap();
    let path = file.to_str().unwrap();
    let said = api.varve(&["user", "policy", "show", "owner"]).refused(1);
    assert!(said.contains("user `owner` has no policy\n  try: set one"), "{said}");
    let said = api.varve(&["user", "policy", "set", "owner", path]).ok();
    assert_eq!(said, "user owner: policy set\n");
    assert_eq!(api.varve(&["user", "policy", "show", "owner"]).ok(), policy);
    let said = api.varve(&["user", "policy", "clear", "owner"]).ok();
    assert_eq!(said, "user owner: policy removed\n");
    assert_eq!(api.varve(&["user", "policy", "show", "owner"]).code, 1);
}

#[test]
fn what_is_no_policy_is_refused() {
    let api = Api::start();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("policy.json");
    let path = file.to_str().unwrap();
    let set = ["user", "policy", "set", "owner", path];
    assert!(api.varve(&set).refused(1).contains("read "));
    std::fs::write(&file, " \n").unwrap();
    assert!(api.varve(&set).refused(2).contains("`varve user policy clear`"));
    std::fs::write(&file, "{").unwrap();
    assert!(api.varve(&set).refused(1).contains("policy: no JSON"));
    std::fs::write(&file, vec![b' '; 70_000]).unwrap();
    assert!(api.varve(&set).refused(2).contains("is longer than 65536 bytes"));
}
