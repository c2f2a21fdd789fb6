//! Goal: `varve bench scale` takes volumes through their whole lives and tells what is left of them. Method: a daemon.

use crate::daemon::Home;

/// As many as a busy machine does in seconds, and with room in a small pool for all of them: what is deleted waits for
/// a mark pass.
const SMALL: [&str; 8] =
    ["--volumes", "100", "--at-once", "10", "--size", "64MiB", "--io", "256KiB"];

#[test]
fn a_hundred_volumes_live_and_leave_nothing() {
    let home = Home::new();
    let _daemon = home.serve(&[]);
    home.varve(&["volume", "create", "other", "--size", "1GiB"]).ok();
    let scale = |more: &[&str]| {
        home.varve(&[&["bench", "scale", "--block", "64KiB"], &SMALL[..], more].concat())
    };
    let saved = home.path().join("saved");
    let json = scale(&["--json", "--save", saved.to_str().unwrap()]).json();
    let report = std::fs::read_to_string(saved.join("report.json")).unwrap();
    assert_eq!(serde_json::from_str::<serde_json::Value>(&report).unwrap(), json);
    assert!(json["system"]["processors"].as_u64() > Some(0), "{json}");
    let page = std::fs::read_to_string(saved.join("index.html")).unwrap();
    assert!(page.contains("<h2>Functions</h2>") && page.contains("<td>unmap</td>"), "{page}");
    scale(&["--save", saved.to_str().unwrap()]).refused(2);
    let functions = json["functions"].as_array().unwrap();
    let names: Vec<&str> = functions.iter().map(|of| of["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["create", "map", "wait", "io", "unmap", "remove", "life"]);
    for function in functions {
        assert_eq!(
            (&function["count"], &function["errors"]),
            (&100.into(), &0.into()),
            "{function}"
        );
        let of = |field: &str| function[field].as_f64().unwrap();
        assert!(of("min") <= of("median") && of("median") <= of("p90") && of("p90") <= of("max"));
        assert!((of("mean") * 100.0 - of("total")).abs() < 1e-6, "{function}");
    }
    assert_eq!((&json["errors"], json["leaks"].as_array().unwrap().len()), (&0.into(), 0));
    assert_eq!(home.varve(&["volume", "list"]).ok().lines().count(), 2, "the other one is left");
    // A volume of that name would be taken for one of its own.
    home.varve(&["volume", "create", "bench-scale-7", "--size", "64MiB"]).ok();
    let refused = scale(&[]).refused(1);
    assert!(refused.contains("a volume bench-scale-7 exists"), "{refused}");
}

#[test]
fn errors_are_counted_and_end_with_one() {
    let home = Home::new();
    let _daemon = home.serve(&[]);
    // Volumes are this large at most, so that none is made.
    let arguments = ["bench", "scale", "--volumes", "3", "--at-once", "2", "--size", "100000TiB"];
    let run = home.varve(&arguments);
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert_eq!(run.stderr, "error: 3 errors, 0 leaks\n", "{}", run.stdout);
    assert!(run.stdout.contains("first error  create: "), "{}", run.stdout);
    home.varve(&["bench", "scale", "--io", "3MiB"]).refused(2);
}
