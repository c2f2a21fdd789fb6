//! What stands around the protocol library: request ids, cross-origin answers, complete error documents, the rate limit.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use hyper::header::{ALLOW, CONTENT_LENGTH, HeaderName, HeaderValue, ORIGIN, SERVER};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s::{Body, S3Error, s3_error};

use crate::access::{Access, Keys};
use crate::cors::{self, Asked};
use crate::error::named;
use crate::gateway::Inner;
use crate::query::decode;
use crate::service::Service;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-amz-request-id");
const ID_2: HeaderName = HeaderName::from_static("x-amz-id-2");
const ASKED_METHOD: HeaderName = HeaderName::from_static("access-control-request-method");
const ASKED_HEADERS: HeaderName = HeaderName::from_static("access-control-request-headers");
/// Longest XML document of a client, in bytes: a completion of 10,000 parts with checksums.
const XML_BYTES_MAX: usize = 4 << 20;
/// Longest file of a form, in bytes: the protocol library holds it in memory.
const FORM_FILE_BYTES_MAX: u64 = 32 << 20;

/// Answers requests.
#[derive(Clone)]
pub(crate) struct Front {
    inner: Arc<Inner>,
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
    pub(crate) fn new(inner: Arc<Inner>) -> Self {
        let mut builder = S3ServiceBuilder::new(Service { inner: Arc::clone(&inner) });
        let mut config = s3s::config::S3Config::default();
        config.xml_max_body_size = XML_BYTES_MAX;
        config.post_object_max_file_size = FORM_FILE_BYTES_MAX;
        builder.set_config(Arc::new(s3s::config::StaticConfigProvider::new(Arc::new(config))));
        builder.set_auth(Keys { inner: Arc::clone(&inner) });
        builder.set_access(Access { inner: Arc::clone(&inner) });
        if let Some(domain) = &inner.options.domain {
            match s3s::host::SingleDomain::new(domain) {
                Ok(host) => builder.set_host(host),
                Err(error) => {
                    tracing::error!(%domain, %error, "buckets are not found under this domain")
                }
            }
        }
        let first = u64::from_be_bytes(crate::seal::random());
        Self { inner, service: builder.build(), ids: Arc::new(AtomicU64::new(first)) }
    }

    pub(crate) async fn answer(&self, request: Request<Body>, rate: &Rate) -> Response<Body> {
        let id = format!("{:016X}", self.ids.fetch_add(1, Ordering::Relaxed));
        let mut cross = self.cross_origin(&request).await;
        let path = request.uri().path().to_owned();
        let head = request.method() == Method::HEAD;
        let mut response = if !rate.admits() {
            of_error(s3_error!(SlowDown, "Please reduce your request rate."))
        } else if request.method() == Method::OPTIONS {
            preflight(&request, cross.take())
        } else {
            self.service.call(request).await.unwrap_or_else(|error| {
                let error: Box<dyn std::error::Error + Send + Sync> = error.into();
                tracing::error!(%error, "request failed");
                of_error(s3_error!(InternalError))
            })
        };
        if response.status().is_client_error() || response.status().is_server_error() {
            complete_error(&mut response, &path, &id, head);
        }
        let headers = response.headers_mut();
        headers.extend(cross.into_iter().flatten());
        if let Ok(value) = HeaderValue::from_str(&id) {
            headers.insert(REQUEST_ID, value.clone());
            headers.insert(ID_2, value);
        }
        headers.insert(SERVER, HeaderValue::from_static("Varve"));
        response
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
        let asked = Asked { origin, method, headers: text(ASKED_HEADERS).filter(|_| preflight) };
        cors::headers(view.cors.as_ref()?, &asked)
    }

    /// The bucket named by the host or the path.
    fn bucket_of(&self, request: &Request<Body>) -> Option<String> {
        let host = request.headers().get(hyper::header::HOST).and_then(|host| host.to_str().ok());
        let suffix = self.inner.options.domain.as_ref().map(|domain| format!(".{domain}"));
        let of_host = host
            .zip(suffix)
            .and_then(|(host, suffix)| host.strip_suffix(&suffix).map(str::to_owned));
        of_host
            .or_else(|| decode(request.uri().path().trim_start_matches('/').split('/').next()?))
            .filter(|name| !name.is_empty())
    }
}

fn preflight(request: &Request<Body>, allowed: Option<HeaderMap>) -> Response<Body> {
    let complete =
        request.headers().contains_key(ORIGIN) && request.headers().contains_key(ASKED_METHOD);
    match allowed {
        Some(headers) => {
            let mut response = Response::new(Body::empty());
            *response.headers_mut() = headers;
            response
        }
        None if complete => of_error(named(
            "AccessForbidden",
            StatusCode::FORBIDDEN,
            "CORSResponse: This CORS request is not allowed.",
        )),
        None => of_error(named(
            "BadRequest",
            StatusCode::BAD_REQUEST,
            "Insufficient information. Origin request header needed.",
        )),
    }
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
    let Some(bytes) = response.body().bytes() else { return };
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
    let resource = escape(path);
    let whole = format!(
        "{text}<Resource>{resource}</Resource><RequestId>{id}</RequestId><HostId>{id}</HostId></Error>"
    );
    *response.body_mut() = Body::from(Bytes::from(whole));
    response.headers_mut().remove(CONTENT_LENGTH);
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
