//! Goal: `varve bench list` names every preset and says what cannot be run. Method: the binary.

use crate::rig::varve;

#[test]
fn presets_are_listed_with_what_they_need() {
    let text = varve(&["bench", "list"]).ok();
    assert!(text.starts_with("PRESET "), "{text}");
    let line = |id: &str| text.lines().find(|line| line.split(' ').next() == Some(id)).unwrap();
    assert!(line("appb-small-90w").ends_with("  a block target"));
    assert!(line("dvr-shared").ends_with("  an S3 server"));
    assert!(line("backup-archive").ends_with("  an S3 server"));
    assert!(line("rados-4m-seq").ends_with("  a pool of Ceph: rados:POOL, or any block target"));
    assert!(line("scale-1000x50").ends_with("  a daemon of Varve"));
    assert!(line("file-mixed").ends_with("  not yet: file system targets"));
    let json = varve(&["bench", "list", "--json"]).json();
    let presets = json["presets"].as_array().unwrap();
    assert_eq!(presets.len() + 1, text.lines().count());
    assert!(presets.iter().any(|preset| preset["id"] == "idf16" && preset["needs"].is_null()));
}
