//! Goal: `varve report page` makes one page that needs nothing else. Method: results of the binary, saved and compared.

use std::fs;

use crate::rig::varve_in;

#[test]
fn results_become_a_page_with_pictures() {
    let dir = tempfile::tempdir().unwrap();
    let run = |name: &str, depth: &str| {
        let arguments =
            ["bench", "run", "--target", "memory:16MiB", "--ramp", "0ms", "--duration", "1100ms"];
        let more = ["--rate", "2000", "--depth", depth, "--repeat", "2", "--save", name];
        varve_in(dir.path(), &[&arguments[..], &more].concat()).ok()
    };
    run("first", "8");
    run("second", "8");
    run("other", "9");
    let page = |more: &[&str]| varve_in(dir.path(), &[&["report", "page"], more].concat()).ok();
    let html = page(&["first", "second", "other"]);
    for part in ["<h2>Latency</h2>", "<h2>Rate over time</h2>", "<h2>second against first</h2>"] {
        assert!(html.contains(part), "{part}");
    }
    assert_eq!(html.matches("<svg").count(), 2);
    assert!(html.contains("cannot be compared: the loads differ"));
    for outside in ["http://", "https://", "src=", "<script"] {
        let without_namespace = html.replace("http://www.w3.org/2000/svg", "");
        assert!(!without_namespace.contains(outside), "{outside}");
    }
    let markdown = page(&["first", "second", "--markdown"]);
    assert!(markdown.contains("## Figures\n\n| run |  | OPS/S |"), "{markdown}");
    assert!(!markdown.contains("svg"));
    let own = fs::read_to_string(dir.path().join("first/index.html")).unwrap();
    assert!(own.contains("<h2>What the client&") || own.contains("<h2>What the client's"), "{own}");
    let too_many = ["report", "page", "a", "b", "c", "d", "e", "f", "g"];
    varve_in(dir.path(), &too_many).refused(2);
}
