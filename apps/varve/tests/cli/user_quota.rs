//! Goal: `varve user quota` changes what it names and nothing else. Method: a memory backend behind the real API.

use serde_json::Value;

use crate::rig::Api;

#[test]
fn bounds_change_one_by_one() {
    let api = Api::start();
    let said = api.varve(&["user", "quota", "owner", "--size", "10GiB"]).ok();
    assert_eq!(said, "user owner: size limit 10 GiB, bucket limit none\n");
    let json = api.varve(&["user", "quota", "owner", "--buckets", "7", "--json"]).json();
    assert_eq!((&json["quota_bytes"], &json["quota_buckets"]), (&(10u64 << 30).into(), &7.into()));
    let json = api.varve(&["user", "quota", "owner", "--size", "none", "--json"]).json();
    assert_eq!((&json["quota_bytes"], &json["quota_buckets"]), (&Value::Null, &7.into()));
}

#[test]
fn changes_of_nothing_are_misuse() {
    let api = Api::start();
    let said = api.varve(&["user", "quota", "owner"]).refused(2);
    assert!(said.contains("nothing to change in user `owner`\n  try: say --size"), "{said}");
    assert!(
        api.varve(&["user", "quota", "owner", "--size", "10Gx"])
            .refused(2)
            .contains("unknown unit")
    );
    assert!(
        api.varve(&["user", "quota", "ann", "--size", "1GiB"]).refused(1).contains("no user `ann`")
    );
}
