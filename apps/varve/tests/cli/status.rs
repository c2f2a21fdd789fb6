//! Goal: `varve status` says whether the daemon serves, how busy it is and how full its pool. Method: a memory backend
//! behind the real API, and a daemon with low thresholds.

use crate::daemon::Home;
use crate::rig::{Api, varve};
use crate::stored::contents;

#[test]
fn people_see_state_shards_and_listeners() {
    let text = Api::start().varve(&["status"]).ok();
    let expected = "\
state        serving for 1 min
version      0.0.0
pool         00000000-0000-0000-0000-000000000001
volumes      1
connections  1 (`varve volume clients` lists those to volumes)
memory       160 MiB; caches and buffers 100 MiB of 512 MiB
space        3 GiB of 64 GiB
journal      drives (as on a drive)
standing by  b.example, process 7

SHARD  STATE    UNDRAINED               LANE
    0  serving     12 MiB  16 MiB of 256 MiB
    1  serving     12 MiB  16 MiB of 256 MiB

NODE                  ADDRESS         SERVES  CONNECTIONS  RECEIVED   SENT
a.example, process 5  10.0.0.1:40001  yes               0       0 B    0 B
b.example, process 7  10.0.0.2:40001  no                3     5 GiB  7 MiB

LISTENER  ADDRESS
nbd       127.0.0.1:10809
";
    assert_eq!(text, expected);
}

#[test]
fn programs_see_every_field() {
    let json = Api::start().varve(&["status", "--json"]).json();
    assert_eq!(json["state"], "serving");
    assert_eq!(json["memory"]["used_bytes"], 100 << 20);
    assert_eq!(json["memory"]["resident_bytes"], 160 << 20);
    assert_eq!(json["shards"][1]["lane_size_bytes"], 256 << 20);
}

#[test]
fn a_pool_that_fills_up_is_told_of_everywhere() {
    let home = Home::new();
    home.configure(
        "[space]\nfilling_percent = 1\nhigh_percent = 2\nnear_full_percent = 3\nfull_percent = 90\n",
    );
    let mut daemon = home.serve(&[]);
    home.varve(&["volume", "create", "v", "--size", "1GiB", "--compression", "off"]).ok();
    let empty = home.varve(&["status", "--json"]).json();
    assert_eq!((&empty["fill"]["level"], &empty["fill"]["advice"]), (&"ok".into(), &().into()));
    let mut client = home.connect("v");
    for part in 0..4 {
        client.write(part << 22, &contents(part, 1024)); // 16 MiB: more than 3 % of the pool, and less than half.
    }
    let told = daemon.says("pool is");
    assert!(told.contains("WARN") && told.contains("`varve df` shows"), "{told}");
    let status = home.varve(&["status", "--json"]).json();
    assert_eq!(status["fill"]["level"], "near_full");
    assert_eq!(status["fill"]["threshold_percent"], 3);
    for command in ["status", "df"] {
        let text = home.varve(&[command]).ok();
        assert!(text.contains("space is near full, "), "{text}");
    }
    let refused = home.varve(&["status", "--check"]).refused(4);
    assert!(refused.contains("space is near full, "), "{refused}");
    daemon.signal("TERM");
    daemon.end();
}

#[test]
fn the_admin_api_says_where_it_listens() {
    let home = Home::new();
    let _daemon = home.serve(&["--admin", "127.0.0.1:0"]);
    let status = home.varve(&["status", "--json"]).json();
    let listeners = status["listeners"].as_array().unwrap();
    let admin = listeners.iter().filter(|listener| listener["protocol"] == "admin");
    let admin: Vec<&str> = admin.filter_map(|listener| listener["address"].as_str()).collect();
    let [unix, tcp] = admin[..] else { panic!("{status}") };
    assert!(unix.starts_with("unix:") && unix.ends_with("admin.sock"), "{unix}");
    assert!(tcp.starts_with("127.0.0.1:") && tcp != "127.0.0.1:0", "{tcp}");
}

#[test]
fn monitoring_gets_an_exit_code() {
    let api = Api::start();
    assert_eq!(api.varve(&["status", "--check"]).ok(), "ok\n");
    let dir = tempfile::tempdir().unwrap();
    let nobody = ["status", "--check", "--data", dir.path().to_str().unwrap()];
    assert!(varve(&nobody).refused(1).contains("no daemon answers"));
    let home = Home::new();
    drop(home.serve(&[])); // The first start refuses an address that is taken.
    let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let _daemon = home.serve(&["--s3", &held.local_addr().unwrap().to_string()]);
    let said = home.varve(&["status", "--check"]).refused(3);
    assert!(said.contains("degraded: S3 is not served"), "{said}");
}

#[test]
fn a_reader_that_leaves_early_is_no_failure() {
    let api = Api::start();
    let socket = api.socket();
    let data = socket.parent().unwrap().display();
    let script =
        format!("set -o pipefail; '{}' --data '{data}' status | true", env!("CARGO_BIN_EXE_varve"));
    let status = std::process::Command::new("bash").arg("-c").arg(script).status().unwrap();
    assert!(status.success());
}
