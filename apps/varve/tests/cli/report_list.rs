//! Goal: `varve report list` tells the history of a folder, and passes over what is no result. Method: results of the
//! binary.

use std::fs;

use crate::rig::varve_in;

#[test]
fn results_are_listed_the_oldest_first() {
    let dir = tempfile::tempdir().unwrap();
    let run = |name: &str, more: &[&str]| {
        let arguments =
            ["bench", "run", "--target", "null:1GiB", "--ramp", "0ms", "--duration", "100ms"];
        varve_in(dir.path(), &[&arguments[..], &["--save", name], more].concat()).ok()
    };
    run("zeroth", &[]);
    run("first", &["--depths", "1,2"]);
    run("workers", &["null-workers"]);
    fs::create_dir(dir.path().join("empty")).unwrap();
    fs::write(dir.path().join("other.json"), "{}").unwrap();
    fs::copy(dir.path().join("zeroth/report.json"), dir.path().join("copy.json")).unwrap();
    let list = |more: &[&str]| varve_in(dir.path(), &[&["report", "list"], more].concat());
    let json = list(&["--json"]).json();
    let names: Vec<&str> = json["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    assert_eq!(names[..4], ["copy", "zeroth", "first", "first"]);
    assert_eq!(names[4..], ["workers"; 7]);
    let workers = list(&[".", "--preset", "null-workers"]).ok();
    assert_eq!(workers.lines().count(), 8, "{workers}");
    assert!(workers.contains("32 jobs × 32 under way"), "{workers}");
    // The page links to pages of folders; a file has none.
    run("a <b>", &[]);
    let html = list(&["--html"]).ok();
    for part in [
        "<td><a href=\"first/index.html\">first</a></td>",
        "<td><a href=\"a%20%3Cb%3E/index.html\">a &lt;b&gt;</a></td>",
        "<td>copy</td>",
        "<th>TIME, UTC</th>",
    ] {
        assert!(html.contains(part), "{part}: {html}");
    }
    assert!(!html.contains("<b>") && html.trim_end().ends_with("</html>"), "{html}");
    assert_eq!(json["results"][1]["page"], "zeroth/index.html");
    assert!(json["results"][0]["page"].is_null());
    list(&["--html", "--json"]).refused(2);
    let refused = list(&["nowhere"]).refused(1);
    assert!(refused.contains("list nowhere"), "{refused}");
}

#[test]
fn a_run_that_means_nothing_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let arguments =
        ["bench", "run", "--target", "null:1GiB", "--ramp", "0ms", "--duration", "100ms"];
    let unwell = ["--healthy", "false", "--save", "unwell"];
    varve_in(dir.path(), &[&arguments[..], &unwell].concat()).ok();
    let text = varve_in(dir.path(), &["report", "list"]).ok();
    assert!(text.trim_end().ends_with("INVALID"), "{text}");
}
