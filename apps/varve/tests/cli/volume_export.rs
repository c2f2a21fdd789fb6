//! Goal: `varve volume export` and `export-diff` write archives that are whole under their names, and go on where they
//! ended. Method: a daemon with a volume of known data, and files that are cut short.

use std::fs;

use crate::daemon::Home;
use crate::stored::contents;

fn home() -> Home {
    Home::new()
}

/// Writes blocks in two regions, takes `v@one`, overwrites a few, and takes `v@two`.
fn fill(home: &Home) {
    home.varve(&["volume", "create", "v", "--size", "100MiB"]).ok();
    home.connect("v").write(0, &contents(1, 1024));
    home.connect("v").write(80 << 20, &contents(5000, 512));
    home.varve(&["volume", "snapshot", "create", "v@one"]).ok();
    home.connect("v").write(4096, &contents(9000, 2));
    home.connect("v").write(81 << 20, &[0; 16384]);
    home.varve(&["volume", "snapshot", "create", "v@two"]).ok();
}

#[test]
fn an_archive_gets_its_name_when_it_is_whole() {
    let home = home();
    let _daemon = home.serve(&[]);
    fill(&home);
    let said = home.varve(&["volume", "export", "v@one", "one.varve"]).ok();
    assert_eq!(said, "exported v@one, 6 MiB of data, to one.varve\n");
    let whole = fs::read(home.path().join("one.varve")).unwrap();
    assert!(!home.path().join("one.varve.partial").exists());
    let said = home.varve(&["volume", "export", "v@one", "one.varve"]).refused(1);
    assert!(said.contains("one.varve exists"), "{said}");

    for part in [0, 10, 300, 1 << 20, 5_000_001, whole.len()] {
        fs::write(home.path().join("again.varve.partial"), &whole[..part]).unwrap();
        let said = home.varve(&["volume", "export", "v@one", "again.varve"]).refused(1);
        assert!(said.contains("--resume"), "{said}");
        home.varve(&["volume", "export", "v@one", "again.varve", "--resume"]).ok();
        let again = fs::read(home.path().join("again.varve")).unwrap();
        assert!(again == whole, "gone on with after {part} bytes");
        fs::remove_file(home.path().join("again.varve")).unwrap();
    }
    fs::write(home.path().join("two.varve.partial"), &whole[..2 << 20]).unwrap();
    let said = home.varve(&["volume", "export", "v@two", "two.varve", "--resume"]).refused(1);
    assert!(said.contains("is of another snapshot"), "{said}");
}

#[test]
fn changes_are_as_large_as_what_changed() {
    let home = home();
    let _daemon = home.serve(&[]);
    fill(&home);
    let said = home.varve(&["volume", "export-diff", "--from", "one", "v@two", "diff.varve"]).ok();
    assert_eq!(said, "exported v@two, 8 KiB of changes, to diff.varve\n");
    assert!(fs::metadata(home.path().join("diff.varve")).unwrap().len() < 10_000);
    let said = home.varve(&["volume", "export-diff", "--from", "one", "v", "x"]).refused(2);
    assert!(said.contains("write VOLUME@SNAPSHOT"), "{said}");
    let said = home.varve(&["volume", "export-diff", "--from", "none", "v@two", "x"]).refused(1);
    assert!(said.contains("no snapshot `v@none`"), "{said}");
}

#[test]
fn a_volume_is_exported_as_it_is_and_keeps_no_snapshot() {
    let home = home();
    let _daemon = home.serve(&[]);
    home.varve(&["volume", "create", "v", "--size", "100MiB"]).ok();
    home.connect("v").write(0, &contents(1, 16));
    home.varve(&["volume", "export", "v", "v.varve"]).ok();
    assert!(home.varve(&["volume", "snapshot", "list"]).ok().starts_with("no snapshots"));
    let said = home.varve(&["volume", "export", "v", "w", "--resume"]).refused(2);
    assert!(said.contains("take a snapshot"), "{said}");
    fs::write(home.path().join("w.partial"), "").unwrap();
    let said = home.varve(&["volume", "export", "v", "w"]).refused(1);
    assert!(said.contains("remove the file") && !said.contains("--resume"), "{said}");
    assert_eq!(home.varve(&["volume", "export", "v", "none/v.varve"]).code, 1);
    assert!(home.varve(&["volume", "snapshot", "list"]).ok().starts_with("no snapshots"));
}
