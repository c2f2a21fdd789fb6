//! Goal: `varve bench run` measures what it is told to, destroys nothing unasked, and tells damage. Method: the binary
//! on memory, files, and the export of a daemon.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::daemon::Home;
use crate::rig::{Run, varve, varve_in};

fn bench(arguments: &[&str]) -> Run {
    varve(&[&["bench", "run", "--ramp", "0ms", "--duration", "200ms"], arguments].concat())
}

#[test]
fn a_load_on_memory_is_measured_and_verified() {
    let arguments = ["--target", "memory:16MiB", "--reads", "70%", "--jobs", "2", "--verify"];
    let more = ["--repeat", "3", "--pattern", "zipf", "--block", "8KiB", "--json"];
    let json = bench(&[&arguments[..], &more].concat()).json();
    let json = &json["runs"][0];
    let of = |side: &str, field: &str| json[side][field].as_f64().unwrap();
    assert_eq!(json["load"]["block_bytes"], 8192);
    assert_eq!(json["repeats"].as_array().unwrap().len(), 3);
    assert!(of("both", "operations_per_second_half_width") > 0.0);
    let share = of("reads", "operations") / of("both", "operations");
    assert!((share - 0.7).abs() < 0.05, "{share}");
    let histogram = json["both"]["histogram_ns"].as_array().unwrap();
    let counted: u64 = histogram.iter().map(|cell| cell[1].as_u64().unwrap()).sum();
    assert_eq!(counted as f64, of("both", "operations"));
    assert!(json["verified_blocks"].as_u64().unwrap() > 0);
}

#[test]
fn sorts_of_operations_are_mixed_and_verified() {
    let sorts = "30%:read:16KiB:random,50%:write:32KiB:sequential:durable,20%:write:8KiB:random:compression=2";
    let arguments =
        ["--target", "memory:16MiB", "--jobs", "2", "--verify", "--mix", sorts, "--json"];
    let json = bench(&arguments).json()["runs"][0].clone();
    let mixture = json["load"]["mixture"].as_array().unwrap();
    assert_eq!((mixture.len(), &json["load"]["block_bytes"]), (3, &8192.into()));
    assert!(json["verified_blocks"].as_u64().unwrap() > 0);
    let of = |side: &str, field: &str| json[side][field].as_f64().unwrap();
    let share = of("reads", "operations") / of("both", "operations");
    assert!((share - 0.3).abs() < 0.05, "{share}");
    let bytes = of("writes", "bytes_per_second") / of("writes", "operations_per_second");
    let mean = (50.0 * 32768.0 + 20.0 * 8192.0) / 70.0;
    assert!((bytes / mean - 1.0).abs() < 0.05, "{bytes} of {mean}");
    let text = bench(&["nosql", "--target", "memory:16MiB", "--jobs", "1"]).refused(2);
    assert!(text.contains("cannot be used with"), "{text}");
    let text = bench(&["nosql", "--target", "memory:16MiB"]).ok();
    assert!(
        text.contains("50 % reads of 16 KiB random, 50 % writes of 128 KiB sequential"),
        "{text}"
    );
    for wrong in ["50%:read:4KiB:random", "100%:read:5KiB:random", "100%:trim:4KiB:random"] {
        bench(&["--target", "memory:1MiB", "--mix", wrong]).refused(2);
    }
}

#[test]
fn clients_share_a_target_and_make_one_result() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("disk"), vec![7; 16 << 20]).unwrap();
    let run = |more: &[&str]| {
        let arguments = ["bench", "run", "--target", "disk", "--overwrite", "--ramp", "0ms"];
        varve_in(dir.path(), &[&arguments[..], &["--duration", "300ms"], more].concat())
    };
    let clients = ["--clients", "2", "--jobs", "4", "--size", "8MiB", "--from", "8MiB"];
    let load = ["--reads", "50", "--fill", "--verify", "--depth", "2", "--repeat", "2"];
    let json = run(&[&clients[..], &load, &["--save", "two", "--json"]].concat()).json();
    let report = &json["runs"][0];
    assert_eq!((&report["load"]["jobs"], &report["load"]["hosts"]), (&4.into(), &2.into()));
    assert_eq!(
        (&report["verified_blocks"], report["repeats"].as_array().unwrap().len()),
        (&2048.into(), 2)
    );
    assert_eq!(json["hosts"][1]["name"], "client 2 of 2");
    assert!(dir.path().join("two/index.html").exists());
    let disk = fs::read(dir.path().join("disk")).unwrap();
    assert_eq!(disk[..8 << 20], vec![7; 8 << 20], "what lies before --from is nobody's");
    assert!(disk[8 << 20..].chunks(4096).all(|block| block != [7; 4096]), "all parts are filled");
    // A preset has those of its source, which share the whole target.
    let json = run(&["vdi-4k-rr", "--json"]).json();
    assert_eq!(
        (&json["runs"][0]["load"]["hosts"], &json["runs"][0]["load"]["jobs"]),
        (&4.into(), &40.into())
    );
    assert_eq!(json["runs"][0]["size_bytes"], 16 << 20);
    let rate = json["runs"][0]["both"]["operations_per_second"].as_f64().unwrap();
    assert_eq!(json["scores"][0]["value"].as_f64(), Some((rate / 100.0).floor()), "of all clients");
    let text = run(&["vdi-4k-rr"]).ok();
    assert!(text.starts_with("preset     vdi-4k-rr\n") && text.contains("of 4 clients"), "{text}");
    for alone in [["--clients", "1"], ["--settle", "1ms"]] {
        let json = run(&[["vdi-4k-rr", "--json"], alone].concat()).json();
        assert!(json["hosts"].is_null(), "{alone:?} is of one process");
    }
    for (wrong, what) in [
        (&["--clients", "2", "--jobs", "3", "--size", "8MiB"][..], "3 jobs cannot be divided"),
        (&["--clients", "2", "--size", "8MiB", "--at", "9999999999"], "cannot be used with"),
        (&["--from", "1000"], "must be a multiple of 4 KiB"),
        (&["--from", "12MiB", "--size", "8MiB"], "fewer than --from and --size"),
    ] {
        let refused = run(wrong).refused(2);
        assert!(refused.contains(what), "{refused}");
    }
}

#[test]
fn what_the_machine_did_is_looked_at_once_for_all_clients() {
    let home = Home::new();
    let daemon = home.serve(&[]);
    home.varve(&["volume", "create", "v", "--size", "64MiB"]).ok();
    let target = "nbd+unix:///v?socket=nbd.sock";
    let run = |more: &[&str]| {
        let load = ["--target", target, "--overwrite", "--reads", "0", "--size", "16MiB"];
        let time = ["--jobs", "2", "--depth", "4", "--ramp", "500ms", "--duration", "1500ms"];
        home.varve(&[&["bench", "run"], &load[..], &time, more].concat())
    };
    let own = daemon.pid().to_string();
    let looks = ["--process", &own, "--server", "--repeat", "2"];
    let json = run(&[&["--clients", "2"], &looks[..], &["--save", "two", "--json"]].concat());
    let json = json.json();
    let report = &json["runs"][0];
    assert_eq!(report["invalid"].as_array().unwrap().len(), 0, "{}", report["invalid"]);
    for window in report["repeats"].as_array().unwrap() {
        let usage = &window["usage"];
        let seconds = usage["seconds"].as_f64().unwrap();
        assert!((0.5..=1.5).contains(&seconds), "the ramp is left out: {seconds}");
        let processes = usage["processes"].as_array().unwrap();
        let clients = processes.iter().filter(|process| process["is_client"] == true).count();
        assert_eq!((processes.len(), clients), (3, 2), "the daemon and two clients: {usage}");
        // What the daemon counts is what both clients wrote, once.
        let counted = usage["server"]["client_write_bytes_per_second"].as_f64().unwrap();
        let written = window["write_bytes_per_second"].as_f64().unwrap();
        assert!((0.6..1.6).contains(&(counted / written)), "{counted} of {written}");
        let layers = &window["layers"];
        let names = |of: &str| -> Vec<String> {
            let parts = layers[of].as_array().unwrap().iter();
            parts.map(|part| part[0].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(names("cpu_us"), ["all", "clients", "varve"]);
        assert_eq!(names("mean_us"), ["client, network and front-end", "engine", "drives"]);
        assert!(layers["amplification"][0]["written"].as_f64().unwrap() > 0.0, "{layers}");
        assert!(!window["findings"].as_array().unwrap().is_empty(), "{window}");
    }
    let usage = fs::read_to_string(home.path().join("two/usage.json")).unwrap();
    let usage: serde_json::Value = serde_json::from_str(&usage).unwrap();
    assert_eq!(usage["runs"][0].as_array().unwrap().len(), 2, "{usage}");
    assert!(!usage["runs"][0][1].as_array().unwrap().is_empty(), "{usage}");
    let text = run(&[&["--clients", "2"], &looks[..]].concat()).ok();
    assert!(text.contains(" for an operation\n"), "{text}");
    let text = run(&looks).ok();
    assert!(text.contains("processors  all ") && text.contains(", clients "), "{text}");
}

#[test]
fn a_rate_is_kept() {
    let arguments = ["--target", "null:1GiB", "--rate", "500", "--json"];
    let time = ["bench", "run", "--ramp", "0ms", "--duration", "1s"];
    let json = varve(&[&time[..], &arguments].concat()).json();
    let json = &json["runs"][0];
    let rate = json["both"]["operations_per_second"].as_f64().unwrap();
    assert!((rate - 500.0).abs() < 5.0, "{rate}");
    assert_eq!(json["not_begun"], 0);
}

#[test]
fn sweeps_tell_the_fastest_load_within_a_bound() {
    let dir = tempfile::tempdir().unwrap();
    let sweep = |more: &[&str]| {
        let arguments = ["bench", "run", "--target", "null:1GiB", "--ramp", "0ms"];
        let time = ["--duration", "300ms", "--p99-max", "1s"];
        varve_in(dir.path(), &[&arguments[..], &time, more].concat())
    };
    let json = sweep(&["--depths", "1,4,16", "--save", "depths", "--json"]).json();
    let runs = json["runs"].as_array().unwrap();
    let depths: Vec<u64> = runs.iter().map(|run| run["load"]["depth"].as_u64().unwrap()).collect();
    assert_eq!(depths, [1, 4, 16]);
    let rate = |run: &serde_json::Value| run["both"]["operations_per_second"].as_f64().unwrap();
    let most = runs.iter().map(rate).fold(0.0, f64::max);
    let within = &json["within"];
    assert_eq!(within["best"]["operations_per_second"], most);
    assert_eq!((&within["p99_us_max"], &within["is_bounded"]), (&1_000_000.into(), &false.into()));
    let page = varve_in(dir.path(), &["report", "page", "depths", "--markdown"]).ok();
    assert!(page.contains("depths: most with a p99 of no more than 1000000 µs: "), "{page}");

    let text = sweep(&["--rates", "500,1000"]).ok();
    let last = text.lines().last().unwrap();
    assert!(last.contains("operations/s, p99 ") && last.contains("1000 operations/s;"), "{last}");
    let none = varve_in(
        dir.path(),
        &[
            "bench",
            "run",
            "--target",
            "null:1GiB",
            "--duration",
            "200ms",
            "--p99-max",
            "1us",
            "--rates",
            "100",
        ],
    );
    assert!(none.ok().ends_with("no load had a p99 of no more than 1 µs\n"));
    for (wrong, what) in [
        (&["--depths", "1,0"][..], "0 operations under way"),
        (&["--depths", "1", "--depth", "2"], "cannot be used with"),
        (&["--rates", "0"], "0 operations per second"),
        (&["--p99-max", "5"], "write 500us, 2ms or 1s"),
    ] {
        let refused =
            varve(&[&["bench", "run", "--target", "null:1GiB"], wrong].concat()).refused(2);
        assert!(refused.contains(what), "{refused}");
    }
}

#[test]
fn files_are_written_only_when_asked_to() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk");
    fs::write(&path, vec![7; 1 << 20]).unwrap();
    let run = |more: &[&str]| {
        let arguments =
            ["bench", "run", "--target", "disk", "--ramp", "0ms", "--duration", "100ms"];
        varve_in(dir.path(), &[&arguments[..], more].concat())
    };
    let refused = run(&["--reads", "50"]).refused(2);
    assert!(refused.contains("destroys what disk holds\n  try: say --overwrite"), "{refused}");
    run(&["--fill"]).refused(2);
    let text = run(&[]).ok();
    assert!(text.contains("4 KiB random, 100 % reads, 1 job × 32 under way, as fast as answered"));
    assert_eq!(fs::read(&path).unwrap(), vec![7; 1 << 20], "reads change nothing");
    let text = run(&["--fill", "--verify", "--overwrite", "--reads", "0"]).ok();
    assert!(text.contains("verified  256 blocks hold what was written last\n"), "{text}");
    assert_ne!(fs::read(&path).unwrap(), vec![7; 1 << 20]);
    assert!(run(&["--size", "2MiB"]).refused(2).contains("fewer than --size"));
    let missing = varve_in(dir.path(), &["bench", "run", "--target", "nothing"]).refused(1);
    assert!(missing.contains("cannot open nothing"), "{missing}");
}

#[test]
fn a_volume_is_measured_over_nbd() {
    let home = Home::new();
    let _daemon = home.serve(&[]);
    home.varve(&["volume", "create", "v", "--size", "64MiB"]).ok();
    let run = |export: &str, more: &[&str]| {
        let target = format!("nbd+unix:///{export}?socket=nbd.sock");
        let arguments = ["bench", "run", "--target", &target, "--ramp", "0ms"];
        home.varve(&[&arguments[..], &["--duration", "200ms"], more].concat())
    };
    let load = ["--size", "16MiB", "--jobs", "2", "--depth", "8", "--reads", "50", "--durable"];
    let json = run("v", &[&load[..], &["--fill", "--verify", "--overwrite", "--json"]].concat());
    let json = &json.json()["runs"][0];
    assert_eq!(json["verified_blocks"], 4096);
    assert!(json["writes"]["operations"].as_u64().unwrap() > 0);
    assert!(run("w", &[]).refused(1).contains("it has no such export"));
}

#[test]
fn an_interrupted_run_tells_what_it_measured() {
    let arguments = ["bench", "run", "--target", "null:1GiB", "--rate", "100", "--ramp", "0ms"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_varve"));
    command.args(arguments).args(["--duration", "1h", "--json"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let proc = format!("/proc/{}", child.id());
    // The second bit of what it catches is that of SIGINT.
    let catches = || {
        let status = fs::read_to_string(format!("{proc}/status")).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:\t")).unwrap();
        u64::from_str_radix(caught, 16).unwrap() & 2 != 0
    };
    let has_job = || {
        let mut tasks = fs::read_dir(format!("{proc}/task")).unwrap().flatten();
        let name = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm"));
        tasks.any(|task| name(task).is_ok_and(|name| name == "job 0\n"))
    };
    while !(catches() && has_job()) {
        std::thread::park_timeout(Duration::from_millis(20));
    }
    std::thread::park_timeout(Duration::from_millis(500)); // For operations to measure.
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let json = &json["runs"][0];
    assert_eq!(json["interrupted"], true);
    assert!(json["reads"]["operations"].as_u64().unwrap() > 0);
}

#[test]
fn a_preset_runs_with_its_parameters() {
    let null = ["null-workers", "--target", "null:1GiB"];
    let text = bench(&null).ok();
    assert!(text.starts_with("preset     null-workers\n"), "{text}");
    assert!(
        text.contains("4 KiB random, 100 % reads, 8 jobs × 32 under way, as fast as answered\n")
    );
    let knee = text.lines().find(|line| line.starts_with("knee   ")).unwrap_or_default();
    assert!(text.contains("\nSCORE\n") && knee.contains(" workers, "), "{text}");
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("saved");
    let save = ["--json", "--save", folder.to_str().unwrap()];
    let json = bench(&[&null[..], &save].concat()).json();
    assert_eq!(json["runs"].as_array().unwrap().len(), 7);
    let score = &json["scores"][0];
    assert_eq!((&score["name"], &score["unit"]), (&"knee".into(), &"workers".into()));
    let page = fs::read_to_string(folder.join("index.html")).unwrap();
    let text = score["text"].as_str().unwrap();
    assert!(page.contains("<h2>Scores</h2>") && page.contains(text), "{page}");
    let own = bench(&["--target", "null:1GiB", "--json"]).json();
    assert!(own["scores"].is_null(), "only presets are run for something: {}", own["scores"]);
    let mixed = ["ccic-db", "--target", "memory:16MiB", "--verify", "--json"];
    let json = bench(&mixed).json();
    assert_eq!(
        (&json["runs"][0]["load"]["read_percent"], &json["runs"][0]["fill"]),
        (&70.into(), &true.into())
    );
    assert_eq!(json["runs"][0]["verified_blocks"], 2048);
    for (preset, what) in [
        ("yahoo-cas", "a cache tier before coded storage"),
        ("file-smallfiles", "file system targets"),
        ("file-mixed", "file system targets"),
    ] {
        let said = format!("`{preset}` cannot be run yet: it needs {what}");
        // Whatever is said beside it: a target would not help.
        for more in [&["--target", "memory:16MiB"][..], &["--target", "s3://b"], &[]] {
            let later = bench(&[&[preset], more].concat()).refused(2);
            assert!(later.contains(&said) && later.contains("varve bench show"), "{later}");
        }
        let later = varve(&["bench", "cosbench", preset]).refused(2);
        assert!(later.contains(&said), "{later}");
    }
    let file = bench(&["file-2m-qd64", "--target", "memory:256MiB", "--size", "256MiB", "--json"]);
    let blocks: Vec<u64> = file.json()["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| run["load"]["block_bytes"].as_u64().unwrap())
        .collect();
    assert_eq!(blocks, [2 << 20; 4]);
    let objects = bench(&["dvr-shared", "--target", "memory:16MiB"]).refused(2);
    assert!(objects.contains("run `varve bench cosbench dvr-shared`"), "{objects}");
    bench(&["ccic-db", "--target", "memory:16MiB", "--depth", "3"]).refused(2);
    assert!(
        bench(&["appb-small-90w", "--target", "memory:1MiB"]).refused(2).contains("fewer than")
    );
}

/// Looks whether loads went on with more volumes, each with its rate, until they were too slow or had no room, and
/// whether the score says that.
fn check_search(json: &serde_json::Value, count: u64, volumes_max: u64) {
    let runs = json["runs"].as_array().unwrap();
    for (share, score) in [100, 0].into_iter().zip(json["scores"].as_array().unwrap()) {
        let runs = runs.iter().filter(|run| run["load"]["read_percent"] == share);
        let (mut fast, mut slow) = (vec![0], vec![]);
        for (number, run) in runs.enumerate() {
            let jobs = run["load"]["jobs"].as_u64().unwrap();
            assert!(jobs.is_multiple_of(count) && jobs <= volumes_max, "{jobs}");
            assert!(number > 0 || jobs == 40, "it begins as the source: {jobs}");
            assert_eq!(run["load"]["rate_per_second"].as_f64(), Some(jobs as f64 * 100.0));
            let is_valid = run["invalid"].as_array().unwrap().is_empty();
            let p99_us = run["both"]["latency_us"]["p99"].as_f64().unwrap();
            if is_valid && p99_us <= 20_000.0 { fast.push(jobs) } else { slow.push(jobs) }
        }
        let first_slow = slow.iter().copied().min().unwrap_or(u64::MAX);
        let most = fast.into_iter().filter(|jobs| *jobs < first_slow).max().unwrap();
        assert_eq!(score["value"].as_f64(), Some(most as f64), "{score}");
        let is_known = first_slow.saturating_sub(most) <= (most / 10).max(count);
        assert!(is_known || slow.is_empty() && most * 2 > volumes_max, "{most}, {slow:?}");
    }
}

#[test]
fn the_most_volumes_within_a_bound_are_looked_for() {
    // Of 100 blocks each of so many volumes has one.
    let dir = tempfile::tempdir().unwrap();
    let saved = dir.path().join("saved");
    let save = ["--json", "--save", saved.to_str().unwrap()];
    let json = bench(&[&["vdi-capped", "--target", "null:400KiB"], &save[..]].concat()).json();
    check_search(&json, 1, 100);
    // Latency by rate is a curve of each kind of load.
    let page = fs::read_to_string(saved.join("index.html")).unwrap();
    for kind in ["100 % reads", "0 % reads"] {
        assert!(page.contains(&format!("vdi-capped: 4 KiB random, {kind}\n")), "{page}");
    }
    fs::write(dir.path().join("disk"), vec![7; 400 << 10]).unwrap();
    let capped = ["bench", "run", "vdi-capped", "--target", "disk", "--overwrite", "--json"];
    let clients = ["--clients", "2", "--size", "400KiB", "--ramp", "0ms", "--duration", "200ms"];
    let json = varve_in(dir.path(), &[&capped[..], &clients].concat()).json();
    assert_eq!(json["runs"][0]["load"]["hosts"], 2);
    check_search(&json, 2, 100);
    let own = bench(&["vdi-capped", "--target", "null:400KiB", "--rate", "50", "--json"]).json();
    assert_eq!(own["runs"].as_array().unwrap().len(), 2, "a rate of one's own is one load");
}

#[test]
fn a_search_ends_where_a_target_takes_no_more() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("disk"), vec![7; 4 << 20]).unwrap();
    // Each volume takes descriptors.
    let run = |more: &str| {
        let times = "--ramp 0ms --duration 200ms --json";
        let varve = env!("CARGO_BIN_EXE_varve");
        let line = format!("ulimit -n 250 && exec {varve} bench run vdi-capped {times} {more}");
        let run = Command::new("sh").args(["-c", &line]).current_dir(dir.path()).output().unwrap();
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        serde_json::from_slice::<serde_json::Value>(&run.stdout).unwrap()
    };
    for more in ["--target null:4MiB", "--target disk --overwrite --clients 2"] {
        let json = run(more);
        for share in [100, 0] {
            let runs = json["runs"].as_array().unwrap().iter();
            let mut runs = runs.filter(|run| run["load"]["read_percent"] == share);
            // A machine may be too busy for so many.
            let is_known = |run: &serde_json::Value| {
                let is_slow = run["both"]["latency_us"]["p99"].as_f64() > Some(20_000.0);
                let is_ended = run["notes"].to_string().contains("volumes could not be had: ");
                is_slow || is_ended || !run["invalid"].as_array().unwrap().is_empty()
            };
            assert!(runs.any(is_known), "{share} of {more}: {json}");
        }
    }
}

#[test]
fn a_preset_runs_under_settings_that_commands_make() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let add = |name: &str| format!("{name}=echo {name} >> {}", log.display());
    let (long, short) = (add("long"), add("short"));
    let run = ["readahead-ab", "--target", "memory:16MiB", "--setting", &long, "--setting", &short];
    let json = bench(&[&run[..], &["--json"]].concat()).json();
    let runs = json["runs"].as_array().unwrap();
    let settings: Vec<&str> =
        runs.iter().map(|run| run["load"]["setting"].as_str().unwrap()).collect();
    assert_eq!(settings, ["long", "short"]);
    assert_eq!((&runs[0]["fill"], &runs[1]["fill"]), (&true.into(), &false.into()));
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "long\nshort\n");
    let text = bench(&run).ok();
    assert!(text.contains("under short\n") && text.contains("operations/s under long\n"), "{text}");
    // The loads of a preset under one setting need its command once.
    std::fs::remove_file(&log).unwrap();
    let (net, one) = (["net-4k-256", "--target", "memory:16MiB", "--setting"], long.as_str());
    bench(&[&net[..], &[one]].concat()).ok();
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "long\n");
    let failed = bench(&[&run[..4], &["worse=exit 3"]].concat()).refused(1);
    assert!(failed.contains("setting worse: `exit 3` ended with exit status: 3"), "{failed}");
    bench(&[&run[..4], &["nothing"]].concat()).refused(2);
}

#[test]
fn loads_that_cannot_be_are_refused() {
    for (arguments, what) in [
        (&["--target", "null:5XB"][..], "invalid target"),
        (&["--target", "null:1GiB", "--verify"], "keeps nothing that could be verified"),
        (&["--target", "memory:1MiB", "--verify"], "nothing is written"),
        (&["--target", "memory:1MiB", "--block", "512"], "must be a multiple of 4096"),
        (&["--target", "memory:4KiB", "--jobs", "2"], "the load needs 8192 bytes"),
        (&["--target", "memory:1MiB", "--pattern", "zip"], "none of random, sequential"),
        (&["--target", "memory:1MiB", "--rate", "0"], "operations per second"),
        (&["--target", "memory:1MiB", "--zeros", "60", "--duplicates", "50"], "more than 100 %"),
    ] {
        let refused = bench(arguments).refused(2);
        assert!(refused.contains(what), "{refused}");
    }
}

#[test]
fn a_run_on_a_system_that_is_not_well_is_invalid() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("well"), "").unwrap();
    let run = |target: &str, healthy: &str| {
        let arguments = ["bench", "run", "--target", target, "--ramp", "0ms"];
        let more = ["--duration", "300ms", "--healthy", healthy];
        varve_in(dir.path(), &[&arguments[..], &more].concat()).ok()
    };
    assert!(!run("null:1GiB", "test -e well").contains("INVALID"));
    let text = run("null:1GiB", "test -e ill");
    let invalid = |text: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix("INVALID"));
        line.unwrap_or_default().trim_start().to_owned()
    };
    let ill = "the system was not well: `test -e ill` ended with exit status: 1";
    assert!(invalid(&text).starts_with(ill), "{text}");
    // It falls ill meanwhile: the first question takes the file away.
    let text = run("null:1GiB", "rm well");
    assert!(invalid(&text).starts_with("the system was not well: `rm well` ended with"), "{text}");
}

/// An admin API that answers each question with the next of these states and times since the daemon's start, and the
/// last one from then on.
fn answers(socket: PathBuf, listener: &str, said: &'static [(&'static str, u64)]) {
    let server = UnixListener::bind(&socket).unwrap();
    let listener = listener.to_owned();
    std::thread::spawn(move || {
        for (turn, stream) in server.incoming().enumerate() {
            let (state, uptime_ms) = said[turn.min(said.len() - 1)];
            let shard = if state == "serving" { "serving" } else { "opening" };
            let status = serde_json::json!({
                "version": "0", "state": state, "pool_id": "f00", "uptime_ms": uptime_ms, "volumes": 1, "connections": 0,
                "listeners": [{ "protocol": "nbd", "address": listener }], "memory": { "budget_bytes": 1, "used_bytes": 0 },
                "fill": { "used_bytes": 0, "capacity_bytes": 1, "level": "ok" },
                "shards": [{ "shard": 1, "state": shard, "undrained_bytes": 0, "lane_used_bytes": 0, "lane_size_bytes": 1 }],
            });
            let body = status.to_string();
            let mut stream = stream.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                head.push(byte[0]);
            }
            let length = body.len();
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
            );
            stream.write_all((head + &body).as_bytes()).unwrap();
        }
    });
}

#[test]
fn a_daemon_is_asked_whether_it_is_well() {
    let home = Home::new();
    let _daemon = home.serve(&[]);
    home.varve(&["volume", "create", "v", "--size", "64MiB"]).ok();
    let run = |global: &[&str], more: &[&str]| {
        let arguments =
            ["bench", "run", "--target", "nbd+unix:///v?socket=nbd.sock", "--ramp", "0ms"];
        let all = [global, &arguments[..], &["--duration", "300ms"], more].concat();
        home.varve(&[&all[..], &["--json"]].concat()).json()["runs"][0].clone()
    };
    let well = run(&[], &[]);
    let health = &well["health"];
    assert!(health["by"].as_str().unwrap().starts_with("the daemon of pool "), "{health}");
    assert_eq!((&health["looks"], &health["degraded"]), (&2.into(), &serde_json::Value::Null));
    assert_eq!(well["invalid"].as_array().unwrap().len(), 0);
    let clients = ["--clients", "2", "--jobs", "2", "--size", "8MiB"];
    let health = run(&[], &clients)["health"].clone();
    assert_eq!((&health["looks"], &health["degraded"]), (&2.into(), &serde_json::Value::Null));
    let by = run(&[], &["--healthy", "true"])["health"]["by"].clone();
    assert_eq!(by, "`true`", "it stands for the daemon");
    // Of the target of somebody else it knows nothing.
    let file = home.path().join("file");
    fs::write(&file, vec![0; 1 << 20]).unwrap();
    let other = ["bench", "run", "--target", "file", "--duration", "100ms", "--json"];
    assert!(home.varve(&other).json()["runs"][0]["health"].is_null());

    let short = tempfile::tempdir().unwrap();
    for (name, said, why) in [
        (
            "a",
            &[("serving", 1), ("serving", 2), ("degraded", 3)][..],
            "shard 1: it opens at the end",
        ),
        ("b", &[("degraded", 1)], "shard 1: it opens, 0 s from the beginning"),
        ("c", &[("serving", 9), ("serving", 10), ("serving", 5)], "was started again at the end"),
    ] {
        let socket = short.path().join(name);
        let addr = format!("unix:{}", socket.display());
        answers(socket, "unix:nbd.sock", said);
        for more in [&[][..], &clients] {
            if !more.is_empty() && name != "b" {
                continue; // It has said all of that.
            }
            let run = run(&["--addr", &addr], more);
            let degraded = run["health"]["degraded"].as_str().unwrap();
            assert!(
                degraded.starts_with("the daemon of pool f00 ") && degraded.ends_with(why),
                "{degraded}"
            );
            let invalid = run["invalid"][0].as_str().unwrap();
            assert_eq!(invalid, format!("the system was not well: {degraded}"));
        }
    }
    let socket = short.path().join("d");
    let addr = format!("unix:{}", socket.display());
    answers(socket, "unix:elsewhere.sock", &[("degraded", 1)]);
    assert!(run(&["--addr", &addr], &[])["health"].is_null(), "another daemon");
}

#[test]
fn slow_media_of_the_server_are_named() {
    let home = Home::new();
    let _daemon = home.serve(&["--media-delay-us", "2000"]);
    home.varve(&["volume", "create", "v", "--size", "64MiB"]).ok();
    let target = "nbd+unix:///v?socket=nbd.sock";
    let arguments = ["bench", "run", "--target", target, "--overwrite", "--reads", "0"];
    let more = ["--depth", "4", "--ramp", "0ms", "--duration", "2s", "--server"];
    let run = |last: &[&str]| home.varve(&[&arguments[..], &more, last].concat());
    let json = run(&["--json"]).json();
    let window = &json["runs"][0]["repeats"][0];
    let server = &window["usage"]["server"];
    assert!(server["media_write_us"].as_f64().unwrap() >= 2000.0, "{server}");
    assert_eq!(window["findings"][0]["name"], "media", "{}", window["findings"]);
    let text = run(&[]).ok();
    let bound = text.lines().find_map(|line| line.strip_prefix("bound by")).unwrap();
    assert!(bound.trim_start().starts_with("media: the server's drives take "), "{text}");
    assert!(
        text.contains("client, network and front-end ") && text.contains(" + drives "),
        "{text}"
    );
    let nobody =
        home.varve(&["--data", "nowhere", "bench", "run", "--target", "null:1GiB", "--server"]);
    assert!(nobody.refused(1).contains("no daemon answers"));
}

#[test]
fn a_level_rate_is_waited_for() {
    let settle = |load: &[&str]| {
        let arguments = ["--target", "null:1GiB", "--settle", "7s", "--json"];
        bench(&[&arguments[..], load].concat()).json()["runs"][0].clone()
    };
    let level = settle(&["--rate", "1000"]);
    // A round is over when the last operation that was due in it is answered.
    assert!(level["settled_after_ms"].as_u64().unwrap() >= 4900, "five rounds of 1 s");
    assert_eq!(level["invalid"].as_array().unwrap().len(), 0);
    let early = bench(&["--target", "null:1GiB", "--settle", "1s", "--json"]).json();
    let why = early["runs"][0]["invalid"][0].as_str().unwrap();
    assert!(why.starts_with("the rate did not settle within 1"), "{why}");
}

#[test]
fn results_are_saved_with_what_the_machine_did() {
    let dir = tempfile::tempdir().unwrap();
    let own = std::process::id().to_string();
    let run = || {
        let arguments = ["bench", "run", "--target", "null:1GiB", "--ramp", "500ms"];
        let more = ["--duration", "1s", "--repeat", "2", "--process", &own, "--save", "results"];
        varve_in(dir.path(), &[&arguments[..], &more].concat())
    };
    run().ok();
    let read = |file: &str| -> serde_json::Value {
        let text = fs::read_to_string(dir.path().join("results").join(file)).unwrap();
        serde_json::from_str(&text).unwrap()
    };
    let report = read("report.json");
    assert_eq!(report["system"]["command"][1], "run");
    let usage = &report["runs"][0]["repeats"][1]["usage"];
    let seconds = usage["seconds"].as_f64().unwrap();
    assert!((0.2..=1.0).contains(&seconds), "the ramp is left out: {seconds}");
    assert!(
        usage["cpus_busy"].as_f64().unwrap() > 0.2,
        "a null target keeps a thread busy: {usage}"
    );
    let processes = usage["processes"].as_array().unwrap();
    assert!(processes.iter().any(|process| process["id"] == std::process::id()));
    assert_eq!(report["runs"][0]["repeats"][0]["findings"][0]["name"], "client");
    let moments = read("usage.json")["runs"][0][0].as_array().unwrap().len();
    assert!((1..=4).contains(&moments), "{moments} moments 250 ms apart");
    assert!(run().refused(2).contains("results exists"));
}
