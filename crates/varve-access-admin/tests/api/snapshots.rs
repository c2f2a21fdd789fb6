//! Goal: snapshots are taken, listed in pages, changed and deleted as asked, and what a request leaves out is refused.
//! Method: plain HTTP against a memory backend.

use crate::peer::Server;
use serde_json::{Value, json};
use varve_access_admin::{LimitsConfig, MemoryBackend};

fn names(page: &Value) -> Vec<&str> {
    let snapshots = page["snapshots"].as_array().unwrap();
    snapshots.iter().map(|snapshot| snapshot["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn snapshots_are_listed_a_page_at_a_time() {
    let server = Server::start(MemoryBackend::with_volumes(3), LimitsConfig::default()).await;
    let all = json!({"names": ["v0000@a", "v0001@a", "v0002@a"]});
    let (status, taken) = server.call("POST", "/v1/snapshots", Some(all)).await;
    assert_eq!((status, names(&taken).len()), (201, 3));
    let (_, first) = server.call("GET", "/v1/snapshots?limit=2", None).await;
    assert_eq!(names(&first), ["v0000@a", "v0001@a"]);
    let next = first["next"].as_str().unwrap();
    let (_, rest) = server.call("GET", &format!("/v1/snapshots?limit=2&after={next}"), None).await;
    assert_eq!((names(&rest), &rest["next"]), (vec!["v0002@a"], &Value::Null));
    let (_, one) = server.call("GET", "/v1/snapshots?volume=v0001", None).await;
    assert_eq!(names(&one), ["v0001@a"]);
    for bad in ["limit=0", "limit=10001", "colour=blue"] {
        let (status, body) = server.call("GET", &format!("/v1/snapshots?{bad}"), None).await;
        assert_eq!((status, body["kind"].as_str()), (400, Some("invalid")), "{bad}");
    }
}

#[tokio::test]
async fn a_volume_goes_with_its_snapshots_only_when_asked_to() {
    let server = Server::start(MemoryBackend::with_volumes(1), LimitsConfig::default()).await;
    let one = json!({"names": ["v0000@a"]});
    assert_eq!(server.call("POST", "/v1/snapshots", Some(one)).await.0, 201);
    let (status, body) = server.call("DELETE", "/v1/volumes/v0000", None).await;
    assert_eq!((status, body["kind"].as_str()), (409, Some("conflict")));
    assert_eq!(server.call("DELETE", "/v1/volumes/v0000?snapshots=maybe", None).await.0, 400);
    assert_eq!(server.call("DELETE", "/v1/volumes/v0000?snapshots=true", None).await.0, 204);
    let (_, none) = server.call("GET", "/v1/snapshots", None).await;
    assert_eq!(names(&none), [""; 0]);
}

#[tokio::test]
async fn changes_need_a_body_that_says_them() {
    let server = Server::start(MemoryBackend::with_volumes(1), LimitsConfig::default()).await;
    for (method, path) in [
        ("POST", "/v1/snapshots"),
        ("POST", "/v1/clones"),
        ("POST", "/v1/volumes/v0000/rollback"),
        ("POST", "/v1/volumes/v0000/receive"),
        ("POST", "/v1/volumes/v0000/received"),
        ("POST", "/v1/volumes/v0000/move"),
        ("PATCH", "/v1/snapshots/v0000@a"),
    ] {
        let (status, body) = server.call(method, path, Some(json!({"colour": "blue"}))).await;
        assert_eq!((status, body["kind"].as_str()), (400, Some("invalid")), "{method} {path}");
    }
}

#[tokio::test]
async fn a_step_of_a_move_says_where_the_volume_has_to_be() {
    let server = Server::start(MemoryBackend::with_volumes(1), LimitsConfig::default()).await;
    let step = async |body: Value| server.call("POST", "/v1/volumes/v0000/move", Some(body)).await;
    let leaving = |peer| json!({"state": "leaving", "peer": peer});
    let (status, volume) = step(json!({"after": leaving("there")})).await;
    assert_eq!((status, &volume["moves"]), (200, &leaving("there")));
    let (status, body) = step(json!({"before": leaving("elsewhere")})).await;
    assert_eq!((status, body["kind"].as_str()), (409, Some("conflict")));
    let (status, volume) = step(json!({"before": leaving("there")})).await;
    assert_eq!((status, &volume["moves"]), (200, &Value::Null));
    let (status, _) = step(json!({"after": {"state": "gone", "peer": ""}})).await;
    assert_eq!(status, 400);
}
