//! The library takes headers that a signature does not cover, and signatures that are not well written: both are looked
//! at before it computes the signature itself. Called for each request (`head`).
//!
//! SIGNED-1: a signature covers the host and every `x-amz-` header. Otherwise whoever holds a signed URL to put an
//!     object could make it a copy of another one, or readable by everybody.

use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{HeaderMap, Request, StatusCode};
use s3s::{S3Error, S3ErrorCode, S3Result};

use crate::answers::error::{invalid_argument, with_elements};
use crate::request::query::{decode, query_value};

/// Tells which region it should have been.
pub(crate) const REGION_HEADER: HeaderName = HeaderName::from_static("x-amz-bucket-region");

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
const TERMINAL: &str = "aws4_request";
const SERVICE: &str = "s3";
/// They are part of what is signed without being named: the string to sign begins with the one, the canonical request
/// ends in the other.
const ALWAYS_COVERED: [&str; 2] = ["x-amz-date", "x-amz-content-sha256"];
/// Of several the first would count here, and none for the protocol library.
const ONCE: [&str; 6] = [
    "authorization",
    "content-md5",
    "x-amz-content-sha256",
    "x-amz-date",
    "x-amz-decoded-content-length",
    "x-amz-trailer",
];
/// What a signed URL must have.
pub(crate) const PARAMETERS: [&str; 6] = [
    "X-Amz-Algorithm",
    "X-Amz-Credential",
    "X-Amz-Date",
    "X-Amz-Expires",
    "X-Amz-SignedHeaders",
    "X-Amz-Signature",
];

/// What a URL of signature version 2 has.
pub(crate) const PARAMETERS_V2: [&str; 3] = ["AWSAccessKeyId", "Signature", "Expires"];
/// Query parameters that choose headers of an answer.
pub(crate) const RESPONSE_HEADERS: [&str; 6] = [
    "response-cache-control",
    "response-content-disposition",
    "response-content-encoding",
    "response-content-language",
    "response-content-type",
    "response-expires",
];
/// What such a signature covers of the query, as far as it is served; `x-amz-…` counts as headers, which it covers.
const COVERED_V2: [&str; 9] = [
    "acl",
    "content-md5",
    "content-type",
    "partNumber",
    "tagging",
    "uploadId",
    "uploads",
    "versionId",
    "x-id",
];

/// Whether a query has a signature of the second version.
pub(crate) fn is_v2(query: &str) -> bool {
    query_value(query, "Signature").is_some() && query_value(query, "AWSAccessKeyId").is_some()
}

/// Refuses what a signature of the second version does not cover: whoever holds the URL could add it.
pub(crate) fn check_v2(query: &str) -> S3Result<()> {
    let names = query.split('&').map(|pair| pair.split('=').next().unwrap_or_default());
    for name in names.filter(|name| !name.is_empty()) {
        let name = decode(name).unwrap_or_default();
        let is_header = name.get(..6).is_some_and(|begin| begin.eq_ignore_ascii_case("x-amz-"));
        let known = COVERED_V2.iter().chain(&RESPONSE_HEADERS).chain(&PARAMETERS_V2);
        if !is_header && !{ known }.any(|known| *known == name) {
            let text = format!("Signature version 2 does not cover the query parameter {name:?}");
            return Err(S3Error::with_message(S3ErrorCode::AccessDenied, text));
        }
    }
    Ok(())
}

/// Refuses a signature of the fourth version that is not well written, or does not cover what it must. No signature is
/// none of its business. Any well written region will do; instead of another one `region` is proposed.
pub(crate) fn check<B>(request: &Request<B>, region: &str) -> S3Result<()> {
    let headers = request.headers();
    let query = request.uri().query().unwrap_or_default();
    if let Some(name) = ONCE.iter().find(|name| headers.get_all(**name).iter().nth(1).is_some()) {
        return Err(argument("A header was given more than once", name, ""));
    }
    let shown = ["X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Signature"];
    let has_shown = shown.iter().any(|name| query_value(query, name).is_some());
    let header = match headers.get(AUTHORIZATION).map(HeaderValue::to_str) {
        Some(Ok(header)) => header,
        Some(Err(_)) => {
            return Err(argument("Unsupported Authorization Type", "Authorization", ""));
        }
        None => "",
    };
    if !header.is_empty() && has_shown {
        // The library goes by the address: what covers the headers must be the same.
        let text = "Only one auth mechanism allowed; only the X-Amz-Algorithm query parameter, Signature query string parameter or the Authorization header should be specified";
        return Err(argument(text, "Authorization", header));
    }
    if !header.is_empty() {
        let date = headers.get("x-amz-date").map(|value| value.to_str().unwrap_or_default());
        let signed = check_header(header.trim(), region, date)?;
        return check_covered(headers, &signed);
    }
    if has_shown {
        let signed = check_query(query)?;
        return check_covered(headers, &signed);
    }
    Ok(())
}

/// The form of `Authorization: AWS4-HMAC-SHA256 Credential=…, SignedHeaders=…, Signature=…`; the names of the signed
/// headers.
fn check_header(header: &str, region: &str, date: Option<&str>) -> S3Result<String> {
    let Some((scheme, rest)) = header.split_once(' ') else {
        let text = "Authorization header is invalid -- one and only one ' ' (space) required.";
        return Err(argument(text, "Authorization", header));
    };
    if scheme != ALGORITHM {
        return Err(argument("Unsupported Authorization Type", "Authorization", scheme));
    }
    let parts: Vec<&str> = rest.split(',').map(str::trim).collect();
    if parts.len() != 3 {
        return Err(malformed(
            "the authorization header requires three components: Credential, SignedHeaders, and Signature.",
        ));
    }
    let mut pairs = Vec::with_capacity(parts.len());
    for part in parts {
        let pair = part.split_once('=');
        pairs.push(pair.ok_or_else(|| {
            malformed(&format!("the authorization component {part:?} is malformed."))
        })?);
    }
    let component = |name: &str| {
        let found = pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
        found
            .filter(|value| !value.is_empty())
            .ok_or_else(|| malformed(&format!("missing {name}.")))
    };
    let (credential, signed) = (component("Credential")?, component("SignedHeaders")?);
    component("Signature")?;
    let day = check_credential(credential).map_err(|text| malformed(&text))?;
    if let Some(date) = date.filter(|date| !date.is_empty()) {
        if !is_moment(date) {
            let text = "AWS authentication requires a valid Date or x-amz-date header.";
            return Err(S3Error::with_message(S3ErrorCode::AccessDenied, text));
        }
        if !date.starts_with(day) {
            return Err(malformed(&other_day(day, date)));
        }
    }
    check_region(credential, region)?;
    Ok(signed.to_owned())
}

/// The parameters of a signed URL; the names of the signed headers. How long it is good is seen elsewhere.
fn check_query(query: &str) -> S3Result<String> {
    let value = |name: &str| query_value(query, name).filter(|value| !value.is_empty());
    match value("X-Amz-Algorithm").as_deref() {
        Some(ALGORITHM) | None => {}
        Some("AWS4-ECDSA-P256-SHA256") => {
            return Err(parameters(format!("X-Amz-Algorithm only supports \"{ALGORITHM}\"")));
        }
        Some(_) => {
            return Err(parameters(format!(
                "X-Amz-Algorithm only supports \"{ALGORITHM} and AWS4-ECDSA-P256-SHA256\""
            )));
        }
    }
    if PARAMETERS.iter().any(|name| value(name).is_none()) {
        let text = "Query-string authentication version 4 requires the X-Amz-Algorithm, X-Amz-Credential, X-Amz-Signature, X-Amz-Date, \
                    X-Amz-SignedHeaders, and X-Amz-Expires parameters.";
        return Err(parameters(text.to_owned()));
    }
    let credential = value("X-Amz-Credential").unwrap_or_default();
    let day = check_credential(&credential).map_err(|text| {
        parameters(format!("Error parsing the X-Amz-Credential parameter; {text}"))
    })?;
    let date = value("X-Amz-Date").unwrap_or_default();
    if !is_moment(&date) {
        return Err(parameters(
            "X-Amz-Date must be in the ISO8601 Long Format \"yyyyMMdd'T'HHmmss'Z'\"".to_owned(),
        ));
    }
    if !date.starts_with(day) {
        let text = other_day(day, &date);
        return Err(parameters(text));
    }
    Ok(value("X-Amz-SignedHeaders").unwrap_or_default())
}

fn other_day(day: &str, date: &str) -> String {
    let of_date = date.get(..8).unwrap_or(date);
    format!(
        "Invalid credential date {day:?}. This date is not the same as X-Amz-Date: {of_date:?}."
    )
}

/// The form of `KEY/yyyyMMdd/REGION/s3/aws4_request`; its day, or what is wrong.
pub(crate) fn check_credential(credential: &str) -> Result<&str, String> {
    let parts: Vec<&str> = credential.split('/').collect();
    let [_, day, _, service, terminal] = parts[..] else {
        let form = "<YOUR-AKID>/YYYYMMDD/REGION/SERVICE/aws4_request";
        return Err(format!("the Credential is mal-formed; expecting \"{form}\"."));
    };
    if terminal != TERMINAL {
        return Err(format!("incorrect terminal {terminal:?}. This endpoint uses \"{TERMINAL}\"."));
    }
    if service != SERVICE {
        return Err(format!(
            "incorrect service {service:?}. This endpoint belongs to \"{SERVICE}\"."
        ));
    }
    if !is_day(day) {
        let form = "This date in the credential must be in the format \"yyyyMMdd\".";
        return Err(format!("incorrect date format {day:?}. {form}"));
    }
    Ok(day)
}

/// The protocol library wants small letters; clients that begin with another name, such as s3cmd with `US`, take the
/// one they are told.
fn check_region(credential: &str, region: &str) -> S3Result<()> {
    let asked = credential.split('/').nth(2).unwrap_or_default();
    let good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if !asked.is_empty() && asked.bytes().all(good) {
        return Ok(());
    }
    let mut text = format!("the region {asked:?} is wrong; expecting {region:?}");
    if asked.is_empty() {
        // As `mc admin` sends it, whose API belongs to MinIO.
        text.push_str(
            ". This address serves S3 only; `varve user` and `varve bucket` administer it",
        );
    }
    let mut error = malformed(&text);
    if let Ok(value) = HeaderValue::from_str(region) {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/xml"));
        headers.insert(REGION_HEADER, value);
        error.set_headers(headers);
    }
    Err(error)
}

/// SIGNED-1.
fn check_covered(headers: &HeaderMap, signed: &str) -> S3Result<()> {
    let covered = |name: &str| signed.split(';').any(|other| other.eq_ignore_ascii_case(name));
    let mut bare: Vec<&str> = headers
        .keys()
        .map(|name| name.as_str())
        .filter(|name| {
            name.starts_with("x-amz-") && !ALWAYS_COVERED.contains(name) && !covered(name)
        })
        .collect();
    if !covered("host") {
        bare.push("host");
    }
    if bare.is_empty() {
        return Ok(());
    }
    bare.sort_unstable();
    let text = "There were headers present in the request which were not signed";
    let error = S3Error::with_message(S3ErrorCode::AccessDenied, text);
    Err(with_elements(error, &[("HeadersNotSigned", &bare.join(", "))]))
}

fn is_day(text: &str) -> bool {
    text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_digit())
}

pub(crate) fn is_moment(text: &str) -> bool {
    let Some((day, time)) = text.split_once('T') else { return false };
    let digits = time.strip_suffix('Z').unwrap_or_default();
    is_day(day) && digits.len() == 6 && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn malformed(text: &str) -> S3Error {
    let text = format!("The authorization header is malformed; {text}");
    refusal(S3ErrorCode::AuthorizationHeaderMalformed, text)
}

fn parameters(text: String) -> S3Error {
    refusal(S3ErrorCode::AuthorizationQueryParametersError, text)
}

fn argument(text: &'static str, name: &str, value: &str) -> S3Error {
    invalid_argument(text, name, value)
}

fn refusal(code: S3ErrorCode, text: String) -> S3Error {
    let mut error = S3Error::with_message(code, text);
    error.set_status_code(StatusCode::BAD_REQUEST);
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "AWS4-HMAC-SHA256 Credential=k/20260101/us-east-1/s3/aws4_request, SignedHeaders=host;x-amz-acl, Signature=00";

    fn with(query: &str, headers: &[(&'static str, &str)]) -> S3Result<()> {
        let mut request = Request::builder().uri(format!("/b/k{query}"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        check(&request.body(()).unwrap(), "us-east-1")
    }

    fn text(result: S3Result<()>) -> String {
        result.unwrap_err().message().unwrap_or_default().to_owned()
    }

    #[test]
    fn headers_that_the_signature_does_not_cover_are_refused() {
        assert!(
            with(
                "",
                &[
                    ("authorization", GOOD),
                    ("x-amz-acl", "private"),
                    ("x-amz-date", ""),
                    ("x-custom", "")
                ]
            )
            .is_ok()
        );
        let bare = with("", &[("authorization", GOOD), ("x-amz-copy-source", "b/secret")]);
        assert!(text(bare).contains("not signed"));
        let url = "?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=k%2F20260101%2Fr%2Fs3%2Faws4_request&X-Amz-Date=20260101T000000Z\
                   &X-Amz-Expires=60&X-Amz-SignedHeaders=host&X-Amz-Signature=00";
        assert!(
            with(url, &[("content-type", "a/b"), ("x-amz-content-sha256", "UNSIGNED-PAYLOAD")])
                .is_ok()
        );
        assert!(text(with(url, &[("x-amz-acl", "public-read")])).contains("not signed"));
        assert!(text(with(url, &[("x-amz-copy-source", "b/secret")])).contains("not signed"));
    }

    #[test]
    fn there_is_one_signature_and_one_of_each_header() {
        let covers = GOOD.replace("x-amz-acl", "x-amz-copy-source");
        let headless = GOOD.replace("host;", "");
        assert!(text(with("", &[("authorization", &headless)])).contains("not signed"));
        let headers = [("authorization", covers.as_str()), ("x-amz-copy-source", "b/secret")];
        assert!(with("", &headers).is_ok());
        for url in ["?X-Amz-Signature=00", "?x=1&X%2dAmz-Algorithm=AWS4-HMAC-SHA256"] {
            assert!(text(with(url, &headers)).contains("Only one auth mechanism"), "{url}");
        }
        let text_of = |headers| text(with("", headers));
        let twice = [("authorization", GOOD), ("authorization", GOOD)];
        assert!(text_of(&twice).contains("more than once"));
        let mode = ("x-amz-content-sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER");
        assert!(text_of(&[mode, mode]).contains("more than once"));
        let strange = GOOD.replace("x-amz-acl", "x-amz-acl;\u{e9}");
        assert!(with("", &[("authorization", &strange)]).is_err());
    }

    #[test]
    fn a_region_in_capitals_is_told_the_right_one() {
        let header = GOOD.replace("/us-east-1/", "/US/");
        let error = with("", &[("authorization", &header)]).unwrap_err();
        assert_eq!(
            error.headers().and_then(|headers| headers.get(REGION_HEADER)).unwrap(),
            "us-east-1"
        );
        assert!(text(Err(error)).contains("expecting \"us-east-1\""));
        let header = GOOD.replace("/us-east-1/", "//");
        let empty = text(with("", &[("authorization", &header)]));
        assert!(empty.contains("serves S3 only"), "{empty}");
    }

    #[test]
    fn what_is_not_signed_passes() {
        assert!(with("", &[("x-amz-acl", "private")]).is_ok());
        assert!(with("?versionId=1", &[("authorization", "")]).is_ok());
    }

    #[test]
    fn badly_written_headers_are_refused_by_name() {
        let cases = [
            ("invalid", "one and only one ' '"),
            ("AWS2-HMAC-SHA1 Credential=k", "Unsupported Authorization Type"),
            (
                "AWS4-HMAC-SHA256 Credential=k/20260101/r/s3/aws4_request",
                "requires three components",
            ),
            (
                "AWS4-HMAC-SHA256 Credential=k,SignedHeaders-host,Signature=0",
                "\"SignedHeaders-host\" is malformed",
            ),
            ("AWS4-HMAC-SHA256 C=k,SignedHeaders=host,Signature=0", "missing Credential."),
            (
                "AWS4-HMAC-SHA256 Credential=k/1/r/s3/x/y,SignedHeaders=host,Signature=0",
                "Credential is mal-formed",
            ),
            (
                "AWS4-HMAC-SHA256 Credential=k/1/r/s3/x,SignedHeaders=host,Signature=0",
                "incorrect terminal \"x\"",
            ),
            (
                "AWS4-HMAC-SHA256 Credential=k/1/r/ec2/aws4_request,SignedHeaders=host,Signature=0",
                "incorrect service \"ec2\"",
            ),
            (
                "AWS4-HMAC-SHA256 Credential=k/1/r/s3/aws4_request,SignedHeaders=host,Signature=0",
                "incorrect date format \"1\"",
            ),
        ];
        for (header, wanted) in cases {
            let found = text(with("", &[("authorization", header)]));
            assert!(found.contains(wanted), "{header}: {found}");
        }
    }

    #[test]
    fn badly_written_urls_are_refused_by_name() {
        let credential = "X-Amz-Credential=k%2F20260101%2Fr%2Fs3%2Faws4_request";
        let rest = "X-Amz-Expires=60&X-Amz-SignedHeaders=host&X-Amz-Signature=00";
        let cases = [
            (format!("?X-Amz-Algorithm=x&{credential}"), "only supports"),
            (
                format!("?X-Amz-Algorithm=AWS4-HMAC-SHA256&{credential}"),
                "requires the X-Amz-Algorithm",
            ),
            (
                format!("?X-Amz-Algorithm=AWS4-HMAC-SHA256&{credential}&{rest}&X-Amz-Date=x"),
                "ISO8601",
            ),
            (
                format!(
                    "?X-Amz-Algorithm=AWS4-HMAC-SHA256&{credential}&{rest}&X-Amz-Date=20260102T000000Z"
                ),
                "not the same as",
            ),
            (
                format!(
                    "?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=k&{rest}&X-Amz-Date=20260101T000000Z"
                ),
                "mal-formed",
            ),
        ];
        for (query, wanted) in cases {
            let found = text(with(&query, &[]));
            assert!(found.contains(wanted), "{query}: {found}");
        }
    }
}
