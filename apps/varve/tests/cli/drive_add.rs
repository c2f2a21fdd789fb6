//! Goal: `varve drive add` reaches the API, and says where a pool cannot have another drive. Method: a memory backend
//! behind the real API, whose pool has no redundancy that could change, and a daemon on directories of two sizes.

use varve_access_admin::MemoryBackend;

use crate::daemon::Home;
use crate::rig::Api;
use crate::stored::{fill_pool, pool_figure};

#[test]
fn a_pool_without_redundancy_gets_no_drive() {
    let said = Api::start().varve(&["drive", "add", "/srv/x=1GiB"]).refused(1);
    assert!(said.contains("no redundancy over drives") && said.contains("migrate"), "{said}");
}

#[test]
fn a_drive_needs_a_size_that_is_possible() {
    let api = Api::over(MemoryBackend::with_failed_drive());
    let said = api.varve(&["drive", "add", "/srv/x=1MiB"]).refused(2);
    assert!(said.contains("128 MiB"), "{said}");
}

#[test]
fn a_drive_that_would_leave_too_little_room_for_what_is_stored_does_not_join() {
    let home = Home::new();
    let drives = ["a=512MiB", "b=512MiB"].map(|it| ["--drive", it]);
    let kept = ["pool", "create", "--protect", "mirror:2", "--shards", "1", "--yes"];
    home.varve(&[&kept[..], &drives.concat()].concat()).ok();
    let daemon = home.serve_remembered();
    let figure = |key: &str| pool_figure(&home, key);
    let capacity = figure("capacity_bytes");
    let client = fill_pool(&home, 70);
    for command in [&["add"][..], &["replace", "1"]] {
        let small = [&["drive"], command, &["c=192MiB"]].concat();
        let said = home.varve(&small).refused(1);
        assert!(said.contains("too small beside the drives of the pool"), "{said}");
        assert!(said.contains("are stored") && said.contains("add a larger one"), "{said}");
    }
    assert_eq!(figure("capacity_bytes"), capacity);
    let text = home.varve(&["drive", "add", "c=512MiB"]).ok();
    assert!(text.contains(" as before"), "the same place takes one that is large enough: {text}");
    drop(client);
    drop(daemon);
    let _daemon = home.serve_remembered();
    let listed = home.varve(&["drive", "list", "--json"]).json();
    assert_eq!(listed["drives"].as_array().unwrap().len(), 3);
}
