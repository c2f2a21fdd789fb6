//! The library takes heads that Amazon refuses, refuses some that Amazon takes, and wants others in another form: they
//! are checked and put into its form before it sees them. Called for each request (`front`).

use hyper::header::{AUTHORIZATION, CONTENT_LENGTH, DATE, HeaderName, HeaderValue};
use hyper::{HeaderMap, Method, Request, StatusCode};
use s3s::header::X_AMZ_DATE;
use s3s::{Body, S3Result, s3_error};
use time::format_description::well_known::Rfc2822;
use time::{OffsetDateTime, UtcOffset};

use super::frames::{ChunkedHead, ReframedBody, has_value, is_in_chunks};
use super::unframed::UnframedBody;
use super::{misdirected, signed};
use crate::answers::error::{invalid_argument, named, with_elements};
use crate::gateway::GatewayInner;
use crate::identity::chain::Chain;
use crate::identity::principal::SIGNATURE;
use crate::operations::operation;
use crate::request::query::{decode, query_value};

const TRAILER: HeaderName = HeaderName::from_static("x-amz-trailer");
/// Longest life of a presigned URL, in seconds.
const PRESIGNED_SECONDS_MAX: u32 = 7 * 24 * 3600;
/// Longest headers of a request together, in bytes, as by Amazon.
const HEAD_BYTES_MAX: usize = 8 << 10;

/// What the protocol library takes and we do not, and what it wants in another form.
pub(crate) fn check(request: &mut Request<Body>, inner: &GatewayInner) -> S3Result<()> {
    join_metadata(request.headers_mut());
    let query = request.uri().query().unwrap_or_default();
    let value = |name: &str| query_value(query, name);
    let expires = value("X-Amz-Expires").map(|text| text.parse::<u32>());
    let authorization = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    // There are no temporary credentials that a token could belong to.
    let token = request.headers().get("x-amz-security-token");
    if value("X-Amz-Security-Token").is_some() || token.is_some_and(|token| !token.is_empty()) {
        let text = "The provided token is malformed or otherwise invalid.";
        return Err(named("InvalidToken", StatusCode::BAD_REQUEST, text));
    }
    // The second version signs neither the time nor the body so that they could be checked.
    let text = "The authorization mechanism you have provided is not supported. Please use AWS4-HMAC-SHA256.";
    if authorization.is_some_and(|value| value.starts_with("AWS ")) {
        return Err(s3_error!(InvalidRequest, "{text}"));
    }
    if signed::is_v2(query) && !inner.options.signature_v2 {
        // Some clients make such URLs unless they are told otherwise, so the answer says how.
        let hint = "This presigned URL has signature version 2: create it with version 4 (boto3: Config(signature_version='s3v4')), or have the operator set s3.signature_v2.";
        return Err(s3_error!(InvalidRequest, "{text} {hint}"));
    }
    check_head(request.headers())?;
    misdirected::check(request)?;
    signed::check(request, &inner.options.region)?;
    if signed::is_v2(query) {
        signed::check_v2(query)?;
    }
    check_payload(request)?;
    if expires.is_some_and(|seconds| !seconds.is_ok_and(|seconds| seconds <= PRESIGNED_SECONDS_MAX))
    {
        return Err(s3_error!(
            AccessDenied,
            "X-Amz-Expires must be between 1 and {PRESIGNED_SECONDS_MAX} seconds"
        ));
    }
    let is_authorized = authorization.is_some();
    operation::check(request, &inner.domains)?;
    let has_date = request.headers().get(X_AMZ_DATE).is_some_and(|date| !date.is_empty());
    if is_authorized && !has_date {
        let date =
            request.headers().get(DATE).and_then(|date| date.to_str().ok()).and_then(basic_date);
        let date = date.and_then(|date| HeaderValue::from_str(&date).ok()).ok_or_else(|| {
            s3_error!(
                AccessDenied,
                "AWS authentication requires a valid Date or x-amz-date header."
            )
        })?;
        request.headers_mut().insert(X_AMZ_DATE, date);
    }
    reframe(request, inner)
}

/// What is said of the body must be something that can be checked.
fn check_payload(request: &Request<Body>) -> S3Result<()> {
    // Bodies in signed chunks are taken apart only beside a signature; without one the frames would be stored.
    let is_signed = is_signed(request);
    let headers = request.headers();
    let is_in_chunks = is_in_chunks(headers);
    if !is_signed && is_in_chunks && !has_value(headers, "x-amz-content-sha256", "unsigned") {
        let text = "Anonymous requests don't support this x-amz-content-sha256 value. Please use UNSIGNED-PAYLOAD or STREAMING-UNSIGNED-PAYLOAD-TRAILER.";
        return Err(s3_error!(InvalidRequest, "{text}"));
    }
    if !is_signed && (is_in_chunks || has_value(headers, "content-encoding", "aws-chunked")) {
        return Err(s3_error!(NotImplemented, "aws-chunked bodies need a signed request"));
    }
    let sha256 =
        headers.get("x-amz-content-sha256").map(|value| value.to_str().unwrap_or_default());
    if let Some(sha256) = sha256.filter(|sha256| is_signed && !is_in_chunks && !is_payload(sha256))
    {
        let text = "x-amz-content-sha256 must be UNSIGNED-PAYLOAD, STREAMING-UNSIGNED-PAYLOAD-TRAILER, STREAMING-AWS4-HMAC-SHA256-PAYLOAD, STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER, STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD, STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD-TRAILER or a valid sha256 value.";
        return Err(invalid_argument(text, "x-amz-content-sha256", sha256));
    }
    Ok(())
}

/// Bodies in chunks are seen to before the protocol library takes them apart.
fn reframe(request: &mut Request<Body>, inner: &GatewayInner) -> S3Result<()> {
    if !is_in_chunks(request.headers()) {
        return Ok(());
    }
    let query = request.uri().query().unwrap_or_default();
    if request.method() == Method::PUT && query.split('&').any(is_subresource) {
        let text = "The value of x-amz-content-sha256 header is invalid.";
        return Err(s3_error!(InvalidRequest, "{text}"));
    }
    let announced =
        ChunkedHead::of(request.headers()).ok_or_else(|| s3_error!(MissingContentLength))?;
    // Some clients send such bodies in chunks of HTTP as well, without a length of what is sent.
    let headers = request.headers_mut();
    if let Some(len) = headers.get("x-amz-decoded-content-length").cloned() {
        headers.entry(CONTENT_LENGTH).or_insert(len);
    }
    // The library wants it where there may be trailers.
    headers.entry(TRAILER).or_insert(HeaderValue::from_static(""));
    let body = std::mem::take(request.body_mut());
    let is_object =
        request.method() == Method::PUT && operation::is_of_object(request, &inner.domains);
    let chain = Some(&inner.users).filter(|_| announced.is_signed());
    match chain.and_then(|users| Chain::of(request.headers(), users)) {
        Some(chain) if is_object => {
            let (decoded, trailers) = ReframedBody::decoded(body, announced, chain);
            let unframed = UnframedBody::new(Body::http_body_unsync(decoded), trailers);
            request.extensions_mut().insert(unframed);
        }
        chain => {
            let framed = ReframedBody::framed(body, announced, chain);
            *request.body_mut() = Body::http_body_unsync(framed);
        }
    }
    Ok(())
}

/// Metadata of a name that comes more than once is one text with commas, as signatures have it too.
fn join_metadata(headers: &mut HeaderMap) {
    let is_metadata = |name: &&HeaderName| name.as_str().starts_with("x-amz-meta-");
    let names: Vec<HeaderName> = headers.keys().filter(is_metadata).cloned().collect();
    for name in names {
        let values: Vec<&[u8]> = headers.get_all(&name).iter().map(HeaderValue::as_bytes).collect();
        if values.len() > 1
            && let Ok(joined) = HeaderValue::from_bytes(&values.join(&b','))
        {
            headers.insert(name, joined);
        }
    }
}

/// Headers are bounded.
fn check_head(headers: &HeaderMap) -> S3Result<()> {
    let len: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if len > HEAD_BYTES_MAX {
        let text = "Your request header section exceeds the maximum allowed size.";
        let error = named("RequestHeaderSectionTooLarge", StatusCode::BAD_REQUEST, text);
        return Err(with_elements(error, &[("MaxSizeAllowed", &HEAD_BYTES_MAX.to_string())]));
    }
    Ok(())
}

/// Whether a parameter of a query names something of an object or bucket that is put, other than itself and its parts.
pub(crate) fn is_subresource(pair: &str) -> bool {
    const KNOWN: [&str; 16] = [
        "acl",
        "accelerate",
        "cors",
        "encryption",
        "legal-hold",
        "lifecycle",
        "logging",
        "object-lock",
        "ownershipControls",
        "policy",
        "publicAccessBlock",
        "replication",
        "retention",
        "tagging",
        "versioning",
        "website",
    ];
    let name = decode(pair.split('=').next().unwrap_or_default());
    name.is_some_and(|name| KNOWN.contains(&name.as_str()))
}

/// What a signed body that is not in chunks may be said to be.
fn is_payload(text: &str) -> bool {
    text == "UNSIGNED-PAYLOAD"
        || (text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Whether somebody has signed it, in the head or in the address.
pub(crate) fn is_signed(request: &Request<Body>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    request.headers().get(AUTHORIZATION).is_some_and(|value| value.to_str().is_ok())
        || query_value(query, SIGNATURE).is_some()
        || signed::is_v2(query)
}

/// A date of HTTP as signatures have it.
fn basic_date(text: &str) -> Option<String> {
    let time = OffsetDateTime::parse(text, &Rfc2822).ok()?.to_offset(UtcOffset::UTC);
    let (date, month) = (time.date(), u8::from(time.month()));
    Some(format!(
        "{:04}{month:02}{:02}T{:02}{:02}{:02}Z",
        date.year(),
        date.day(),
        time.hour(),
        time.minute(),
        time.second()
    ))
}
