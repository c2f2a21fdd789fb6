//! Goal: `varve drive grow` says how large the drive and the pool were and are, what can grow is shown, and a pool that
//! is served gets room by it. Method: a memory backend behind the real API, and a daemon on two directories.

use std::fs::File;
use std::thread;
use std::time::{Duration, Instant};

use varve_access_admin::MemoryBackend;

use crate::daemon::Home;
use crate::rig::Api;
use crate::stored::contents;

/// How long a pool may take until it has more zones.
const GROWN_WITHIN: Duration = Duration::from_secs(60);

/// MiB that are written: more than two drives of 256 MiB hold that mirror each other.
const PARTS: u64 = 300;

#[test]
fn sizes_before_and_after_are_said() {
    let api = Api::over(MemoryBackend::with_failed_drive());
    let text = api.varve(&["drive", "grow", "0", "--size", "90GiB"]).ok();
    assert!(text.contains("drive 0 has 90 GiB instead of 68 GiB"), "{text}");
    assert!(text.contains("room for 68 GiB as before"), "{text}");
    let text = api.varve(&["drive", "grow", "0", "--size", "68GiB"]).ok();
    assert!(text.contains("drive 0 has 68 GiB as before"), "{text}");
    let growth = api.varve(&["drive", "grow", "0", "--json"]).json();
    assert_eq!((&growth["drive"], &growth["size_bytes"]), (&0.into(), &(100_u64 << 30).into()));
    let said = api.varve(&["drive", "grow", "7"]).refused(1);
    assert!(said.contains("no drive 7"), "{said}");
}

#[test]
fn what_can_grow_is_shown() {
    let api = Api::over(MemoryBackend::with_failed_drive());
    let list = api.varve(&["drive", "list"]).ok();
    assert_eq!(list.matches("68 GiB, can grow").count(), 1, "{list}");
    let one = api.varve(&["drive", "show", "0"]).ok();
    assert!(one.contains("by 32 GiB"), "{one}");
}

#[test]
fn a_drive_without_a_number_does_not_grow() {
    let api = Api::start();
    let list = api.varve(&["drive", "list", "--json"]).json();
    let path = list["drives"][0]["path"].as_str().unwrap().to_owned();
    let said = api.varve(&["drive", "grow", &path]).refused(1);
    assert!(said.contains("no redundancy over drives"), "{said}");
}

fn capacity(home: &Home) -> u64 {
    home.varve(&["pool", "show", "--json"]).json()["capacity_bytes"].as_u64().unwrap()
}

#[test]
fn a_pool_gets_room_while_it_is_served() {
    let home = Home::new();
    let two = ["--drive", "a=256MiB", "--drive", "b=256MiB", "--shards", "1", "--yes"];
    home.varve(&[&["pool", "create"], &two[..]].concat()).ok();
    let daemon = home.serve_remembered();
    let before = capacity(&home);
    assert!(before < PARTS << 20, "{before}");
    home.varve(&["volume", "create", "v", "--size", "1GiB"]).ok();
    let text = home.varve(&["drive", "grow", "0", "--size", "512MiB"]).ok();
    assert!(text.contains("drive 0 has 512 MiB instead of 256 MiB"), "{text}");
    assert!(text.contains("as before, as its other drives have no more"), "{text}");
    let file = File::options().write(true).open(home.path().join("b/segments")).unwrap();
    file.set_len(512 << 20).unwrap();
    let list = home.varve(&["drive", "list"]).ok();
    assert_eq!(list.matches("256 MiB, can grow").count(), 1, "{list}");
    let growth = home.varve(&["drive", "grow", "1", "--json"]).json();
    assert_eq!(growth["size_bytes"], 512 << 20);
    let usable = |key: &str| growth[key].as_u64().unwrap();
    assert!(usable("usable_bytes") > usable("usable_before_bytes") + (200 << 20), "{growth}");
    let began = Instant::now();
    while capacity(&home) < before + (200 << 20) {
        assert!(began.elapsed() < GROWN_WITHIN, "the pool has no more zones");
        thread::sleep(Duration::from_millis(100));
    }
    let again = home.varve(&["drive", "grow", "1"]).ok();
    assert!(again.contains("drive 1 has 512 MiB as before"), "{again}");
    let smaller = home.varve(&["drive", "grow", "1", "--size", "256MiB"]);
    assert!(smaller.code != 0 && smaller.stderr.contains("cannot be made smaller"));
    let mut client = home.connect("v");
    (0..PARTS).for_each(|part| client.write(part << 20, &contents(part, 256)));
    drop(client);
    drop(daemon);
    let _daemon = home.serve_remembered();
    let mut client = home.connect("v");
    for part in 0..PARTS {
        assert_eq!(client.read(part << 20, 1 << 20), contents(part, 256), "part {part}");
    }
    assert!(capacity(&home) > before + (200 << 20));
}
