//! Goal: `varve user delete` deletes whom nothing belongs to. Method: a memory backend behind the real API.

use crate::rig::Api;

#[test]
fn a_user_goes_with_its_keys() {
    let api = Api::start();
    api.varve(&["user", "create", "ann"]).ok();
    assert_eq!(api.varve(&["user", "delete", "ann"]).ok(), "deleted user ann\n");
    assert!(api.varve(&["user", "delete", "ann"]).refused(1).contains("no user `ann`"));
    api.varve(&["user", "create", "bob"]).ok();
    let json = api.varve(&["user", "delete", "bob", "--json"]).json();
    assert_eq!(json, serde_json::json!({ "deleted": ["bob"] }));
    let said = api.varve(&["user", "key", "delete", "KEY00000000000000002"]).refused(1);
    assert!(said.contains("no access key"), "{said}");
}

#[test]
fn the_only_administrator_stays() {
    let api = Api::start();
    let said = api.varve(&["user", "delete", "owner"]).refused(1);
    assert!(said.contains("user `owner` is the only administrator"), "{said}");
    assert!(said.contains("try: create another one first with `varve user create"), "{said}");
    api.varve(&["user", "create", "ann", "--admin"]).ok();
    assert_eq!(api.varve(&["user", "delete", "owner"]).ok(), "deleted user owner\n");
}

#[test]
fn one_with_buckets_goes_only_when_they_may_stay() {
    let api = Api::start();
    api.varve(&["user", "create", "ann"]).ok();
    api.varve(&["bucket", "create", "hers", "--owner", "ann"]).ok();
    let said = api.varve(&["user", "delete", "ann"]).refused(1);
    assert!(said.contains("owns 1 bucket") && said.contains("--leave-buckets"), "{said}");
    api.varve(&["user", "delete", "ann", "--leave-buckets"]).ok();
    assert!(api.varve(&["bucket", "list"]).ok().contains("hers"));
}
