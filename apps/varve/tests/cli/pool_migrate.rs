//! Goal: `varve pool migrate` moves volumes between two daemons, says what it would do, and gives up what it began.
//! Method: two daemons on pools of their own; a move that was begun is left as a killed command leaves it, by the steps
//! of the API.

use serde_json::Value;

use crate::daemon::Home;
use crate::rig::{Api, Run, varve};

/// Runs the command where the source has its data. Both daemons tell the same relative path, so both are named.
fn migrate(from: &Home, to: &Home, more: &[&str]) -> Run {
    let data = to.path().join("varve-data");
    let [nbd, to_nbd] = [from, to].map(|home| format!("unix:{}/nbd.sock", home.path().display()));
    let sides = ["--to", data.to_str().unwrap(), "--nbd", &nbd, "--to-nbd", &to_nbd];
    from.varve(&[&["pool", "migrate"], &sides[..], more].concat())
}

/// What a command that may have something to say on standard error said.
#[track_caller]
fn moved(run: Run) -> String {
    assert_eq!(run.code, 0, "{}", run.stderr);
    run.stdout
}

#[test]
fn a_volume_goes_over_with_its_snapshots_and_comes_back() {
    let (one, other) = (Home::new(), Home::new());
    let (_a, _b) = (one.serve(&[]), other.serve(&[]));
    one.varve(&["volume", "create", "v", "--size", "100MiB", "--compression", "off"]).ok();
    one.connect("v").write(4096, &[1; 4096]);
    one.varve(&["volume", "snapshot", "create", "v@s"]).ok();
    one.connect("v").write(8192, &[2; 4096]);
    let planned = moved(migrate(&one, &other, &["--dry-run"]));
    assert_eq!(planned, "volume v: 100 MiB, with 1 snapshots\n");
    assert_eq!(moved(migrate(&one, &other, &["--status"])), "nothing to move\n");
    let json: Value = serde_json::from_str(&moved(migrate(&one, &other, &["--json"]))).unwrap();
    assert_eq!(
        (&json["volumes"][0]["name"], &json["volumes"][0]["what"]),
        (&"v".into(), &"moved".into())
    );
    assert!(json["volumes"][0]["refused_ms"].is_u64(), "{json}");
    assert_eq!(one.varve(&["volume", "list", "--json"]).json()["volumes"], Value::Array(vec![]));
    let expected = [[0; 4096], [1; 4096], [2; 4096]].concat();
    assert_eq!(other.connect("v").read(0, 12288), expected);
    assert_eq!(other.connect("v@s").read(8192, 4096), [0; 4096]);
    let shown = other.varve(&["volume", "show", "v", "--json"]).json();
    assert_eq!((&shown["compression"], &shown["moves"]), (&"off".into(), &Value::Null));
    let back = moved(migrate(&other, &one, &["--volume", "v", "--keep-source"]));
    assert!(
        back.contains("volume v: moved, ") && back.contains("out of use; v@migrate-"),
        "{back}"
    );
    assert_eq!(one.connect("v").read(0, 12288), expected);
    let kept = other.varve(&["volume", "show", "v"]).ok();
    assert!(kept.contains("moved to"), "{kept}");
}

#[test]
fn what_cannot_be_moved_is_said() {
    let (one, other) = (Home::new(), Home::new());
    let (_a, _b) = (one.serve(&[]), other.serve(&[]));
    assert!(migrate(&one, &one, &[]).refused(2).contains("both daemons serve pool"));
    assert!(migrate(&one, &other, &["--volume", "v"]).refused(1).contains("no volume v"));
    for home in [&one, &other] {
        home.varve(&["volume", "create", "v", "--size", "1MiB"]).ok();
    }
    assert!(migrate(&one, &other, &[]).refused(1).contains("the target has another volume v"));
    let planned = moved(migrate(&one, &other, &["--dry-run"]));
    assert!(planned.contains("cannot be moved: the target has another volume v"), "{planned}");
    assert!(
        migrate(&one, &other, &["--cancel", "--volume", "v"]).refused(1).contains("another volume")
    );
    assert_eq!(varve(&["pool", "migrate", "--to", "x", "--cancel", "--status"]).code, 2);
    let to = other.path().join("varve-data");
    let same = one.varve(&["pool", "migrate", "--to", to.to_str().unwrap()]).refused(2);
    assert!(same.contains("both daemons say NBD at unix:nbd.sock"), "{same}");
    let api = Api::start();
    let nobody = api.varve(&["pool", "migrate", "--to", "/nonexistent"]).refused(1);
    assert!(nobody.contains("no daemon answers"), "{nobody}");
}
