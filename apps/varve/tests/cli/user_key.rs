//! Goal: `varve user key` makes, lists and deletes access keys. Method: a memory backend behind the real API.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::rig::Api;

#[test]
fn a_user_may_have_several_keys() {
    let api = Api::start();
    let said = api.varve(&["user", "key", "create", "owner"]).ok();
    assert!(
        said.starts_with("created a key of user owner\naccess key  KEY00000000000000002\n"),
        "{said}"
    );
    let table = api.varve(&["user", "key", "list", "owner"]).ok();
    let first: Vec<&str> = table.lines().map(|line| line.split("  ").next().unwrap()).collect();
    assert_eq!(first, ["ACCESS KEY", "KEY00000000000000001", "KEY00000000000000002"]);
    let said = api.varve(&["user", "key", "delete", "KEY00000000000000001"]).ok();
    assert_eq!(said, "deleted access key KEY00000000000000001\n");
    let json = api.varve(&["user", "key", "list", "owner", "--json"]).json();
    assert_eq!(json["access_keys"].as_array().unwrap().len(), 1);
    let json = api.varve(&["user", "key", "delete", "KEY00000000000000002", "--json"]).json();
    assert_eq!(json, serde_json::json!({ "deleted": ["KEY00000000000000002"] }));
    let said = api.varve(&["user", "key", "list", "owner"]).ok();
    assert!(said.starts_with("user owner has no keys; create one"), "{said}");
    assert!(api.varve(&["user", "key", "create", "ann"]).refused(1).contains("no user `ann`"));
}

#[test]
fn a_secret_made_elsewhere_comes_from_standard_input() {
    let api = Api::start();
    let socket = format!("unix:{}", api.socket().display());
    let mut child = Command::new(env!("CARGO_BIN_EXE_varve"))
        .args([
            "user",
            "key",
            "create",
            "owner",
            "--access-key",
            "OLD",
            "--secret-file",
            "-",
            "--json",
        ])
        .args(["--addr", &socket])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"secret-from-elsewhere\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&json["access_key"], &json["secret_key"]),
        (&"OLD".into(), &"secret-from-elsewhere".into())
    );
}
