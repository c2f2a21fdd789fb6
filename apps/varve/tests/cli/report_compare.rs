//! Goal: `varve report compare` calls a planted regression worse and nothing else, and compares only what can be.
//! Method: a result of the binary, and copies of it with other figures.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::rig::{varve, varve_in};

/// Figures of five repeats with some noise: operations a second, and p99 in µs.
const REPEATS: [(f64, f64); 5] =
    [(1000.0, 500.0), (1020.0, 520.0), (990.0, 490.0), (985.0, 505.0), (1010.0, 510.0)];

/// A measured result, with figures in place of the measured ones.
fn result(rate: f64, p99: f64) -> Value {
    let arguments = ["bench", "run", "--target", "null:1GiB", "--ramp", "0ms", "--repeat", "5"];
    let more = ["--duration", "20ms", "--json"];
    let mut json = varve(&[&arguments[..], &more].concat()).json();
    for (window, figures) in
        json["runs"][0]["repeats"].as_array_mut().unwrap().iter_mut().zip(REPEATS)
    {
        window["operations_per_second"] = (figures.0 * rate).into();
        window["p99_us"] = (figures.1 * p99).into();
    }
    json
}

fn save(dir: &Path, name: &str, json: &Value) {
    fs::write(dir.join(name), json.to_string()).unwrap();
}

#[test]
fn a_regression_ends_with_one_and_nothing_else_does() {
    let dir = tempfile::tempdir().unwrap();
    save(dir.path(), "base", &result(1.0, 1.0));
    save(dir.path(), "slower", &result(0.9, 1.0));
    save(dir.path(), "later", &result(1.0, 1.3));
    save(dir.path(), "faster", &result(1.2, 0.9));
    let compare = |after: &str, more: &[&str]| {
        varve_in(dir.path(), &[&["report", "compare", "base", after], more].concat())
    };
    let same = compare("base", &[]).ok();
    assert!(same.contains("operations/s  1001 ± 18  1001 ± 18  +0.0 %  same\n"), "{same}");
    let slower = compare("slower", &[]);
    assert_eq!(slower.code, 1);
    assert!(slower.stdout.contains("-10.0 %  WORSE\n"), "{}", slower.stdout);
    assert_eq!(slower.stderr, "error: 1 figure is worse by more than 5 %\n");
    assert_eq!(compare("slower", &["--accept", "15"]).code, 0);
    assert_eq!(compare("later", &[]).code, 1);
    let faster = compare("faster", &["--json"]).json();
    assert_eq!((&faster["worse"], &faster["figures"][0]["verdict"]), (&0.into(), &"better".into()));
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let base = result(1.0, 1.0);
    save(dir.path(), "base", &base);
    let refused = |json: &Value, code: i32| {
        save(dir.path(), "other", json);
        varve_in(dir.path(), &["report", "compare", "base", "other"]).refused(code)
    };
    let mut other = base.clone();
    other["runs"][0]["load"]["depth"] = 8.into();
    assert!(refused(&other, 1).contains("the loads differ: "));
    let mut other = base.clone();
    other["runs"][0]["invalid"] = ["the pool was degraded"].into();
    let text = refused(&other, 1);
    assert!(text.contains("the second result means nothing: the pool was degraded"), "{text}");
    let mut other = base;
    other["runs"] = Value::Array(Vec::new());
    assert!(refused(&other, 1).contains("nothing was measured"));
    assert!(refused(&Value::Null, 1).contains("no report of `varve bench run`"));
    let missing = varve_in(dir.path(), &["report", "compare", "base", "nothing"]).refused(1);
    assert!(missing.contains("read nothing: "), "{missing}");
    varve_in(dir.path(), &["report", "compare", "base", "base", "--accept", "-1"]).refused(2);
}
