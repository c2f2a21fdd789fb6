//! Goal: `varve drive remove` finds the drive, and says where none can leave. Method: a memory backend behind the real
//! API.

use varve_access_admin::MemoryBackend;

use crate::rig::Api;

#[test]
fn a_drive_that_is_not_there_is_refused() {
    let api = Api::over(MemoryBackend::with_failed_drive());
    for arguments in [&["drive", "remove", "7", "--failed"][..], &["drive", "remove", "7"]] {
        let said = api.varve(arguments).refused(1);
        assert!(said.contains("no drive 7"), "{said}");
    }
}

#[test]
fn a_drive_without_a_number_cannot_leave() {
    let api = Api::start();
    let list = api.varve(&["drive", "list", "--json"]).json();
    let path = list["drives"][0]["path"].as_str().unwrap().to_owned();
    let said = api.varve(&["drive", "remove", &path]).refused(1);
    assert!(said.contains("no redundancy over drives"), "{said}");
}

#[test]
fn a_drive_that_leaves_stays_where_that_is_cancelled() {
    let api = Api::over(MemoryBackend::with_failed_drive());
    let text = api.varve(&["drive", "remove", "1", "--cancel"]).ok();
    assert!(text.contains("drive 1 stays"), "{text}");
    let said = api.varve(&["drive", "remove", "7", "--cancel"]).refused(1);
    assert!(said.contains("no drive 7"), "{said}");
    api.varve(&["drive", "remove", "1", "--cancel", "--failed"]).refused(2);
}
