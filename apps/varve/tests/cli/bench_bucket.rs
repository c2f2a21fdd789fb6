//! Goal: `varve bench run` loads a bucket of an S3 server, tells damage, leaves nothing, and says what is wrong with
//! server, key or bucket. Method: a daemon with S3; for damage a server that forgets what it is given.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::daemon::{Daemon, Home};
use crate::rig::{Run, varve};

/// A daemon, and a user with a bucket `bench`.
struct Rig {
    home: Home,
    _daemon: Daemon,
    endpoint: String,
    key: String,
}

impl Rig {
    fn start() -> Self {
        let home = Home::new();
        let daemon = home.serve(&["--s3", "127.0.0.1:0"]);
        let key = home.varve(&["user", "create", "ann", "--json"]).json();
        fs::write(home.path().join("secret"), key["secret_key"].as_str().unwrap()).unwrap();
        home.varve(&["bucket", "create", "bench", "--owner", "ann"]).ok();
        let status = home.varve(&["status", "--json"]).json();
        let listeners = status["listeners"].as_array().unwrap();
        let listener = listeners.iter().find(|one| one["protocol"] == "s3").unwrap();
        let endpoint = format!("http://{}", listener["address"].as_str().unwrap());
        let key = key["access_key"].as_str().unwrap().to_owned();
        Self { home, _daemon: daemon, endpoint, key }
    }

    fn arguments<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        let server = ["--endpoint", &self.endpoint, "--access-key", &self.key];
        let times = ["--secret-file", "secret", "--ramp", "0ms", "--duration", "300ms"];
        [&["bench", "run"], more, &server[..], &times].concat()
    }

    fn bench(&self, more: &[&str]) -> Run {
        self.home.varve(&self.arguments(more))
    }

    /// Objects of the bucket.
    fn objects(&self) -> u64 {
        let bucket = self.home.varve(&["bucket", "show", "bench", "--json"]).json();
        bucket["objects"].as_u64().unwrap_or_else(|| panic!("{bucket}"))
    }
}

fn operations(run: &Value, side: &str) -> u64 {
    run[side]["operations"].as_u64().unwrap_or_else(|| panic!("{side}: {run}"))
}

#[test]
fn a_mix_on_a_bucket_is_measured_verified_and_removed() {
    let rig = Rig::start();
    let mix = ["--reads", "50", "--lists", "10", "--deletes", "15", "--jobs", "2", "--depth", "4"];
    let objects = ["--target", "s3://bench/x", "--objects", "100", "--object-sizes", "u(1,40)KB"];
    let json = rig.bench(&[&mix[..], &objects, &["--verify", "--json"]].concat()).json();
    let run = &json["runs"][0];
    let all = operations(run, "both");
    for (side, share) in [("reads", 0.5), ("writes", 0.25), ("lists", 0.1), ("deletes", 0.15)] {
        let found = operations(run, side) as f64 / all as f64;
        // Dealt by a hundred; those under way at the ends may be missing, which is much of the few that a busy machine
        // does.
        let most = 0.05 + 10.0 / all as f64;
        assert!((found - share).abs() < most, "{found} of {side}, {all}");
    }
    assert_eq!(run["target"], format!("s3://bench/x at {}", rig.endpoint));
    assert_eq!((&run["failures"], &run["fill"]), (&0.into(), &true.into()));
    assert_eq!(run["verified_objects"], 100, "there or removed");
    assert_eq!(run["load"]["objects"]["prepared"], 100);
    let mean = run["writes"]["bytes_per_second"].as_f64().unwrap()
        / run["writes"]["operations_per_second"].as_f64().unwrap();
    assert!((5000.0..36_000.0).contains(&mean), "{mean} bytes a write");
    assert_eq!(rig.objects(), 0, "nothing is left");
    let text = rig.bench(&["--target", "s3://bench", "--objects", "10", "--rate", "50"]).ok();
    let load = "100 % reads; 10 objects, 32 connections, 50 operations/s\n";
    assert!(text.contains(load) && text.contains("written once before"), "{text}");
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("reads ")).collect();
    let rate: f64 = rows[0].split_whitespace().nth(1).unwrap().parse().unwrap();
    // A machine that is too busy for the rate says so.
    let least = if text.contains("not begun ") { 0.0 } else { 40.0 };
    assert!((least..=60.0).contains(&rate), "{text}");
}

#[test]
fn objects_hold_the_data_that_are_asked_for() {
    let rig = Rig::start();
    let data = ["--zeros", "10", "--duplicates", "40%", "--compression", "2", "--verify"];
    let load = ["--target", "s3://bench", "--objects", "50", "--reads", "50"];
    let json = rig.bench(&[&load[..], &data, &["--json"]].concat()).json();
    let run = &json["runs"][0];
    assert_eq!((&run["verified_objects"], &run["failures"]), (&50.into(), &0.into()));
    let said = &run["load"];
    assert_eq!((&said["zero_percent"], &said["duplicate_percent"]), (&10.into(), &40.into()));
    let text = rig.bench(&[&load[..], &data].concat()).ok();
    assert!(text.contains("10 % zeros, 40 % duplicates, compressible 2:1\n"), "{text}");
    let refused = rig.bench(&[&load[..], &["--zeros", "60", "--duplicates", "60"]].concat());
    assert!(refused.refused(2).contains("are more than 100 %"));
}

#[test]
fn presets_of_objects_run_on_a_bucket() {
    let rig = Rig::start();
    let run = |preset: &str, size: &str, more: &[&str]| {
        let arguments = [preset, "--target", "s3://bench", "--size", size, "--json"];
        let json = rig.bench(&[&arguments[..], more].concat()).json();
        assert_eq!(json["preset"], preset);
        let runs = json["runs"].as_array().unwrap().clone();
        for run in &runs {
            assert!(operations(run, "both") > 0, "{run}");
            assert_eq!(run["invalid"].as_array().unwrap().len(), 0, "{run}");
        }
        runs
    };
    let small = run("cos-small-read", "2MiB", &["--verify"]);
    let network = rig.bench(&[
        "cos-small-read",
        "--target",
        "s3://bench",
        "--size",
        "2MiB",
        "--nic-gbit",
        "10",
    ]);
    let network = network.ok();
    // 10 Gbit/s ÷ 128,000 bytes.
    assert!(network.contains(" % of 9766 objects/s that 10 Gbit/s carry\n"), "{network}");
    for (wrong, what) in [
        (&["vod", "--nic-gbit", "10"][..], "has nothing to do with"),
        (&["--nic-gbit", "1"], "<PRESET>"),
        (&["cos-small-read", "--nic-gbit", "0"], "give Gbit/s"),
    ] {
        let refused = rig.bench(&[wrong, &["--target", "s3://bench"]].concat()).refused(2);
        assert!(refused.contains(what), "{refused}");
    }
    assert_eq!(
        (&small[0]["load"]["jobs"], &small[0]["load"]["read_percent"]),
        (&320.into(), &100.into())
    );
    assert_eq!(small[0]["verified_objects"], 16, "2 MiB of 128 KB");
    assert!(run("cos-small-write", "2MiB", &[])[0]["reads"].is_null());
    run("cos-large-read", "20MiB", &["--rate", "10"]);
    run("cos-large-write", "20MiB", &["--rate", "4"]);
    let mixed = run("cos-mixed-80-20", "4MiB", &["--verify"]);
    let share = operations(&mixed[0], "reads") as f64 / operations(&mixed[0], "both") as f64;
    assert!((share - 0.8).abs() < 0.1, "{share}");
    for preset in ["dvr-private", "dvr-shared", "vod"] {
        let runs = run(preset, "16MiB", &["--rate", "30"]);
        let readers: Vec<u64> =
            runs.iter().map(|run| run["load"]["jobs"].as_u64().unwrap()).collect();
        assert_eq!(readers, [100, 200, 300, 400, 500, 600], "{preset}");
        assert_eq!((&runs[0]["fill"], &runs[1]["fill"]), (&true.into(), &false.into()));
    }
    let shared = ["dvr-shared", "--target", "s3://bench", "--size", "16MiB", "--json"];
    let json = rig.bench(&shared).json();
    let runs = json["runs"].as_array().unwrap();
    assert_eq!(json["scores"][0]["unit"], "readers");
    for (run, readers) in runs.iter().zip([100.0, 200.0, 300.0, 400.0, 500.0, 600.0]) {
        // A reader asks for a segment each 11 s, and 85 of 100 operations read.
        let rate = run["load"]["rate_per_second"].as_f64().unwrap_or_else(|| panic!("{run}"));
        assert!((rate - readers / 11.0 / 0.85).abs() < 1e-6, "{rate} of {readers}");
    }
    assert_eq!(rig.objects(), 0, "nothing is left");
    // Objects of these are up to gigabytes: only that they are understood.
    for preset in ["asus-trace", "backup-archive"] {
        let refused = rig.bench(&[preset, "--target", "s3://none", "--size", "1MiB"]).refused(1);
        assert!(refused.contains("has no bucket `none`"), "{refused}");
    }
}

#[test]
fn objects_longer_than_a_part_go_in_parts() {
    let rig = Rig::start();
    let place = "cprefix=pp-;containers=r(1,1)";
    let objects = "objects=r(1,2);sizes=c(11)MB;partsize=5MB";
    let xml = format!(
        r#"<workload name="parts"><workflow>
        <workstage name="init"><work type="init" workers="1" config="{place}"/></workstage>
        <workstage name="prepare"><work type="prepare" workers="2" config="{place};{objects}"/></workstage>
        <workstage name="main"><work name="main" workers="2" totalOps="4">
          <operation type="read" ratio="100" config="cprefix=pp-;containers=c(1);objects=u(1,2)"/></work></workstage>
        </workflow></workload>"#
    );
    let xml = xml.replace("partsize=5MB", "partsize=5243KB");
    fs::write(rig.home.path().join("w.xml"), xml).unwrap();
    let server = ["--endpoint", &rig.endpoint, "--access-key", &rig.key];
    let arguments = ["bench", "cosbench", "w.xml", "--secret-file", "secret", "--csv"];
    let data = ["--duplicates", "50", "--compression", "2"];
    let wrong = [&arguments[..], &server, &["--compression", "0.5"]].concat();
    assert!(rig.home.varve(&wrong).refused(2).contains("compression ratio 0.5"));
    let csv = rig.home.varve(&[&arguments[..], &server, &data].concat()).ok();
    let read = csv.lines().find(|line| line.starts_with("s3-main,main,read,4,44000000,"));
    assert!(read.is_some(), "{csv}");
    let shown = rig.home.varve(&["bucket", "show", "pp-1", "--json"]).json();
    assert_eq!(shown["objects"], 2, "{shown}");
}

#[test]
fn what_is_wrong_with_server_key_and_bucket_is_told() {
    let rig = Rig::start();
    let refused = |code, more: &[&str], what: &str| {
        let said = rig.bench(&[&["--objects", "10"], more].concat()).refused(code);
        assert!(said.contains(what), "{said}");
    };
    refused(
        1,
        &["--target", "s3://nope"],
        "has no bucket `nope`\n  try: make it: `varve bucket create nope`",
    );
    refused(2, &["--target", "s3://"], "invalid bucket");
    refused(2, &["--target", "s3://bench", "--block", "8KiB"], "--block is of blocks");
    refused(
        2,
        &["--target", "s3://bench", "--reads", "95", "--lists", "10"],
        "105 % of operations together",
    );
    refused(2, &["--target", "s3://bench", "--reads", "40", "--deletes", "40"], "leave no objects");
    refused(
        2,
        &["--target", "s3://bench", "--object-sizes", "c(1)kb"],
        "ends with none of B, KB, MB, GB, KiB, MiB, GiB",
    );
    refused(2, &["--target", "s3://bench", "--pattern", "zipf"], "random and sequential");
    let said = rig.bench(&["idf16", "--target", "s3://bench"]).refused(2);
    assert!(said.contains("`idf16` needs a block target"), "{said}");
    let bench = |endpoint: &str, key: &str, secret: &str| {
        fs::write(rig.home.path().join("other"), secret).unwrap();
        let server = ["--endpoint", endpoint, "--access-key", key, "--secret-file", "other"];
        rig.home.varve(&[&["bench", "run", "--target", "s3://bench"], &server[..]].concat())
    };
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let said = bench(&format!("http://{nobody}"), "k", "s").refused(1);
    assert!(said.contains(&format!("cannot reach http://{nobody}: ")), "{said}");
    let said = bench("https://127.0.0.1:1", "k", "s").refused(2);
    assert!(said.contains("must be http://HOST[:PORT]"), "{said}");
    let said = bench(&rig.endpoint, "nobody", "s").refused(1);
    assert!(said.contains("refuses the key `nobody`: InvalidAccessKeyId (403)"), "{said}");
    let said = bench(&rig.endpoint, &rig.key, "wrong").refused(1);
    assert!(said.contains("SignatureDoesNotMatch (403)\n  try: see key and secret"), "{said}");
    let said = varve(&["bench", "run", "--target", "s3://bench"]).refused(2);
    assert!(said.contains("names no endpoint") && said.contains("AWS_ENDPOINT_URL"), "{said}");
    assert_eq!(rig.objects(), 0);
}

#[test]
fn an_interrupted_load_removes_its_objects_and_spares_those_of_others() {
    let rig = Rig::start();
    let load =
        ["--target", "s3://bench", "--objects", "50", "--reads", "50", "--rate", "100", "--json"];
    let arguments = rig.arguments(&load);
    let hour = arguments.iter().map(|argument| if *argument == "300ms" { "1h" } else { argument });
    let mut command = Command::new(env!("CARGO_BIN_EXE_varve"));
    command.args(hour).current_dir(rig.home.path());
    let first = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while rig.objects() < 50 {
        std::thread::park_timeout(Duration::from_millis(20));
    }
    let refused = rig.bench(&["--target", "s3://bench", "--objects", "5"]).refused(2);
    assert!(refused.contains("s3://bench/varve-bench holds objects"), "{refused}");
    rig.bench(&["--target", "s3://bench/other", "--objects", "5"]).ok();
    assert_eq!(rig.objects(), 50, "those of the other one are still there");
    let kill = Command::new("kill").args(["-INT", &first.id().to_string()]).status().unwrap();
    assert!(kill.success());
    let output = first.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["runs"][0]["interrupted"], true);
    assert_eq!(rig.objects(), 0);
}

/// A server that takes everything and answers reads with zeros, of the length that was asked for.
fn forgetful(size_bytes: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // It ends with the process.
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut stream = BufReader::new(stream);
                loop {
                    let (mut head, mut length) = (String::new(), 0);
                    loop {
                        let mut line = String::new();
                        if stream.read_line(&mut line).unwrap_or(0) == 0 {
                            return;
                        }
                        let told = line.to_lowercase();
                        if let Some(value) = told.strip_prefix("content-length:") {
                            length = value.trim().parse().unwrap();
                        }
                        if line == "\r\n" {
                            break;
                        }
                        head += &line;
                    }
                    std::io::copy(&mut (&mut stream).take(length), &mut std::io::sink()).unwrap();
                    let is_read = head.starts_with("GET /bench/");
                    let bytes = if is_read { size_bytes } else { 0 };
                    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n");
                    let answer = [answer.into_bytes(), vec![0; bytes]].concat();
                    if stream.get_mut().write_all(&answer).is_err() {
                        return;
                    }
                }
            });
        }
    });
    format!("http://{address}")
}

#[test]
fn what_a_server_forgets_is_found() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("secret"), "s").unwrap();
    let bench = |bytes, duration, more: &[&str]| {
        let endpoint = forgetful(bytes);
        let server = ["--endpoint", &endpoint, "--access-key", "k", "--secret-file", "secret"];
        let load =
            ["bench", "run", "--target", "s3://bench", "--objects", "4", "--duration", duration];
        let sizes = ["--object-sizes", "c(10)KB", "--ramp", "0ms", "--depth", "2"];
        crate::rig::varve_in(dir.path(), &[&load[..], &sizes, &server, more].concat())
    };
    // What is found ends a run at once, so it may have the time that a busy machine needs for a read.
    let said = bench(10_000, "60s", &["--verify"]).refused(1);
    assert!(said.contains(" of /bench/varve-bench/f1/myobjects_"), "{said}");
    assert!(said.contains("is not what its last write left there\n  try: nothing else may write"));
    let said = bench(9999, "60s", &[]).refused(1);
    assert!(said.contains("has 9999 bytes, and 10000 were written"), "{said}");
    bench(10_000, "100ms", &[]).ok();
}
