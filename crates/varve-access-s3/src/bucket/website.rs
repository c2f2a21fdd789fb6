//! Buckets served as websites: what is asked of the host `BUCKET.DOMAIN`, with `DOMAIN` as in
//! `Options::website_domain`. Called for each request (`front`).
//!
//! ```text
//!   redirect of all requests · rules by prefix · page (the key, or the index document of what ends in `/`)
//!     page there:   its own redirect, or the page
//!     page missing: rules by error · `/` behind the name of what has an index document · error document · a plain page
//! ```
//!
//! WEBSITE-1: a visitor is nobody in particular. Each object is read as by a request without a signature, whatever the
//! visitor sends: policies and lists decide as they do elsewhere.

use hyper::header::{
    CONTENT_TYPE, HOST, HeaderName, HeaderValue, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH,
    IF_UNMODIFIED_SINCE, LOCATION, RANGE, REFERER, USER_AGENT,
};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use s3s::dto::{Redirect, RoutingRule, WebsiteConfiguration};
use s3s::service::S3Service;
use s3s::{Body, S3Error, s3_error};

use crate::answers::wording::reword;
use crate::gateway::GatewayInner;
use crate::identity::principal::VerifiedPrincipal;
use crate::identity::principal::{Peer, Principal};
use crate::operations::website::no_website;
use crate::request::account::RequestNotes;
use crate::request::given::REDIRECT;
use crate::request::query::{decode, encode, escape_xml};

/// What a visitor's request may say of a page.
const PASSED: [HeaderName; 7] =
    [RANGE, IF_MATCH, IF_NONE_MATCH, IF_MODIFIED_SINCE, IF_UNMODIFIED_SINCE, REFERER, USER_AGENT];

/// The bucket that a host names as a website.
pub(crate) fn bucket_of<'h>(host: &'h str, domain: &str) -> Option<&'h str> {
    let (name, port) = host.rsplit_once(':').unwrap_or((host, ""));
    if !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let bucket = name.strip_suffix(domain)?.strip_suffix('.')?;
    (!bucket.is_empty()).then_some(bucket)
}

/// A visit.
struct Visit<'a> {
    service: &'a S3Service,
    site: WebsiteConfiguration,
    bucket: &'a str,
    host: &'a str,
    key: &'a str,
    request: &'a Request<()>,
}

/// Answers a visitor of a bucket.
pub(crate) async fn serve(
    inner: &GatewayInner,
    service: &S3Service,
    request: Request<Body>,
    bucket: &str,
) -> Response<Body> {
    let (parts, _) = request.into_parts();
    let request = &Request::from_parts(parts, ());
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return of_error(&s3_error!(MethodNotAllowed));
    }
    let site = match inner.view(bucket).await {
        Ok(view) => view.website.clone().ok_or_else(|| no_website(bucket)),
        Err(error) => Err(error),
    };
    let site = match site {
        Ok(site) => site,
        Err(error) => return of_error(&error),
    };
    let path = request.uri().path();
    // A plus is a plus in a path.
    let Some(key) = decode(&path.strip_prefix('/').unwrap_or(path).replace('+', "%2B")) else {
        return of_error(&s3_error!(InvalidURI));
    };
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    Visit { service, site, bucket, host, key: &key, request }.answer().await
}

impl Visit<'_> {
    async fn answer(&self) -> Response<Body> {
        if let Some(elsewhere) = &self.site.redirect_all_requests_to {
            let protocol = elsewhere.protocol.as_ref().map(|protocol| protocol.as_str());
            return self.moved(protocol, Some(&elsewhere.host_name), self.key, None);
        }
        if let Some(rule) = self.rule(None) {
            return self.redirected(rule);
        }
        let page = self.page(self.key, self.request.method(), true).await;
        if !matches!(page.status().as_u16(), 400..=599)
            || matches!(
                page.status(),
                StatusCode::PRECONDITION_FAILED | StatusCode::RANGE_NOT_SATISFIABLE
            )
        {
            return self.own_redirect(&page).unwrap_or(page);
        }
        self.missing(page).await
    }

    /// The index document of what ends in a slash, else the object itself. WEBSITE-1.
    async fn page(&self, key: &str, method: &Method, conditions: bool) -> Response<Body> {
        let index = self.site.index_document.as_ref().map_or("", |index| &index.suffix);
        let key = if key.is_empty() || key.ends_with('/') {
            format!("{key}{index}")
        } else {
            key.to_owned()
        };
        let asked = Request::builder()
            .method(method)
            .uri(format!("/{}/{}", self.bucket, encode(&key)))
            .header(HOST, "127.0.0.1")
            .body(Body::empty());
        let Ok(mut asked) = asked else { return plain_error(&s3_error!(InvalidURI)) };
        for name in
            PASSED.iter().filter(|name| conditions || **name == REFERER || **name == USER_AGENT)
        {
            if let Some(value) = self.request.headers().get(name) {
                asked.headers_mut().insert(name, value.clone());
            }
        }
        let extensions = self.request.extensions();
        extensions.get::<Peer>().map(|peer| asked.extensions_mut().insert(*peer));
        extensions.get::<RequestNotes>().cloned().map(|noted| asked.extensions_mut().insert(noted));
        let visitor = Principal { visitor: true, ..Principal::default() };
        asked.extensions_mut().insert(VerifiedPrincipal(visitor));
        self.service.call(asked).await.unwrap_or_else(|_| plain_error(&s3_error!(InternalError)))
    }

    /// The rule for a key, or for an error of its page.
    fn rule(&self, error: Option<StatusCode>) -> Option<&RoutingRule> {
        self.site.routing_rules.iter().flatten().find(|rule| {
            let Some(condition) = &rule.condition else { return error.is_none() };
            let prefix = condition.key_prefix_equals.as_deref().unwrap_or_default();
            let code = condition.http_error_code_returned_equals.as_deref();
            self.key.starts_with(prefix) && code == error.as_ref().map(StatusCode::as_str)
        })
    }

    fn redirected(&self, rule: &RoutingRule) -> Response<Body> {
        let Redirect {
            host_name,
            http_redirect_code,
            protocol,
            replace_key_prefix_with,
            replace_key_with,
        } = &rule.redirect;
        let prefix =
            rule.condition.as_ref().and_then(|condition| condition.key_prefix_equals.as_deref());
        let behind = self.key.strip_prefix(prefix.unwrap_or_default()).unwrap_or(self.key);
        let key = match (replace_key_with, replace_key_prefix_with) {
            (Some(key), _) => key.clone(),
            (None, Some(prefix)) => format!("{prefix}{behind}"),
            (None, None) => self.key.to_owned(),
        };
        let protocol = protocol.as_ref().map(|protocol| protocol.as_str());
        self.moved(protocol, host_name.as_deref(), &key, http_redirect_code.as_deref())
    }

    /// An answer that leads to a key, here or at another place.
    fn moved(
        &self,
        protocol: Option<&str>,
        host: Option<&str>,
        key: &str,
        code: Option<&str>,
    ) -> Response<Body> {
        let tls = self.request.extensions().get::<Peer>().is_some_and(|peer| peer.tls);
        let protocol = protocol.unwrap_or(if tls { "https" } else { "http" });
        let location = format!("{protocol}://{}/{}", host.unwrap_or(self.host), encode(key));
        let code = code.and_then(|code| code.parse::<StatusCode>().ok());
        redirect(code.unwrap_or(StatusCode::MOVED_PERMANENTLY), &location)
    }

    /// Where the owner of an object sends those who ask for it.
    fn own_redirect(&self, page: &Response<Body>) -> Option<Response<Body>> {
        let to = page.headers().get(REDIRECT).filter(|_| page.status().is_success())?;
        Some(redirect(StatusCode::MOVED_PERMANENTLY, to.to_str().ok()?))
    }

    async fn missing(&self, page: Response<Body>) -> Response<Body> {
        let status = page.status();
        if let Some(rule) = self.rule(Some(status)) {
            return self.redirected(rule);
        }
        if matches!(status, StatusCode::NOT_FOUND | StatusCode::FORBIDDEN)
            && !self.key.is_empty()
            && !self.key.ends_with('/')
        {
            let folder = format!("{}/", self.key);
            if self.page(&folder, &Method::HEAD, false).await.status().is_success() {
                return self.moved(None, None, &folder, Some("302"));
            }
        }
        if let Some(document) = &self.site.error_document {
            let mut shown = self.page(&document.key, self.request.method(), false).await;
            if shown.status().is_success() {
                *shown.status_mut() = status;
                return shown;
            }
        }
        as_page(page)
    }
}

fn redirect(status: StatusCode, location: &str) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    let Ok(location) = HeaderValue::from_str(location) else {
        return of_error(&s3_error!(InvalidURI));
    };
    *response.status_mut() = status;
    response.headers_mut().insert(LOCATION, location);
    response
}

fn plain_error(error: &S3Error) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = error.status_code().unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    *response.body_mut() = Body::from(format!(
        "<Error><Code>{}</Code><Message>{}</Message></Error>",
        error.code().as_str(),
        escape_xml(error.message().unwrap_or_default())
    ));
    response
}

fn of_error(error: &S3Error) -> Response<Body> {
    as_page(plain_error(error))
}

/// An error document for people.
fn as_page(error: Response<Body>) -> Response<Body> {
    let status = error.status();
    let bytes = error.body().bytes().unwrap_or_default();
    let document = String::from_utf8_lossy(&bytes);
    let document = reword(&document);
    let element = |name: &str| {
        let (open, close) = (format!("<{name}>"), format!("</{name}>"));
        Some(document.split_once(&open)?.1.split_once(&close)?.0.to_owned())
    };
    let lines: Vec<String> = ["Code", "Message"]
        .into_iter()
        .filter_map(|name| Some(format!("<li>{name}: {}</li>\n", element(name)?)))
        .collect();
    let title = format!("{} {}", status.as_str(), status.canonical_reason().unwrap_or_default());
    let text = format!(
        "<html>\n<head><title>{title}</title></head>\n<body>\n<h1>{title}</h1>\n<ul>\n{}</ul>\n</body>\n</html>\n",
        lines.concat()
    );
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let html = HeaderValue::from_static("text/html; charset=utf-8");
    *response.headers_mut() = HeaderMap::from_iter([(CONTENT_TYPE, html)]);
    response
}

#[cfg(test)]
mod tests;
