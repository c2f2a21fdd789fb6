//! Goal: volumes can be made, read, changed and deleted, and every refusal says why in the same JSON form.
//! Method: plain HTTP against a memory backend.

use crate::peer::Server;
use serde_json::{Value, json};
use varve_access_admin::{LimitsConfig, MemoryBackend};

async fn server() -> Server {
    let backend = MemoryBackend::with_open_volume("busy", 1 << 30);
    Server::start(backend, LimitsConfig::default()).await
}

fn kind(body: &Value) -> &str {
    body["kind"].as_str().unwrap_or("")
}

#[tokio::test]
async fn a_volume_lives_from_create_to_delete() {
    let server = server().await;
    let spec = json!({"name": "vm1", "size_bytes": 20u64 << 30});
    let (status, made) = server.call("POST", "/v1/volumes", Some(spec)).await;
    assert_eq!((status, made["block_size_bytes"].as_u64()), (201, Some(4096)));
    let resize = json!({"size_bytes": 40u64 << 30});
    let (status, grown) = server.call("PATCH", "/v1/volumes/vm1", Some(resize)).await;
    assert_eq!((status, grown["size_bytes"].as_u64()), (200, Some(40 << 30)));
    assert_eq!(server.call("GET", "/v1/volumes/vm1", None).await, (200, grown));
    assert_eq!(server.call("DELETE", "/v1/volumes/vm1", None).await, (204, Value::Null));
    let (status, body) = server.call("GET", "/v1/volumes/vm1", None).await;
    assert_eq!((status, kind(&body)), (404, "not_found"));
}

#[tokio::test]
async fn refusals_carry_kind_message_and_hint() {
    let server = server().await;
    let spec = json!({"name": "busy", "size_bytes": 1});
    let (status, body) = server.call("POST", "/v1/volumes", Some(spec)).await;
    assert_eq!((status, kind(&body)), (409, "exists"));
    let (status, body) = server.call("DELETE", "/v1/volumes/busy", None).await;
    assert_eq!((status, kind(&body)), (409, "conflict"));
    let unknown = json!({"name": "x", "size_bytes": 1, "colour": "blue"});
    let (status, body) = server.call("POST", "/v1/volumes", Some(unknown)).await;
    assert_eq!((status, kind(&body)), (400, "invalid"));
    assert!(body["message"].as_str().unwrap().contains("colour"), "{body}");
    let (status, body) = server.call("GET", "/v1/nothing", None).await;
    assert_eq!((status, kind(&body)), (404, "not_found"));
    assert!(body["hint"].as_str().unwrap().contains("openapi"), "{body}");
    let (status, body) = server.call("PUT", "/v1/status", None).await;
    assert_eq!((status, kind(&body)), (501, "unsupported"));
}

#[tokio::test]
async fn a_volume_shrinks_only_when_asked_to() {
    let server = server().await;
    let small = json!({"size_bytes": 1 << 20});
    let (status, body) = server.call("PATCH", "/v1/volumes/busy", Some(small)).await;
    assert_eq!((status, kind(&body)), (400, "invalid"));
    assert!(body["message"].as_str().unwrap().contains("1 GiB to 1 MiB"), "{body}");
    let forced = json!({"size_bytes": 1 << 20, "allow_shrink": true});
    let (status, body) = server.call("PATCH", "/v1/volumes/busy", Some(forced)).await;
    assert_eq!((status, body["size_bytes"].as_u64()), (200, Some(1 << 20)));
}

#[tokio::test]
async fn reduction_is_chosen_and_changed_part_by_part() {
    let server = server().await;
    let reduction = |body: &Value| (body["dedup"].clone(), body["compression"].clone());
    let (_, plain) = server.call("GET", "/v1/volumes/busy", None).await;
    assert_eq!(reduction(&plain), (json!("auto"), json!("lz4")));
    let spec = json!({"name": "vm1", "size_bytes": 4096, "dedup": "on", "compression": "zstd"});
    let (status, made) = server.call("POST", "/v1/volumes", Some(spec)).await;
    assert_eq!((status, reduction(&made)), (201, (json!(true), json!("zstd:3"))));
    for (change, expected) in [
        (json!({"compression": "zstd:19"}), (json!(true), json!("zstd:19"))),
        (json!({"dedup": "auto"}), (json!("auto"), json!("zstd:19"))),
        (json!({"dedup": "off"}), (json!(false), json!("zstd:19"))),
        (json!({"dedup": true}), (json!(true), json!("zstd:19"))),
        (json!({"dedup": false}), (json!(false), json!("zstd:19"))),
        (json!({"size_bytes": 8192}), (json!(false), json!("zstd:19"))),
        (json!({"dedup": "on", "compression": "off"}), (json!(true), json!("off"))),
    ] {
        let (status, changed) = server.call("PATCH", "/v1/volumes/vm1", Some(change)).await;
        assert_eq!((status, reduction(&changed)), (200, expected));
    }
    let (_, volume) = server.call("GET", "/v1/volumes/vm1", None).await;
    assert_eq!(
        (reduction(&volume), &volume["size_bytes"]),
        ((json!(true), json!("off")), &json!(8192))
    );
}

#[tokio::test]
async fn changes_of_nothing_or_to_the_unknown_are_refused() {
    let server = server().await;
    let (_, before) = server.call("GET", "/v1/volumes/busy", None).await;
    for empty in [json!({}), json!({"allow_shrink": true}), json!({"compression": null})] {
        let (status, body) = server.call("PATCH", "/v1/volumes/busy", Some(empty)).await;
        assert_eq!((status, kind(&body)), (400, "invalid"));
        assert_eq!(body["message"], "nothing to change in volume `busy`");
        assert!(body["hint"].as_str().unwrap().contains("`compression`"), "{body}");
    }
    for unknown in [
        json!({"size_bytes": 2u64 << 30, "compression": "gzip"}),
        json!({"size_bytes": 2u64 << 30, "compression": "zstd:20"}),
        json!({"size_bytes": 2u64 << 30, "compression": 3}),
        json!({"size_bytes": 2u64 << 30, "dedup": "maybe"}),
        json!({"size_bytes": 2u64 << 30, "dedup": 1}),
    ] {
        let (status, body) = server.call("PATCH", "/v1/volumes/busy", Some(unknown)).await;
        assert_eq!((status, kind(&body)), (400, "invalid"));
    }
    let spec = json!({"name": "vm1", "size_bytes": 4096, "compression": "gzip"});
    let (status, body) = server.call("POST", "/v1/volumes", Some(spec)).await;
    assert_eq!((status, kind(&body)), (400, "invalid"));
    let message = body["message"].as_str().unwrap();
    assert!(message.contains("unknown compression `gzip`: use off, lz4, zstd"), "{message}");
    assert_eq!(server.call("GET", "/v1/volumes/busy", None).await, (200, before));
    let policy = json!({"dedup": "on"});
    assert_eq!(server.call("PATCH", "/v1/volumes/none", Some(policy)).await.0, 404);
}

#[tokio::test]
async fn a_listing_comes_in_pages() {
    let server = Server::start(MemoryBackend::default(), LimitsConfig::default()).await;
    for name in ["c", "a", "b"] {
        let spec = json!({"name": name, "size_bytes": 4096});
        assert_eq!(server.call("POST", "/v1/volumes", Some(spec)).await.0, 201);
    }
    let (_, page) = server.call("GET", "/v1/volumes?limit=2", None).await;
    assert_eq!((&page["volumes"][1]["name"], &page["next"]), (&json!("b"), &json!("b")));
    let (_, page) = server.call("GET", "/v1/volumes?limit=2&after=b", None).await;
    assert_eq!((&page["volumes"][0]["name"], &page["next"]), (&json!("c"), &Value::Null));
    for bad in ["limit=0", "limit=10001", "limit=x", "colour=blue"] {
        let (status, body) = server.call("GET", &format!("/v1/volumes?{bad}"), None).await;
        assert_eq!((status, kind(&body)), (400, "invalid"), "{bad}");
    }
}

#[tokio::test]
async fn status_pool_and_metrics_answer() {
    let server = server().await;
    let (status, body) = server.call("GET", "/v1/status", None).await;
    assert_eq!((status, &body["state"]), (200, &json!("serving")));
    let (status, body) = server.call("GET", "/v1/pool", None).await;
    assert_eq!((status, body["shards"].as_u64()), (200, Some(2)));
    let text = server.exchange("GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(text.contains("text/plain; version=0.0.4"), "{text}");
    assert!(text.contains("varve_engine_writes_total{shard=\"1\"} 9\n"), "{text}");
}
