//! Goal: `varve bucket log` switches a bucket's access log, and requests are in it while it is on. Method: a memory
//! backend behind the real API; and a daemon that requests without a signature are sent to.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;

use crate::daemon::Home;
use crate::rig::Api;

#[test]
fn the_log_is_switched() {
    let api = Api::start();
    api.varve(&["bucket", "create", "photos"]).ok();
    let said = api.varve(&["bucket", "log", "photos", "on"]).ok();
    assert_eq!(said, "access log of bucket photos: on\n");
    assert!(api.varve(&["bucket", "show", "photos"]).ok().contains("access log    on\n"));
    let json = api.varve(&["bucket", "log", "photos", "off", "--json"]).json();
    assert_eq!(json["access_log"], false);
    assert!(api.varve(&["bucket", "log", "photos", "maybe"]).refused(2).contains("on, off"));
    assert!(api.varve(&["bucket", "log", "none", "on"]).refused(1).contains("no bucket `none`"));
}

/// Sends a request and reads its answer to the end.
fn request(address: &str, line: &str) -> String {
    request_with(address, line, "")
}

fn request_with(address: &str, line: &str, header: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "{line} HTTP/1.1\r\nhost: {address}\r\nuser-agent: test\r\n{header}connection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn requests_are_logged_while_it_is_on_and_all_are_counted() {
    let home = Home::new();
    let daemon = home.serve(&["--s3", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    let status = home.varve(&["status", "--json"]).json();
    let listeners = status["listeners"].as_array().unwrap();
    let s3 = listeners.iter().find(|one| one["protocol"] == "s3").unwrap();
    let s3 = s3["address"].as_str().unwrap().to_owned();
    home.varve(&["bucket", "create", "photos"]).ok();
    assert!(request(&s3, "GET /photos/before").starts_with("HTTP/1.1 403 "));
    home.varve(&["bucket", "log", "photos", "on"]).ok();
    let answer = request(&s3, "GET /photos/a%20b?X-Amz-Date=x");
    assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("AccessDenied"), "{answer}");
    home.varve(&["bucket", "log", "photos", "off"]).ok();
    request(&s3, "GET /photos/after");
    let admin = daemon.banner().lines().find(|line| line.contains("admin")).unwrap();
    let token = std::fs::read_to_string(home.path().join("varve-data/admin.token")).unwrap();
    let shown = format!("authorization: Bearer {}\r\n", token.trim());
    let metrics = request_with(admin.rsplit(", ").next().unwrap(), "GET /metrics", &shown);
    for expected in [
        "varve_s3_requests_total{operation=\"GetObject\",status=\"4xx\"} 3\n",
        "varve_s3_errors_total{code=\"AccessDenied\"} 3\n",
        "varve_s3_request_seconds_count{operation=\"GetObject\"} 3\n",
        "varve_s3_log_dropped_lines_total 0\n",
    ] {
        assert!(metrics.contains(expected), "{expected} is not in {metrics}");
    }
    daemon.signal("TERM");
    assert_eq!(daemon.end().1, "", "a request that is refused is no news");
    let log = fs::read_to_string(home.path().join("varve-data/s3-log/photos.log")).unwrap();
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines.len(), 1, "{log}");
    assert!(lines[0].starts_with("owner photos ["), "{log}");
    assert!(lines[0].contains("] 127.0.0.1 - "), "{log}");
    let asked =
        " REST.GET.OBJECT a%20b \"GET /photos/a%20b?X-Amz-Date=x HTTP/1.1\" 403 AccessDenied ";
    assert!(lines[0].contains(asked), "{log}");
}
