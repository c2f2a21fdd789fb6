//! Goal: `varve drive scrub` begins, ends or shows one, and says where nothing can be compared. Method: a memory
//! backend behind the real API, whose pool has no redundancy.

use varve_access_admin::MemoryBackend;

use crate::rig::Api;

#[test]
fn a_pool_without_redundancy_compares_nothing() {
    let api = Api::start();
    for arguments in
        [&["drive", "scrub"][..], &["drive", "scrub", "--show"], &["drive", "scrub", "--stop"]]
    {
        let said = api.varve(arguments).refused(1);
        assert!(said.contains("no redundancy over drives"), "{said}");
    }
}

#[test]
fn a_scrub_is_begun_ended_or_shown() {
    let said = Api::start().varve(&["drive", "scrub", "--stop", "--deep"]).refused(2);
    assert!(said.contains("--deep"), "{said}");
}

#[test]
fn a_scrub_that_is_begun_runs() {
    let api = Api::over(MemoryBackend::with_failed_drive());
    let text = api.varve(&["drive", "scrub", "--deep"]).ok();
    assert!(text.contains("running") && text.contains("on"), "{text}");
    assert_eq!(api.varve(&["drive", "scrub", "--show", "--json"]).json()["state"], "idle");
}
