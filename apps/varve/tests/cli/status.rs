//! Goal: `varve status` says whether the daemon serves and how busy it is. Method: a memory backend behind the real API.

use crate::rig::Api;

#[test]
fn people_see_state_shards_and_listeners() {
    let text = Api::start().varve(&["status"]).ok();
    let expected = "\
state        serving for 1 min
version      0.0.0
pool         00000000-0000-0000-0000-000000000001
volumes      1
connections  1
memory       100 MiB of 512 MiB

SHARD  STATE    UNDRAINED               LANE
    0  serving     12 MiB  16 MiB of 256 MiB
    1  serving     12 MiB  16 MiB of 256 MiB

LISTENER  ADDRESS
nbd       127.0.0.1:10809
";
    assert_eq!(text, expected);
}

#[test]
fn programs_see_every_field() {
    let json = Api::start().varve(&["status", "--json"]).json();
    assert_eq!(json["state"], "serving");
    assert_eq!(json["shards"][1]["lane_size_bytes"], 256 << 20);
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
