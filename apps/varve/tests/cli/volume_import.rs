//! Goal: `varve volume import` and `import-diff` make of an archive what was exported, go on where they ended, and
//! refuse what does not fit or is damaged. Method: two daemons, archives between them, and bytes that are cut off and
//! flipped.

use std::fs;

use crate::daemon::{Daemon, Home};
use crate::stored::contents;

const AT: u64 = 80 << 20;

/// A daemon with `v@one` and `v@two`, and the archives of one and of what changed to two.
fn source() -> (Home, Daemon) {
    let home = Home::new();
    let daemon = home.serve(&[]);
    home.varve(&["volume", "create", "v", "--size", "100MiB"]).ok();
    home.connect("v").write(0, &contents(1, 1024));
    home.connect("v").write(AT, &contents(5000, 512));
    home.varve(&["volume", "snapshot", "create", "v@one"]).ok();
    home.connect("v").write(4096, &contents(9000, 2));
    home.connect("v").write(AT, &[0; 16384]);
    home.varve(&["volume", "resize", "v", "--size", "120MiB"]).ok();
    home.varve(&["volume", "snapshot", "create", "v@two"]).ok();
    home.varve(&["volume", "export", "v@one", "one"]).ok();
    home.varve(&["volume", "export-diff", "--from", "one", "v@two", "diff"]).ok();
    (home, daemon)
}

fn same(source: &Home, target: &Home, snapshot: &str) {
    for (at, len) in [(0, 8 << 20), (AT, 8 << 20)] {
        let expected = source.connect(&format!("v@{snapshot}")).read(at, len);
        assert!(target.connect(&format!("t@{snapshot}")).read(at, len) == expected, "{snapshot}");
    }
}

/// A file of one home, in the way that another names it.
fn file(home: &Home, name: &str) -> String {
    home.path().join(name).to_str().unwrap().to_owned()
}

#[test]
fn snapshots_arrive_as_they_were() {
    let (from, _daemon) = source();
    let to = Home::new();
    let _other = to.serve(&[]);
    let (one, diff) = (file(&from, "one"), file(&from, "diff"));
    let import = |archive: &str| to.varve(&["volume", "import", archive, "t"]);
    let import_diff = |archive: &str| to.varve(&["volume", "import-diff", archive, "t"]);

    assert!(import_diff(&diff).refused(1).contains("no volume `t`"));
    assert!(import(&diff).refused(2).contains("import-diff"));
    assert_eq!(import(&one).ok(), "imported t@one, 6 MiB of data\n");
    assert!(import(&one).refused(1).contains("exists"));
    assert!(import_diff(&one).refused(2).contains("a whole snapshot"));
    same(&from, &to, "one");

    to.connect("t").write(0, &[9; 512]);
    let mut said = import_diff(&diff).refused(1);
    for _ in 0..100 {
        // The daemon may not have seen yet that the writer left.
        if said.contains("was changed after snapshot `t@one`") {
            break;
        }
        said = import_diff(&diff).refused(1);
    }
    assert!(said.contains("varve volume snapshot rollback"), "{said}");
    to.varve(&["volume", "snapshot", "rollback", "t@one"]).ok();
    import_diff(&diff).ok();
    same(&from, &to, "one");
    same(&from, &to, "two");
}

#[test]
fn what_was_cut_short_is_gone_on_with() {
    let (from, _daemon) = source();
    let to = Home::new();
    let _other = to.serve(&[]);
    let whole = fs::read(from.path().join("one")).unwrap();
    let cut = file(&to, "cut");
    for part in [400, 2 << 20, 5 << 20] {
        fs::write(&cut, &whole[..part]).unwrap();
        let said = to.varve(&["volume", "import", &cut, "t"]).refused(1);
        assert!(said.contains("before the archive does"), "{said}");
    }
    assert!(to.varve(&["volume", "show", "t"]).ok().contains("receiving"));
    to.varve(&["volume", "import", &file(&from, "one"), "t"]).ok();
    assert!(!to.varve(&["volume", "show", "t"]).ok().contains("receiving"));
    same(&from, &to, "one");
}

#[test]
fn damaged_archives_are_refused() {
    let (from, _daemon) = source();
    let to = Home::new();
    let _other = to.serve(&[]);
    let whole = fs::read(from.path().join("one")).unwrap();
    let bad = file(&to, "bad");
    for (number, at) in [0, 9, 60, 140, 3000, whole.len() - 1].into_iter().enumerate() {
        let mut flipped = whole.clone();
        flipped[at] ^= 4;
        fs::write(&bad, &flipped).unwrap();
        let name = format!("bad{number}");
        let said = to.varve(&["volume", "import", &bad, &name]).refused(1);
        assert!(said.contains("cannot read the archive at record"), "byte {at}: {said}");
        assert!(!to.varve(&["volume", "snapshot", "list"]).ok().contains(&name));
    }
    assert!(to.varve(&["volume", "import", "/none", "t"]).refused(1).contains("open /none"));
    fs::write(&bad, [0; 8192]).unwrap();
    let said = to.varve(&["volume", "import", &bad, "t"]).refused(1);
    assert!(said.contains("not a Varve archive") && said.contains("`nbdcopy`"), "{said}");
}
