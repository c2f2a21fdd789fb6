//! Goal: `varve bucket quota` changes what it names and nothing else. Method: a memory backend behind the real API.

use serde_json::Value;

use crate::rig::Api;

#[test]
fn bounds_change_one_by_one() {
    let api = Api::start();
    api.varve(&["bucket", "create", "photos"]).ok();
    let said = api.varve(&["bucket", "quota", "photos", "--size", "10GiB"]).ok();
    assert_eq!(said, "bucket photos: size limit 10 GiB, object limit none\n");
    let json = api.varve(&["bucket", "quota", "photos", "--objects", "7", "--json"]).json();
    assert_eq!((&json["quota_bytes"], &json["quota_objects"]), (&(10u64 << 30).into(), &7.into()));
    let json = api.varve(&["bucket", "quota", "photos", "--size", "none", "--json"]).json();
    assert_eq!((&json["quota_bytes"], &json["quota_objects"]), (&Value::Null, &7.into()));
}

#[test]
fn changes_of_nothing_are_misuse() {
    let api = Api::start();
    let said = api.varve(&["bucket", "quota", "photos"]).refused(2);
    assert!(said.contains("nothing to change in bucket `photos`\n  try: say --size"), "{said}");
    let said = api.varve(&["bucket", "quota", "photos", "--objects", "-1"]).refused(2);
    assert!(said.contains("-1"), "{said}");
    let said = api.varve(&["bucket", "quota", "photos", "--objects", "1"]).refused(1);
    assert!(said.contains("no bucket `photos`"), "{said}");
}
