//! Goal: `varve pool create` refuses what cannot become a pool on RADOS before it leaves anything behind. Method:
//! places without a cluster; what it makes on one is looked at by `tests/rados`.

use std::fs;
use std::path::Path;

use crate::rig::varve_in;

const RADOS: [&str; 6] =
    ["--rados", "/nonexistent/ceph.conf", "--data-pool", "d", "--meta-pool", "m"];

fn create<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["pool", "create"], &RADOS[..], more].concat()
}

#[test]
fn a_cluster_that_cannot_be_reached_leaves_no_pool() {
    let dir = tempfile::tempdir().unwrap();
    let said = varve_in(dir.path(), &create(&["--data", "pool"])).refused(1);
    assert!(said.contains("librados") || said.contains("/nonexistent/ceph.conf"), "{said}");
    assert!(!dir.path().join("pool/rados.json").exists());
}

#[test]
fn a_directory_with_a_pool_on_drives_keeps_it() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("drives.json"), r#"{"version": 1, "drives": []}"#).unwrap();
    let said = varve_in(dir.path(), &create(&["--data", "."])).refused(2);
    assert!(said.contains("has a pool already"), "{said}");
}

#[test]
fn a_damaged_memory_of_a_pool_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let good = r#"{"version": 1, "config": "/c", "user": "u", "data_pool": "d", "meta_pool": "m", "pool": "x"}"#;
    for text in ["{", &good.replace("\"version\": 1", "\"version\": 9"), good] {
        fs::write(dir.path().join("rados.json"), text).unwrap();
        for command in [create(&["--data", "."]), vec!["serve", "--data", "."]] {
            let said = varve_in(dir.path(), &command).refused(1);
            assert!(said.contains("rados.json"), "{said}");
        }
    }
}

#[test]
fn a_pool_on_rados_takes_no_drives_and_is_not_checked_where_it_cannot_be_reached() {
    let dir = tempfile::tempdir().unwrap();
    let home = r#"{"version": 1, "config": "/nonexistent/ceph.conf", "user": "client.u", "data_pool": "d", "meta_pool": "m",
        "pool": "12121212-1212-1212-1212-121212121212"}"#;
    fs::write(dir.path().join("rados.json"), home).unwrap();
    let said = varve_in(dir.path(), &["serve", "--data", ".", "--drive", "x=1GiB"]).refused(2);
    assert!(said.contains("is on RADOS, in rados:d and rados:m"), "{said}");
    let said = varve_in(dir.path(), &["check", "--data", "."]).refused(2);
    assert!(said.contains("pool on RADOS: "), "{said}");
    let other = create(&["--data", "."]);
    let said = varve_in(dir.path(), &other).refused(2);
    assert!(said.contains("has a pool already"), "of another user: {said}");
}

#[test]
fn a_pool_is_on_drives_or_on_rados() {
    for more in [&["tank", "/dev/a"][..], &[][..]] {
        let said = varve_in(Path::new("."), &[&["pool", "create"], more].concat()).refused(2);
        assert!(said.contains("`varve pool create --drive …`"), "{said}");
    }
    let said = varve_in(Path::new("."), &["pool", "create", "--data-pool", "d"]).refused(2);
    assert!(said.contains("--meta-pool"), "{said}");
    let said = varve_in(Path::new("."), &create(&["--drive", "/dev/a"])).refused(2);
    assert!(said.contains("cannot be used with"), "{said}");
    let said = varve_in(Path::new("."), &create(&["--protect", "mirror:2"])).refused(2);
    assert!(said.contains("--drive"), "{said}");
}

const TWO: [&str; 6] = ["pool", "create", "--drive", "a=256MiB", "--drive", "b=256MiB"];

#[test]
fn nothing_is_created_before_somebody_agreed() {
    let dir = tempfile::tempdir().unwrap();
    let small = ["--data", "d", "--lane-size", "16MiB", "--shards", "1"];
    let asked = varve_in(dir.path(), &[&TWO[..], &small].concat());
    assert_eq!(asked.code, 2, "{}", asked.stderr);
    assert!(asked.stdout.starts_with("2 drives, mirror:2: "), "{}", asked.stdout);
    assert!(asked.stdout.contains("survives the loss of any drive"), "{}", asked.stdout);
    assert!(asked.stderr.contains("add --yes"), "{}", asked.stderr);
    let said = varve_in(dir.path(), &[&TWO[..], &small, &["--json"]].concat()).refused(2);
    assert!(said.contains("add --yes"), "{said}");
    for (protect, why) in
        [("mirror:3", "mirror:3 needs 3 drives, and 2 are given"), ("raid5", "raid5")]
    {
        let more = ["--data", "d", "--yes", "--protect", protect];
        let said = varve_in(dir.path(), &[&TWO[..], &more].concat()).refused(2);
        assert!(said.contains(why), "{said}");
    }
    for drive in ["a", "b"] {
        assert!(!dir.path().join(drive).exists(), "{drive}");
    }
}

#[test]
fn drives_that_are_too_small_are_named_with_what_they_need() {
    let dir = tempfile::tempdir().unwrap();
    let more = ["--data", "d", "--yes", "--lane-size", "1GiB"];
    let said = varve_in(dir.path(), &[&TWO[..], &more].concat()).refused(1);
    assert!(said.contains("has 268435456 bytes, needs"), "{said}");
    assert!(said.contains("lane_size"), "{said}");
    assert!(!dir.path().join("a").exists());
}

#[test]
fn a_pool_on_drives_says_what_it_survives_and_is_served() {
    let dir = tempfile::tempdir().unwrap();
    let more = ["--data", "d", "--yes", "--lane-size", "16MiB", "--shards", "1", "--json"];
    let json = varve_in(dir.path(), &[&TWO[..], &more].concat()).json();
    assert_eq!((&json["protect"], &json["survives"]), (&"mirror:2".into(), &1.into()));
    let (usable, raw) =
        (json["usable_bytes"].as_u64().unwrap(), json["raw_bytes"].as_u64().unwrap());
    assert_eq!(raw, 512 << 20);
    assert!((100 << 20..256 << 20).contains(&usable), "{usable}");
    let again = varve_in(dir.path(), &[&TWO[..], &more].concat()).refused(2);
    assert!(again.contains("has a pool already"), "{again}");
    let other = ["--data", "e", "--yes"];
    let taken = varve_in(dir.path(), &[&TWO[..], &other].concat()).refused(2);
    assert!(taken.contains("holds a pool already"), "{taken}");
}
