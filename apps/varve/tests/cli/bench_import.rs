//! Goal: job files of fio run as loads, and what fio prints is shown and compared. Method: the binary; results as fio
//! 3.33 prints them.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::rig::{Run, varve_in};

const JOBS: &str = "[global]\nioengine=libaio\ndirect=1\nfilename=/dev/none\nsize=8m\nruntime=200ms\nstonewall\n\n\
                    [small]\nrw=randrw\nrwmixread=70\nbs=4k\niodepth=8\nnumjobs=2\nrandom_distribution=zipf:1.1\n\n\
                    [large]\nrw=write\nbssplit=64k/100\nrate_iops=500\nbuffer_compress_percentage=50\n";

fn run(dir: &Path, jobs: &str, more: &[&str]) -> Run {
    fs::write(dir.join("x.fio"), jobs).unwrap();
    let arguments = ["bench", "run", "--fio-job", "x.fio"];
    varve_in(dir, &[&arguments[..], more].concat())
}

#[test]
fn a_job_file_runs_as_loads() {
    let dir = tempfile::tempdir().unwrap();
    let memory = ["--target", "memory:16MiB"];
    let json = run(dir.path(), JOBS, &[&memory[..], &["--verify", "--json"]].concat()).json();
    let [small, large] = json["runs"].as_array().unwrap().as_slice() else { panic!("{json}") };
    assert_eq!((&small["size_bytes"], &small["duration_ms"]), (&(8 << 20).into(), &200.into()));
    let load = &small["load"];
    assert_eq!((&load["pattern"], &load["jobs"]), (&"zipf:1.1".into(), &2.into()));
    assert_eq!((&load["read_percent"], &load["depth"]), (&70.into(), &8.into()));
    assert!(small["reads"]["operations"].as_u64() > small["writes"]["operations"].as_u64());
    let load = &large["load"];
    assert_eq!((&load["block_bytes"], &load["pattern"]), (&65_536.into(), &"sequential".into()));
    assert_eq!(
        (&load["compression_ratio"], &load["rate_per_second"]),
        (&2.0.into(), &500.0.into())
    );
    let operations = large["both"]["operations"].as_u64().unwrap();
    assert!((90..=100).contains(&operations), "{operations} at 500/s in 200 ms");
}

#[test]
fn what_is_not_understood_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let memory = ["--target", "memory:16MiB"];
    let refused = run(dir.path(), &JOBS.replace("bs=4k", "fsync=1"), &memory).refused(2);
    assert!(refused.contains("x.fio, line 12: option `fsync` is not understood"), "{refused}");
    assert!(refused.contains("varve bench import"), "{refused}");
    let split = JOBS.replace("bssplit=64k/100", "bssplit=4k/50:64k/50");
    assert!(run(dir.path(), &split, &memory).refused(2).contains("line 19: option `bssplit`"));
    let engine = run(dir.path(), &JOBS.replace("libaio", "http"), &memory).refused(2);
    assert!(engine.contains("`http` is an engine that no target here stands for"), "{engine}");
    assert!(engine.contains("add --fio"), "{engine}");
    let both = run(dir.path(), JOBS, &[&memory[..], &["--depth", "3"]].concat()).refused(2);
    assert!(both.contains("cannot be used with"), "{both}");
    let bucket = run(dir.path(), JOBS, &["--target", "s3://bench"]).refused(2);
    assert!(bucket.contains("are loads of blocks, not of objects"), "{bucket}");
    fs::write(dir.path().join("disk"), vec![0; 8 << 20]).unwrap();
    let unasked = run(dir.path(), JOBS, &["--target", "disk"]).refused(2);
    assert!(unasked.contains("destroys what disk holds"), "{unasked}");
}

#[test]
fn job_files_of_others_run() {
    let dir = tempfile::tempdir().unwrap();
    let memory = ["--target", "memory:16MiB", "--duration", "100ms", "--ramp", "0ms"];
    // As Kubernetes users have it: no runtime, no stonewall, fio's default of verify, comments behind values.
    let text = "[global]\nrandrepeat=0\nverify=0\nioengine=libaio\ndirect=1\ngtod_reduce=1\n\
                [read_iops]\nname=read_iops\nbs=4K ; small\niodepth=8\nsize=8MiB\nreadwrite=randread\n\
                [read_bw]\nbs=128KB\niodepth=4\nsize=8Mi\nreadwrite=randread\n";
    let text = run(dir.path(), text, &memory).ok();
    assert!(
        text.contains("job `read_bw`: `read_iops`, which fio would run at the same time"),
        "{text}"
    );
    assert!(text.contains("4 KiB random, 100 % reads, 1 job × 8 under way"), "{text}");
    let line =
        ["--", "fio", "--name=a", "--rw=randwrite", "--bs", "16k", "--iodepth=4", "--size=8m"];
    let json = ["--json"];
    let line = [&["bench", "run"][..], &memory, &json, &line].concat();
    let json = varve_in(dir.path(), &line).json();
    let load = &json["runs"][0]["load"];
    assert_eq!((&load["block_bytes"], &load["depth"]), (&16384.into(), &4.into()));
    assert_eq!(
        (&load["read_percent"], &json["runs"][0]["size_bytes"]),
        (&0.into(), &(8 << 20).into())
    );
    let wrong = ["bench", "run", "--target", "memory:16MiB", "--", "fio", "job.fio"];
    assert!(varve_in(dir.path(), &wrong).refused(2).contains("job files are run by --fio-job"));
}

#[test]
fn what_fio_measured_apart_is_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let import = |value: &Value| {
        fs::write(dir.path().join("x.json"), value.to_string()).unwrap();
        varve_in(dir.path(), &["bench", "import", "x.json"]).ok()
    };
    let mut value: Value = serde_json::from_str(&output(1000, 50_000)).unwrap();
    value["jobs"][0]["sync"] = json!({ "total_ios": 1000, "lat_ns": latencies(1000, 2_000_000) });
    let text = import(&value);
    let row: Vec<&str> = text.lines().last().unwrap().split_whitespace().collect();
    assert_eq!((row[0], row[3], row.last()), ("syncs", "2180", Some(&"20000")));
    assert!(text.contains("flushes (fsync, fdatasync) are the row syncs"), "{text}");
    // With gtod_reduce there are rates alone.
    let mut value: Value = serde_json::from_str(&output(1000, 50_000)).unwrap();
    value["jobs"][0]["read"]["clat_ns"] = json!({});
    let text = import(&value);
    let row: Vec<&str> = text.lines().last().unwrap().split_whitespace().collect();
    assert_eq!((row[0], row[1], row.last()), ("reads", "100", Some(&"–")));
    assert!(text.contains("latencies were not measured"), "{text}");
}

/// Latencies as fio tells them: `operations` of them, a hundredth ten times as long.
fn latencies(operations: u64, ns: u64) -> Value {
    let bins = json!({ ns.to_string(): operations - operations / 100, (ns * 10).to_string(): operations / 100 });
    let percentile = json!({
        "50.000000": ns, "90.000000": ns, "95.000000": ns, "99.000000": ns, "99.900000": ns * 10, "99.990000": ns * 10,
    });
    json!({ "max": ns * 10, "mean": ns as f64 * 1.09, "percentile": percentile, "bins": bins })
}

fn output(operations: u64, ns: u64) -> String {
    let side = json!({
        "io_bytes": operations * 4096, "total_ios": operations, "runtime": 10_000, "clat_ns": latencies(operations, ns),
    });
    let none = json!({ "io_bytes": 0, "total_ios": 0, "runtime": 0 });
    let job = json!({
        "jobname": "small", "groupid": 0, "error": 0, "read": side, "write": none, "trim": none,
        "job options": { "name": "small", "rw": "randread", "bs": "4k", "iodepth": "32", "runtime": "10", "fsync": "1" },
    });
    let value =
        json!({ "fio version": "fio-3.33", "timestamp_ms": 1_700_000_000_000_u64, "jobs": [job] });
    serde_json::to_string_pretty(&value).unwrap()
}

#[test]
fn what_fio_printed_is_shown_saved_and_compared() {
    let dir = tempfile::tempdir().unwrap();
    let import = |name: &str, text: &str, more: &[&str]| {
        fs::write(dir.path().join(name), text).unwrap();
        varve_in(dir.path(), &[&["bench", "import", name], more].concat())
    };
    let before = output(100_000, 50_000);
    let text = import("before.json", &before, &[]).ok();
    assert!(text.contains(
        "4 KiB random, 100 % reads, 1 job × 32 under way, as fast as answered, fsync=1\n"
    ));
    let row: Vec<&str> = text.lines().last().unwrap().split_whitespace().collect();
    assert_eq!(
        row,
        ["reads", "10000", "39.1", "54.5", "50.0", "50.0", "50.0", "50.0", "500", "500", "500"]
    );
    import("before.json", &before, &["--save", "before"]).ok();
    import("after.json", &output(80_000, 60_000), &["--save", "after"]).ok();
    let compared = varve_in(dir.path(), &["report", "compare", "before", "after"]);
    assert_eq!(compared.code, 1, "{}", compared.stdout);
    assert!(compared.stdout.contains("operations/s") && compared.stdout.contains("-20.0 %"));
    let page = varve_in(dir.path(), &["report", "page", "before", "after", "--markdown"]).ok();
    assert!(page.contains("fio-3.33") && page.contains("after against before"), "{page}");
    let twice: Value = serde_json::from_str(&before).unwrap();
    let job = &twice["jobs"][0];
    let twice = json!({ "fio version": "x", "jobs": [job, job] }).to_string();
    let merged = import("twice.json", &twice, &["--json"]).json();
    assert_eq!(merged["runs"][0]["both"]["operations"], 200_000, "histograms are added");
    let plain = twice.replace("\"bins\"", "\"none\"");
    let text = import("plain.json", &plain, &[]).ok();
    assert!(
        text.contains("percentiles of all operations are not known: fio --output-format=json+"),
        "{text}"
    );
    assert!(text.lines().last().unwrap().split_whitespace().nth(4) == Some("–"), "{text}");
    assert!(import("no.json", "{}", &[]).refused(2).contains("not what fio"));
}

#[test]
fn figures_that_cannot_be_are_not_used() {
    let dir = tempfile::tempdir().unwrap();
    let import = |name: &str, text: &str, more: &[&str]| {
        fs::write(dir.path().join(name), text).unwrap();
        varve_in(dir.path(), &[&["bench", "import", name], more].concat())
    };
    let fio = output(100_000, 50_000);
    import("can.json", &fio, &["--save", "can"]).ok();
    // The same within a thousandth of the time: more were under way than 32.
    let soon = fio.replace("\"runtime\": 10000", "\"runtime\": 10");
    let text = import("soon.json", &soon, &["--save", "soon"]).ok();
    assert!(
        text.contains("INVALID  inconsistent: rate × latency gives 545.0 operations"),
        "{text}"
    );
    assert!(!text.contains("bound by"), "{text}");
    let compared = varve_in(dir.path(), &["report", "compare", "can", "soon"]);
    assert!(compared.refused(1).contains("the second result means nothing: inconsistent"));
    let measured = ["plan", "--iops", "1k", "--usable", "1TB", "--measured", "idf16=soon"];
    let planned = varve_in(dir.path(), &measured).refused(1);
    assert!(planned.contains("soon means nothing: inconsistent"), "{planned}");
    let never = fio.replace("\"runtime\": 10000", "\"runtime\": 0");
    let refused = import("never.json", &never, &[]).refused(2);
    assert!(refused.contains("job `small`: it has a runtime of 0 ms"), "{refused}");
}
