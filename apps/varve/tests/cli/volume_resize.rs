//! Goal: `varve volume resize` grows freely and shrinks only when told to. Method: a memory backend behind the real
//! API.

use crate::rig::Api;

#[test]
fn an_open_volume_grows() {
    let api = Api::start();
    let said = api.varve(&["volume", "resize", "busy", "--size", "2GiB"]).ok();
    assert_eq!(said, "volume busy: resized to 2 GiB\n");
}

#[test]
fn shrinking_needs_a_flag() {
    let api = Api::start();
    let said = api.varve(&["volume", "resize", "busy", "--size", "1MiB"]).refused(1);
    assert!(said.contains("cannot shrink volume"), "{said}");
    assert!(said.contains("repeat with --shrink"), "{said}");
    let json =
        api.varve(&["volume", "resize", "busy", "--size", "1MiB", "--shrink", "--json"]).json();
    assert_eq!(json["size_bytes"], 1 << 20);
}
