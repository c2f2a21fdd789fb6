//! Goal: requests without a signature get what they may, and learn no more. Method: requests to the front over a store
//! in memory, whose bucket lets everybody read what begins with `pub/`, and list what begins with `pub/open/`.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::{Method, Request, StatusCode};
use s3s::{Body, S3ErrorCode};
use varve_object::{Document, MemoryStore};

use super::signer;
use crate::body::seal::MasterKey;
use crate::bucket::administration::NewBucket;
use crate::gateway::{Gateway, Options};
use crate::request::front::{Front, Rate};

const POLICY: &str = r#"{"Version": "2012-10-17", "Statement": [
    {"Effect": "Allow", "Principal": "*", "Action": ["s3:GetObject", "s3:PutObject"], "Resource": "arn:aws:s3:::data/pub/*"},
    {"Effect": "Allow", "Principal": "*", "Action": "s3:ListBucket", "Resource": "arn:aws:s3:::data",
     "Condition": {"StringLike": {"s3:prefix": "pub/open/*"}}}]}"#;

async fn front(bucket: &str) -> (Front, Gateway) {
    front_over(Arc::default(), bucket).await
}

async fn front_over(store: Arc<MemoryStore>, bucket: &str) -> (Front, Gateway) {
    let opened = Gateway::open(store, MasterKey::of([7; 32]), Options::default()).await;
    let gateway = opened.unwrap().gateway;
    let named = NewBucket { name: bucket.to_owned(), ..NewBucket::default() };
    gateway.create_bucket(named).await.unwrap();
    let policy = Bytes::from(POLICY.replace("data", bucket));
    let edit = move |settings: &mut varve_object::Settings| {
        settings.documents.insert(Document::Policy, policy);
        Ok(())
    };
    gateway.inner.edit(bucket, edit).await.unwrap();
    (Front::new(Arc::clone(&gateway.inner)), gateway)
}

async fn ask(front: &Front, method: Method, uri: &str, accept: &str) -> (StatusCode, String) {
    let request = Request::builder().method(method).uri(uri).header("accept", accept);
    let request = request.header("content-length", "0").body(Body::empty()).unwrap();
    let response = front.answer(request, &Rate::new(0), Arc::default()).await;
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8_lossy(&body).into_owned())
}

#[tokio::test]
async fn what_is_not_there_is_told_to_those_who_may_list() {
    let (front, _gateway) = front("data").await;
    for (uri, wanted) in [
        ("/data/pub/none", StatusCode::FORBIDDEN),
        ("/data/pub/open/none", StatusCode::NOT_FOUND),
        ("/data/other", StatusCode::FORBIDDEN),
    ] {
        for method in [Method::GET, Method::HEAD] {
            assert_eq!(ask(&front, method, uri, "*/*").await.0, wanted, "{uri}");
        }
    }
    assert_eq!(ask(&front, Method::PUT, "/data/pub/there", "*/*").await.0, StatusCode::OK);
    assert_eq!(ask(&front, Method::GET, "/data/pub/there", "*/*").await.0, StatusCode::OK);
}

#[tokio::test]
async fn health_is_told_to_everybody_unless_a_bucket_has_the_name() {
    let (other, _gateway) = front("data").await;
    for (uri, text) in [
        ("/health/live", "live\n"),
        ("/health/ready", "ready\n"),
        ("/minio/health/live", "live\n"),
        ("/minio/health/ready", "ready\n"),
    ] {
        assert_eq!(ask(&other, Method::GET, uri, "*/*").await, (StatusCode::OK, text.to_owned()));
    }
    assert_eq!(ask(&other, Method::PUT, "/health/live", "*/*").await.0, StatusCode::NOT_FOUND);
    let (status, page) = ask(&other, Method::GET, "/", "text/html,*/*").await;
    assert!(status == StatusCode::OK && page.contains("S3 endpoint"), "{page}");
    assert_eq!(ask(&other, Method::GET, "/", "*/*").await.0, StatusCode::FORBIDDEN);
    let (same, _gateway) = front("health").await;
    assert_eq!(ask(&same, Method::GET, "/health/live", "*/*").await.0, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn what_may_be_on_a_damaged_shard_is_unavailable_and_not_missing() {
    let store = Arc::new(MemoryStore::default());
    let (front, gateway) = front_over(Arc::clone(&store), "data").await;
    store.lose(|name| name.starts_with("lost") || name == "health");
    for method in [Method::GET, Method::PUT, Method::DELETE] {
        let (status, text) = ask(&front, method, "/lost/key", "*/*").await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{text}");
        assert!(text.contains("<Code>ServiceUnavailable</Code>"), "{text}");
        assert!(text.contains("bucket `lost` may be on shard 1") && text.contains("varve status"));
    }
    for (uri, wanted) in [
        ("/other/key", StatusCode::NOT_FOUND),
        ("/data/pub/open/none", StatusCode::NOT_FOUND),
        ("/health/ready", StatusCode::OK),
        ("/minio/health/ready", StatusCode::OK),
    ] {
        assert_eq!(ask(&front, Method::GET, uri, "*/*").await.0, wanted, "{uri}");
    }
    let refused = |key: &str| signer(&gateway.inner, key).err().map(|error| error.code().clone());
    assert_eq!(refused("lost-key"), Some(S3ErrorCode::ServiceUnavailable));
    assert_eq!(refused("other"), Some(S3ErrorCode::InvalidAccessKeyId));
}
