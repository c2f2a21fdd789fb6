//! Goal: `varve health` says by its exit code how safe data are, and in words why and what to do. Method: a memory
//! backend behind the real API, and nobody at all.

use varve_access_admin::MemoryBackend;

use crate::rig::{Api, varve_in};

#[test]
fn a_whole_pool_is_ok() {
    let text = Api::start().varve(&["health"]).ok();
    assert!(text.starts_with("ok\n"), "{text}");
    assert_eq!(Api::start().varve(&["health", "--json"]).json()["state"], "ok");
}

#[test]
fn a_lost_drive_is_told_with_what_to_do() {
    let api = Api::over(MemoryBackend::with_failed_drive());
    let run = api.varve(&["health"]);
    assert_eq!(run.code, 2, "{}", run.stderr);
    assert!(run.stdout.starts_with("at risk\na lost drive would lose data\n"), "{}", run.stdout);
    assert!(run.stderr.contains("at risk: drive 1 failed"), "{}", run.stderr);
    assert!(run.stderr.contains("replace it"), "{}", run.stderr);
}

#[test]
fn who_cannot_be_asked_is_not_well() {
    let dir = tempfile::tempdir().unwrap();
    let said = varve_in(dir.path(), &["--data", ".", "health"]).refused(4);
    assert!(said.contains("health is unknown"), "{said}");
}
