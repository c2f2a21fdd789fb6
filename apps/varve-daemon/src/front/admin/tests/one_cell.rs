//! Requests that are about one cell.

use std::sync::Arc;

use serde_json::{Value, json};
use varve_access_admin::{MemoryBackend, Token};

use super::{Guard, MemoryCells, names, status_of};

/// Volume `a` in cell 0, `b` and `c` in cell 1, and nothing in cell 2.
async fn three() -> std::sync::Arc<MemoryCells> {
    let fake = MemoryCells::empty(3);
    fake.put(0, "a").await;
    fake.put(1, "b").await;
    fake.put(1, "c").await;
    fake
}

#[tokio::test]
async fn paths_with_a_name_lead_to_its_cell_and_answers_say_which() {
    let fake = three().await;
    assert_eq!(fake.get("/v1/volumes/a").await["cell"], 0);
    assert_eq!(fake.get("/v1/volumes/%62").await["cell"], 1);
    let (status, changed) =
        fake.call("PATCH", "/v1/volumes/b", Some(json!({"size_bytes": 2u64 << 30}))).await;
    assert_eq!(
        (status, &changed["cell"], &changed["size_bytes"]),
        (200, &json!(1), &json!(2u64 << 30))
    );
    let family = fake.get("/v1/volumes/b/space").await;
    assert_eq!((&family["volume"]["name"], &family["cell"]), (&json!("b"), &Value::Null));
    let (status, _) = fake.call("POST", "/v1/snapshots", Some(json!({"names": ["b@s"]}))).await;
    assert_eq!(status, 201);
    assert_eq!(fake.get("/v1/snapshots/b%40s").await["volume"], "b");
    assert_eq!(names(&fake.get("/v1/snapshots?volume=b&limit=5").await, "snapshots"), ["b@s"]);
    assert_eq!(fake.get("/v1/extents/b@s?since=s").await["size_bytes"], 2u64 << 30);
    let (status, back) =
        fake.call("POST", "/v1/volumes/b/rollback", Some(json!({"snapshot": "s"}))).await;
    assert_eq!((status, &back["cell"]), (200, &json!(1)));
    let (status, _) = fake.call("DELETE", "/v1/volumes/b?snapshots=true", None).await;
    assert!(status == 204 && !fake.has(1, "b").await);
    let (status, refused) = fake.call("GET", "/v1/volumes/b", None).await;
    assert_eq!((status, &refused["message"]), (404, &json!("no volume `b`")));
    assert_eq!(fake.connections(2), 0, "nothing of this is its business");
}

#[tokio::test]
async fn a_clone_is_made_in_the_cell_of_its_origin() {
    let fake = three().await;
    for (source, clone, cell) in [("b", "b2", 1), ("a", "a2", 0)] {
        let spec = json!({"source": source, "name": clone});
        let (status, made) = fake.call("POST", "/v1/clones", Some(spec)).await;
        assert_eq!((status, &made["cell"]), (201, &json!(cell)));
        assert!(fake.has(cell, clone).await);
    }
    let spec = json!({"source": "none", "name": "x"});
    assert_eq!(fake.call("POST", "/v1/clones", Some(spec)).await.0, 404);
}

#[tokio::test]
async fn a_new_volume_goes_where_most_room_is_or_beside_another() {
    let used = |gib: u64| MemoryBackend::with_used_bytes(gib << 30);
    let fake = MemoryCells::new(vec![used(7), used(5), used(2), used(2)]);
    fake.put(0, "a").await;
    let create = |name: &str, beside: Option<&str>| {
        let spec = json!({"name": name, "size_bytes": 4096, "beside": beside});
        let fake = fake.clone();
        async move { fake.call("POST", "/v1/volumes", Some(spec)).await }
    };
    for (name, cell) in [("n1", 2), ("n2", 3), ("n3", 2)] {
        let (status, made) = create(name, None).await;
        assert_eq!((status, &made["cell"]), (201, &json!(cell)), "{name}");
    }
    let (status, made) = create("n4", Some("a")).await;
    assert_eq!((status, &made["cell"]), (201, &json!(0)));
    let (status, refused) = create("n5", Some("none")).await;
    assert_eq!((status, &refused["message"]), (404, &json!("no volume `none`")));
    // Its entry leads there, whether there is such a volume or only the entry.
    let (status, refused) = create("a", None).await;
    assert_eq!((status, &refused["kind"]), (409, &json!("exists")));
    fake.says(Ok(Some(1)));
    let (status, made) = create("left", None).await;
    assert_eq!((status, &made["cell"]), (201, &json!(1)));
    // What is received is made too.
    let identity = "0".repeat(32);
    let spec = json!({"identity": identity, "size_bytes": 4096, "block_size_bytes": 4096});
    let (status, made) = fake.call("POST", "/v1/volumes/r/receive", Some(spec)).await;
    assert_eq!((status, &made["cell"]), (200, &json!(3)));
}

#[tokio::test]
async fn snapshots_at_one_instant_are_of_one_cell() {
    let fake = three().await;
    let take = |names: Value| {
        let fake = fake.clone();
        async move { fake.call("POST", "/v1/snapshots", Some(json!({"names": names}))).await }
    };
    let (status, taken) = take(json!(["b@s", "c@s"])).await;
    assert_eq!(
        (status, names(&taken, "snapshots")),
        (201, vec!["b@s".to_owned(), "c@s".to_owned()])
    );
    let (status, refused) = take(json!(["c@t", "a@t", "b@t"])).await;
    assert_eq!((status, &refused["kind"]), (409, &json!("conflict")));
    let expected = "snapshots at one instant are of volumes in one cell, and there are `a` in cell 0, `b`, `c` in cell 1";
    assert_eq!(refused["message"], expected);
    assert!(refused["hint"].as_str().unwrap().contains("--beside VOLUME"), "{refused}");
    assert_eq!(names(&fake.get("/v1/snapshots").await, "snapshots"), ["b@s", "c@s"]);
    assert_eq!(take(json!(["b@u", "none@u"])).await.0, 404);
    // What is no name, and what is no list of them, is refused as ever.
    assert_eq!(take(json!(["b"])).await.0, 400);
    for bad in [json!([]), json!("b@s"), json!([1])] {
        assert_ne!(take(bad).await.0, 404);
    }
}

#[tokio::test]
async fn users_and_buckets_are_the_first_cells() {
    let fake = three().await;
    let (status, _) = fake.call("POST", "/v1/users", Some(json!({"name": "ann"}))).await;
    assert_eq!(status, 201);
    let (status, _) = fake.call("POST", "/v1/buckets", Some(json!({"name": "photos"}))).await;
    assert_eq!(status, 201);
    assert_eq!(fake.get("/v1/buckets/photos").await["name"], "photos");
    assert_eq!(names(&fake.get("/v1/buckets").await, "buckets"), ["photos"]);
    let (status, refused) = fake.call("GET", "/v1/nothing", None).await;
    assert_eq!((status, &refused["message"]), (404, &json!("no endpoint /v1/nothing")));
    assert_eq!(fake.call("PUT", "/v1/status", None).await.0, 501);
    assert_eq!((fake.connections(1), fake.connections(2)), (0, 0));
}

#[tokio::test]
async fn requests_stay_within_what_one_cell_takes() {
    let fake = three().await;
    let foreign = "GET /v1/status HTTP/1.1\r\nhost: evil.example\r\n\r\n";
    let token = Token::of([1; 32]);
    let guard = || Some(Guard { token: Some(Arc::new(token.clone())) });
    let answer = fake.exchange(foreign, guard()).await;
    assert!(status_of(&answer) == 403 && answer.contains("evil.example"), "{answer}");
    assert_eq!(status_of(&fake.exchange(foreign, None).await), 200);
    let local = "GET /v1/status HTTP/1.1\r\nhost: localhost\r\n";
    assert_eq!(status_of(&fake.exchange(&format!("{local}\r\n"), guard()).await), 401);
    let shown = format!("{local}authorization: {}\r\n\r\n", token.header());
    assert_eq!(status_of(&fake.exchange(&shown, guard()).await), 200);
    assert_eq!(status_of(&fake.exchange(&shown, Some(Guard { token: None })).await), 401);
    let (status, refused) =
        fake.call("POST", "/v1/volumes", Some(json!({"name": "x".repeat(70 << 10)}))).await;
    assert_eq!((status, &refused["kind"]), (400, &json!("invalid")));
    let plain = "POST /v1/volumes HTTP/1.1\r\nhost: x\r\ncontent-length: 33\r\n\r\n{\"name\":\"plain\",\"size_bytes\":4096}";
    assert_eq!(status_of(&fake.exchange(plain, None).await), 400, "its type is not said");
    let head = "HEAD /v1/volumes/b HTTP/1.1\r\nhost: x\r\n\r\n";
    let answer = fake.exchange(head, None).await;
    assert!(status_of(&answer) == 200 && answer.ends_with("\r\n\r\n"), "{answer}");
    let (status, refused) = fake.call("GET", "/v1/volumes?limit=0", None).await;
    assert_eq!((status, &refused["kind"]), (400, &json!("invalid")));
}
