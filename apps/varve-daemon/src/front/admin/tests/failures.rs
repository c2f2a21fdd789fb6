//! Cells that do not answer, that break off, and names that have moved.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use varve_access_admin::MemoryBackend;

use super::{CellConduct, MemoryCells, names};

#[tokio::test]
async fn a_cell_that_does_not_answer_is_missing_and_named() {
    let fake = MemoryCells::empty(3);
    for (cell, name) in [(0, "a"), (1, "b"), (2, "c")] {
        fake.put(cell, name).await;
    }
    fake.conducts(1, CellConduct::Silent(Vec::new()));
    fake.conducts(2, CellConduct::Nobody);
    let begin = Instant::now();
    let paths = ["/v1/status", "/v1/pool", "/v1/volumes", "/v1/snapshots", "/v1/check"];
    let metrics = fake.exchange("GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n", None);
    let create = fake.call("POST", "/v1/volumes", Some(json!({"name": "d", "size_bytes": 4096})));
    let [status, pool, volumes, snapshots, check] = paths.map(|path| fake.get(path));
    let (status, pool, volumes, snapshots, check, metrics, create) =
        tokio::join!(status, pool, volumes, snapshots, check, metrics, create);
    let took = begin.elapsed();
    assert!((Duration::from_secs(5)..Duration::from_secs(20)).contains(&took), "{took:?}");
    for answer in [&status, &pool, &volumes, &snapshots, &check] {
        assert_eq!(answer["missing_cells"], json!([1, 2]), "{answer}");
    }
    assert_eq!((&status["state"], &status["cells"][0]["cell"]), (&json!("degraded"), &json!(0)));
    assert_eq!(names(&volumes, "volumes"), ["a"]);
    for line in ["{cell=\"0\"} 0", "{cell=\"1\"} 1", "{cell=\"2\"} 1"] {
        assert!(metrics.contains(&format!("varve_pool_cells_missing{line}\n")), "{metrics}");
    }
    assert_eq!((create.0, &create.1["cell"]), (201, &json!(0)), "the others' bytes are not known");
}

#[tokio::test]
async fn of_cells_none_of_which_answers_nothing_is_made_up() {
    let fake = MemoryCells::empty(2);
    fake.conducts(0, CellConduct::Nobody);
    fake.conducts(1, CellConduct::Nobody);
    for path in ["/v1/status", "/v1/space", "/v1/volumes", "/metrics"] {
        let (status, refused) = fake.call("GET", path, None).await;
        assert_eq!((status, &refused["kind"]), (503, &json!("unavailable")), "{path}");
        assert!(
            refused["message"].as_str().unwrap().contains("nobody is to serve it"),
            "{refused}"
        );
    }
    assert_eq!(fake.call("GET", "/health/live", None).await.0, 200, "the process runs");
    assert_eq!(fake.call("GET", "/health/ready", None).await.0, 503);
    let (status, refused) = fake.call("GET", "/v1/buckets", None).await;
    assert_eq!(status, 503);
    assert!(refused["message"].as_str().unwrap().starts_with("cell 0 of the pool is not served"));
}

#[tokio::test]
async fn what_breaks_before_its_answer_is_read_once_more_and_changed_never_twice() {
    let fake = MemoryCells::empty(2);
    fake.put(1, "b").await;
    fake.conducts(1, CellConduct::Breaks(1));
    assert_eq!(fake.get("/v1/volumes/b").await["cell"], 1);
    assert_eq!(fake.connections(1), 2);
    fake.conducts(1, CellConduct::Breaks(2));
    let (status, refused) = fake.call("GET", "/v1/volumes/b", None).await;
    assert_eq!((status, &refused["kind"], fake.connections(1)), (503, &json!("unavailable"), 4));
    for (method, body) in [("DELETE", Value::Null), ("PATCH", json!({"size_bytes": 4096}))] {
        fake.conducts(1, CellConduct::Breaks(1));
        let before = fake.connections(1);
        let (status, refused) = fake.call(method, "/v1/volumes/b", Some(body)).await;
        assert_eq!((status, fake.connections(1)), (503, before + 1));
        assert!(refused["message"].as_str().unwrap().contains("may have carried this out"));
        assert!(refused["hint"].as_str().unwrap().contains("look whether it has"), "{refused}");
    }
    fake.conducts(1, CellConduct::Breaks(1));
    assert_eq!(fake.get("/v1/status").await["missing_cells"], Value::Null, "it is asked again");
}

#[tokio::test]
async fn a_name_that_has_moved_is_looked_for_once_more() {
    let fake = MemoryCells::empty(3);
    fake.put(1, "b").await;
    fake.says(Ok(Some(0)));
    assert_eq!(fake.get("/v1/volumes/b").await["cell"], 1);
    fake.says(Ok(Some(0)));
    let (status, _) = fake.call("PATCH", "/v1/volumes/b", Some(json!({"dedup": true}))).await;
    assert_eq!(status, 200);
    let before = [fake.connections(0), fake.connections(2)];
    for said in [0, 2] {
        fake.says(Ok(Some(said)));
    }
    let (status, refused) = fake.call("DELETE", "/v1/volumes/b", None).await;
    assert_eq!((status, &refused["message"]), (404, &json!("no volume `b`")), "once, not for ever");
    assert_eq!([fake.connections(0), fake.connections(2)], [before[0] + 1, before[1] + 1]);
    // An entry without its volume, which its cell has just removed.
    fake.says(Ok(Some(2)));
    fake.says(Ok(None));
    assert_eq!(fake.call("DELETE", "/v1/volumes/left", None).await.0, 404);
    assert!(fake.has(1, "b").await);
}

#[tokio::test]
async fn a_register_that_cannot_be_read_is_no_missing_volume() {
    let fake = MemoryCells::empty(2);
    fake.put(1, "b").await;
    for (said, expected) in [(Err("no answer from RADOS"), 503), (Ok(Some(2)), 500)] {
        fake.says(said);
        let (status, refused) = fake.call("GET", "/v1/volumes/b", None).await;
        assert_eq!(status, expected, "{refused}");
    }
    fake.says(Err("no answer from RADOS"));
    let spec = json!({"name": "b", "size_bytes": 4096});
    assert_eq!(fake.call("POST", "/v1/volumes", Some(spec)).await.0, 503, "it may be there");
    assert!(!fake.has(0, "b").await);
}

#[tokio::test]
async fn a_count_that_takes_long_is_to_be_asked_for_again() {
    let fake = MemoryCells::new(vec![MemoryBackend::default(), MemoryBackend::with_slow_counts(1)]);
    let request = "GET /v1/space HTTP/1.1\r\nhost: x\r\n\r\n";
    let answer = fake.exchange(request, None).await;
    assert!(
        answer.starts_with("HTTP/1.1 503 ") && answer.contains("\r\nretry-after: 0\r\n"),
        "{answer}"
    );
    assert_eq!(fake.get("/v1/space").await["missing_cells"], Value::Null);
}
