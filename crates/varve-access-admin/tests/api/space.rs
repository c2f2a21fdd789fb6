//! Goal: the amounts of `GET /v1/space` belong together, whatever volumes there are. Method: plain HTTP against a
//! memory backend.

use crate::peer::Server;
use serde_json::{Value, json};
use varve_access_admin::{LimitsConfig, MemoryBackend};

fn bytes(body: &Value, field: &str) -> u64 {
    body[field].as_u64().unwrap_or_else(|| panic!("no {field} in {body}"))
}

#[tokio::test]
async fn volumes_and_sums_belong_together() {
    let server = Server::start(MemoryBackend::with_volumes(3), LimitsConfig::default()).await;
    let (status, space) = server.call("GET", "/v1/space", None).await;
    assert_eq!(status, 200);
    let volumes = space["volumes"].as_array().unwrap();
    let names: Vec<&Value> = volumes.iter().map(|volume| &volume["name"]).collect();
    assert_eq!(names, ["v0000", "v0001", "v0002"]);
    let logical: u64 = volumes.iter().map(|volume| bytes(volume, "logical_bytes")).sum();
    assert_eq!(logical, bytes(&space, "logical_bytes"));
    let live = bytes(&space, "stored_bytes") + bytes(&space, "metadata_bytes");
    assert_eq!(live, bytes(&space, "used_bytes"));
    let (_, pool) = server.call("GET", "/v1/pool", None).await;
    for field in ["size_bytes", "capacity_bytes", "used_bytes", "free_bytes"] {
        assert_eq!(space[field], pool[field], "{field}");
    }
}

#[tokio::test]
async fn a_pool_without_volumes_holds_nothing() {
    let server = Server::start(MemoryBackend::default(), LimitsConfig::default()).await;
    let (status, space) = server.call("GET", "/v1/space", None).await;
    assert_eq!((status, &space["volumes"]), (200, &json!([])));
    for field in ["logical_bytes", "unique_bytes", "stored_bytes"] {
        assert_eq!(bytes(&space, field), 0, "{field}");
    }
    assert_eq!(server.call("POST", "/v1/space", Some(json!({}))).await.0, 501);
}

#[tokio::test]
async fn who_asks_for_a_long_count_is_asked_to_come_again() {
    let limits = LimitsConfig { request_timeout_ms: 50, ..LimitsConfig::default() };
    let server = Server::start(MemoryBackend::with_slow_counts(1), limits).await;
    let request = "GET /v1/space HTTP/1.1\r\nhost: varve\r\nconnection: close\r\n\r\n";
    let answer = server.exchange(request).await;
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("\r\nretry-after: 0\r\n"));
    assert!(answer.contains("counting stored data takes longer than 50 ms"), "{answer}");
    assert!(server.exchange(request).await.starts_with("HTTP/1.1 200 "));
}
