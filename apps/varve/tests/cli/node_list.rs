//! Goal: `varve node list` says which daemon serves the pool and what the others carry. Method: a memory backend behind
//! the real API, and a daemon that is alone.

use crate::daemon::Home;
use crate::rig::Api;

#[test]
fn people_see_who_serves_and_what_others_carry() {
    let text = Api::start().varve(&["node", "list"]).ok();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("NODE"), "{text}");
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let serving = ["a.example,", "process", "5", "10.0.0.1:40001", "yes", "0", "0", "B", "0", "B"];
    let other = ["b.example,", "process", "7", "10.0.0.2:40001", "no", "3", "5", "GiB", "7", "MiB"];
    assert_eq!(words(lines[1]), serving, "{text}");
    assert_eq!(words(lines[2]), other, "{text}");
}

#[test]
fn programs_see_bytes() {
    let json = Api::start().varve(&["node", "list", "--json"]).json();
    assert_eq!((&json[0]["serves"], &json[1]["serves"]), (&true.into(), &false.into()));
    assert_eq!(json[1]["received_bytes"], 5u64 << 30);
}

#[test]
fn a_daemon_that_is_alone_says_so() {
    let home = Home::new();
    let _daemon = home.serve(&[]);
    let error = home.varve(&["node", "list"]).refused(1);
    assert!(error.contains("serves it alone"), "{error}");
}
