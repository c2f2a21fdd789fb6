//! Goal: `varve pool set` says what another way to keep data holds and survives, and what keeps it from that. Method: a
//! memory backend behind the real API, with and without redundancy over drives.

use varve_access_admin::MemoryBackend;

use crate::rig::Api;

#[test]
fn people_see_what_follows() {
    let api = Api::over(MemoryBackend::with_failed_drive());
    let text = api.varve(&["pool", "set", "--protect", "ec:2+1"]).ok();
    assert!(text.starts_with("ec:2+1: 90 GiB usable of 136 GiB, survives the loss of"), "{text}");
    assert!(text.contains("12 zones are converted while the pool serves"), "{text}");
    let text = api.varve(&["pool", "set", "--cancel", "--dry-run"]).ok();
    assert!(text.contains("12 zones would be converted; nothing was changed"), "{text}");
}

#[test]
fn programs_see_all_fields() {
    let api = Api::over(MemoryBackend::with_failed_drive());
    let json = api.varve(&["pool", "set", "--protect", "mirror:3", "--json"]).json();
    assert_eq!((&json["protect"], &json["unconverted"]), (&"mirror:3".into(), &12.into()));
}

#[test]
fn what_is_no_class_is_misuse_and_a_pool_without_redundancy_has_none() {
    let api = Api::over(MemoryBackend::with_failed_drive());
    let said = api.varve(&["pool", "set", "--protect", "raid6"]).refused(2);
    assert!(said.contains("raid6") && said.contains("mirror:2"), "{said}");
    api.varve(&["pool", "set"]).refused(2);
    api.varve(&["pool", "set", "--cancel", "--protect", "none"]).refused(2);
    let said = Api::start().varve(&["pool", "set", "--protect", "mirror:2"]).refused(1);
    assert!(said.contains("no redundancy over drives"), "{said}");
}

#[test]
fn the_status_says_how_data_are_kept() {
    let text = Api::over(MemoryBackend::with_failed_drive()).varve(&["status"]).ok();
    assert!(
        text.contains("redundancy   mirror:2: survives no lost drive, 68 GiB usable\n"),
        "{text}"
    );
}
