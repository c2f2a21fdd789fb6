//! Goal: snapshots are taken, listed in pages, changed and deleted as asked, and what a request leaves out is refused.
//! Method: plain HTTP against a memory backend.

use crate::peer::Server;
use crate::{expects, moves};
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
    let leaving = |run| moves("leaving", run);
    let (status, volume) = step(json!({"after": leaving(1)})).await;
    assert_eq!((status, &volume["moves"]), (200, &leaving(1)));
    let (status, body) = step(json!({"before": leaving(2)})).await;
    assert_eq!((status, body["kind"].as_str()), (409, Some("conflict")));
    let (status, volume) = step(json!({"before": leaving(1)})).await;
    assert_eq!((status, &volume["moves"]), (200, &Value::Null));
    let (status, _) = step(json!({"after": moves("gone", 1)})).await;
    assert_eq!(status, 400);
    for (field, bad) in [("pool", "12"), ("run", "1"), ("snapshot", "5"), ("remark", "gone")] {
        let mut after = leaving(1);
        after[field] = json!(bad);
        assert_eq!(step(json!({"after": after})).await.0, 400, "{field}");
    }
}

#[tokio::test]
async fn whatever_changes_a_volume_on_its_way_says_where_it_takes_it_to_be() {
    let server = Server::start(MemoryBackend::with_volumes(1), LimitsConfig::default()).await;
    let call = async |method: &str, path: &str, body: Option<Value>| {
        let (status, answer) = server.call(method, path, body).await;
        (status, answer["kind"].as_str().map(str::to_owned))
    };
    let conflict = (409, Some("conflict".to_owned()));
    let (here, other) = (moves("leaving", 1), moves("leaving", 2));
    let one = |expects: &Value| Some(json!({"names": ["v0000@a"], "expects": expects}));
    assert_eq!(call("POST", "/v1/snapshots", one(&Value::Null)).await.0, 201);
    let step = Some(json!({"after": here}));
    assert_eq!(call("POST", "/v1/volumes/v0000/move", step).await.0, 200);
    let fenced = (503, Some("fenced".to_owned()));
    assert_eq!(call("POST", "/v1/snapshots", Some(json!({"names": ["v0000@b"]}))).await, fenced);
    for (method, path, body) in [
        ("POST", "/v1/snapshots", json!({"names": ["v0000@b"]})),
        ("PATCH", "/v1/snapshots/v0000@a", json!({"protected": true})),
        ("PATCH", "/v1/volumes/v0000", json!({"quota_bytes": 4096})),
        ("POST", "/v1/volumes/v0000/rollback", json!({"snapshot": "a"})),
        ("POST", "/v1/volumes/v0000/received", json!({"identity": "5", "snapshot": "c"})),
    ] {
        let mut body = body;
        body["expects"] = other.clone();
        assert_eq!(call(method, path, Some(body)).await, conflict, "{method} {path}");
    }
    for path in ["/v1/snapshots/v0000@a?", "/v1/volumes/v0000?snapshots=true&"] {
        let delete = async |query: &str| call("DELETE", &format!("{path}{query}"), None).await;
        assert_eq!(delete(&expects(&other)).await, conflict, "{path}");
        assert_eq!(delete("expects=leaving").await.0, 400, "{path}");
        assert_eq!(delete(&expects(&here)).await.0, 204, "{path}");
    }
}

#[tokio::test]
async fn the_last_step_of_a_move_names_the_newest_snapshot() {
    let server = Server::start(MemoryBackend::with_volumes(0), LimitsConfig::default()).await;
    let here = moves("arriving", 1);
    let post = async |what: &str, body: Value| {
        server.call("POST", &format!("/v1/volumes/v/{what}"), Some(body)).await
    };
    let identity = "00112233445566778899aabbccddeeff";
    let begin = json!({"identity": identity, "size_bytes": 4096, "block_size_bytes": 4096, "expects": here});
    let (status, made) = post("receive", begin).await;
    assert_eq!((status, &made["moves"]), (200, &here));
    let end = json!({"identity": identity, "snapshot": "s", "expects": here});
    assert_eq!(post("received", end).await.0, 200);
    for last in [Value::Null, json!("ffffffffffffffffffffffffffffffff")] {
        let (status, body) = post("move", json!({"before": here, "last": last})).await;
        assert_eq!((status, body["kind"].as_str()), (409, Some("conflict")), "{last}");
    }
    let (status, there) = post("move", json!({"before": here, "last": identity})).await;
    let mut mark = moves("arrived", 1);
    mark["snapshot"] = json!(identity);
    assert_eq!((status, &there["moves"]), (200, &mark));
    let (status, there) = post("move", json!({"before": mark})).await;
    assert_eq!((status, &there["moves"]), (200, &Value::Null));
    let fence = |id: u64| json!({"after": moves("leaving", 2), "id": id, "last": identity});
    let id = there["id"].as_u64().unwrap();
    assert_eq!(post("move", fence(id + 1)).await.0, 409, "it is another volume");
    assert_eq!(post("move", fence(id)).await.0, 200);
}
