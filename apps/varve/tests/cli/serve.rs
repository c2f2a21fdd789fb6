//! Goal: `varve serve` serves a pool from its first start to its clean end, and refuses what it cannot serve before it
//! touches anything. Method: daemons on small drives; wrong files, flags and directories.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

use crate::daemon::Home;
use crate::rig::{varve, varve_in};

#[test]
fn a_first_start_makes_a_pool_and_says_where_it_serves() {
    let home = Home::new();
    let daemon = home.serve(&[]);
    let banner = daemon.banner();
    assert!(banner.contains("(2 shards, 256 MiB)"), "{banner}");
    assert!(banner.contains("NBD    unix:nbd.sock\n"), "{banner}");
    assert!(banner.contains("admin  unix:varve-data/admin.sock\n"), "{banner}");
    assert_eq!(mode(&home.path().join("varve-data/admin.sock")), 0o600);
    assert_eq!(home.varve(&["volume", "create", "v", "--size", "1GiB"]).code, 0);
    let pool = home.varve(&["pool", "show", "--json"]).json();
    assert_eq!((&pool["shards"], &pool["size_bytes"]), (&2.into(), &(256 << 20).into()));
    assert!((1..256 << 20).contains(&pool["capacity_bytes"].as_u64().unwrap()), "{pool}");
    let status = home.varve(&["status", "--json"]).json();
    assert_eq!(
        (&status["volumes"], &status["memory"]["budget_bytes"]),
        (&1.into(), &(128 << 20).into())
    );
}

#[test]
fn what_callers_are_refused_is_not_in_the_log() {
    let home = Home::new();
    let daemon = home.serve(&[]);
    home.varve(&["volume", "show", "v"]).refused(1);
    home.varve(&["volume", "create", "v", "--size", "1GiB"]).ok();
    home.varve(&["volume", "create", "v", "--size", "1GiB"]).refused(1);
    daemon.signal("TERM");
    let (status, said) = daemon.end();
    assert_eq!((status.code(), said.as_str()), (Some(0), ""));
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn the_files_of_a_drive_are_their_owners_only() {
    let home = Home::new();
    drop(home.serve(&[]));
    let drive = home.path().join("drive");
    assert_eq!(mode(&drive), 0o700);
    let files = || fs::read_dir(&drive).unwrap().map(|entry| entry.unwrap().path());
    assert_eq!(files().count(), 4, "meta, segments and two lanes");
    for file in files() {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
        // As earlier versions left them.
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    }
    let mut daemon = home.serve(&[]);
    assert!(daemon.says("other users could open").contains("was=\"0644\""));
    for file in files() {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

#[test]
fn several_drives_are_said_to_have_no_redundancy() {
    let home = Home::new();
    let mut daemon = home.serve(&["--drive", "second=256MiB", "--protect", "none"]);
    assert!(daemon.says("no redundancy").contains("the loss of one drive loses the pool"));
    let text = home.varve(&["pool", "show"]).ok();
    assert!(text.ends_with("\nno redundancy: the loss of one drive loses the pool\n"), "{text}");
    daemon.signal("TERM");
    assert!(daemon.end().0.success());
    let daemon = home.serve(&["--drive", "second=256MiB"]);
    daemon.signal("TERM");
    let (status, said) = daemon.end();
    assert!(
        status.success() && !said.contains("no redundancy"),
        "only the first start says so: {said}"
    );
}

#[test]
fn the_owners_key_is_in_a_file_and_not_printed() {
    let home = Home::new();
    let daemon = home.serve(&["--s3", "127.0.0.1:0"]);
    let path = home.path().join("varve-data/owner.key");
    assert_eq!(mode(&path), 0o600);
    let text = fs::read_to_string(&path).unwrap();
    let secret = text.lines().find_map(|line| line.strip_prefix("aws_secret_access_key = "));
    let secret = secret.unwrap().to_owned();
    daemon.signal("TERM");
    let printed = daemon.rest();
    assert!(printed.contains("key of `owner`: varve-data/owner.key"), "{printed}");
    assert!(!printed.contains(&secret), "{printed}");
}

#[test]
fn a_signal_leaves_a_clean_pool_and_says_nothing() {
    let home = Home::new();
    for name in ["TERM", "INT"] {
        let daemon = home.serve(&[]);
        assert_eq!(home.varve(&["volume", "create", name, "--size", "1GiB"]).code, 0);
        daemon.signal(name);
        let (status, said) = daemon.end();
        assert_eq!((status.code(), said.as_str()), (Some(0), ""));
        assert!(!home.path().join("varve-data/admin.sock").exists());
    }
    let daemon = home.serve(&[]);
    let volumes = home.varve(&["volume", "list", "--json"]).json();
    assert_eq!(volumes["volumes"].as_array().unwrap().len(), 2, "{volumes}");
    drop(daemon);
}

#[test]
fn simultaneous_signals_count_once_and_sighup_is_ignored() {
    let home = Home::new();
    let mut daemon = home.serve(&[]);
    daemon.signal("HUP");
    assert!(daemon.says("SIGHUP is ignored").contains("WARN"));
    let pids = [daemon.pid().to_string(), daemon.pid().to_string()];
    // Both by one command, as a service manager signals a process and its group.
    let sent = std::process::Command::new("kill").args(["-s", "TERM"]).args(&pids).status();
    assert!(sent.unwrap().success());
    let (status, said) = daemon.end();
    assert_eq!((status.code(), said.as_str()), (Some(0), ""));
}

#[test]
fn a_second_signal_ends_a_daemon_that_still_writes() {
    let home = Home::new();
    let daemon = home.serve(&["--media-delay-us", "400000"]);
    daemon.signal("TERM");
    // Longer than signals count as one, and shorter than the several operations with which a shard ends.
    std::thread::sleep(std::time::Duration::from_millis(600));
    daemon.signal("TERM");
    let (status, said) = daemon.end();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("ended by a second signal"), "{said}");
}

#[test]
fn health_and_metrics_have_a_listener_without_a_token() {
    let home = Home::new();
    home.configure("[metrics]\nlisten = \"127.0.0.1:0\"\n[log]\nlevel = \"info\"\n");
    let mut daemon = home.serve(&[]);
    let line = daemon.says("metrics and health are served");
    let address = line.trim().rsplit("address=").next().unwrap().to_owned();
    let ask = |line: &str| {
        let mut stream = std::net::TcpStream::connect(&address).unwrap();
        stream
            .write_all(format!("{line} HTTP/1.1\r\nhost: any.example\r\n\r\n").as_bytes())
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    for (line, expected) in [
        ("GET /health/live", " 200 "),
        ("GET /health/ready", "ready\n"),
        ("GET /metrics", "\nvarve_pool_used_bytes "),
        ("GET /v1/status", " 404 "),
        ("DELETE /v1/volumes/v", " 405 "),
        ("POST /metrics", " 405 "),
    ] {
        let answer = ask(line);
        assert!(answer.contains(expected), "{line}: {answer}");
    }
}

#[test]
fn a_killed_daemon_loses_no_volume() {
    let home = Home::new();
    let daemon = home.serve(&[]);
    home.varve(&["volume", "create", "v", "--size", "1GiB"]).ok();
    daemon.signal("KILL");
    assert_eq!(daemon.end().0.signal(), Some(9));
    let _daemon = home.serve(&[]);
    assert_eq!(home.varve(&["volume", "show", "v", "--json"]).json()["size_bytes"], 1 << 30);
}

#[test]
fn a_second_daemon_is_refused_by_directory_and_by_drive() {
    let home = Home::new();
    let daemon = home.serve(&[]);
    let said = home.varve(&["serve"]).refused(1);
    let expected =
        format!("data directory varve-data is already served by process {}", daemon.pid());
    assert!(said.contains(&expected), "{said}");
    let said = home.varve(&["serve", "--data", "other", "--drive", "drive=256MiB"]).refused(1);
    assert!(said.contains("in use by another process"), "{said}");
}

#[test]
fn other_drives_than_the_pools_are_refused() {
    let home = Home::new();
    drop(home.serve(&[]));
    let said = home.varve(&["serve", "--drive", "elsewhere=1GiB"]).refused(2);
    assert!(said.contains("lies on other drives"), "{said}");
    assert!(!home.path().join("elsewhere").exists());
}

#[test]
fn a_pool_on_drives_has_no_other_nodes() {
    let home = Home::new();
    home.configure("[rados]\njoin = true\n");
    let said = home.varve(&["serve", "--drive", "drive=256MiB"]).refused(2);
    assert!(said.contains("no other machine can serve this pool"), "{said}");
    assert!(!home.path().join("drive").exists(), "it was made before it was refused");
}

#[test]
fn the_admin_api_listens_on_tcp_when_told_to() {
    let home = Home::new();
    let daemon = home.serve(&["--admin", "127.0.0.1:0"]);
    let admin = daemon.banner().lines().find(|line| line.contains("admin")).unwrap();
    let address = admin.rsplit(", ").next().unwrap();
    let said = varve(&["status", "--addr", address]).refused(1);
    assert!(said.contains("lacks the token"), "{said}");
    let token = home.path().join("varve-data/admin.token");
    assert_eq!(mode(&token), 0o600);
    let token = token.to_str().unwrap();
    let shown = ["status", "--addr", address, "--token-file", token];
    assert!(varve(&shown).ok().contains("serving"));
    let said = home.varve(&["serve", "--admin", "0.0.0.0:1"]).refused(2);
    assert!(said.contains("admin listener 0.0.0.0:1 is open"), "{said}");
}

#[test]
fn plain_http_to_other_machines_is_warned_of() {
    let home = Home::new();
    let mut daemon = home.serve(&["--s3", "0.0.0.0:0"]);
    let line = daemon.says("over plain HTTP");
    assert!(line.contains("WARN") && line.contains("s3.certificate"), "{line}");
    daemon.signal("TERM");
    assert!(daemon.end().0.success());
    let daemon = home.serve(&["--s3", "127.0.0.1:0"]);
    daemon.signal("TERM");
    let (status, said) = daemon.end();
    assert!(status.success() && !said.contains("plain HTTP"), "{said}");
}

#[test]
fn s3_is_served_where_it_is_wanted_and_a_taken_address_keeps_no_volume_away() {
    let home = Home::new();
    let daemon = home.serve(&[]);
    let said = home.varve(&["user", "list"]).refused(1);
    assert!(said.contains("S3 is not served by this daemon\n  try: start it with `--s3"), "{said}");
    drop(daemon);
    let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = held.local_addr().unwrap().to_string();
    let mut daemon = home.serve(&["--s3", &address]);
    let expected = format!("S3: listen on {address}: Address already in use");
    assert!(daemon.says("S3 is not served").contains(&expected));
    let text = home.varve(&["status"]).ok();
    assert!(text.contains(&expected) && text.contains("degraded"), "{text}");
    drop(daemon);
    let said = home.varve(&["serve", "--s3", "unix:s3.sock"]).refused(2);
    assert!(said.contains("S3 listener unix:s3.sock is not a TCP address"), "{said}");
    assert!(!home.path().join("varve-data/s3.key").exists(), "nothing is made before it listens");
}

#[test]
fn a_wrong_configuration_is_refused_where_it_is_wrong() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("c.toml"), "shards = 1\n[memory]\nbudget = \"1KiB\"\n").unwrap();
    let said = varve_in(dir.path(), &["serve", "--config", "c.toml"]).refused(2);
    assert!(
        said.starts_with("error: c.toml:3:10: `memory.budget`: 1 KiB is out of range"),
        "{said}"
    );
    assert!(said.contains("from \"128 MiB\" to \"1 TiB\""), "{said}");
    assert!(!dir.path().join("varve-data").exists(), "nothing is made before the file is valid");
}

#[test]
fn a_configuration_in_the_data_directory_is_found() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("varve.toml"), "colour = 1\n").unwrap();
    let data = dir.path().to_str().unwrap();
    let said = varve(&["serve", "--data", data]).refused(2);
    assert!(said.contains("varve.toml:1:1: `colour` is not a setting"), "{said}");
}

#[test]
fn a_missing_configuration_file_is_refused() {
    let said = varve(&["serve", "--config", "/nonexistent/x.toml"]).refused(2);
    assert!(said.contains("read configuration /nonexistent/x.toml"), "{said}");
}

#[test]
fn flags_out_of_range_are_misuse() {
    assert!(varve(&["serve", "--shards", "257"]).refused(2).contains("257"));
    assert!(varve(&["serve", "--nbd", "example.org:1"]).refused(2).contains("neither"));
    assert!(varve(&["serve", "--drive", "x=1Gx"]).refused(2).contains("unknown unit"));
    assert!(varve(&["serve", "--addr", "unix:x"]).refused(2).contains("`serve` is the daemon"));
    let said = varve(&["serve", "--nbd", "0.0.0.0:10809"]).refused(2);
    assert!(said.contains("open to other machines"), "{said}");
}

#[test]
fn settings_are_listed_without_serving() {
    let text = varve(&["serve", "--settings"]).ok();
    assert!(text.contains("### `memory.budget`"), "{text}");
}
