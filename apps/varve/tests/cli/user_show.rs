//! Goal: `varve user show` says what a user may do and which keys it has. Method: a memory backend behind the real API.

use crate::rig::Api;

#[test]
fn people_see_rights_bounds_and_keys() {
    let api = Api::start();
    api.varve(&["user", "create", "ann", "--email", "a@example.org", "--buckets", "3"]).ok();
    api.varve(&["user", "key", "create", "ann"]).ok();
    let shown = api.varve(&["user", "show", "ann"]).ok();
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(
        lines[..5],
        [
            "user          ann",
            "display name  ann",
            "rights        its own buckets, and what others let it do",
            "quota         none",
            "bucket limit  3",
        ]
    );
    assert_eq!(lines[6], "email         a@example.org");
    assert!(lines[7].starts_with("access key    KEY00000000000000002, "), "{shown}");
    assert!(lines[8].starts_with("access key    KEY00000000000000003, "), "{shown}");
    let owner = api.varve(&["user", "show", "owner"]).ok();
    assert!(owner.contains("rights        everything\n"), "{owner}");
}

#[test]
fn an_absent_user_is_a_failure() {
    let said = Api::start().varve(&["user", "show", "a/b"]).refused(1);
    assert!(said.contains("no user `a/b`"), "{said}");
}
