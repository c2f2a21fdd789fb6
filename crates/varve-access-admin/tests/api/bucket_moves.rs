//! Goal: buckets move between two pools by this API, and requests with bodies of objects that are damaged, too long, or
//! not what they say are refused before anything of them is stored. Method: requests of bytes against a memory backend.

use crate::peer::Server;
use crate::{expects, moves};
use serde_json::{Value, json};
use varve_access_admin::v1::{PartsRead, bulk};
use varve_access_admin::{LimitsConfig, MemoryBackend};

const RECEIVE: &str = "/v1/buckets/coming/receive";
const STAGE: &str = "/v1/buckets/coming/stage";
const READ: &str = "/v1/buckets/coming/read";

fn arriving() -> Value {
    moves("arriving", 1)
}

/// A server with a bucket that arrives.
async fn server() -> Server {
    let server = Server::start(MemoryBackend::default(), LimitsConfig::default()).await;
    let arriving = json!({"moves": moves("arriving", 1), "record": "AAEC", "private_copy": true});
    let spec = json!({"name": "coming", "arriving": arriving});
    let (status, made) = server.call("POST", "/v1/buckets", Some(spec)).await;
    assert_eq!(status, 201, "{made}");
    server
}

fn put(key: &str, order: u64, body: &[u8]) -> Value {
    let body = json!({"inline": {"bytes": body.len(), "crc32c": bulk::crc32c(body)}});
    json!({"put": {"version": version(key, order), "body": body}})
}

fn version(key: &str, order: u64) -> Value {
    json!({
        "key": key, "order": order, "null": false, "marker": false, "size": 3, "modified_ms": 5,
        "attributes": "AQID",
    })
}

fn receive(changes: &[Value]) -> Value {
    json!({"expects": arriving(), "changes": changes})
}

fn stage(id: Option<u64>, offset: u64, total: u64, bytes: &[u8]) -> Value {
    let mut head = json!({
        "expects": arriving(), "key": "long", "total_bytes": total, "offset": offset,
        "bytes": bytes.len(), "crc32c": bulk::crc32c(bytes),
    });
    if let Some(id) = id {
        head["id"] = json!(id);
    }
    head
}

async fn refused(server: &Server, path: &str, head: &Value, following: &[u8], why: &str) {
    let (status, body) = server.call_bulk(path, head, following).await;
    let message = body["message"].as_str().unwrap_or_default();
    assert!(status == 400 && message.contains(why), "{status} {body}: not {why}");
}

#[tokio::test]
async fn versions_come_and_are_read_as_they_are_stored() {
    let server = server().await;
    let changes = [put("a", 1, b"one"), put("a", 2, b"second"), put("b", 1, b"")];
    let (status, body) = server.call_bulk(RECEIVE, &receive(&changes), b"onesecond").await;
    assert_eq!(status, 204, "{body}");
    let (_, page) = server.call("GET", "/v1/buckets/coming/versions?limit=2", None).await;
    let orders = |page: &Value| -> Vec<(String, u64)> {
        let of = |version: &Value| {
            (version["key"].as_str().unwrap().to_owned(), version["order"].as_u64().unwrap())
        };
        page["versions"].as_array().unwrap().iter().map(of).collect()
    };
    assert_eq!(orders(&page), [("a".to_owned(), 2), ("a".to_owned(), 1)]);
    assert_eq!((&page["more"], &page["versions"][0]), (&json!(true), &version("a", 2)));
    let next = "/v1/buckets/coming/versions?after_key=a&after_order=1";
    assert_eq!(orders(&server.call("GET", next, None).await.1), [("b".to_owned(), 1)]);
    let older = "/v1/buckets/coming/versions?key=a&after_order=2";
    assert_eq!(orders(&server.call("GET", older, None).await.1), [("a".to_owned(), 1)]);
    let part = |key: &str, order: u64, offset: u64, bytes: u64| json!({"key": key, "order": order, "offset": offset, "bytes": bytes});
    let wanted = json!({"parts": [part("a", 2, 3, 100), part("b", 1, 0, 9), part("a", 1, 0, 2)]});
    let (status, answer) =
        server.call_bytes(READ, "application/json", wanted.to_string().as_bytes()).await;
    assert_eq!(status, 200);
    let (head, following): (PartsRead, _) = bulk::split(&answer.into()).unwrap();
    let lengths: Vec<_> = head.parts.iter().map(|part| (part.total_bytes, part.bytes)).collect();
    assert_eq!(lengths, [(6, 3), (0, 0), (3, 2)]);
    let pieces =
        bulk::pieces(&following, head.parts.iter().map(|part| (part.bytes, part.crc32c))).unwrap();
    assert_eq!(pieces, ["ond", "", "on"]);
    for query in ["key=a&after_key=a", "after_order=1", "limit=0", "since=1"] {
        let path = format!("/v1/buckets/coming/versions?{query}");
        assert_eq!(server.call("GET", &path, None).await.0, 400, "{query}");
    }
}

#[tokio::test]
async fn a_body_that_is_not_what_its_head_says_is_not_stored() {
    let server = server().await;
    let one = receive(&[put("a", 1, b"one")]);
    refused(&server, RECEIVE, &one, b"onE", "another CRC-32C").await;
    refused(&server, RECEIVE, &one, b"on", "shorter").await;
    refused(&server, RECEIVE, &one, b"ones", "longer").await;
    let endless = json!({"put": {"version": version("a", 1), "body": {"inline": {"bytes": u64::MAX, "crc32c": 0}}}});
    refused(&server, RECEIVE, &receive(&[endless]), b"x", "shorter").await;
    let bare = json!({"put": {"version": version("a", 1)}});
    refused(&server, RECEIVE, &receive(&[bare]), b"", "objects have a body").await;
    let mut marker = put("a", 1, b"");
    marker["put"]["version"]["marker"] = json!(true);
    refused(&server, RECEIVE, &receive(&[marker]), b"", "delete markers have none").await;
    let long = vec![1; 65_537];
    refused(&server, RECEIVE, &receive(&[put("a", 1, &long)]), &long, "is staged first").await;
    let (_, page) = server.call("GET", "/v1/buckets/coming/versions", None).await;
    assert_eq!(page["versions"], json!([]));
    refused(&server, STAGE, &stage(None, 0, 3, b"one"), b"onE", "another CRC-32C").await;
    refused(&server, STAGE, &stage(None, 0, 2, b"one"), b"one", "ends behind").await;
    refused(&server, STAGE, &stage(None, u64::MAX, 2, b"one"), b"one", "ends behind").await;
}

#[tokio::test]
async fn damaged_requests_are_refused() {
    let server = server().await;
    let good = bulk::with_bodies(&receive(&[put("a", 1, b"one")]), &[b"one"]);
    for len in 0..good.len() {
        let (status, _) = server.call_bytes(RECEIVE, bulk::CONTENT_TYPE, &good[..len]).await;
        assert_eq!(status, 400, "cut to {len}");
    }
    // A bit of the length, of what JSON is made of, or of the body; not of the names and numbers in it.
    for at in (0..5).chain(good.len() - 5..good.len()) {
        for bit in 0..8 {
            let mut flipped = good.clone();
            flipped[at] ^= 1 << bit;
            let (status, _) = server.call_bytes(RECEIVE, bulk::CONTENT_TYPE, &flipped).await;
            assert_eq!(status, 400, "bit {bit} of byte {at}");
        }
    }
    for head in [json!([]), json!({}), json!({"expects": arriving(), "changes": [{"none": 1}]})] {
        refused(&server, RECEIVE, &head, b"", "its head").await;
    }
    for (path, kind) in [(RECEIVE, "application/json"), (STAGE, "text/plain"), (READ, "text/plain")]
    {
        assert_eq!(server.call_bytes(path, kind, b"{}").await.0, 400, "{path} {kind}");
    }
}

#[tokio::test]
async fn requests_are_bounded() {
    let server = server().await;
    let many: Vec<Value> = (1..=1001).map(|order| put("a", order, b"")).collect();
    refused(&server, RECEIVE, &receive(&many), b"", "at most 1000").await;
    let piece = vec![0; (8 << 20) + 1];
    refused(&server, STAGE, &stage(None, 0, 9 << 20, &piece), &piece, "at most").await;
    let parts: Vec<Value> =
        (0..2).map(|_| json!({"key": "a", "order": 1, "offset": 0, "bytes": 5 << 20})).collect();
    let wanted = json!({"parts": parts}).to_string();
    assert_eq!(server.call_bytes(READ, "application/json", wanted.as_bytes()).await.0, 400);
    let overflow = json!({"key": "a", "order": 1, "offset": 0, "bytes": u64::MAX});
    let wanted = json!({"parts": [overflow, overflow]}).to_string();
    assert_eq!(server.call_bytes(READ, "application/json", wanted.as_bytes()).await.0, 400);
    let piece = vec![0; 8 << 20];
    let (status, staged) = server.call_bulk(STAGE, &stage(None, 0, 8 << 20, &piece), &piece).await;
    assert_eq!((status, &staged["received_bytes"]), (200, &json!(8 << 20)), "the largest piece");
}

#[tokio::test]
async fn a_bucket_goes_its_way_by_steps_that_are_compared() {
    let server = server().await;
    let step = async |step: Value| server.call("POST", "/v1/buckets/coming/move", Some(step)).await;
    let (status, body) = step(json!({"after": moves("leaving", 2)})).await;
    assert_eq!((status, &body["kind"]), (409, &json!("conflict")));
    let (status, body) = step(json!({"before": arriving(), "from_number": 7})).await;
    assert_eq!(status, 200, "{body}");
    let mut arrived = moves("arrived", 1);
    arrived["bucket"] = json!(7);
    assert_eq!(body["moves"], arrived);
    let (status, _) = server.call_bulk(RECEIVE, &receive(&[]), b"").await;
    assert_eq!(status, 409, "it arrives no more");
    assert_eq!(step(json!({"before": arrived})).await.0, 200);
    assert_eq!(step(json!({"after": moves("left", 2)})).await.0, 200);
    let delete = async |query: String| {
        server.call("DELETE", &format!("/v1/buckets/coming?{query}"), None).await
    };
    assert_eq!(delete(expects(&moves("left", 1))).await.0, 409);
    assert_eq!(delete("expects=left".to_owned()).await.0, 400);
    let (status, deletion) = delete(expects(&moves("left", 2))).await;
    assert_eq!((status, deletion), (200, json!({"left": 0, "done": true})));
    let coming = |record| json!({"moves": arriving(), "record": record, "private_copy": false});
    let mixed = json!({"name": "other", "versioning": true, "arriving": coming("")});
    assert_eq!(server.call("POST", "/v1/buckets", Some(mixed)).await.0, 400);
    let text = json!({"name": "other", "arriving": coming("?")});
    assert_eq!(server.call("POST", "/v1/buckets", Some(text)).await.0, 400);
}
