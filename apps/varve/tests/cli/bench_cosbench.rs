//! Goal: `varve bench cosbench` runs a workload as COSBench's XML says, and tells it in COSBench's words. Method: a
//! daemon with S3.

use std::fs;

use crate::daemon::Home;
use crate::rig::varve;

/// All kinds of works: two buckets of ten objects, and a mix on them.
const WORKLOAD: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<workload name="small" description="every kind of work">
  <storage type="s3" config="accesskey=nobody;secretkey=nothing;endpoint=http://127.0.0.1:1"/>
  <workflow>
    <workstage name="init"><work type="init" workers="2" config="cprefix=small-;containers=r(1,2)"/></workstage>
    <workstage name="prepare">
      <work type="prepare" workers="3" config="cprefix=small-;containers=r(1,2);objects=r(1,10);sizes=u(1,200)KB"/>
    </workstage>
    <workstage name="main">
      <work name="main" workers="4" totalOps="400">
        <operation type="read" ratio="60" config="cprefix=small-;containers=u(1,2);objects=u(1,10)"/>
        <operation type="write" ratio="20" config="cprefix=small-;containers=u(1,2);objects=u(11,20);sizes=h(1|64|10,64|512|20)KB"/>
        <operation type="delete" ratio="10" config="cprefix=small-;containers=u(1,2);objects=u(11,20)"/>
        <operation type="list" ratio="10" config="cprefix=small-;containers=u(1,2)"/>
      </work>
    </workstage>
    <workstage name="timed">
      <work name="timed" workers="2" rampup="1" runtime="1">
        <operation type="read" ratio="100" config="cprefix=small-;containers=c(1);objects=s(1,10)"/>
      </work>
    </workstage>
    <workstage name="cleanup"><work type="cleanup" workers="2" config="cprefix=small-;containers=r(1,2);objects=r(1,20)"/></workstage>
    <workstage name="dispose"><work type="dispose" workers="1" config="cprefix=small-;containers=r(1,2)"/></workstage>
  </workflow>
</workload>"#;

#[test]
fn a_workload_runs_from_its_first_bucket_to_none() {
    let home = Home::new();
    let _daemon = home.serve(&["--s3", "127.0.0.1:0"]);
    let key = home.varve(&["user", "create", "ann", "--json"]).json();
    let secret = key["secret_key"].as_str().unwrap();
    fs::write(home.path().join("secret"), secret).unwrap();
    fs::write(home.path().join("w.xml"), WORKLOAD).unwrap();
    let status = home.varve(&["status", "--json"]).json();
    let listeners = status["listeners"].as_array().unwrap();
    let listener = listeners.iter().find(|one| one["protocol"] == "s3").unwrap();
    let endpoint = format!("http://{}", listener["address"].as_str().unwrap());
    let cosbench = |workload: &str, more: &[&str]| {
        let arguments = ["bench", "cosbench", workload, "--endpoint", &endpoint, "--access-key"];
        let key = [key["access_key"].as_str().unwrap(), "--secret-file", "secret"];
        home.varve(&[&arguments[..], &key, more].concat())
    };
    let csv = cosbench("w.xml", &["--csv", "--save", "saved"]).ok();
    let saved = |file: &str| fs::read_to_string(home.path().join("saved").join(file)).unwrap();
    assert_eq!(saved("report.csv"), csv);
    assert!(saved("index.html").contains("<td>s3-main</td>"), "{}", saved("index.html"));
    let lines: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(lines[0][..5], ["Stage", "Op-Name", "Op-Type", "Op-Count", "Byte-Count"]);
    let of = |stage: &str, kind: &str| {
        let found = lines.iter().find(|line| line[0] == stage && line[2] == kind);
        let line = found.unwrap_or_else(|| panic!("{stage} {kind}: {csv}"));
        assert_eq!(line[15..], ["100.00%", "completed", "completed"], "{csv}");
        (line[3].parse::<u64>().unwrap(), line[4].parse::<u64>().unwrap())
    };
    assert_eq!(of("s1-init", "init"), (2, 0));
    let prepared = of("s2-prepare", "write");
    assert!(prepared.0 == 20 && prepared.1 >= 20_000, "{csv}");
    assert_eq!(of("s3-main", "read").0, 240, "60 of 100, dealt");
    assert_eq!(of("s3-main", "delete"), (40, 0));
    assert_eq!(of("s3-main", "list"), (40, 0));
    let (writes, bytes) = of("s3-main", "write");
    assert!(writes == 80 && (80 * 1000..80 * 512_000).contains(&bytes), "{csv}");
    let timed = of("s4-timed", "read");
    assert!(timed.0 > 0 && timed.1 >= timed.0 * 1000, "{csv}");
    assert_eq!(of("s5-cleanup", "delete"), (40, 0));
    assert_eq!(of("s6-dispose", "dispose"), (2, 0));
    assert_eq!(home.varve(&["bucket", "list"]).ok().lines().count(), 1, "none is left");
    // Nothing is there to be read now.
    let reads = WORKLOAD
        .replace("name=\"init\"", "name=\"none\"")
        .replace("type=\"init\"", "type=\"dispose\"");
    fs::write(home.path().join("reads.xml"), reads.replace("type=\"prepare\"", "type=\"cleanup\""))
        .unwrap();
    let run = cosbench("reads.xml", &[]);
    assert_eq!(run.code, 1, "{}", run.stdout);
    assert!(run.stderr.contains("of s2-prepare failed: DELETE /small-"), "{}", run.stderr);
    assert!(run.stdout.starts_with("STAGE"), "{}", run.stdout);
}

#[test]
fn workloads_that_cannot_be_run_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("w.xml");
    let refused = |xml: &str| {
        fs::write(&file, xml).unwrap();
        varve(&["bench", "cosbench", file.to_str().unwrap()]).refused(2)
    };
    let needs = |preset| varve(&["bench", "cosbench", preset]);
    assert!(needs("cos-small-read").refused(2).contains("work init names no endpoint"));
    assert!(needs("idf16").refused(2).contains("run `varve bench run idf16`"));
    assert!(needs("yahoo-cas").refused(2).contains("it needs a cache tier"));
    assert!(refused("<wrok/>").contains("COSBench has no such element"));
    let without = WORKLOAD.replace("endpoint=http://127.0.0.1:1", "x=y");
    assert!(refused(&without).contains("work init names no endpoint"));
    // Files may be long, and what is ignored is told.
    let long = format!("<!-- {} -->", "x".repeat(100_000));
    let ignored = without.replace("<work name=\"timed\"", "<work name=\"timed\" driver=\"d\"");
    let told = refused(&(ignored + &long));
    assert!(told.contains("warning: driver of work timed is ignored\n"), "{told}");
    assert!(told.contains("work init names no endpoint"), "{told}");
    let too_long = " ".repeat((16 << 20) + 1);
    assert!(refused(&too_long).contains("is longer than 16777216 bytes"));
    let tls = WORKLOAD.replace("http://127.0.0.1:1", "https://127.0.0.1:1");
    assert!(refused(&tls).contains("invalid endpoint `https://127.0.0.1:1`"));
}
