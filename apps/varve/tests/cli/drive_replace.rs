//! Goal: `varve drive replace` finds the drive that goes before anything is asked for. Method: a memory backend behind
//! the real API.

use varve_access_admin::MemoryBackend;

use crate::rig::Api;

#[test]
fn the_drive_that_goes_must_be_there() {
    let api = Api::over(MemoryBackend::with_failed_drive());
    let said = api.varve(&["drive", "replace", "7", "/srv/new=1GiB"]).refused(1);
    assert!(said.contains("no drive 7"), "{said}");
    let said = api.varve(&["drive", "replace", "1"]).refused(2);
    assert!(said.contains("PATH"), "{said}");
}

#[test]
fn what_follows_is_said() {
    let api = Api::over(MemoryBackend::with_failed_drive());
    let text = api.varve(&["drive", "replace", "/srv/drive-1", "/srv/new=1GiB"]).ok();
    assert!(text.contains("/srv/new takes the place of drive 1"), "{text}");
}

#[test]
fn a_replacement_is_cancelled_without_another_drive() {
    let api = Api::over(MemoryBackend::with_failed_drive());
    let text = api.varve(&["drive", "replace", "1", "--cancel"]).ok();
    assert!(text.contains("drive 1 stays"), "{text}");
    api.varve(&["drive", "replace", "1", "/srv/new=1GiB", "--cancel"]).refused(2);
}
