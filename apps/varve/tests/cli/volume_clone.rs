//! Goal: `varve volume clone` makes a volume that depends on nothing. Method: a memory backend behind the real API, and
//! a daemon whose origin is written and deleted.

use crate::daemon::Home;
use crate::rig::Api;

#[test]
fn a_clone_names_its_origin() {
    let api = Api::start();
    api.varve(&["volume", "snapshot", "create", "busy@a"]).ok();
    let said = api.varve(&["volume", "clone", "busy@a", "vm1"]).ok();
    assert_eq!(said, "cloned vm1 of 1 GiB from busy@a\n");
    let json = api.varve(&["volume", "clone", "busy", "vm2", "--json"]).json();
    assert_eq!(json["origin"], "busy");
    assert!(api.varve(&["volume", "show", "vm1"]).ok().contains("cloned from         busy@a"));
    assert!(api.varve(&["volume", "clone", "busy", "vm1"]).refused(1).contains("exists"));
    assert!(api.varve(&["volume", "clone", "busy@b", "vm3"]).refused(1).contains("no snapshot"));
}

#[test]
fn a_clone_outlives_what_it_was_cloned_from() {
    let home = Home::new();
    let _daemon = home.serve(&[]);
    home.varve(&["volume", "create", "v", "--size", "100MiB"]).ok();
    home.connect("v").write(4096, &[1; 4096]);
    home.varve(&["volume", "clone", "v", "c"]).ok();
    home.connect("c").write(8192, &[3; 4096]);
    home.connect("v").write(4096, &[2; 4096]);
    let mut tries = 0;
    while home.varve(&["volume", "delete", "v"]).code != 0 {
        tries += 1;
        assert!(tries < 100, "the volume stays open");
    }
    let expected = [[0; 4096], [1; 4096], [3; 4096]].concat();
    assert_eq!(home.connect("c").read(0, 12288), expected);
}
