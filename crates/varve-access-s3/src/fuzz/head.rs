//! Heads of requests: what their targets ask for, and how their signatures are written.

use hyper::header::{AUTHORIZATION, HeaderName, HeaderValue};
use hyper::{HeaderMap, Method, Request};

use crate::compat::signed;
use crate::operations::operation;
use crate::request::hosts::Domains;
use crate::request::query::{decode, query_value, redacted};

const METHODS: [Method; 6] =
    [Method::GET, Method::HEAD, Method::PUT, Method::POST, Method::DELETE, Method::PATCH];

/// The query of a URL that may be signed: checked alike however it is escaped; what passes covers what it must; nothing
/// secret gets into the log.
///
/// # Panics
/// When that does not hold.
pub fn signed_query(bytes: &[u8]) {
    let Ok(query) = std::str::from_utf8(bytes) else { return };
    let request = |query: &str, header: Option<&'static str>| {
        let request = Request::builder().uri(format!("/b/k?{query}"));
        header.into_iter().fold(request, |request, name| request.header(name, "private")).body(())
    };
    let Ok(plain) = request(query, None) else { return };
    if plain.uri().query() != Some(query) {
        return;
    }
    let verdict = |query: &str, header| {
        let request = request(query, header).expect("a good request");
        let code = signed::check(&request, "r").err().map(|error| error.code().as_str().to_owned());
        let is_v2 = signed::is_v2(query);
        (code, is_v2, is_v2 && signed::check_v2(query).is_err())
    };
    let found = verdict(query, None);
    let value = |name: &str| query_value(query, name).unwrap_or_default();
    let is_signed = ["X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Signature"]
        .iter()
        .any(|name| query_value(query, name).is_some());
    if is_signed && found.0.is_none() {
        assert!(signed::PARAMETERS.iter().all(|name| !value(name).is_empty()), "a part is missing");
        let covered = value("X-Amz-SignedHeaders").to_ascii_lowercase();
        let covers = |name: &str| covered.split(';').any(|covered| covered == name);
        assert!(covers("host"));
        let acl = "x-amz-acl";
        assert_eq!(verdict(query, Some(acl)).0.is_none(), covers(acl), "a header is not covered");
        assert_eq!(value("X-Amz-Credential").split('/').count(), 5);
    }
    if found.1 {
        let more = verdict(&format!("{query}&policy"), None);
        assert!(more.2, "version 2 does not cover it");
    }
    if let Some(pairs) = pairs(query) {
        assert_eq!(verdict(&escaped(&pairs), None), found, "in other escapes");
    }
    let shown = redacted(query);
    assert_eq!(shown.split('&').count(), query.split('&').count());
    for pair in shown.split('&') {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let name = decode(name).unwrap_or_default().to_ascii_lowercase();
        if name.contains("signature") || name.contains("credential") {
            assert!(value.is_empty() || value == "…", "a secret in the log");
        }
    }
}

/// The target of a request behind a byte that chooses its method, and a header, name and value, behind zero bytes:
/// whether it is served does not depend on how it is escaped, nothing that its operation does not have passes, and what
/// became headers is all of the query that is to.
///
/// # Panics
/// When that does not hold.
pub fn request_target(bytes: &[u8]) {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    let method = METHODS.get(usize::from(*choice) % METHODS.len()).cloned().unwrap_or_default();
    let mut texts = bytes.split(|byte| *byte == 0);
    let mut next = || texts.next().unwrap_or_default();
    let (target, name, value) = (next(), next(), next());
    let Ok(target) = std::str::from_utf8(target) else { return };
    let mut headers = HeaderMap::new();
    if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
        headers.insert(name, value);
    }
    let request = |target: &str| {
        let mut request = Request::builder().method(&method).uri(target).body(()).ok()?;
        // The parser of targets takes more forms than the one that clients of S3 send.
        request.uri().path_and_query().filter(|parsed| parsed.as_str() == target)?;
        request.headers_mut().clone_from(&headers);
        Some(request)
    };
    let check = |target: &str| {
        let mut request = request(target)?;
        let checked = operation::check(&mut request, &Domains::default());
        Some(match checked {
            Ok(()) => Ok(request),
            Err(error) => Err(error.code().as_str().to_owned()),
        })
    };
    let Some(found) = check(target) else { return };
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let verdict = |found: &Result<Request<()>, String>| match found {
        Ok(request) => Ok(request.headers().clone()),
        Err(code) => Err(code.clone()),
    };
    if let Some(pairs) = pairs(query)
        && let Some(again) = check(&format!("{path}?{}", escaped(&pairs)))
    {
        assert_eq!(verdict(&again), verdict(&found), "in other escapes");
    }
    let Ok(mut request) = found else { return };
    if let Some(more) = check(&format!("{path}?{query}&annotation")) {
        assert!(more.is_err(), "an operation that there is not");
    }
    let before = request.headers().clone();
    assert!(operation::check(&mut request, &Domains::default()).is_ok(), "checked again");
    assert_eq!(request.headers(), &before, "checked again");
    check_headers(query, &headers, &before);
    let changes = matches!(method, Method::PUT | Method::POST | Method::DELETE);
    let unknown = ["x-amz-annotation", "x-amz-copy-source-annotation"];
    for unknown in unknown.into_iter().filter(|name| !before.contains_key(*name)) {
        let mut request = request.clone();
        request.headers_mut().insert(unknown, HeaderValue::from_static("1"));
        let refused = operation::check(&mut request, &Domains::default()).is_err();
        assert_eq!(refused, changes, "{unknown}");
    }
}

/// Headers of a request before and after its query was looked at: those that came are there, and others only by what
/// the query says.
fn check_headers(query: &str, came: &HeaderMap, after: &HeaderMap) {
    for (name, value) in came {
        assert_eq!(after.get(name), Some(value), "{name}");
    }
    for (name, value) in after.iter().filter(|(name, _)| !came.contains_key(*name)) {
        let said = query.split('&').any(|pair| {
            let (said, text) = pair.split_once('=').unwrap_or((pair, ""));
            let is_name = decode(said).is_some_and(|said| said.eq_ignore_ascii_case(name.as_str()));
            is_name && decode(text).is_some_and(|text| text.as_bytes() == value.as_bytes())
        });
        assert!(said, "{name} comes from nowhere");
    }
}

/// Names and values of a query, if all are text.
fn pairs(query: &str) -> Option<Vec<(String, String)>> {
    let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.map(|(name, value)| Some((decode(name)?, decode(value)?))).collect()
}

/// A query with every byte escaped.
fn escaped(pairs: &[(String, String)]) -> String {
    let escape = |text: &str| text.bytes().map(|byte| format!("%{byte:02x}")).collect::<String>();
    let pairs = pairs.iter().map(|(name, value)| format!("{}={}", escape(name), escape(value)));
    pairs.collect::<Vec<_>>().join("&")
}

/// The header of a signature, and behind a zero byte the time of the request: what passes has all parts, covers what it
/// must, and passes in another order of its parts.
///
/// # Panics
/// When that does not hold.
pub fn signed_header(bytes: &[u8]) {
    let mut texts = bytes.split(|byte| *byte == 0);
    let (header, date) = (texts.next().unwrap_or_default(), texts.next().unwrap_or_default());
    let (Ok(header), Ok(date)) = (HeaderValue::from_bytes(header), HeaderValue::from_bytes(date))
    else {
        return;
    };
    let with = |header: &HeaderValue, query: &str, more: Option<&'static str>| {
        let mut request = Request::new(());
        *request.uri_mut() = format!("/b/k{query}").parse().expect("a good target");
        let headers = request.headers_mut();
        headers.insert(AUTHORIZATION, header.clone());
        headers.insert("x-amz-date", date.clone());
        if let Some(name) = more {
            headers.insert(name, HeaderValue::from_static("private"));
        }
        signed::check(&request, "r").is_ok()
    };
    if header.is_empty() || !with(&header, "", None) {
        return;
    }
    let text = header.to_str().expect("what passes is text").trim();
    let (scheme, parts) = text.split_once(' ').expect("a scheme and its parts");
    assert_eq!(scheme, "AWS4-HMAC-SHA256");
    let mut parts: Vec<&str> = parts.split(',').map(str::trim).collect();
    assert_eq!(parts.len(), 3);
    let part = |name: &str| {
        let mut values = parts.iter().filter_map(|part| part.strip_prefix(name)?.strip_prefix('='));
        let value = values.next().unwrap_or_else(|| panic!("no {name}"));
        assert!(!value.is_empty() && values.next().is_none(), "{name}");
        value
    };
    let credential: Vec<&str> = part("Credential").split('/').collect();
    let [_, day, _, "s3", "aws4_request"] = credential[..] else { panic!("{credential:?}") };
    let date = date.to_str().unwrap_or_default();
    assert!(date.is_empty() || date.starts_with(day), "signed on another day");
    part("Signature");
    let signed = part("SignedHeaders");
    let covers = |name: &str| signed.split(';').any(|other| other.eq_ignore_ascii_case(name));
    assert!(covers("host"));
    for name in ["x-amz-acl", "x-amz-copy-source"] {
        assert_eq!(with(&header, "", Some(name)), covers(name), "{name} is not covered");
    }
    assert!(!with(&header, "?X-Amz-Signature=00", None), "two signatures");
    parts.reverse();
    let turned = HeaderValue::from_str(&format!("{scheme} {}", parts.join(" , ")));
    assert!(with(&turned.expect("it was a header"), "", None), "in another order");
}
