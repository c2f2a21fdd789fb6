//! What stands around the protocol library: request ids, cross-origin answers, complete error documents, the rate
//! limit.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use hyper::header::{
    ALLOW, AUTHORIZATION, CONNECTION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, DATE, EXPECT,
    HeaderName, HeaderValue, ORIGIN, SERVER, TRANSFER_ENCODING,
};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use s3s::header::X_AMZ_DATE;
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s::validation::NameValidation;
use s3s::{Body, S3Error, S3ErrorCode, s3_error};
use time::format_description::well_known::Rfc2822;
use time::{OffsetDateTime, UtcOffset};

use crate::answers::error::{ELEMENTS, invalid_argument, named, with_elements};
use crate::answers::wording;
use crate::body::sums;
use crate::bucket::cors::{self, CorsRequest};
use crate::bucket::name::is_bucket_name;
use crate::bucket::website;
use crate::clock::now_ms;
use crate::compat::digests::{BodyContent, Digests};
use crate::compat::frames::{ChunkedHead, ReframedBody, has_value, is_in_chunks};
use crate::compat::misdirected;
use crate::compat::repair::{COPY_SOURCE, TolerantRetry};
use crate::compat::signed;
use crate::compat::unframed::UnframedBody;
use crate::compat::xml::XML_BYTES_MAX;
use crate::gateway::GatewayInner;
use crate::identity::access::{Access, Keys, Principal, SIGNATURE};
use crate::identity::chain::Chain;
use crate::operations::operation;
use crate::operations::service::Service;
use crate::request::access_log::LogEntry;
use crate::request::account::{Account, ErrorCode, MeteredBody, RequestNotes};
use crate::request::form;
use crate::request::health;
use crate::request::query::{decode, escape_xml, query_value, redacted};

#[cfg(test)]
pub(crate) mod tests;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-amz-request-id");
const ID_2: HeaderName = HeaderName::from_static("x-amz-id-2");
const TRAILER: HeaderName = HeaderName::from_static("x-amz-trailer");
const ASKED_METHOD: HeaderName = HeaderName::from_static("access-control-request-method");
const ASKED_HEADERS: HeaderName = HeaderName::from_static("access-control-request-headers");
/// Longest life of a presigned URL, in seconds.
const PRESIGNED_SECONDS_MAX: u32 = 7 * 24 * 3600;
/// Longest headers of a request together, in bytes, as by Amazon.
const HEAD_BYTES_MAX: usize = 8 << 10;

/// What a connection reads ahead of a body, in bytes.
const HEAD_OF_BODY_BYTES: u64 = 16 << 10;
/// Most of an object's body that is on its way to the store outside what the store counts, in bytes: read ahead, small
/// bodies, and what is being hashed.
const OBJECT_BYTES: u64 = 128 << 10;
/// The same of a form, with its fields.
const FORM_BYTES: u64 = 512 << 10;
/// A document is in memory as it came, twice, repaired, and taken apart.
const DOCUMENT_COPIES: u64 = 4;

/// Answers requests.
#[derive(Clone)]
pub(crate) struct Front {
    inner: Arc<GatewayInner>,
    service: S3Service,
    ids: Arc<AtomicU64>,
}

/// Requests of a connection, counted.
pub(crate) struct Rate {
    most: u32,
    /// Begin of the current second and requests in it.
    second: Mutex<(Instant, u32)>,
}

impl Rate {
    pub(crate) fn new(most: u32) -> Self {
        Self { most, second: Mutex::new((Instant::now(), 0)) }
    }

    fn admits(&self) -> bool {
        if self.most == 0 {
            return true;
        }
        let mut second = self.second.lock().unwrap_or_else(PoisonError::into_inner);
        if second.0.elapsed().as_secs() >= 1 {
            *second = (Instant::now(), 0);
        }
        second.1 += 1;
        second.1 <= self.most
    }
}

impl Front {
    pub(crate) fn new(inner: Arc<GatewayInner>) -> Self {
        let plain = Self::builder(&inner).build();
        let mut builder = Self::builder(&inner);
        builder.set_route(TolerantRetry { inner: Arc::clone(&inner), plain });
        let first = u64::from_be_bytes(crate::body::seal::random());
        Self { inner, service: builder.build(), ids: Arc::new(AtomicU64::new(first)) }
    }

    /// The protocol library over the operations.
    fn builder(inner: &Arc<GatewayInner>) -> S3ServiceBuilder {
        let mut builder = S3ServiceBuilder::new(Service { inner: Arc::clone(inner) });
        let mut config = s3s::config::S3Config::default();
        config.xml_max_body_size = XML_BYTES_MAX;
        config.post_object_max_file_size = 0;
        builder.set_config(Arc::new(s3s::config::StaticConfigProvider::new(Arc::new(config))));
        // The library asks `Access` only where it has keys.
        builder.set_auth(Keys { inner: Arc::clone(inner) });
        builder.set_validation(BucketNames);
        builder.set_access(Access { inner: Arc::clone(inner) });
        builder.set_host(inner.domains.clone());
        builder
    }

    /// The answer, which counts and logs the request when it has ended. `received` counts the bytes of its body.
    pub(crate) async fn answer(
        &self,
        mut request: Request<Body>,
        rate: &Rate,
        received: Arc<AtomicU64>,
    ) -> Response<MeteredBody> {
        let begun = Instant::now();
        let id = format!("{:016X}", self.ids.fetch_add(1, Ordering::Relaxed));
        let (inner, noted) = (Arc::clone(&self.inner), RequestNotes::default());
        request.extensions_mut().insert(noted.clone());
        let entry = self.log_entry(&request).await;
        let account = Account { inner, id, noted, received, begun, entry };
        let line = tracing::enabled!(tracing::Level::DEBUG).then(|| {
            let query = redacted(request.uri().query().unwrap_or_default());
            (request.method().clone(), request.uri().path().to_owned(), query)
        });
        let response = self.respond(request, rate, &account).await;
        if let Some((method, path, query)) = line {
            let (id, status) = (&account.id, response.status().as_u16());
            tracing::debug!(%method, path, query, status, id, "request");
        }
        account.answered(response)
    }

    /// The begin of a line of the bucket's access log, if it has one.
    async fn log_entry(&self, request: &Request<Body>) -> Option<Box<LogEntry>> {
        self.inner.access_log.as_ref()?;
        let view = self.inner.view(&self.bucket_of(request)?).await.ok()?;
        let name = &view.bucket.name;
        let entry = || LogEntry::new(request, name, view.owner(), now_ms());
        view.settings.access_log.then(|| Box::new(entry()))
    }

    async fn respond(
        &self,
        mut request: Request<Body>,
        rate: &Rate,
        account: &Account,
    ) -> Response<Body> {
        let id = &account.id;
        let mut cross = self.cross_origin(&request).await;
        let path = request.uri().path().to_owned();
        let head = request.method() == Method::HEAD;
        let asks_to_continue = request.headers().contains_key(EXPECT);
        let names =
            |wanted: &str| query_value(request.uri().query().unwrap_or_default(), wanted).is_some();
        let attributes = names("attributes");
        let has_sums =
            attributes || names("uploadId") || request.headers().contains_key(COPY_SOURCE);
        let mut response = if !rate.admits() {
            of_error(s3_error!(SlowDown, "Please reduce your request rate."))
        } else if request.method() == Method::OPTIONS {
            account.noted.note(self.inner.figures.operation("Preflight"), &Principal::default());
            self.preflight(&request, cross.take()).await
        } else if let Some(bucket) = self.website_of(&request) {
            website::serve(&self.inner, &self.service, request, &bucket).await
        } else if let Some(answer) = self.other_than_s3(&request).await {
            answer
        } else if let Err(error) = check(&mut request, &self.inner) {
            of_error(error)
        } else if let Some(bucket) = self.form_bucket(&request) {
            let posted = async {
                let _reserved = self.inner.bodies.reserve(FORM_BYTES).await?;
                form::post(&self.inner, &bucket, request).await
            };
            posted.await.unwrap_or_else(of_error)
        } else {
            self.serve(request).await
        };
        // The library has no status of its own for the head of a part of an object.
        if response.status() == StatusCode::OK && response.headers().contains_key(CONTENT_RANGE) {
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        }
        sums::rename_header(response.headers_mut());
        if has_sums {
            sums::rename_elements(&mut response);
        }
        if attributes && response.status().is_success() {
            unquote_tag(&mut response);
        }
        if response.status().is_client_error() || response.status().is_server_error() {
            complete_error(&mut response, &path, id, head);
        }
        escape_returns(&mut response);
        let headers = response.headers_mut();
        headers.extend(cross.into_iter().flatten());
        if let Ok(value) = HeaderValue::from_str(id) {
            headers.insert(REQUEST_ID, value.clone());
            headers.insert(ID_2, value);
        }
        headers.insert(SERVER, HeaderValue::from_static("Varve"));
        // The request got no `100 Continue`: its body was not wanted, or is empty. botocore then takes the status of
        // this answer for the status of the next one on the connection, and loses the headers of that.
        if asks_to_continue && account.received.load(Ordering::Relaxed) == 0 {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    /// The answer to what is no request of S3.
    async fn other_than_s3(&self, request: &Request<Body>) -> Option<Response<Body>> {
        if is_signed(request) || self.inner.domains.bucket_in(request.headers()).is_some() {
            return None;
        }
        health::answer(&self.inner, request).await
    }

    /// The answer of the protocol library.
    async fn serve(&self, mut request: Request<Body>) -> Response<Body> {
        let query = request.uri().query().unwrap_or_default();
        let is_document = (*request.method() == Method::POST && !is_in_chunks(request.headers()))
            || (*request.method() == Method::PUT && query.split('&').any(is_subresource));
        let content = match is_document {
            true if query_value(query, "uploadId").is_some() => BodyContent::Completion,
            true => BodyContent::Document,
            false => BodyContent::Object,
        };
        let reserved = match reservation(&request, content) {
            Ok(0) => None,
            Ok(bytes) => match self.inner.bodies.reserve(bytes).await {
                Ok(reserved) => Some(reserved),
                Err(error) => return of_error(error),
            },
            Err(error) => return of_error(error),
        };
        let digests = match Digests::declared(request.headers(), content, is_signed(&request)) {
            Ok(digests) => digests,
            Err(error) => return of_error(error),
        };
        digests.watch(&mut request);
        let response = self.service.call(request).await.unwrap_or_else(|error| {
            let error: Box<dyn std::error::Error + Send + Sync> = error.into();
            tracing::error!(%error, "request failed");
            of_error(s3_error!(InternalError))
        });
        drop(reserved);
        let broken = || digests.broken().filter(|_| response.status().is_server_error());
        match digests.refused().or_else(broken) {
            Some(error) => of_error(error),
            None => response,
        }
    }

    /// Headers for a browser, by the rules of the bucket.
    async fn cross_origin(&self, request: &Request<Body>) -> Option<HeaderMap> {
        let text =
            |name: HeaderName| request.headers().get(name).and_then(|value| value.to_str().ok());
        let origin = text(ORIGIN)?;
        let bucket = self.bucket_of(request)?;
        let view = self.inner.view(&bucket).await.ok()?;
        let preflight = request.method() == Method::OPTIONS;
        let method = if preflight {
            text(ASKED_METHOD)?
        } else {
            text(ASKED_METHOD).unwrap_or(request.method().as_str())
        };
        let asked =
            CorsRequest { origin, method, headers: text(ASKED_HEADERS).filter(|_| preflight) };
        cors::headers(view.cors.as_ref()?, &asked)
    }

    /// The answer to a browser that asks what it may do.
    async fn preflight(
        &self,
        request: &Request<Body>,
        allowed: Option<HeaderMap>,
    ) -> Response<Body> {
        if let Some(headers) = allowed {
            let mut response = Response::new(Body::empty());
            *response.headers_mut() = headers;
            return response;
        }
        let Some(bucket) = self.bucket_of(request) else {
            return of_error(refused_preflight(request.headers(), false));
        };
        match self.inner.view(&bucket).await {
            Ok(view) => of_error(refused_preflight(request.headers(), view.cors.is_some())),
            Err(error) => of_error(error),
        }
    }

    /// The bucket that a form is posted to. The protocol library would hold its file in memory.
    fn form_bucket(&self, request: &Request<Body>) -> Option<String> {
        let form = request.method() == Method::POST && form::is_form(request.headers());
        form.then(|| self.bucket_of(request)).flatten()
    }

    /// The bucket whose website the host names.
    fn website_of(&self, request: &Request<Body>) -> Option<String> {
        let domain = self.inner.options.website_domain.as_deref()?;
        let host = request.headers().get(hyper::header::HOST)?.to_str().ok()?.to_ascii_lowercase();
        website::bucket_of(&host, domain).map(str::to_owned)
    }

    /// The bucket named by the host or the path.
    fn bucket_of(&self, request: &Request<Body>) -> Option<String> {
        if let Some(bucket) = self.website_of(request) {
            return Some(bucket);
        }
        let of_host = self.inner.domains.bucket_in(request.headers());
        of_host
            .or_else(|| decode(request.uri().path().trim_start_matches('/').split('/').next()?))
            .filter(|name| !name.is_empty())
    }
}

/// The rule for names, as the protocol library asks for it.
struct BucketNames;

impl NameValidation for BucketNames {
    fn validate_bucket_name(&self, name: &str) -> bool {
        is_bucket_name(name)
    }
}

/// Memory that the body of a request may hold at a time, in bytes, before the store takes it.
fn reservation(request: &Request<Body>, content: BodyContent) -> s3s::S3Result<u64> {
    let len = request.headers().get(CONTENT_LENGTH).and_then(|len| len.to_str().ok()?.parse().ok());
    let is_endless = request.headers().contains_key(TRANSFER_ENCODING);
    let Some(len) = len.or(is_endless.then_some(u64::MAX)).filter(|len: &u64| *len > 0) else {
        return Ok(0);
    };
    if content == BodyContent::Object {
        return Ok(len.saturating_mul(2).saturating_add(HEAD_OF_BODY_BYTES).min(OBJECT_BYTES));
    }
    // A body in chunks has another length than its document, which the protocol library bounds.
    let document = if is_endless { XML_BYTES_MAX as u64 } else { len };
    if document > XML_BYTES_MAX as u64 && !is_in_chunks(request.headers()) {
        return Err(s3_error!(MaxMessageLengthExceeded));
    }
    Ok(document.min(XML_BYTES_MAX as u64) * DOCUMENT_COPIES + HEAD_OF_BODY_BYTES)
}

/// What the protocol library takes and we do not, and what it wants in another form.
fn check(request: &mut Request<Body>, inner: &GatewayInner) -> s3s::S3Result<()> {
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
fn check_payload(request: &Request<Body>) -> s3s::S3Result<()> {
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
fn reframe(request: &mut Request<Body>, inner: &GatewayInner) -> s3s::S3Result<()> {
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
fn check_head(headers: &HeaderMap) -> s3s::S3Result<()> {
    let len: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if len > HEAD_BYTES_MAX {
        let text = "Your request header section exceeds the maximum allowed size.";
        let error = named("RequestHeaderSectionTooLarge", StatusCode::BAD_REQUEST, text);
        return Err(with_elements(error, &[("MaxSizeAllowed", &HEAD_BYTES_MAX.to_string())]));
    }
    Ok(())
}

/// Whether a parameter of a query names something of an object or bucket that is put, other than itself and its parts.
fn is_subresource(pair: &str) -> bool {
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
fn is_signed(request: &Request<Body>) -> bool {
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

/// This answer has its entity tag without quotes, unlike all others.
fn unquote_tag(response: &mut Response<Body>) {
    let Some(bytes) = response.body().bytes() else { return };
    let Ok(text) = std::str::from_utf8(&bytes) else { return };
    *response.body_mut() = Body::from(without_quotes(text));
    response.headers_mut().remove(CONTENT_LENGTH);
}

/// Escapes carriage returns in a document: its reader would take them for ends of lines, and have the name of another
/// key. The protocol library writes none of its own.
fn escape_returns(response: &mut Response<Body>) {
    let is_xml = response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == "application/xml");
    // Objects are no such documents: they pass as streams.
    let Some(bytes) = response.body().bytes().filter(|bytes| is_xml && bytes.contains(&b'\r'))
    else {
        return;
    };
    if let Ok(text) = std::str::from_utf8(&bytes) {
        *response.body_mut() = Body::from(text.replace('\r', "&#13;"));
        response.headers_mut().remove(CONTENT_LENGTH);
    }
}

/// Quotes around tags go, escaped or not.
fn without_quotes(document: &str) -> String {
    let mut plain = document.to_owned();
    for quote in ["&quot;", "\""] {
        plain = plain.replace(&format!("<ETag>{quote}"), "<ETag>");
        plain = plain.replace(&format!("{quote}</ETag>"), "</ETag>");
    }
    plain
}

/// Why a browser may not do what it asks for; `cors` tells whether the bucket has rules at all.
fn refused_preflight(headers: &HeaderMap, cors: bool) -> S3Error {
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

fn of_error(error: S3Error) -> Response<Body> {
    error.to_http_response().unwrap_or_else(|_| {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        response
    })
}

/// Puts what every error document has into one that lacks it.
fn complete_error(response: &mut Response<Body>, path: &str, id: &str, head: bool) {
    if response.status() == StatusCode::METHOD_NOT_ALLOWED
        && !response.headers().contains_key(ALLOW)
    {
        response
            .headers_mut()
            .insert(ALLOW, HeaderValue::from_static("GET, HEAD, PUT, POST, DELETE"));
    }
    let elements = response.headers_mut().remove(ELEMENTS);
    let Some(bytes) = response.body().bytes() else { return };
    if let Some(code) = code_of(&bytes) {
        response.extensions_mut().insert(ErrorCode(code));
    }
    if head {
        *response.body_mut() = Body::empty();
        response.headers_mut().remove(CONTENT_LENGTH);
        return;
    }
    let Some(text) =
        std::str::from_utf8(&bytes).ok().and_then(|text| text.strip_suffix("</Error>"))
    else {
        return;
    };
    // Quotes need no escape in what stands between tags, and clients look for them.
    let text = text.replace("&quot;", "\"");
    let text = wording::reword(&text);
    let resource = escape_xml(path);
    let region =
        response.headers().get(signed::REGION_HEADER).and_then(|region| region.to_str().ok());
    let region = region.map(|region| format!("<Region>{region}</Region>")).unwrap_or_default();
    let elements = elements.as_ref().and_then(|text| std::str::from_utf8(text.as_bytes()).ok());
    let elements = elements.unwrap_or_default();
    let whole = format!(
        "{text}{elements}{region}<Resource>{resource}</Resource><RequestId>{id}</RequestId><HostId>{id}</HostId></Error>"
    );
    *response.body_mut() = Body::from(Bytes::from(whole));
    response.headers_mut().remove(CONTENT_LENGTH);
}

/// The code in an error document.
fn code_of(document: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(document).ok()?;
    let (_, rest) = text.split_once("<Code>")?;
    rest.split_once("</Code>").map(|(code, _)| code.to_owned())
}
