//! Goal: `varve volume diff` shows what changed since a snapshot. Method: a memory backend behind the real API, with
//! more parts than a page has; and a daemon whose volume is written, compared with bytes.

use serde_json::json;
use varve_access_admin::MemoryBackend;

use crate::daemon::Home;
use crate::rig::Api;

#[test]
fn parts_come_in_pages() {
    let api = Api::over(MemoryBackend::with_volumes(1));
    api.varve(&["volume", "resize", "v0000", "--size", "100GiB"]).ok();
    api.varve(&["volume", "snapshot", "create", "v0000@a"]).ok();
    let json = api.varve(&["volume", "diff", "v0000", "--from", "a", "--json"]).json();
    assert_eq!(json["extents"].as_array().unwrap().len(), 1600);
    assert_eq!(json["changed_bytes"], 1600 * 65536);
    let said = api.varve(&["volume", "diff", "v0000", "--from", "a"]).ok();
    assert!(said.ends_with("100 MiB may differ\n"), "{said}");
    let said = api.varve(&["volume", "diff", "v0000", "--from", "none"]).refused(1);
    assert!(said.contains("no snapshot `v0000@none`"), "{said}");
}

#[test]
fn what_was_written_is_shown() {
    let home = Home::new();
    let _daemon = home.serve(&[]);
    home.varve(&["volume", "create", "v", "--size", "200MiB"]).ok();
    home.connect("v").write(0, &[1; 65536]);
    home.varve(&["volume", "snapshot", "create", "v@one"]).ok();
    assert_eq!(
        home.varve(&["volume", "diff", "v", "--from", "one"]).ok(),
        "no differences between v@one and v\n"
    );
    home.connect("v").write(8192, &[2; 4096]);
    home.connect("v").write(150 << 20, &[2; 8192]);
    home.varve(&["volume", "snapshot", "create", "v@two"]).ok();
    home.connect("v").write(0, &[3; 4096]);
    let diff = |to: &[&str]| {
        let all = [&["volume", "diff", "v", "--from", "one", "--json"], to].concat();
        home.varve(&all).json()["extents"].clone()
    };
    let later = json!([
        { "offset": 8192, "len": 4096 },
        { "offset": 150 << 20, "len": 8192 },
    ]);
    assert_eq!(diff(&["--to", "two"]), later);
    assert_eq!(diff(&[])[0], json!({ "offset": 0, "len": 4096 }));
}
