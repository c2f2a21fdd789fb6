//! What a browser asks before a request to another origin, and why it is refused.

use hyper::header::{HeaderName, ORIGIN};
use hyper::{HeaderMap, StatusCode};
use s3s::{S3Error, S3ErrorCode};

use crate::answers::error::named;
use crate::bucket::cors;

pub(crate) const ASKED_METHOD: HeaderName =
    HeaderName::from_static("access-control-request-method");
pub(crate) const ASKED_HEADERS: HeaderName =
    HeaderName::from_static("access-control-request-headers");

/// Why a browser may not do what it asks for; `cors` tells whether the bucket has rules at all.
pub(crate) fn refused_preflight(headers: &HeaderMap, cors: bool) -> S3Error {
    let text = |name: HeaderName| {
        headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    let bad = |text: &str| {
        let mut error =
            S3Error::with_message(S3ErrorCode::Custom("BadRequest".into()), text.to_owned());
        error.set_status_code(StatusCode::BAD_REQUEST);
        error
    };
    if text(ORIGIN).is_none_or(|origin| origin.is_empty()) {
        return bad("Insufficient information. Origin request header needed.");
    }
    let method = text(ASKED_METHOD).unwrap_or_default();
    if !["GET", "PUT", "HEAD", "POST", "DELETE"].contains(&method.as_str()) {
        return bad(&format!("Invalid Access-Control-Request-Method: {method}"));
    }
    if let Some(name) = text(ASKED_HEADERS).as_deref().and_then(cors::bad_header) {
        return bad(&format!(
            "Access-Control-Request-Headers \"{name}\" contains invalid character."
        ));
    }
    let text = if cors {
        "CORSResponse: This CORS request is not allowed. This is usually because the evalution of Origin, request method / Access-Control-Request-Method or Access-Control-Request-Headers are not whitelisted by the resource's CORS spec."
    } else {
        "CORSResponse: CORS is not enabled for this bucket."
    };
    named("AccessForbidden", StatusCode::FORBIDDEN, text)
}
