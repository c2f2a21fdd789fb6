//! Goal: `varve bench run` makes and removes volumes of its own, lets fio make a load, and says what Ceph's targets
//! need. Method: a daemon, and a program in fio's place that notes what it is told and prints what fio prints.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::daemon::Home;
use crate::rig::{varve, varve_in};

#[test]
fn volumes_live_as_long_as_their_run() {
    let home = Home::new();
    let _daemon = home.serve(&[]);
    let arguments = ["bench", "run", "--target", "volumes:16MiB", "--jobs", "3", "--reads", "50"];
    let more = ["--fill", "--verify", "--ramp", "0ms", "--duration", "2s", "--server", "--json"];
    let json = home.varve(&[&arguments[..], &more].concat()).json();
    let report = &json["runs"][0];
    assert_eq!(report["verified_blocks"], 3 * 4096, "each volume as a whole");
    let layers = &report["repeats"][0]["layers"];
    let parts = layers["mean_us"].as_array().unwrap();
    let names: Vec<&str> = parts.iter().map(|part| part[0].as_str().unwrap()).collect();
    assert_eq!(names, ["client, network and front-end", "engine", "drives"], "{layers}");
    assert!(parts.iter().all(|part| part[1].as_f64().unwrap() >= 0.0), "{layers}");
    assert!(layers["amplification"][0]["written"].as_f64().unwrap() > 0.0, "{layers}");
    assert_eq!(home.varve(&["volume", "list"]).ok().lines().count(), 1, "nothing is left");
}

#[test]
fn the_engine_is_measured_without_a_daemon() {
    let home = Home::new();
    let bench = |target: &str, more: &[&str]| {
        let arguments =
            ["bench", "run", "--target", target, "--ramp", "0ms", "--duration", "300ms"];
        home.varve(&[&arguments[..], more].concat())
    };
    let own = ["--overwrite", "--jobs", "2", "--size", "16MiB"];
    let load = [&own[..], &["--reads", "50", "--fill", "--verify", "--json"]].concat();
    let nothing = bench("engine:v", &load).refused(2);
    assert!(nothing.contains("varve-data holds no pool"), "{nothing}");
    let daemon = home.serve(&[]);
    home.varve(&["volume", "create", "v", "--size", "64MiB"]).ok();
    let served = bench("engine:v", &load).refused(1);
    assert!(served.contains("is already served by process"), "{served}");
    daemon.signal("TERM");
    assert!(daemon.end().0.success());

    let json = bench("engine:v", &load).json();
    let report = &json["runs"][0];
    assert_eq!(
        (&report["target"], &report["size_bytes"]),
        (&"engine:v".into(), &(16 << 20).into())
    );
    assert_eq!(report["verified_blocks"], 4096);
    assert!(report["writes"]["operations"].as_u64().unwrap() > 0);
    assert!(bench("engine:w", &load).refused(1).contains("open volume w: "));
    assert!(bench("engine:v", &["--reads", "0"]).refused(2).contains("say --overwrite"));
    let addressed = [&["--addr", "unix:x"], &load[..]].concat();
    assert!(bench("engine:v", &addressed).refused(2).contains("a pool without one"));
    assert!(bench("engine:v", &["--clients", "2"]).refused(2).contains("this generator's own"));

    // The daemon finds what was written, in a pool that is clean.
    let _daemon = home.serve(&[]);
    let mut client = home.connect("v");
    for block in [0, 4095] {
        let bytes = client.read(block * 4096, 4096);
        assert!(bytes.iter().any(|byte| *byte != 0), "block {block}");
    }
}

#[test]
fn snapshots_and_clones_are_made_while_a_load_runs() {
    let home = Home::new();
    let _daemon = home.serve(&[]);
    let run = |preset: &str, more: &[&str]| {
        let arguments = ["bench", "run", preset, "--target", "volumes:4MiB", "--ramp", "0ms"];
        home.varve(&[&arguments[..], &["--duration", "400ms", "--json"], more].concat())
    };
    let json = run("virtinfra", &["--no-fill"]).json();
    let notes = |run: usize| json["runs"][run]["notes"].to_string();
    assert_eq!(notes(0), "null", "the first load has none");
    assert!(notes(1).contains("40 and 4 clones were made meanwhile, 0 failed"), "{}", notes(1));
    let json = run("reduce-vdi", &[]).json();
    let notes = json["runs"][0]["notes"].to_string();
    assert!(notes.contains("by clones and deduplication"), "{notes}");
    assert_eq!(home.varve(&["volume", "list"]).ok().lines().count(), 1, "nothing is left");
    let refused = varve(&["bench", "run", "virtinfra", "--target", "null:1GiB"]).refused(2);
    assert!(refused.contains("say --target volumes:SIZE"), "{refused}");
}

#[test]
fn a_pool_is_filled_before_a_load_and_emptied_after_it() {
    let home = Home::new();
    let _daemon = home.serve(&[]);
    home.varve(&["volume", "create", "v", "--size", "8MiB"]).ok();
    let target = "nbd+unix:///v?socket=nbd.sock";
    let arguments = ["bench", "run", "--target", target, "--ramp", "0ms", "--duration", "100ms"];
    let json = home.varve(&[&arguments[..], &["--fill-pool", "30", "--json"]].concat()).json();
    let notes = json["runs"][0]["notes"].to_string();
    let percent = notes.split('"').find_map(|part| part.split_once(" % of the pool, "));
    let percent: f64 = percent.unwrap().0.parse().unwrap();
    assert!((29.0..40.0).contains(&percent), "{notes}");
    assert_eq!(home.varve(&["volume", "list"]).ok().lines().count(), 2, "the ballast is gone");
}

#[test]
fn the_scale_test_is_a_preset() {
    let text = varve(&["bench", "show", "scale-1000x50"]).ok();
    assert!(text.contains("1000 of 1 GiB, 50 at a time"), "{text}");
    let nobody = varve(&["--data", "nowhere", "bench", "run", "scale-1000x50", "--json"]);
    assert!(nobody.refused(1).contains("no daemon answers"));
    let aimed = varve(&["bench", "run", "scale-1000x50", "--target", "null:1GiB"]).refused(2);
    assert!(aimed.contains("without --target"), "{aimed}");
    // What would do nothing is not taken.
    let idle = ["--save", "d", "--repeat", "3", "--healthy", "true", "--json"];
    let idle = varve(&[&["bench", "run", "scale-1000x50"], &idle[..]].concat()).refused(2);
    assert!(idle.contains("takes no --repeat, --healthy"), "{idle}");
    let nothing = varve(&["bench", "run"]).refused(2);
    assert!(nothing.contains("say --target"), "{nothing}");
}

#[test]
fn ceph_is_asked_for_before_anything_begins() {
    let config = "/nowhere/ceph.conf";
    let refused =
        varve(&["bench", "run", "rados-4m-write", "--target", "rados:p", "--ceph-conf", config]);
    let refused = refused.refused(1);
    assert!(refused.contains("librados") || refused.contains(config), "{refused}");
    let socket = ["--ceph", "/nowhere/osd.asok", "--ramp", "0ms", "--duration", "100ms"];
    let refused = varve(&[&["bench", "run", "--target", "null:1GiB"], &socket[..]].concat());
    assert!(refused.refused(1).contains("ask the daemon of Ceph at /nowhere/osd.asok"));
}

/// What fio 3.33 prints of reads and writes, shortened to what is read.
fn printed() -> String {
    let side = |operations: u64, ns: u64| {
        serde_json::json!({
            "io_bytes": operations * 4096, "total_ios": operations, "runtime": 1000,
            "lat_ns": { "min": ns, "max": ns, "mean": ns, "percentile": { "50.000000": ns },
                        "bins": { ns.to_string(): operations } },
            "clat_ns": { "min": ns, "max": ns, "mean": ns },
        })
    };
    let options = serde_json::json!({ "rw": "randrw", "bs": "4096", "iodepth": "8" });
    let job = serde_json::json!({
        "jobname": "load", "groupid": 0, "error": 0, "job options": options,
        "read": side(700, 100_000), "write": side(300, 400_000),
    });
    let output = serde_json::json!({
        "fio version": "fio-3.33", "timestamp_ms": 1, "global options": {}, "jobs": [job],
    });
    output.to_string()
}

#[test]
fn fio_runs_a_job_file_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("output.json"), printed()).unwrap();
    let fio = dir.path().join("fio");
    fs::write(&fio, "#!/bin/sh\necho \"$@\" >> told\ncat output.json\n").unwrap();
    fs::set_permissions(&fio, fs::Permissions::from_mode(0o755)).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_varve"));
        let path = format!("{}:/usr/bin:/bin", dir.path().display());
        command.current_dir(dir.path()).env("PATH", path).args(["bench", "run"]).args(arguments);
        let output = command.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    // An option that this generator does not know, and jobs beside each other.
    fs::write(dir.path().join("read.fio"), "[a]\nrw=randread\nzonemode=none\n[b]\nrw=read\n")
        .unwrap();
    fs::write(dir.path().join("-write.fio"), "[a]\nrw=randwrite\n").unwrap();
    let (code, text, error) = run(&["--fio-job", "read.fio", "--fio", "--save", "saved"]);
    assert_eq!(code, Some(0), "{error}");
    assert!(text.contains("job `load` of fio") && text.contains("50 % reads"), "{text}");
    let told = fs::read_to_string(dir.path().join("told")).unwrap();
    assert_eq!(told, "--version\n--output-format=json+ read.fio\n");
    let page = varve_in(dir.path(), &["report", "page", "saved", "--markdown"]).ok();
    assert!(page.contains("measured by") && page.contains("fio-3.33"), "{page}");
    assert!(page.contains("--fio-job read.fio"), "the machine is this one: {page}");
    let write = ["--fio-job=-write.fio", "--fio"];
    let (code, _, error) = run(&write);
    assert!(code == Some(2) && error.contains("say --overwrite"), "{error}");
    let (code, text, error) = run(&[&write[..], &["--overwrite", "--json"]].concat());
    assert_eq!(code, Some(0), "{error}");
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["runs"][0]["both"]["operations"], 1000);
    let told = fs::read_to_string(dir.path().join("told")).unwrap();
    assert!(told.ends_with("--output-format=json+ ./-write.fio\n"), "{told}");
    for (wrong, what) in [
        (&["--fio", "libaio"][..], "takes no engine"),
        (&["--fio", "--target", "null:1GiB", "--ramp", "1s"], "takes no --target, --ramp"),
        (&["--fio", "--seed", "2"], "cannot be used with"),
    ] {
        let (code, _, error) = run(&[&["--fio-job", "read.fio"], wrong].concat());
        assert!(code == Some(2) && error.contains(what), "{error}");
    }
    // Without an engine that of the target.
    fs::write(dir.path().join("disk"), vec![0; 1 << 20]).unwrap();
    let (code, text, error) =
        run(&["--target", "disk", "--ramp", "0ms", "--duration", "1s", "--json", "--fio"]);
    assert_eq!(code, Some(0), "{error}");
    assert!(text.contains("by fio ioengine=io_uring"), "{text}");
}

#[test]
fn fio_makes_the_load_and_its_histograms_are_merged() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("output.json"), printed()).unwrap();
    let fio = dir.path().join("fio");
    fs::write(&fio, "#!/bin/sh\necho \"$@\" >> told\ncat output.json\n").unwrap();
    fs::set_permissions(&fio, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(dir.path().join("disk"), vec![0; 1 << 20]).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_varve"));
        let path = format!("{}:/usr/bin:/bin", dir.path().display());
        command.current_dir(dir.path()).env("PATH", path).args(["bench", "run"]).args(arguments);
        command.output().unwrap()
    };
    let load = ["--reads", "70%", "--depth", "8", "--ramp", "200ms", "--duration", "1s", "--json"];
    let rbd = ["--target", "rbd:pool/image", "--overwrite", "--fill", "--repeat", "2"];
    let output = run(&[&rbd[..], &load].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let report = &json["runs"][0];
    assert_eq!(report["target"], "rbd:pool/image");
    assert_eq!(report["load"]["options"][0], "by fio ioengine=rbd");
    let of = |side: &str, field: &str| report[side][field].as_f64().unwrap();
    assert_eq!((of("reads", "operations"), of("both", "operations_per_second")), (1400.0, 1000.0));
    let p99 = report["both"]["latency_us"]["p99"].as_f64().unwrap();
    assert!((399.0..402.0).contains(&p99), "the writes', not an average: {p99}");
    let told = fs::read_to_string(dir.path().join("told")).unwrap();
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines.len(), 4, "its version, fill, and two windows: {told}");
    assert!(lines[1].contains("--rw=write ") && lines[1].contains("--rbdname=image"), "{told}");
    for option in
        ["--rw=randrw", "--rwmixread=70", "--iodepth=8", "--ramp_time=200ms", "--runtime=1000ms"]
    {
        assert!(lines[3].contains(option), "{option}: {told}");
    }
    let file = run(&[&["--target", "disk", "--fio", "libaio"], &load[..]].concat());
    assert!(String::from_utf8_lossy(&file.stderr).contains("say --overwrite"));
    for (wrong, what) in [
        (&["--rate", "5"][..], "does not know a rate"),
        (&["--jobs", "2"], "several jobs on a target without --size"),
        (&["--fio", "rbd", "--target", "null:1GiB"], "fio measures files"),
    ] {
        let target = ["--target", "disk", "--fio", "libaio"];
        let own = if wrong[0] == "--fio" { &[][..] } else { &target };
        let refused = run(&[own, wrong].concat());
        let text = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(refused.status.code() == Some(2) && text.contains(what), "{text}");
    }
    fs::write(&fio, "#!/bin/sh\necho 'rbd: no such image' >&2\nexit 1\n").unwrap();
    let failed = run(&[&["--target", "rbd:pool/image"], &["--duration", "1s"][..]].concat());
    let text = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert!(text.contains("rbd: no such image"), "{text}");
    let without = varve_in(dir.path(), &["bench", "run", "--target", "rbd:image"]).refused(2);
    assert!(without.contains("rbd:POOL/IMAGE"), "{without}");
}
