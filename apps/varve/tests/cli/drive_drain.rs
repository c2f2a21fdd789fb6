//! Goal: `varve drive drain` finds the drive, and says where none can leave. Method: a memory backend behind the real
//! API.

use varve_access_admin::MemoryBackend;

use crate::rig::Api;

#[test]
fn a_drive_that_is_not_there_is_refused() {
    let api = Api::over(MemoryBackend::with_failed_drive());
    let said = api.varve(&["drive", "drain", "7"]).refused(1);
    assert!(said.contains("no drive 7"), "{said}");
}

#[test]
fn a_drive_without_a_number_is_not_drained() {
    let api = Api::start();
    let list = api.varve(&["drive", "list", "--json"]).json();
    let path = list["drives"][0]["path"].as_str().unwrap().to_owned();
    let said = api.varve(&["drive", "drain", &path]).refused(1);
    assert!(said.contains("no redundancy over drives"), "{said}");
}

#[test]
fn a_drain_can_be_cancelled() {
    let api = Api::over(MemoryBackend::with_failed_drive());
    let text = api.varve(&["drive", "drain", "1", "--cancel"]).ok();
    assert!(text.contains("drive 1 stays"), "{text}");
}
