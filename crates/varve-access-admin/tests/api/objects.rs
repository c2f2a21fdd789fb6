//! Goal: users, their keys and buckets are made, listed in pages, changed and deleted as asked; secrets are told once;
//! and what a request leaves out or gets wrong is refused. Method: plain HTTP against a memory backend.

use crate::peer::Server;
use serde_json::{Value, json};
use varve_access_admin::{LimitsConfig, MemoryBackend};

async fn server() -> Server {
    Server::start(MemoryBackend::default(), LimitsConfig::default()).await
}

fn kind(body: &Value) -> &str {
    body["kind"].as_str().unwrap_or("")
}

fn names<'a>(page: &'a Value, of: &str) -> Vec<&'a str> {
    page[of].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_secret_is_told_when_it_is_made_and_never_again() {
    let server = server().await;
    let spec = json!({"name": "ann", "email": "ann@example.org", "quota_buckets": 2});
    let (status, made) = server.call("POST", "/v1/users", Some(spec)).await;
    assert_eq!((status, made["user"].as_str()), (201, Some("ann")));
    let secret = made["secret_key"].as_str().unwrap();
    let (status, second) = server.call("POST", "/v1/users/ann/keys", Some(json!({}))).await;
    assert_eq!(status, 201);
    assert_ne!(second["secret_key"], made["secret_key"]);
    for path in ["/v1/users/ann", "/v1/users"] {
        let (status, shown) = server.call("GET", path, None).await;
        assert!(status == 200 && !shown.to_string().contains(secret), "{shown}");
    }
    let (_, shown) = server.call("GET", "/v1/users/ann", None).await;
    let keys: Vec<&Value> =
        shown["access_keys"].as_array().unwrap().iter().map(|key| &key["access_key"]).collect();
    assert_eq!(keys, [&made["access_key"], &second["access_key"]]);
    assert_eq!((&shown["display_name"], &shown["quota_buckets"]), (&json!("ann"), &json!(2)));
    let key = format!("/v1/keys/{}", made["access_key"].as_str().unwrap());
    assert_eq!(server.call("DELETE", &key, None).await.0, 204);
    let (status, body) = server.call("DELETE", &key, None).await;
    assert_eq!((status, kind(&body)), (404, "not_found"));
}

#[tokio::test]
async fn keys_made_elsewhere_come_whole_and_only_once() {
    let server = server().await;
    for half in [json!({"name": "a", "access_key": "K"}), json!({"name": "a", "secret_key": "S"})] {
        let (status, body) = server.call("POST", "/v1/users", Some(half)).await;
        assert_eq!((status, kind(&body)), (400, "invalid"), "{body}");
        assert!(body["message"].as_str().unwrap().contains("go together"), "{body}");
    }
    let whole = json!({"name": "ann", "access_key": "K", "secret_key": "secret-of-ann"});
    let (status, made) = server.call("POST", "/v1/users", Some(whole)).await;
    assert_eq!((status, &made["access_key"]), (201, &json!("K")));
    let again = json!({"access_key": "K", "secret_key": "secret-of-bob"});
    let (status, body) = server.call("POST", "/v1/users/owner/keys", Some(again)).await;
    assert_eq!((status, kind(&body)), (409, "exists"));
}

#[tokio::test]
async fn users_change_part_by_part() {
    let server = server().await;
    assert_eq!(server.call("POST", "/v1/users", Some(json!({"name": "ann"}))).await.0, 201);
    let policy = r#"{"Statement":[]}"#;
    for (change, field, expected) in [
        (json!({"policy": policy}), "policy", json!(policy)),
        (json!({"quota_bytes": 4096}), "quota_bytes", json!(4096)),
        (json!({"quota_buckets": 7}), "quota_buckets", json!(7)),
        (json!({"quota_bytes": 0}), "quota_bytes", Value::Null),
        (json!({"policy": ""}), "policy", Value::Null),
    ] {
        let (status, user) = server.call("PATCH", "/v1/users/ann", Some(change)).await;
        assert_eq!((status, &user[field]), (200, &expected), "{field}");
    }
    let (_, user) = server.call("GET", "/v1/users/ann", None).await;
    assert_eq!((&user["quota_buckets"], &user["policy"]), (&json!(7), &Value::Null));
    for (change, message) in [
        (json!({}), "nothing to change in user `ann`"),
        (json!({"policy": "{"}), "policy: no JSON"),
        (json!({"admin": true}), "unknown field `admin`"),
    ] {
        let (status, body) = server.call("PATCH", "/v1/users/ann", Some(change)).await;
        assert_eq!((status, kind(&body)), (400, "invalid"));
        assert!(body["message"].as_str().unwrap().contains(message), "{body}");
    }
}

#[tokio::test]
async fn a_bucket_lives_from_create_to_delete() {
    let server = server().await;
    let spec = json!({"name": "photos", "object_lock": true, "quota_objects": 9});
    let (status, made) = server.call("POST", "/v1/buckets", Some(spec)).await;
    assert_eq!((status, &made["versioning"]), (201, &json!("enabled")));
    assert_eq!((&made["owner"], &made["quota_objects"]), (&json!("owner"), &json!(9)));
    let change = json!({"quota_bytes": 1u64 << 40, "quota_objects": 0});
    let (status, changed) = server.call("PATCH", "/v1/buckets/photos", Some(change)).await;
    assert_eq!((status, &changed["quota_objects"]), (200, &Value::Null));
    assert_eq!(server.call("GET", "/v1/buckets/photos", None).await, (200, changed));
    let (status, body) = server.call("PATCH", "/v1/buckets/photos", Some(json!({}))).await;
    assert_eq!((status, kind(&body)), (400, "invalid"));
    assert_eq!(server.call("DELETE", "/v1/buckets/photos", None).await.0, 204);
    let (status, body) = server.call("GET", "/v1/buckets/photos", None).await;
    assert_eq!((status, kind(&body)), (404, "not_found"));
}

#[tokio::test]
async fn what_would_lose_something_is_refused() {
    let server = server().await;
    assert_eq!(server.call("POST", "/v1/users", Some(json!({"name": "ann"}))).await.0, 201);
    let spec = json!({"name": "full", "owner": "ann"});
    assert_eq!(server.call("POST", "/v1/buckets", Some(spec)).await.0, 201);
    let (status, body) = server.call("DELETE", "/v1/buckets/full", None).await;
    assert_eq!((status, kind(&body)), (409, "conflict"));
    let (status, body) = server.call("DELETE", "/v1/users/ann", None).await;
    assert_eq!((status, kind(&body)), (409, "conflict"));
    assert!(body["hint"].as_str().unwrap().contains("--leave-buckets"), "{body}");
    assert_eq!(server.call("DELETE", "/v1/users/ann?leave_buckets=maybe", None).await.0, 400);
    assert_eq!(server.call("DELETE", "/v1/users/ann?leave_buckets=true", None).await.0, 204);
    assert_eq!(server.call("GET", "/v1/buckets/full", None).await.1["owner"], "ann");
}

#[tokio::test]
async fn listings_come_in_pages() {
    let server = server().await;
    for name in ["bob", "ann", "zoe"] {
        assert_eq!(server.call("POST", "/v1/users", Some(json!({"name": name}))).await.0, 201);
        let bucket = json!({"name": format!("of-{name}")});
        assert_eq!(server.call("POST", "/v1/buckets", Some(bucket)).await.0, 201);
    }
    let (_, page) = server.call("GET", "/v1/users?limit=3", None).await;
    assert_eq!(
        (names(&page, "users"), &page["next"]),
        (vec!["ann", "bob", "owner"], &json!("owner"))
    );
    let (_, page) = server.call("GET", "/v1/users?limit=3&after=owner", None).await;
    assert_eq!((names(&page, "users"), &page["next"]), (vec!["zoe"], &Value::Null));
    let (_, page) = server.call("GET", "/v1/buckets?limit=2", None).await;
    assert_eq!(
        (names(&page, "buckets"), &page["next"]),
        (vec!["of-ann", "of-bob"], &json!("of-bob"))
    );
    for bad in ["limit=0", "limit=10001", "colour=blue"] {
        for of in ["users", "buckets"] {
            let (status, body) = server.call("GET", &format!("/v1/{of}?{bad}"), None).await;
            assert_eq!((status, kind(&body)), (400, "invalid"), "{of} {bad}");
        }
    }
}

#[tokio::test]
async fn where_s3_is_not_served_every_endpoint_says_so() {
    let server = Server::start(MemoryBackend::without_s3(), LimitsConfig::default()).await;
    let spec = || json!({"name": "ann"});
    for (method, path, body) in [
        ("GET", "/v1/users", None),
        ("POST", "/v1/users", Some(spec())),
        ("GET", "/v1/users/ann", None),
        ("DELETE", "/v1/users/ann", None),
        ("POST", "/v1/users/ann/keys", Some(json!({}))),
        ("DELETE", "/v1/keys/K", None),
        ("GET", "/v1/buckets", None),
        ("POST", "/v1/buckets", Some(spec())),
        ("GET", "/v1/buckets/b", None),
        ("DELETE", "/v1/buckets/b", None),
    ] {
        let (status, body) = server.call(method, path, body).await;
        assert_eq!((status, kind(&body)), (501, "unsupported"), "{method} {path}");
        assert!(body["hint"].as_str().unwrap().contains("--s3"), "{body}");
    }
}
