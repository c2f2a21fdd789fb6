//! Goal: `varve bucket list` shows every bucket and what it holds. Method: a memory backend behind the real API.

use crate::rig::Api;

#[test]
fn people_get_a_table_and_programs_json() {
    let api = Api::start();
    assert!(api.varve(&["bucket", "list"]).ok().starts_with("no buckets; create one"));
    api.varve(&["bucket", "create", "photos", "--quota", "1GiB"]).ok();
    api.varve(&["bucket", "create", "full"]).ok();
    let table = api.varve(&["bucket", "list"]).ok();
    let mut lines = table.lines();
    assert!(lines.next().unwrap().starts_with("NAME    OWNER  OBJECTS   SIZE  QUOTA  "), "{table}");
    assert!(lines.next().unwrap().starts_with("full    owner        3  3 MiB   none  "), "{table}");
    assert!(lines.next().unwrap().starts_with("photos  owner        0    0 B  1 GiB  "), "{table}");
    let json = api.varve(&["bucket", "list", "--json"]).json();
    assert_eq!(
        (&json["buckets"][0]["name"], &json["buckets"][0]["objects"]),
        (&"full".into(), &3.into())
    );
    assert_eq!(json["buckets"][0]["object_bytes"], 3 << 20);
}
