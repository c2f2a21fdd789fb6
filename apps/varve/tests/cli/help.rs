//! Goal: help texts change only on purpose. Method: each is compared whole with a file under `tests/snapshots`;
//! VARVE_UPDATE_SNAPSHOTS=1 writes the files.

use std::fs;
use std::path::Path;

use crate::rig::{Api, varve};

/// Every command, and whether it has commands of its own.
const COMMANDS: &[&[&str]] = &[
    &[],
    &["serve"],
    &["volume"],
    &["volume", "create"],
    &["volume", "list"],
    &["volume", "show"],
    &["volume", "resize"],
    &["volume", "set"],
    &["volume", "delete"],
    &["volume", "clients"],
    &["volume", "disconnect"],
    &["volume", "snapshot"],
    &["volume", "snapshot", "create"],
    &["volume", "snapshot", "list"],
    &["volume", "snapshot", "delete"],
    &["volume", "snapshot", "rollback"],
    &["volume", "snapshot", "protect"],
    &["volume", "snapshot", "unprotect"],
    &["volume", "clone"],
    &["volume", "flatten"],
    &["volume", "diff"],
    &["volume", "export"],
    &["volume", "import"],
    &["volume", "export-diff"],
    &["volume", "import-diff"],
    &["bucket"],
    &["bucket", "create"],
    &["bucket", "list"],
    &["bucket", "show"],
    &["bucket", "set"],
    &["bucket", "quota"],
    &["bucket", "log"],
    &["bucket", "delete"],
    &["user"],
    &["user", "create"],
    &["user", "list"],
    &["user", "show"],
    &["user", "quota"],
    &["user", "delete"],
    &["user", "key"],
    &["user", "key", "create"],
    &["user", "key", "list"],
    &["user", "key", "delete"],
    &["user", "policy"],
    &["user", "policy", "show"],
    &["user", "policy", "set"],
    &["user", "policy", "clear"],
    &["node"],
    &["node", "list"],
    &["pool"],
    &["pool", "create"],
    &["pool", "keys"],
    &["pool", "keys", "export"],
    &["pool", "keys", "import"],
    &["pool", "keys", "renew"],
    &["pool", "attach"],
    &["pool", "rados-caps"],
    &["pool", "migrate"],
    &["pool", "show"],
    &["pool", "set"],
    &["pool", "upgrade"],
    &["drive"],
    &["drive", "list"],
    &["drive", "show"],
    &["drive", "add"],
    &["drive", "replace"],
    &["drive", "grow"],
    &["drive", "set"],
    &["drive", "drain"],
    &["drive", "remove"],
    &["drive", "moves"],
    &["drive", "scrub"],
    &["drive", "locate"],
    &["health"],
    &["df"],
    &["status"],
    &["wait"],
    &["check"],
    &["salvage"],
    &["dump"],
    &["dump", "superblock"],
    &["dump", "roots"],
    &["dump", "pool"],
    &["dump", "lane"],
    &["dump", "frame"],
    &["dump", "segments"],
    &["dump", "segment"],
    &["dump", "map"],
    &["dump", "drives"],
    &["dump", "layout"],
    &["dump", "strip"],
    &["dump", "keys"],
    &["plan"],
    &["plan", "pg"],
    &["plan", "journal"],
    &["plan", "endurance"],
    &["plan", "provision"],
    &["plan", "cost"],
    &["plan", "compare"],
    &["plan", "cluster"],
    &["plan", "catalogue"],
    &["bench"],
    &["bench", "list"],
    &["bench", "show"],
    &["bench", "run"],
    &["bench", "scale"],
    &["bench", "cosbench"],
    &["bench", "import"],
    &["bench", "merge"],
    &["bench", "ec"],
    &["report"],
    &["report", "list"],
    &["report", "compare"],
    &["report", "page"],
    &["completions"],
    &["man"],
];

fn help(command: &[&str]) -> String {
    let mut arguments = command.to_vec();
    arguments.push("--help");
    varve(&arguments).ok()
}

#[test]
fn help_texts_are_the_published_ones() {
    let snapshots = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots");
    let mut stale = Vec::new();
    for command in COMMANDS {
        let name = [&["varve"], *command].concat().join("-");
        let path = snapshots.join(format!("{name}.txt"));
        let now = help(command);
        if std::env::var_os("VARVE_UPDATE_SNAPSHOTS").is_some() {
            fs::write(&path, &now).unwrap();
        }
        if fs::read_to_string(&path).unwrap_or_default() != now {
            stale.push(name);
        }
    }
    assert!(stale.is_empty(), "stale: {stale:?}; VARVE_UPDATE_SNAPSHOTS=1 writes them");
}

#[test]
fn every_command_is_compared() {
    let mut listed = 0;
    for command in COMMANDS {
        let text = help(command);
        let Some((_, after)) = text.split_once("\nCommands:\n") else { continue };
        let lines = after.lines().take_while(|line| !line.is_empty());
        // What does not fit a line goes on in the next, further in.
        let lines = lines.filter(|line| !line.starts_with("   "));
        for name in lines.filter_map(|line| line.split_whitespace().next()) {
            let full = [*command, &[name]].concat();
            assert!(name == "help" || COMMANDS.contains(&&full[..]), "{full:?} has no snapshot");
            listed += usize::from(name != "help");
        }
    }
    assert_eq!(listed, COMMANDS.len() - 1, "every snapshot is of a command");
}

#[test]
fn misuse_ends_with_2_and_success_with_0() {
    assert_eq!(varve(&["--version"]).code, 0);
    assert_eq!(varve(&[]).code, 2);
    assert_eq!(varve(&["volume", "create", "v"]).code, 2, "no size");
    assert_eq!(varve(&["frobnicate"]).code, 2);
    let both = varve(&["--data", "x", "--addr", "unix:y", "status"]);
    assert!(both.refused(2).contains("cannot be used with"));
}

#[test]
fn the_version_has_the_commit_where_the_build_knows_it() {
    let expected = concat!("varve ", env!("CARGO_PKG_VERSION"), env!("VARVE_COMMIT"), "\n");
    assert_eq!(varve(&["--version"]).ok(), expected);
}

#[test]
fn commands_of_other_tools_are_pointed_on() {
    for (typed, pointer) in [
        (&["snapshot", "create", "vm1@monday"][..], "`varve volume snapshot create vm1@monday`"),
        (&["version"][..], "`varve --version`"),
        (&["volume", "rename", "vm1", "vm2"][..], "`varve volume clone OLD NEW`"),
        (&["--data", "x", "volume", "mv", "vm1", "vm2"][..], "`varve volume clone OLD NEW`"),
    ] {
        let said = varve(typed).refused(2);
        assert!(said.contains(pointer) && said.starts_with("error: there is no command"), "{said}");
    }
    let said = varve(&["bucket", "rename"]).refused(2);
    assert!(said.contains("unrecognized subcommand"), "{said}");
}

#[test]
fn errors_are_json_where_answers_are() {
    let api = Api::start();
    let read = |said: String| serde_json::from_str::<serde_json::Value>(&said).unwrap();
    let missing = read(api.varve(&["volume", "show", "v", "--json"]).refused(1));
    assert_eq!(missing["error"]["kind"], "not_found");
    assert!(missing["error"]["message"].as_str().unwrap().contains("no volume `v`"), "{missing}");
    let missing = missing["error"].as_object().unwrap();
    assert!(missing.contains_key("hint"), "{missing:?}");
    let dir = tempfile::tempdir().unwrap();
    let nobody = ["status", "--json", "--data", dir.path().to_str().unwrap()];
    let nobody = read(varve(&nobody).refused(1));
    assert_eq!(nobody["error"]["kind"], serde_json::Value::Null);
    assert!(nobody["error"]["hint"].as_str().unwrap().contains("start one with"), "{nobody}");
    let misused = read(varve(&["volume", "create", "v", "--json"]).refused(2));
    let what = misused["error"]["message"].as_str().unwrap();
    assert!(what.contains("required") && what.contains("--size"), "{what}");
    let misused = read(varve(&["volume", "list", "--jsn", "--json"]).refused(2));
    assert!(misused["error"]["hint"].as_str().unwrap().contains("--json"), "{misused}");
    let pointer = read(varve(&["snapshot", "--json"]).refused(2));
    assert!(pointer["error"]["hint"].as_str().unwrap().contains("varve volume snapshot"));
}
