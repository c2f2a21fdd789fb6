//! The library refuses what HTTP has servers ignore where it makes no sense, and what it does not know. It is asked
//! again without them, after it has found the signature good: the signature covers them. Called by the library
//! (`front`).
//!
//! REPAIR-1: the body of the first pass is the one that the signature covers: read to its end, with its hash compared,
//!     before the second begins.
//!
//! A range of no known form, and more than one range, is none. A time that is none is no condition. A tag without
//! quotes is one with quotes, as Amazon has it.

use std::sync::Arc;

use bytes::Bytes;
use hyper::header::{
    AUTHORIZATION, CONTENT_LENGTH, HeaderName, HeaderValue, IF_MATCH, IF_MODIFIED_SINCE,
    IF_NONE_MATCH, IF_UNMODIFIED_SINCE, RANGE,
};
use hyper::http::Extensions;
use hyper::{HeaderMap, Method, Request, Uri};
use s3s::dto::{ETagCondition, Range, Tag, Tagging, Timestamp, TimestampFormat};
use s3s::route::S3Route;
use s3s::service::S3Service;
use s3s::xml::{Deserialize, Deserializer};
use s3s::{Body, S3Request, S3Response, S3Result, s3_error};

use crate::compat::body_end::BodyEnd;
use crate::compat::checksum_names::into_known;
use crate::compat::xml::XML_BYTES_MAX;
use crate::gateway::GatewayInner;
use crate::identity::access::signer;
use crate::identity::principal::{Principal, VerifiedPrincipal};
use crate::request::query::query_value;

pub(crate) const COPY_SOURCE: HeaderName = HeaderName::from_static("x-amz-copy-source");
const TAGS: [HeaderName; 4] = [
    IF_MATCH,
    IF_NONE_MATCH,
    HeaderName::from_static("x-amz-copy-source-if-match"),
    HeaderName::from_static("x-amz-copy-source-if-none-match"),
];
const TIMES: [HeaderName; 4] = [
    IF_MODIFIED_SINCE,
    IF_UNMODIFIED_SINCE,
    HeaderName::from_static("x-amz-copy-source-if-modified-since"),
    HeaderName::from_static("x-amz-copy-source-if-unmodified-since"),
];

/// Longest document that says how a bucket is to be made, in bytes: 50 tags.
const CREATION_BYTES_MAX: usize = 64 << 10;

/// Takes requests with such headers.
pub(crate) struct TolerantRetry {
    pub(crate) inner: Arc<GatewayInner>,
    /// Answers whom `access` finds [`VerifiedPrincipal`], as it would who had signed.
    pub(crate) plain: S3Service,
}

#[async_trait::async_trait]
impl S3Route for TolerantRetry {
    fn is_match(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        _: &mut Extensions,
    ) -> bool {
        let query = uri.query().unwrap_or_default();
        match *method {
            Method::POST => return query_value(query, "uploadId").is_some(),
            Method::PUT if self.creates_bucket(uri, headers) => return true,
            _ => {}
        }
        let reads = matches!(*method, Method::GET | Method::HEAD | Method::DELETE);
        (reads || (*method == Method::PUT && headers.contains_key(COPY_SOURCE)))
            && repaired(headers).is_some()
    }

    async fn check_access(&self, _: &mut S3Request<Body>) -> S3Result<()> {
        Ok(()) // The second pass does.
    }

    async fn call(&self, request: S3Request<Body>) -> S3Result<S3Response<Body>> {
        let user = match &request.credentials {
            Some(credentials) => Some(signer(&self.inner, &credentials.access_key)?.0),
            None => None,
        };
        let verified = request.extensions.get::<VerifiedPrincipal>().cloned();
        let caller = verified.map_or_else(
            || Principal::new(user.clone(), request.uri.query().unwrap_or_default()),
            |VerifiedPrincipal(caller)| caller,
        );
        let mut again = Request::new(Body::empty());
        let end = BodyEnd::of(&request.extensions);
        let of_bucket = self.creates_bucket(&request.uri, &request.headers);
        match request.method {
            // Nobody's documents are read only once it is known that he may send them.
            Method::POST if user.is_some() => completion(request.input, &end, &mut again).await?,
            Method::PUT if of_bucket && user.is_some() => {
                creation(request.input, &end, &mut again).await?
            }
            Method::POST => *again.body_mut() = request.input,
            Method::PUT if of_bucket => *again.body_mut() = request.input,
            _ => {}
        }
        let extensions = std::mem::take(again.extensions_mut());
        *again.method_mut() = request.method;
        *again.uri_mut() = unsigned(&request.uri)?;
        *again.headers_mut() = repaired(&request.headers).unwrap_or(request.headers);
        again.headers_mut().remove(AUTHORIZATION);
        if let Some(len) = again.body().bytes().map(|bytes| bytes.len()).filter(|len| *len > 0) {
            again.headers_mut().insert(CONTENT_LENGTH, len.into());
        }
        *again.extensions_mut() = request.extensions;
        again.extensions_mut().extend(extensions);
        again.extensions_mut().insert(VerifiedPrincipal(caller));
        let response = self.plain.call(again).await.map_err(|_| s3_error!(InternalError))?;
        let (parts, body) = response.into_parts();
        Ok(S3Response {
            output: body,
            status: Some(parts.status),
            headers: parts.headers,
            extensions: parts.extensions,
        })
    }
}

impl TolerantRetry {
    /// Whether it puts a bucket, with a document. Where the host names the bucket, what follows is a key.
    fn creates_bucket(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let path = uri.path().trim_matches('/');
        let of_bucket = match self.inner.domains.bucket_in(headers) {
            Some(_) => path.is_empty(),
            None => !path.is_empty() && !path.contains('/'),
        };
        let plain = uri.query().is_none_or(|query| query.is_empty() || query.starts_with("x-id="));
        let len = text(CONTENT_LENGTH).and_then(|len| len.parse().ok());
        of_bucket && plain && len.is_some_and(|len| (1..=CREATION_BYTES_MAX).contains(&len))
    }
}

/// Tags of a bucket to be made.
#[derive(Clone)]
pub(crate) struct NewTags(pub(crate) Vec<Tag>);

/// All of a document. REPAIR-1.
async fn whole(mut body: Body, end: &BodyEnd, bytes_max: usize) -> S3Result<Bytes> {
    body.store_all_limited(bytes_max).await.map_err(|error| end.cause(&*error).into())
}

/// The document that completes an upload, with checksums as the library reads them. REPAIR-1.
async fn completion(body: Body, end: &BodyEnd, again: &mut Request<Body>) -> S3Result<()> {
    let bytes = whole(body, end, XML_BYTES_MAX).await?;
    *again.body_mut() = match std::str::from_utf8(&bytes) {
        Ok(text) => Body::from(into_known(text)),
        Err(_) => Body::from(bytes),
    };
    Ok(())
}

/// The document that says how a bucket is to be made, and its tags beside it. REPAIR-1.
async fn creation(body: Body, end: &BodyEnd, again: &mut Request<Body>) -> S3Result<()> {
    let bytes = whole(body, end, CREATION_BYTES_MAX).await?;
    *again.body_mut() = match without_tags(&bytes) {
        Some((text, tags)) => {
            let tags = Tagging::deserialize(&mut Deserializer::new(tags.as_bytes()))
                .map_err(|_| s3_error!(MalformedXML))?;
            again.extensions_mut().insert(NewTags(tags.tag_set));
            Body::from(text)
        }
        None => Body::from(bytes),
    };
    Ok(())
}

/// A document without the tags in it, and these as one of their own.
fn without_tags(document: &[u8]) -> Option<(String, String)> {
    let text = std::str::from_utf8(document).ok()?;
    let (before, rest) = text.split_once("<Tags>")?;
    let (tags, after) = rest.split_once("</Tags>")?;
    let document =
        before.contains("<CreateBucketConfiguration").then(|| format!("{before}{after}"));
    Some((document?, format!("<Tagging><TagSet>{tags}</TagSet></Tagging>")))
}

/// The headers as they are meant; none if they are well as they are.
fn repaired(headers: &HeaderMap) -> Option<HeaderMap> {
    let text =
        |name: &HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let mut new = headers.clone();
    if let Some(range) = text(&RANGE).filter(|text| Range::parse(text).is_err()) {
        match clamped(range) {
            Some(clamped) => new.insert(RANGE, clamped),
            None => new.remove(RANGE),
        };
    }
    for name in TIMES {
        let time = text(&name).map(|text| Timestamp::parse(TimestampFormat::HttpDate, text));
        if time.is_some_and(|time| time.is_err()) {
            new.remove(name);
        }
    }
    for name in TAGS {
        let Some(value) = headers.get(&name) else { continue };
        if ETagCondition::parse_http_header(value.as_bytes()).is_err() {
            new.insert(name, quoted(value));
        }
    }
    (new != *headers).then_some(new)
}

/// A range whose numbers are greater than any object, with the greatest that the protocol library reads.
fn clamped(range: &str) -> Option<HeaderValue> {
    let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(first) || !is_number(last) || (first.is_empty() && last.is_empty()) {
        return None;
    }
    let clamp = |text: &str| match text {
        "" => String::new(),
        _ => text.parse().unwrap_or(i64::MAX).to_string(),
    };
    let (first, last) = (clamp(first), clamp(last));
    let range = format!("bytes={first}-{last}");
    Range::parse(&range).ok()?;
    HeaderValue::from_str(&range).ok()
}

/// A tag with quotes around it, and none within.
fn quoted(value: &HeaderValue) -> HeaderValue {
    let plain = value.as_bytes().iter().copied().filter(|byte| byte.is_ascii_graphic());
    let mut tag = vec![b'"'];
    tag.extend(plain.filter(|byte| *byte != b'"'));
    tag.push(b'"');
    HeaderValue::from_bytes(&tag).unwrap_or_else(|_| HeaderValue::from_static("\"\""))
}

/// The address without the parameters of its signature.
fn unsigned(uri: &Uri) -> S3Result<Uri> {
    let invalid = || s3_error!(InvalidURI);
    let Some(query) = uri.query() else { return Ok(uri.clone()) };
    let kept: Vec<&str> = query
        .split('&')
        .filter(|pair| {
            let name = pair.split('=').next().unwrap_or_default();
            let parameters = crate::compat::signed::PARAMETERS
                .iter()
                .chain(&crate::compat::signed::PARAMETERS_V2);
            !{ parameters }.any(|known| known.eq_ignore_ascii_case(name))
        })
        .collect();
    let mut parts = uri.clone().into_parts();
    let path = format!("{}?{}", uri.path(), kept.join("&"));
    parts.path_and_query = Some(path.parse().map_err(|_| invalid())?);
    Uri::from_parts(parts).map_err(|_| invalid())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &'static str, value: &str) -> Option<HeaderMap> {
        let mut headers = HeaderMap::new();
        headers.insert("x-other", HeaderValue::from_static("1"));
        headers.insert(name, HeaderValue::from_str(value).unwrap());
        repaired(&headers)
    }

    #[test]
    fn tags_of_a_new_bucket_stand_beside_the_document() {
        let with = |text: &str| without_tags(text.as_bytes());
        let tags = "<Tag><Key>k</Key><Value>v</Value></Tag>";
        let document = |inside: &str| {
            format!("<CreateBucketConfiguration>{inside}</CreateBucketConfiguration>")
        };
        let (text, found) = with(&document(&format!("<Tags>{tags}</Tags>"))).unwrap();
        assert_eq!(text, document(""));
        let found = Tagging::deserialize(&mut Deserializer::new(found.as_bytes())).unwrap();
        assert_eq!(found.tag_set.len(), 1);
        for other in [
            document(""),
            document("<Tags>"),
            document("</Tags><Tags>"),
            format!("<Tags>{tags}</Tags>"),
        ] {
            assert!(with(&other).is_none(), "{other}");
        }
        assert!(without_tags(b"<CreateBucketConfiguration>\xff<Tags></Tags>").is_none());
    }

    #[test]
    fn what_makes_sense_stays() {
        for (name, value) in [
            ("range", "bytes=0-1"),
            ("range", "bytes=-5"),
            ("if-match", "*"),
            ("if-none-match", "\"a-b\""),
            ("if-match", "0123abcd-2"),
            ("if-modified-since", "Sun, 06 Nov 1994 08:49:37 GMT"),
        ] {
            assert!(with(name, value).is_none(), "{name}: {value}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_not_said() {
        for (name, value) in [
            ("range", "bytes=,"),
            ("range", "bytes=0-1,3-4"),
            ("range", "lines=1-2"),
            ("if-unmodified-since", "yesterday"),
        ] {
            let headers = with(name, value).unwrap();
            assert!(!headers.contains_key(name), "{name}: {value}");
            assert_eq!(headers["x-other"], "1");
        }
    }

    #[test]
    fn ranges_beyond_all_objects_stay_ranges() {
        let most = i64::MAX;
        for (value, wanted) in [
            ("bytes=99999999999999999999999-", format!("bytes={most}-")),
            ("bytes=0-18446744073709551616", format!("bytes=0-{most}")),
            ("bytes=-18446744073709551616", format!("bytes=-{most}")),
        ] {
            assert_eq!(with("range", value).unwrap()["range"], *wanted, "{value}");
        }
    }

    #[test]
    fn tags_get_quotes() {
        for (value, wanted) in [("some_tag", "\"some_tag\""), ("\"half", "\"half\"")] {
            assert_eq!(with("if-match", value).unwrap()["if-match"], wanted);
        }
    }

    #[test]
    fn an_address_loses_its_signature_alone() {
        let uri: Uri =
            "http://h/b/k?versionId=1&X-Amz-Signature=00&x-amz-date=2&x=%26".parse().unwrap();
        assert_eq!(unsigned(&uri).unwrap(), "http://h/b/k?versionId=1&x=%26");
        let uri: Uri = "/b/k".parse().unwrap();
        assert_eq!(unsigned(&uri).unwrap(), "/b/k");
    }
}
