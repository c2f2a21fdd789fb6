//! Goal: results of several hosts that measured together are one, with the percentiles of all operations. Method:
//! processes in place of hosts.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::rig::{Run, varve_in};

fn unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// Measures as one host does.
fn host(dir: &Path, name: &str, more: &[&str]) -> Value {
    let arguments = ["bench", "run", "--ramp", "100ms", "--duration", "1s", "--json"];
    let text = varve_in(dir, &[&arguments[..], more].concat()).ok();
    fs::write(dir.join(name), &text).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn merge(dir: &Path, more: &[&str]) -> Run {
    varve_in(dir, &[&["bench", "merge"], more].concat())
}

#[test]
fn hosts_that_begin_together_make_one_result() {
    let dir = tempfile::tempdir().unwrap();
    let at = (unix_s() + 3).to_string();
    let load = ["--reads", "50", "--at", &at, "--repeat", "2", "--target"];
    let hosts: Vec<Value> = thread::scope(|scope| {
        let loads = [
            ("a.json", ["null:1GiB", "--seed", "1", "--jobs", "1", "--rate", "2000"]),
            ("b.json", ["memory:16MiB", "--seed", "2", "--jobs", "2", "--rate", "500"]),
        ];
        let dir = dir.path();
        let started = loads
            .map(|(name, more)| scope.spawn(move || host(dir, name, &[&load[..], &more].concat())));
        started.map(|host| host.join().unwrap()).into()
    });
    for host in &hosts {
        let began_ms = host["runs"][0]["repeats"][0]["began_unix_ms"].as_u64().unwrap();
        let due_ms = at.parse::<u64>().unwrap() * 1000 + 100;
        assert!((due_ms..due_ms + 250).contains(&began_ms), "{began_ms}, due {due_ms}");
    }
    let merged = merge(dir.path(), &["a.json", "b.json", "--json"]).json();
    assert_eq!(merged["hosts"].as_array().unwrap().len(), 2);
    let run = &merged["runs"][0];
    assert_eq!(run["invalid"].as_array().unwrap().len(), 0, "{}", run["invalid"]);
    assert_eq!(run["target"], "null, 1 GiB, memory, 16 MiB");
    let load = &run["load"];
    assert_eq!((&load["jobs"], &load["rate_per_second"]), (&3.into(), &2500.0.into()));
    let rate = run["both"]["operations_per_second"].as_f64().unwrap();
    assert!((rate - 2500.0).abs() < 50.0, "{rate}");
    assert_eq!(run["repeats"].as_array().unwrap().len(), 2);
    // Both ran on this machine, which counts once; both processes made the load.
    let usage = &run["repeats"][0]["usage"];
    assert_eq!(usage["cpus"], hosts[0]["runs"][0]["repeats"][0]["usage"]["cpus"]);
    assert_eq!(usage["processes"].as_array().unwrap().len(), 2, "{usage}");
    assert_eq!(run["repeats"][0]["layers"]["cpu_us"][1][0], "clients", "{run}");
    // Percentiles are those of all operations.
    for side in ["reads", "writes", "both"] {
        let mut cells: BTreeMap<u64, u64> = BTreeMap::new();
        for host in &hosts {
            for cell in host["runs"][0][side]["histogram_ns"].as_array().unwrap() {
                *cells.entry(cell[0].as_u64().unwrap()).or_default() += cell[1].as_u64().unwrap();
            }
        }
        let all: u64 = cells.values().sum();
        let mut so_far = 0;
        let p99 = cells.iter().find(|(_, count)| {
            so_far += **count;
            so_far * 100 >= all * 99
        });
        let p99_us = *p99.unwrap().0 as f64 / 1000.0;
        assert_eq!(run[side]["latency_us"]["p99"].as_f64(), Some(p99_us), "{side}");
    }
    merge(dir.path(), &["a.json", "b.json", "--save", "both"]).ok();
    let page = varve_in(dir.path(), &["report", "page", "both", "--markdown"]).ok();
    assert!(page.contains("under way of 2 clients, 2500 operations/s"), "{page}");
    varve_in(dir.path(), &["report", "compare", "both", "both"]).ok();
}

#[test]
fn what_is_not_one_measurement_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let null = ["--target", "null:1GiB", "--rate", "100"];
    host(dir.path(), "a.json", &null);
    host(dir.path(), "b.json", &null);
    let text = merge(dir.path(), &["a.json", "b.json"]).ok();
    assert!(
        text.contains("INVALID") && text.contains("s apart: give all of them one --at"),
        "{text}"
    );
    host(dir.path(), "c.json", &[&null[..], &["--block", "8KiB"]].concat());
    let refused = merge(dir.path(), &["a.json", "c.json"]).refused(1);
    assert!(refused.contains("the loads differ: 4 KiB random"), "{refused}");
    let writes = [&null[..], &["--reads", "0"]].concat();
    host(dir.path(), "d.json", &writes);
    host(dir.path(), "e.json", &writes);
    let text = merge(dir.path(), &["d.json", "e.json"]).ok();
    assert!(text.contains("hosts with one seed write the same data"), "{text}");
    fs::copy(dir.path().join("d.json"), dir.path().join("f.json")).unwrap();
    for (twice, names) in [("d.json", "d and d (2)"), ("f.json", "d and f")] {
        let refused = merge(dir.path(), &["d.json", "e.json", twice]).refused(1);
        assert!(refused.contains(&format!("{names} are the same result")), "{refused}");
    }
    let past = varve_in(dir.path(), &["bench", "run", "--target", "null:1GiB", "--at", "5"]);
    assert!(past.refused(2).contains("--at has passed"));
    assert!(merge(dir.path(), &["a.json"]).refused(2).contains("2 values required"));
}
