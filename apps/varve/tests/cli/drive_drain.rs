//! Goal: `varve drive drain` finds the drive, and says where none can leave, or what is stored does not fit the others.
//! Method: a memory backend behind the real API, and a daemon on four directories.

use std::thread;
use std::time::{Duration, Instant};

use varve_access_admin::MemoryBackend;

use crate::daemon::Home;
use crate::rig::Api;
use crate::stored::{fill_pool, pool_figure};

#[test]
fn a_drive_that_is_not_there_is_refused() {
    let api = Api::over(MemoryBackend::with_failed_drive());
    let said = api.varve(&["drive", "drain", "7"]).refused(1);
    assert!(said.contains("no drive 7"), "{said}");
}

#[test]
fn a_drive_without_a_number_is_not_drained() {
    let api = Api::start();
    let list = api.varve(&["drive", "list", "--json"]).json();
    let path = list["drives"][0]["path"].as_str().unwrap().to_owned();
    let said = api.varve(&["drive", "drain", &path]).refused(1);
    assert!(said.contains("no redundancy over drives"), "{said}");
}

#[test]
fn a_drain_can_be_cancelled() {
    let api = Api::over(MemoryBackend::with_failed_drive());
    let text = api.varve(&["drive", "drain", "1", "--cancel"]).ok();
    assert!(text.contains("drive 1 stays"), "{text}");
}

/// How long what was deleted may take until its space is free.
const FREED_WITHIN: Duration = Duration::from_secs(60);

#[test]
fn what_is_stored_has_to_fit_the_drives_that_stay() {
    let home = Home::new();
    let drives = ["a=256MiB", "b=256MiB", "c=256MiB", "d=256MiB"].map(|it| ["--drive", it]);
    let kept = ["pool", "create", "--protect", "mirror:2", "--shards", "1", "--yes"];
    home.varve(&[&kept[..], &drives.concat()].concat()).ok();
    let _daemon = home.serve_remembered();
    let figure = |key: &str| pool_figure(&home, key);
    let capacity = figure("capacity_bytes");
    let client = fill_pool(&home, 85);
    for command in ["drain", "remove"] {
        let said = home.varve(&["drive", command, "3"]).refused(1);
        assert!(said.contains("drive 3 cannot leave: the others have room for"), "{said}");
        assert!(said.contains("are stored") && said.contains("delete"), "{said}");
    }
    let said = home.varve(&["health"]).stdout;
    assert!(!said.contains("leaves"), "nothing was begun: {said}");
    drop(client);
    home.varve(&["volume", "delete", "v"]).ok();
    let began = Instant::now();
    while figure("used_bytes") > capacity / 4 {
        assert!(began.elapsed() < FREED_WITHIN, "what was deleted keeps its space");
        thread::sleep(Duration::from_millis(100));
    }
    let drained = home.varve(&["drive", "drain", "3", "--wait"]);
    assert_eq!(drained.code, 0, "{}", drained.stderr);
    assert!(figure("capacity_bytes") < capacity, "free zones are withdrawn");
    home.varve(&["drive", "remove", "3", "--wait"]).ok();
}
