//! Goal: `varve drive set` says what a drive is, data that are to be on drives of a class follow, and it is refused
//! where too few are left. Method: a memory backend behind the real API, and a daemon on three directories.

use varve_access_admin::MemoryBackend;

use crate::daemon::Home;
use crate::rig::Api;
use crate::stored::contents;

/// MiB that are written.
const PARTS: u64 = 24;

#[test]
fn what_follows_is_said() {
    let api = Api::over(MemoryBackend::with_failed_drive());
    let text = api.varve(&["drive", "set", "0", "--class", "ssd"]).ok();
    assert!(text.contains("drive 0 is of class ssd") && text.contains("3 zones are to"), "{text}");
    let json = api.varve(&["drive", "set", "0", "--class", "hdd", "--json"]).json();
    assert_eq!(json["unconverted"], 3);
    let said = api.varve(&["drive", "set", "7", "--class", "hdd"]).refused(1);
    assert!(said.contains("no drive 7"), "{said}");
}

#[test]
fn what_is_no_class_is_misuse_and_a_pool_without_redundancy_has_none() {
    let api = Api::start();
    let said = api.varve(&["drive", "set", "0", "--class", "flash"]).refused(2);
    assert!(said.contains("flash is not nvme, ssd or hdd"), "{said}");
    api.varve(&["drive", "set", "0"]).refused(2);
    let list = api.varve(&["drive", "list", "--json"]).json();
    let path = list["drives"][0]["path"].as_str().unwrap().to_owned();
    let said = api.varve(&["drive", "set", &path, "--class", "ssd"]).refused(1);
    assert!(said.contains("no redundancy over drives"), "{said}");
}

#[test]
fn data_leave_a_drive_that_is_of_another_class() {
    let home = Home::new();
    let three = ["--drive", "a=256MiB", "--drive", "b=256MiB", "--drive", "c=256MiB"];
    let kept = ["--class", "hdd", "--protect", "mirror:2", "--shards", "1", "--yes"];
    home.varve(&[&["pool", "create"], &three[..], &kept].concat()).ok();
    let daemon = home.serve_remembered();
    home.varve(&["volume", "create", "v", "--size", "64MiB"]).ok();
    let mut client = home.connect("v");
    (0..PARTS).for_each(|part| client.write(part << 20, &contents(part, 256)));
    for drive in ["0", "1"] {
        let moves = home.varve(&["drive", "set", drive, "--class", "ssd", "--json"]).json();
        assert_eq!(moves["unconverted"], 0, "data may lie anywhere");
    }
    home.varve(&["pool", "set", "--data-class", "ssd", "--wait"]).ok();
    let said = home.varve(&["drive", "set", "1", "--class", "hdd"]).refused(1);
    assert!(said.contains("drive 1 cannot be of class hdd: mirror:2 needs 2 drives"), "{said}");
    assert!(said.contains("of class ssd, and 1 are live"), "{said}");
    assert!(said.contains("pool set --data-class"), "{said}");
    home.varve(&["drive", "set", "2", "--class", "ssd"]).ok();
    let set = home.varve(&["drive", "set", "1", "--class", "hdd", "--wait"]);
    assert_eq!(set.code, 0, "{}", set.stderr);
    assert!(set.stdout.contains("nothing is left to move"), "{}", set.stdout);
    home.varve(&["drive", "set", "1", "--class", "hdd"]).ok();
    drop(client);
    drop(daemon);
    let _daemon = home.serve_remembered();
    let drives = home.varve(&["drive", "list", "--json"]).json();
    let drives = drives["drives"].as_array().unwrap();
    let classes: Vec<_> = drives.iter().map(|drive| &drive["kind"]).collect();
    assert_eq!(classes, ["ssd", "hdd", "ssd"]);
    let used = drives[1]["used_bytes"].as_u64().unwrap();
    assert!(used <= 2 * (16 << 20), "only copies of journals are on it: {used}");
    let mut client = home.connect("v");
    for part in 0..PARTS {
        assert_eq!(client.read(part << 20, 1 << 20), contents(part, 256), "part {part}");
    }
}
