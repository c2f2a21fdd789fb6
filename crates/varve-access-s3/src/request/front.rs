//! What stands around the protocol library: request ids, cross-origin answers, complete error documents, the rate
//! limit.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use hyper::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HeaderName, HeaderValue, ORIGIN, SERVER, TRANSFER_ENCODING,
};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s::validation::NameValidation;
use s3s::{Body, S3Error, s3_error};

use crate::bucket::cors::{self, CorsRequest};
use crate::bucket::name::is_bucket_name;
use crate::bucket::website;
use crate::clock::now_ms;
use crate::compat::digests::{BodyContent, Digests};
use crate::compat::frames::is_in_chunks;
use crate::compat::head::{is_signed, is_subresource};
use crate::compat::repair::{COPY_SOURCE, TolerantRetry};
use crate::compat::xml::XML_BYTES_MAX;
use crate::compat::{answer, checksum_names, head};
use crate::gateway::GatewayInner;
use crate::identity::access::{Access, Keys};
use crate::identity::principal::Principal;
use crate::operations::service::Service;
use crate::request::access_log::LogEntry;
use crate::request::account::{Account, MeteredBody, RequestNotes};
use crate::request::preflight::{ASKED_HEADERS, ASKED_METHOD, refused_preflight};
use crate::request::query::{decode, query_value, redacted};
use crate::request::{form, health};

/// Whether a method may change something.
fn is_change(method: &Method) -> bool {
    ![Method::GET, Method::HEAD, Method::OPTIONS].contains(method)
}

#[cfg(test)]
pub(crate) mod tests;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-amz-request-id");
const ID_2: HeaderName = HeaderName::from_static("x-amz-id-2");
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
        let is_head = request.method() == Method::HEAD;
        let asks_to_continue = request.headers().contains_key(EXPECT);
        let names =
            |wanted: &str| query_value(request.uri().query().unwrap_or_default(), wanted).is_some();
        let attributes = names("attributes");
        let has_sums =
            attributes || names("uploadId") || request.headers().contains_key(COPY_SOURCE);
        let mut response = if !rate.admits() {
            of_error(s3_error!(SlowDown, "Please reduce your request rate."))
        } else if self.inner.options.is_read_only && is_change(request.method()) {
            of_error(s3_error!(AccessDenied, "The pool is open for reading only."))
        } else if request.method() == Method::OPTIONS {
            account.noted.note(self.inner.figures.operation("Preflight"), &Principal::default());
            self.preflight(&request, cross.take()).await
        } else if let Some(bucket) = self.website_of(&request) {
            website::serve(&self.inner, &self.service, request, &bucket).await
        } else if let Some(answer) = self.other_than_s3(&request).await {
            answer
        } else if let Err(error) = head::check(&mut request, &self.inner) {
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
        answer::name_part(&mut response);
        checksum_names::rename_header(response.headers_mut());
        if has_sums {
            checksum_names::rename_elements(&mut response);
        }
        if attributes && response.status().is_success() {
            answer::unquote_tag(&mut response);
        }
        if response.status().is_client_error() || response.status().is_server_error() {
            answer::complete_error(&mut response, &path, id, is_head);
        }
        answer::escape_returns(&mut response);
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

fn of_error(error: S3Error) -> Response<Body> {
    error.to_http_response().unwrap_or_else(|_| {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        response
    })
}
