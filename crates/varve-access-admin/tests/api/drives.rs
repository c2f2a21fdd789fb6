//! Goal: one drive is found by its number, its path or its identity, and what is none is refused. Method: a memory
//! backend behind the real server.

use serde_json::json;
use varve_access_admin::{LimitsConfig, MemoryBackend};

use crate::peer::Server;

#[tokio::test]
async fn a_drive_is_shown_by_whatever_names_it() {
    let backend = MemoryBackend::with_failed_drive();
    let server = Server::start(backend, LimitsConfig::default()).await;
    for name in ["1", "%2Fsrv%2Fdrive-1", "0101"] {
        let (status, drive) = server.call("GET", &format!("/v1/drives/{name}"), None).await;
        assert_eq!((status, &drive["state"]), (200, &json!("failed")), "{name}");
    }
    let grow = |body| server.call("POST", "/v1/drives/0/grow", Some(body));
    let (status, growth) = grow(json!({"size_bytes": 100 << 20})).await;
    assert_eq!((status, &growth["size_bytes"]), (200, &json!(100 << 20)), "{growth}");
    let (status, _) = grow(json!({"size": 1})).await;
    assert_eq!(status, 400, "no such field");
    for (method, path) in
        [("GET", "/v1/drives/7"), ("POST", "/v1/drives/7/locate"), ("DELETE", "/v1/drives/7/drain")]
    {
        let body = (method == "POST").then(|| json!({"on": true}));
        let (status, error) = server.call(method, path, body).await;
        assert_eq!((status, &error["kind"]), (404, &json!("not_found")), "{method} {path}");
        assert!(error["hint"].as_str().unwrap().contains("varve drive list"), "{error}");
    }
}
