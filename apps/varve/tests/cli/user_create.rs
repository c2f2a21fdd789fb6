//! Goal: `varve user create` makes a user with a key whose secret is told once. Method: a memory backend behind the
//! real API; and a daemon with S3 that is killed.

use varve_access_admin::MemoryBackend;

use crate::daemon::Home;
use crate::rig::Api;

#[test]
fn a_user_comes_with_a_key_that_is_shown_once() {
    let api = Api::start();
    let said = api.varve(&["user", "create", "ann"]).ok();
    let expected = "\
created user ann
access key  KEY00000000000000002
secret key  secret-000000000000000000000000000000002
the secret is shown only now
";
    assert_eq!(said, expected);
    for command in [&["user", "show", "ann"][..], &["user", "list", "--json"]] {
        assert!(!api.varve(command).ok().contains("secret-"), "{command:?}");
    }
    let json = api.varve(&["user", "create", "bob", "--json"]).json();
    assert_eq!(json["user"], "bob");
    assert_eq!(json["access_key"], "KEY00000000000000003");
    assert_eq!(json["secret_key"], "secret-000000000000000000000000000000003");
}

#[test]
fn all_that_is_asked_for_is_there() {
    let api = Api::start();
    let dir = tempfile::tempdir().unwrap();
    let (policy, secret) = (dir.path().join("policy.json"), dir.path().join("secret"));
    std::fs::write(&policy, "{\"Statement\": []}\n").unwrap();
    std::fs::write(&secret, "a-secret-of-ann\n").unwrap();
    let made = api.varve(&[
        "user",
        "create",
        "ann",
        "--display-name",
        "Ann B.",
        "--email",
        "ann@example.org",
        "--quota",
        "1TiB",
        "--buckets",
        "5",
        "--policy",
        policy.to_str().unwrap(),
        "--access-key",
        "ANNS",
        "--secret-file",
        secret.to_str().unwrap(),
        "--json",
    ]);
    let made = made.json();
    assert_eq!(
        (&made["access_key"], &made["secret_key"]),
        (&"ANNS".into(), &"a-secret-of-ann".into())
    );
    let shown = api.varve(&["user", "show", "ann", "--json"]).json();
    assert_eq!(shown["display_name"], "Ann B.");
    assert_eq!(shown["email"], "ann@example.org");
    assert_eq!(shown["admin"], false);
    assert_eq!((&shown["quota_bytes"], &shown["quota_buckets"]), (&(1u64 << 40).into(), &5.into()));
    assert_eq!(shown["policy"], "{\"Statement\": []}\n");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let api = Api::start();
    assert!(
        api.varve(&["user", "create", "owner"]).refused(1).contains("user `owner` already exists")
    );
    let said = api.varve(&["user", "create", "ann", "--access-key", "K"]).refused(2);
    assert!(said.contains("--secret-file"), "{said}");
    let said = api.varve(&["user", "create", "ann", "--policy", "/nonexistent"]).refused(1);
    assert!(said.contains("read /nonexistent"), "{said}");
    let said = api.varve(&["user", "create", "ann", "--buckets", "0"]).refused(2);
    assert!(said.contains("neither a whole number above 0 nor `none`"), "{said}");
}

#[test]
fn without_s3_it_says_how_to_serve_it() {
    let api = Api::over(MemoryBackend::without_s3());
    let said = api.varve(&["user", "create", "ann"]).refused(1);
    assert!(said.contains("S3 is not served by this daemon\n  try: start it with `--s3"), "{said}");
}

#[test]
fn a_daemon_keeps_users_and_buckets_over_a_kill() {
    let home = Home::new();
    let s3 = ["--s3", "127.0.0.1:0"];
    let daemon = home.serve(&s3);
    let made = home.varve(&["user", "create", "ann", "--quota", "1GiB", "--json"]).json();
    assert_eq!(made["access_key"].as_str().unwrap().len(), 20);
    assert_eq!(made["secret_key"].as_str().unwrap().len(), 40);
    home.varve(&["bucket", "create", "hers", "--owner", "ann", "--versioning"]).ok();
    let said = home.varve(&["bucket", "create", "Hers"]).refused(1);
    assert!(said.contains("invalid bucket name `Hers`"), "{said}");
    let said = home.varve(&["user", "delete", "ann"]).refused(1);
    assert!(said.contains("user `ann` owns 1 bucket"), "{said}");
    let status = home.varve(&["status", "--json"]).json();
    let listeners = status["listeners"].as_array().unwrap();
    let s3_listener = listeners.iter().find(|one| one["protocol"] == "s3").unwrap();
    assert!(s3_listener["address"].as_str().unwrap().starts_with("127.0.0.1:"), "{status}");
    daemon.signal("KILL");
    daemon.end();
    let daemon = home.serve(&s3);
    let users = home.varve(&["user", "list", "--json"]).json();
    let names: Vec<_> = users["users"]
        .as_array()
        .unwrap()
        .iter()
        .map(|user| user["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["ann", "owner"]);
    let shown = home.varve(&["user", "show", "ann", "--json"]).json();
    assert_eq!(shown["access_keys"][0]["access_key"], made["access_key"]);
    assert_eq!(shown["quota_bytes"], 1 << 30);
    let bucket = home.varve(&["bucket", "show", "hers", "--json"]).json();
    assert_eq!((&bucket["owner"], &bucket["versioning"]), (&"ann".into(), &"enabled".into()));
    home.varve(&["bucket", "delete", "hers"]).ok();
    home.varve(&["user", "delete", "ann"]).ok();
    let said = home.varve(&["user", "delete", "owner"]).refused(1);
    assert!(said.contains("the only administrator\n  try: create another one first"), "{said}");
    daemon.signal("TERM");
    let (status, said) = daemon.end();
    assert_eq!((status.code(), said.as_str()), (Some(0), ""));
}
