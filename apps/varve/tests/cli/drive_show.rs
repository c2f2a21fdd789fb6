//! Goal: `varve drive show` finds a drive by what people call it. Method: a memory backend behind the real API.

use varve_access_admin::MemoryBackend;

use crate::rig::Api;

#[test]
fn a_drive_is_found_by_number_path_and_identity() {
    let api = Api::over(MemoryBackend::with_failed_drive());
    for name in ["1", "/srv/drive-1", "0101"] {
        let text = api.varve(&["drive", "show", name]).ok();
        assert!(text.contains("failed") && text.contains("/srv/drive-1"), "{name}: {text}");
    }
    let json = api.varve(&["drive", "show", "1", "--json"]).json();
    assert_eq!(json["state"], "failed");
}

#[test]
fn a_drive_shows_what_it_says_of_itself() {
    let api = Api::over(MemoryBackend::with_failed_drive());
    let text = api.varve(&["drive", "show", "0"]).ok();
    for line in [
        "condition     worn",
        "device        /dev/nvme0n1",
        "temperature   41 °C",
        "life used     93 %",
        "life left     0.3 years as written so far",
        "spare         97 %, and 10 % at least",
        "93 % of its rated life are used",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let json = api.varve(&["drive", "show", "0", "--json"]).json();
    assert_eq!(json["condition"]["warnings"][0]["kind"], "worn");
    let whole = api.varve(&["drive", "show", "1", "--json"]).json();
    assert!(whole.get("condition").is_none(), "{whole}");
}

#[test]
fn a_drive_that_is_not_there_is_refused() {
    let said = Api::start().varve(&["drive", "show", "7"]).refused(1);
    assert!(said.contains("no drive 7") && said.contains("varve drive list"), "{said}");
}
