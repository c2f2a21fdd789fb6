//! Goal: `varve pool show` says how full the pool is. Method: a memory backend behind the real API.

use crate::rig::Api;

#[test]
fn people_see_shares_and_drives() {
    let text = Api::start().varve(&["pool", "show"]).ok();
    assert!(text.contains("used          3 GiB (4 %)\n"), "{text}");
    assert!(text.contains("free          61 GiB\n"), "{text}");
    assert!(
        text.ends_with("DRIVE               SIZE  ERRORS\nvarve-data/drive  65 GiB  none\n"),
        "{text}"
    );
}

#[test]
fn programs_see_bytes() {
    let json = Api::start().varve(&["pool", "show", "--json"]).json();
    assert_eq!(json["used_bytes"], 3u64 << 30);
    assert_eq!(json["drives"][0]["path"], "varve-data/drive");
}
