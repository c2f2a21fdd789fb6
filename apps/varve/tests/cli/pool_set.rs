//! Goal: `varve pool set` says what another way to keep data holds and survives, and what keeps it from that. Method: a
//! memory backend behind the real API, with and without redundancy over drives, and a daemon on three directories.

use varve_access_admin::MemoryBackend;

use crate::daemon::Home;
use crate::rig::Api;
use crate::stored::contents;

#[test]
fn people_see_what_follows() {
    let api = Api::over(MemoryBackend::with_failed_drive());
    let text = api.varve(&["pool", "set", "--protect", "ec:2+1"]).ok();
    assert!(text.starts_with("ec:2+1: 90 GiB usable of 136 GiB, survives the loss of"), "{text}");
    assert!(text.contains("12 zones are converted while the pool serves"), "{text}");
    let text = api.varve(&["pool", "set", "--data-class", "ssd,nvme"]).ok();
    assert!(text.starts_with("mirror:2 on drives of class nvme,ssd: 90 GiB usable"), "{text}");
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
    let said = api.varve(&["pool", "set", "--data-class", "flash"]).refused(2);
    assert!(said.contains("flash is not nvme, ssd or hdd"), "{said}");
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

/// A pool that mirrors two drives of class ssd, served, and one of class hdd that was added.
fn mixed() -> Home {
    let home = Home::new();
    let two = ["--drive", "a=256MiB", "--drive", "b=256MiB", "--class", "ssd", "--shards", "1"];
    home.varve(&[&["pool", "create", "--yes"], &two[..]].concat()).ok();
    home
}

#[test]
fn data_lie_on_drives_of_the_classes_that_are_wanted() {
    let home = mixed();
    let daemon = home.serve_remembered();
    home.varve(&["drive", "add", "c=512MiB", "--class", "hdd"]).ok();
    let drives = home.varve(&["drive", "list", "--json"]).json();
    let classes: Vec<_> =
        drives["drives"].as_array().unwrap().iter().map(|it| &it["kind"]).collect();
    assert_eq!(classes, ["ssd", "ssd", "hdd"]);
    assert!(home.varve(&["drive", "list"]).ok().contains("hdd"));
    home.varve(&["volume", "create", "v", "--size", "64MiB"]).ok();
    let mut client = home.connect("v");
    (0..32).for_each(|part| client.write(part << 20, &contents(part, 256)));
    for (class, found) in [("hdd", "of class hdd, and 1 are live"), ("nvme", "and 0 are live")] {
        let said = home.varve(&["pool", "set", "--data-class", class]).refused(1);
        assert!(said.contains("mirror:2 needs 2 drives") && said.contains(found), "{said}");
    }
    let set = home.varve(&["pool", "set", "--data-class", "ssd", "--wait"]);
    assert_eq!(set.code, 0, "{}", set.stderr);
    let pool = home.varve(&["pool", "show", "--json"]).json();
    assert_eq!((&pool["data_class"], &pool["unconverted_zones"]), (&"ssd".into(), &().into()));
    drop(client);
    drop(daemon);
    let _daemon = home.serve_remembered();
    assert!(home.varve(&["pool", "show"]).ok().contains("data class"));
    let used = home.varve(&["drive", "show", "2", "--json"]).json()["used_bytes"].as_u64().unwrap();
    assert!(used <= 2 * (16 << 20), "only copies of journals are on it: {used}");
    let said = home.varve(&["drive", "remove", "0"]).refused(1);
    assert!(said.contains("2 drives of class ssd"), "{said}");
    let mut client = home.connect("v");
    for part in 0..32 {
        assert_eq!(client.read(part << 20, 1 << 20), contents(part, 256), "part {part}");
    }
    home.varve(&["pool", "set", "--protect", "mirror:2"]).ok();
    let pool = home.varve(&["pool", "show", "--json"]).json();
    assert_eq!(pool["data_class"], "ssd", "another protection leaves it");
}

#[test]
fn journals_are_on_drives_of_the_class_that_is_wanted_or_that_is_said() {
    let home = mixed();
    let daemon = home.serve_remembered();
    home.varve(&["drive", "add", "c=256MiB", "--class", "hdd"]).ok();
    home.varve(&["volume", "create", "v", "--size", "64MiB"]).ok();
    let mut client = home.connect("v");
    let shown = || home.varve(&["pool", "show", "--json"]).json();
    home.varve(&["pool", "set", "--journal-class", "hdd"]).ok();
    let pool = shown();
    let found = (&pool["journal_class"], &pool["journal_class_met"]);
    assert_eq!(found, (&"hdd".into(), &false.into()), "one is too few");
    let said = home.varve(&["health"]).stdout;
    assert!(said.contains("journals are to be on drives of class hdd, which need 2"), "{said}");
    (0..16).for_each(|part| client.write(part << 20, &contents(part, 256)));
    let text = home.varve(&["pool", "set", "--journal-class", "ssd"]).ok();
    assert!(text.contains("journals on drives of class ssd"), "{text}");
    assert_eq!(shown()["journal_class_met"], true);
    (16..32).for_each(|part| client.write(part << 20, &contents(part, 256)));
    drop(client);
    drop(daemon);
    let _daemon = home.serve_remembered();
    let mut client = home.connect("v");
    for part in 0..32 {
        assert_eq!(client.read(part << 20, 1 << 20), contents(part, 256), "part {part}");
    }
    assert!(!home.varve(&["health"]).stdout.contains("journals are to be on"));
    home.varve(&["pool", "set", "--journal-class", "any"]).ok();
    assert_eq!(shown()["journal_class"], serde_json::Value::Null);
}
