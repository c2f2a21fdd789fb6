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
    // Beside those two, use of the machine, and bytes where any were moved.
    assert!((3..=4).contains(&html.matches("<svg").count()));
    assert!(html.contains("<h2>Use over time</h2>") && html.contains("second: processors"));
    assert!(html.contains("navigator.clipboard") && html.contains("\n| run |  | OPS/S |"));
    assert!(html.contains("cannot be compared: the loads differ"));
    for outside in ["http://", "https://", "src=", "<script"] {
        let without_namespace = html.replace("http://www.w3.org/2000/svg", "");
        assert!(!without_namespace.contains(outside), "{outside}");
    }
    let markdown = page(&["first", "second", "--markdown"]);
    assert!(markdown.contains("## Figures\n\n| run |  | OPS/S |"), "{markdown}");
    assert!(!markdown.contains("svg"));
    // Rates of load over what is asked for stand at the top, loads have short names, and verdicts come first.
    let sweep =
        ["bench", "run", "--target", "memory:16MiB", "--ramp", "0ms", "--duration", "100ms"];
    let sweep = [&sweep[..], &["--depths", "1,2,4", "--save", "sweep"]].concat();
    varve_in(dir.path(), &sweep).ok();
    let swept = page(&["sweep"]);
    let top = swept.split("<h2>Figures</h2>").next().unwrap();
    assert!(top.contains("<h2>Rate by load</h2>") && top.contains("<h2>Mean latency by load</h2>"));
    assert!(swept.contains("<td>1 job × 2 under way</td>"), "{swept}");
    assert!(
        swept.contains(
            "<h2>All loads</h2>\n<ul>\n<li>4 KiB random, 100 % reads, as fast as answered"
        )
    );
    assert!(html.contains("<th>verdict</th>"), "{html}");
    let own = fs::read_to_string(dir.path().join("first/index.html")).unwrap();
    assert!(own.contains("<h2>What the client&") || own.contains("<h2>What the client's"), "{own}");
    // A file of JSON has no timelines.
    fs::copy(dir.path().join("first/report.json"), dir.path().join("copy.json")).unwrap();
    let copy = page(&["copy.json"]);
    assert!(!copy.contains("Use over time") && copy.contains("<h2>Rate over time</h2>"));
    assert!(page(&["first/report.json"]).contains("<h2>Use over time</h2>"));
    for file in ["latency.svg", "rate-over-time.svg", "use-over-time.svg"] {
        let svg = fs::read_to_string(dir.path().join("first").join(file)).unwrap();
        assert!(svg.starts_with("<svg"), "{file}");
    }
    // A machine without fonts has no PNG, and says so.
    let pictures =
        varve_in(dir.path(), &["report", "page", "first", "second", "--pictures", "pictures"]);
    let png = fs::read(dir.path().join("pictures/latency.png"));
    match pictures.code {
        0 => assert!(png.unwrap().starts_with(b"\x89PNG\r\n\x1a\n")),
        code => {
            assert!(code == 1 && png.is_err() && pictures.stderr.contains("a PNG needs a font"))
        }
    }
    assert!(dir.path().join("pictures/latency.svg").exists());
    let too_many = ["report", "page", "a", "b", "c", "d", "e", "f", "g"];
    varve_in(dir.path(), &too_many).refused(2);
}
