//! Goal: `varve drive locate` finds the drive, and says what was lit. Method: a memory backend behind the real API.

use varve_access_admin::MemoryBackend;

use crate::rig::Api;

#[test]
fn a_light_is_lit_and_put_out() {
    let api = Api::over(MemoryBackend::with_failed_drive());
    let text = api.varve(&["drive", "locate", "1"]).ok();
    assert!(text.starts_with("the light of /srv/drive-1 shines"), "{text}");
    let json = api.varve(&["drive", "locate", "1", "--off", "--json"]).json();
    assert_eq!(json["on"], false);
    let plain = Api::start();
    let text = plain.varve(&["drive", "locate", "varve-data/drive"]).ok();
    assert!(text.contains("varve-data/drive shines"), "a path is escaped: {text}");
}

#[test]
fn a_drive_that_is_not_there_is_refused() {
    let said = Api::start().varve(&["drive", "locate", "7"]).refused(1);
    assert!(said.contains("no drive 7") && said.contains("varve drive list"), "{said}");
}
