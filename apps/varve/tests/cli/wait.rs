//! Goal: `varve wait` returns once the daemon serves, or fails with the reason. Method: a memory backend behind the
//! real API, a daemon that starts, and no daemon.

use std::os::unix::net::UnixListener;
use std::process::Command;

use crate::daemon::Home;
use crate::rig::{Api, varve};

#[test]
fn a_daemon_that_serves_is_not_waited_for() {
    assert_eq!(Api::start().varve(&["wait"]).ok(), "");
}

#[test]
fn the_data_directory_may_come_from_the_environment() {
    let api = Api::start();
    let data = api.socket().parent().unwrap().to_owned();
    let elsewhere = tempfile::tempdir().unwrap();
    let wait = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_varve"));
        command.args(["wait", "--timeout", "0"]).args(more).current_dir(elsewhere.path());
        command.env("VARVE_DATA", &data).output().unwrap().status.success()
    };
    assert!(wait(&[]));
    assert!(!wait(&["--data", "other"]), "the option counts for more");
}

#[test]
fn a_daemon_that_starts_is_waited_for() {
    let home = Home::new();
    let mut waiting = Command::new(env!("CARGO_BIN_EXE_varve"))
        .args(["wait", "--timeout", "300"])
        .current_dir(home.path())
        .spawn()
        .unwrap();
    let _daemon = home.serve(&[]);
    assert!(waiting.wait().unwrap().success());
    home.varve(&["volume", "list"]).ok();
}

#[test]
fn a_daemon_that_does_not_answer_is_not_waited_for_longer() {
    let dir = tempfile::tempdir().unwrap();
    let _silent = UnixListener::bind(dir.path().join("admin.sock")).unwrap();
    let said =
        varve(&["wait", "--timeout", "1", "--data", dir.path().to_str().unwrap()]).refused(1);
    assert!(said.contains("not ready after 1 s: no answer from"), "{said}");
    assert!(said.contains("within 1 s"), "{said}");
}

#[test]
fn without_a_daemon_it_gives_up() {
    let dir = tempfile::tempdir().unwrap();
    let said =
        varve(&["wait", "--timeout", "0", "--data", dir.path().to_str().unwrap()]).refused(1);
    assert!(said.contains("not ready after 0 s: "), "{said}");
}
