//! Goal: `varve volume flatten` lets a clone forget its origin. Method: a memory backend behind the real API.

use crate::rig::Api;

#[test]
fn the_origin_is_forgotten() {
    let api = Api::start();
    api.varve(&["volume", "clone", "busy", "vm1"]).ok();
    assert_eq!(
        api.varve(&["volume", "flatten", "vm1"]).ok(),
        "volume vm1 has no origin any more\n"
    );
    assert!(!api.varve(&["volume", "show", "vm1"]).ok().contains("cloned from"));
    let json = api.varve(&["volume", "flatten", "vm1", "--json"]).json();
    assert_eq!(json["origin"], serde_json::Value::Null);
    assert!(api.varve(&["volume", "flatten", "none"]).refused(1).contains("no volume `none`"));
}
