//! Goal: `varve pool upgrade` lets the pool of a first start have redundancy, with all that it holds, and asks before.
//! Method: daemons on an embedded drive, which is upgraded between two of them and becomes a mirror.

use crate::daemon::Home;
use crate::stored::contents;

#[test]
fn a_pool_of_one_drive_becomes_a_mirror() {
    let home = Home::new();
    let daemon = home.serve(&[]);
    home.varve(&["volume", "create", "v", "--size", "64MiB"]).ok();
    let mut client = home.connect("v");
    for part in 0..8 {
        client.write(part << 20, &contents(part, 256));
    }
    let said = home.varve(&["pool", "set", "--protect", "mirror:2"]).refused(1);
    assert!(said.contains("varve pool upgrade"), "{said}");
    let said = home.varve(&["pool", "upgrade", "--yes"]).refused(1);
    assert!(said.contains("already served"), "{said}");
    drop(client);
    drop(daemon);
    let said = home.varve(&["pool", "upgrade", "--json"]).refused(2);
    assert!(said.contains("--yes"), "{said}");
    let json = home.varve(&["pool", "upgrade", "--yes", "--json"]).json();
    assert_eq!(json["was_begun"], false);
    home.varve(&["pool", "upgrade", "--yes"]).refused(2);
    let _daemon = home.serve(&[]);
    let drive = home.path().join("second");
    home.varve(&["drive", "add", drive.to_str().unwrap()]).ok();
    let converted = home.varve(&["pool", "set", "--protect", "mirror:2", "--wait"]);
    assert_eq!(converted.code, 0, "{}", converted.stderr);
    let mut client = home.connect("v");
    for part in 0..8 {
        assert_eq!(client.read(part << 20, 1 << 20), contents(part, 256), "part {part}");
    }
    let pool = home.varve(&["pool", "show", "--json"]).json();
    assert_eq!((&pool["protect"], &pool["unconverted_zones"]), (&"mirror:2".into(), &().into()));
}
