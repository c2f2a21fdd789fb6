//! Goal: `varve user list` shows every user. Method: a memory backend behind the real API.

use crate::rig::Api;

#[test]
fn people_get_a_table_and_programs_json() {
    let api = Api::start();
    api.varve(&["user", "create", "ann", "--quota", "1GiB"]).ok();
    let table = api.varve(&["user", "list"]).ok();
    let mut lines = table.lines();
    let header = "NAME   ADMIN  POLICY  KEYS  QUOTA  BUCKET LIMIT  ";
    assert!(lines.next().unwrap().starts_with(header), "{table}");
    assert!(
        lines.next().unwrap().starts_with("ann    no     no         1  1 GiB          none  "),
        "{table}"
    );
    assert!(
        lines.next().unwrap().starts_with("owner  yes    no         1   none          none  "),
        "{table}"
    );
    let json = api.varve(&["user", "list", "--json"]).json();
    assert_eq!(json["users"][0]["name"], "ann");
    assert_eq!(json["users"][1]["access_keys"][0]["access_key"], "KEY00000000000000001");
}
