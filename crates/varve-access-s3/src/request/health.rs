//! What answers at the address of S3 without being S3: whether the gateway lives and is ready, for load balancers, and
//! a page for a browser. Called for each request without a signature (`front`).
//!
//! HEALTH-CHECK-1: a bucket of the same name comes first: nothing that is stored is hidden.

use std::time::Duration;

use hyper::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use s3s::Body;
use varve_object::Error;

use crate::gateway::GatewayInner;

/// Longest that the store may take to be ready.
const READY_WITHIN: Duration = Duration::from_secs(5);
const PAGE: &str = "This is an S3 endpoint of Varve. Use it with an S3 client, such as\n\n    aws --endpoint-url http://HOST:PORT s3 ls\n\n\
Its state: /health/live, /health/ready\n";

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HealthProbe {
    Live,
    Ready,
    Page,
}

/// The bucket that the path would name, and what is asked for. MinIO's clients have paths of their own.
fn parse_path<B>(request: &Request<B>) -> Option<(&'static str, HealthProbe)> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return None;
    }
    Some(match request.uri().path() {
        "/health/live" => ("health", HealthProbe::Live),
        "/health/ready" => ("health", HealthProbe::Ready),
        "/minio/health/live" => ("minio", HealthProbe::Live),
        "/minio/health/ready" | "/minio/health/cluster" | "/minio/health/cluster/read" => {
            ("minio", HealthProbe::Ready)
        }
        "/" if accepts_html(request) => ("", HealthProbe::Page),
        _ => return None,
    })
}

fn accepts_html<B>(request: &Request<B>) -> bool {
    let mut values = request.headers().get_all(ACCEPT).iter().filter_map(|one| one.to_str().ok());
    values.any(|value| value.contains("text/html"))
}

/// The answer, if it is none of S3.
pub(crate) async fn answer<B>(
    inner: &GatewayInner,
    request: &Request<B>,
) -> Option<Response<Body>> {
    let (bucket, asked) = parse_path(request)?;
    if asked == HealthProbe::Page {
        return Some(plain(StatusCode::OK, PAGE));
    }
    let found = tokio::time::timeout(READY_WITHIN, inner.store.bucket(bucket)).await;
    let is_ready = match found {
        Ok(Ok(_)) => return None, // HEALTH-CHECK-1
        // Beside a damaged shard, where it may be, the gateway is ready for all the others.
        Ok(Err(Error::NoBucket { .. } | Error::Unread { .. })) => true,
        Ok(Err(_)) | Err(_) => false,
    };
    Some(match asked {
        HealthProbe::Ready if !is_ready => plain(StatusCode::SERVICE_UNAVAILABLE, "not ready\n"),
        HealthProbe::Ready => plain(StatusCode::OK, "ready\n"),
        _ => plain(StatusCode::OK, "live\n"),
    })
}

fn plain(status: StatusCode, text: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::from(text.to_owned()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
