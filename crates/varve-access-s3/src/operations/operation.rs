//! Which operation a request asks for, and whether it is served. Called for each request (`front`) before anything else
//! looks at it.
//!
//! The protocol library chooses an operation by the parameters that it knows, and takes a request whose parameters it
//! does not know for the operation on the whole object or bucket: `DELETE /b/k?annotation` would delete `k`.
//!
//! OPERATION-1: a request does what it asks for or nothing. Each parameter of the query, each header `x-amz-…` of a
//!     request that changes something, and each condition of one, is among those that its operation obeys; else it is
//!     refused with 501 `NotImplemented`.
//! OPERATION-2: headers `x-amz-…` may stand in the query, as presigned URLs of some clients have them: they become
//!     headers, so that everything behind this sees them.

use hyper::header::{HeaderName, HeaderValue};
use hyper::{HeaderMap, Method, Request};
use s3s::{S3Result, s3_error};

use crate::answers::error::invalid_argument;
use crate::compat::signed::{PARAMETERS_V2, is_v2};
use crate::request::hosts::Domains;
use crate::request::query::decode;

#[cfg(test)]
mod tests;

/// What a request is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RequestSubject {
    Service,
    Bucket,
    Object,
}

use RequestSubject::{Bucket, Object, Service};

/// Methods, place, sub-resource (none: the place itself), and further parameters of the query.
type Operation = (&'static str, RequestSubject, &'static str, &'static [&'static str]);

/// Everything that is served. `allow-unordered` of Ceph and `metadata` of MinIO are permissions to do more, which
/// listings need not use.
const SERVED: &[Operation] = &[
    ("GET", Service, "", &["max-buckets", "continuation-token", "prefix", "bucket-region"]),
    ("HEAD PUT POST DELETE", Bucket, "", &[]),
    (
        "GET",
        Bucket,
        "",
        &[
            "prefix",
            "delimiter",
            "marker",
            "max-keys",
            "encoding-type",
            "list-type",
            "continuation-token",
            "start-after",
            "fetch-owner",
            "allow-unordered",
            "metadata",
        ],
    ),
    (
        "GET",
        Bucket,
        "uploads",
        &["prefix", "delimiter", "key-marker", "upload-id-marker", "max-uploads", "encoding-type"],
    ),
    (
        "GET",
        Bucket,
        "versions",
        &[
            "prefix",
            "delimiter",
            "key-marker",
            "version-id-marker",
            "max-keys",
            "encoding-type",
            "metadata",
        ],
    ),
    ("POST", Bucket, "delete", &[]),
    ("GET PUT", Bucket, "acl", &[]),
    ("GET PUT DELETE", Bucket, "cors", &[]),
    ("GET PUT DELETE", Bucket, "encryption", &[]),
    ("GET PUT DELETE", Bucket, "lifecycle", &[]),
    ("GET", Bucket, "location", &[]),
    ("GET PUT", Bucket, "object-lock", &[]),
    ("GET PUT DELETE", Bucket, "ownershipControls", &[]),
    ("GET PUT DELETE", Bucket, "policy", &[]),
    ("GET", Bucket, "policyStatus", &[]),
    ("GET PUT DELETE", Bucket, "publicAccessBlock", &[]),
    ("GET", Bucket, "requestPayment", &[]),
    ("GET", Bucket, "accelerate", &[]),
    ("GET", Bucket, "analytics", &["id", "continuation-token"]),
    ("GET", Bucket, "intelligent-tiering", &["id", "continuation-token"]),
    ("GET", Bucket, "inventory", &["id", "continuation-token"]),
    ("GET", Bucket, "logging", &[]),
    ("GET", Bucket, "metrics", &["id", "continuation-token"]),
    ("GET", Bucket, "notification", &[]),
    ("GET", Bucket, "replication", &[]),
    ("GET PUT DELETE", Bucket, "tagging", &[]),
    ("GET PUT", Bucket, "versioning", &[]),
    ("GET PUT DELETE", Bucket, "website", &[]),
    ("GET HEAD", Object, "", &["versionId", "partNumber"]),
    ("PUT", Object, "", &[]),
    ("DELETE", Object, "", &["versionId"]),
    ("GET", Object, "attributes", &["versionId"]),
    ("GET PUT", Object, "acl", &["versionId"]),
    ("GET PUT", Object, "legal-hold", &["versionId"]),
    ("GET PUT", Object, "retention", &["versionId"]),
    ("GET PUT DELETE", Object, "tagging", &["versionId"]),
    ("POST", Object, "uploads", &[]),
    ("GET", Object, "uploadId", &["max-parts", "part-number-marker", "encoding-type"]),
    ("PUT", Object, "uploadId", &["partNumber"]),
    ("POST DELETE", Object, "uploadId", &[]),
];

/// Headers `x-amz-…` that a request which changes something may have.
const HEADERS: &[&str] = &[
    "x-amz-acl",
    "x-amz-bucket-object-lock-enabled",
    "x-amz-bypass-governance-retention",
    "x-amz-cf-id",
    "x-amz-checksum-algorithm",
    "x-amz-checksum-crc32",
    "x-amz-checksum-crc32c",
    "x-amz-checksum-crc64nvme",
    "x-amz-checksum-md5",
    "x-amz-checksum-mode",
    "x-amz-checksum-sha1",
    "x-amz-checksum-sha256",
    "x-amz-checksum-sha512",
    "x-amz-checksum-type",
    "x-amz-checksum-xxhash128",
    "x-amz-checksum-xxhash3",
    "x-amz-checksum-xxhash64",
    "x-amz-confirm-remove-self-bucket-access",
    "x-amz-content-sha256",
    "x-amz-copy-source",
    "x-amz-copy-source-if-match",
    "x-amz-copy-source-if-modified-since",
    "x-amz-copy-source-if-none-match",
    "x-amz-copy-source-if-unmodified-since",
    "x-amz-copy-source-range",
    "x-amz-copy-source-server-side-encryption-customer-algorithm",
    "x-amz-copy-source-server-side-encryption-customer-key",
    "x-amz-copy-source-server-side-encryption-customer-key-md5",
    "x-amz-date",
    "x-amz-decoded-content-length",
    "x-amz-expected-bucket-owner",
    "x-amz-grant-full-control",
    "x-amz-grant-read",
    "x-amz-grant-read-acp",
    "x-amz-grant-write",
    "x-amz-grant-write-acp",
    "x-amz-metadata-directive",
    "x-amz-mfa",
    "x-amz-mp-object-size",
    "x-amz-object-lock-legal-hold",
    "x-amz-object-lock-mode",
    "x-amz-object-lock-retain-until-date",
    "x-amz-object-ownership",
    "x-amz-request-payer",
    "x-amz-sdk-checksum-algorithm",
    "x-amz-security-token",
    "x-amz-server-side-encryption",
    "x-amz-server-side-encryption-aws-kms-key-id",
    "x-amz-server-side-encryption-bucket-key-enabled",
    "x-amz-server-side-encryption-context",
    "x-amz-server-side-encryption-customer-algorithm",
    "x-amz-server-side-encryption-customer-key",
    "x-amz-server-side-encryption-customer-key-md5",
    "x-amz-source-expected-bucket-owner",
    "x-amz-storage-class",
    "x-amz-tagging",
    "x-amz-tagging-directive",
    "x-amz-te",
    "x-amz-trailer",
    "x-amz-transition-default-minimum-object-size",
    "x-amz-user-agent",
    "x-amz-website-redirect-location",
];
const METADATA: &str = "x-amz-meta-";
const COPY_SOURCE: &str = "x-amz-copy-source";

/// Conditions on what a request changes.
const CONDITIONS: [&str; 7] = [
    "if-match",
    "if-none-match",
    "if-modified-since",
    "if-unmodified-since",
    "x-amz-if-match-last-modified-time",
    "x-amz-if-match-size",
    "x-amz-if-match-initiated-time",
];

/// Parameters that belong to the signature of a presigned URL, in lower case.
const SIGNATURE: [&str; 6] = [
    "x-amz-algorithm",
    "x-amz-credential",
    "x-amz-date",
    "x-amz-expires",
    "x-amz-signedheaders",
    "x-amz-signature",
];
/// Headers beside `x-amz-…` that stand in the query of a URL of signature version 2.
const HEADERS_V2: [&str; 2] = ["content-md5", "content-type"];
const SECURITY_TOKEN: &str = "x-amz-security-token";
const CONTENT_SHA256: &str = "x-amz-content-sha256";

/// Conditions that the operation on a place itself, or on an upload, obeys.
fn conditions(method: &Method, place: RequestSubject, resource: &str) -> &'static [&'static str] {
    match (method.as_str(), place, resource) {
        ("PUT", Object, "") | ("POST", Object, "uploadId") => &["if-match", "if-none-match"],
        ("DELETE", Object, "") => {
            &["if-match", "x-amz-if-match-last-modified-time", "x-amz-if-match-size"]
        }
        _ => &[],
    }
}

/// Refuses what is not served, and turns parameters into headers (OPERATION-1, OPERATION-2).
pub(crate) fn check<B>(request: &mut Request<B>, domains: &Domains) -> S3Result<()> {
    let place = place(request, domains);
    let query = request.uri().query().unwrap_or_default().to_owned();
    let parameters = parameters(&query)?;
    let method = request.method().clone();
    let others: &[&str] = if is_v2(&query) { &HEADERS_V2 } else { &[] };
    let resource = check_parameters(&method, place, &parameters, others)?;
    into_headers(request.headers_mut(), &parameters, others)?;
    // What reads may be asked for more than it gives: it gives it in no other way.
    if matches!(method, Method::PUT | Method::POST | Method::DELETE) {
        check_headers(request.headers(), place, conditions(&method, place, resource))?;
    }
    Ok(())
}

/// Whether a request is about an object.
pub(crate) fn is_of_object<B>(request: &Request<B>, domains: &Domains) -> bool {
    place(request, domains) == Object
}

fn place<B>(request: &Request<B>, domains: &Domains) -> RequestSubject {
    let path = request.uri().path().trim_start_matches('/');
    let (bucket, key) = match domains.bucket_in(request.headers()) {
        Some(bucket) => (bucket, path),
        None => match path.split_once('/') {
            Some((bucket, key)) => (bucket.to_owned(), key),
            None => (path.to_owned(), ""),
        },
    };
    match (bucket.is_empty(), key.is_empty()) {
        (true, _) => Service,
        (false, true) => Bucket,
        (false, false) => Object,
    }
}

/// Names and values of a query, decoded; the value is none where it is not text.
fn parameters(query: &str) -> S3Result<Vec<(String, Option<String>)>> {
    let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let pairs = pairs.filter(|(name, value)| !name.is_empty() || !value.is_empty());
    pairs
        .map(|(name, value)| {
            let name = decode(name).ok_or_else(|| s3_error!(InvalidURI))?;
            Ok((name, decode(value)))
        })
        .collect()
}

/// The sub-resource, if it is served with these parameters, and `others`.
fn check_parameters(
    method: &Method,
    place: RequestSubject,
    parameters: &[(String, Option<String>)],
    others: &[&str],
) -> S3Result<&'static str> {
    let reads = matches!(*method, Method::GET | Method::HEAD);
    let served = |operation: &&Operation| {
        operation.1 == place && operation.0.split(' ').any(|served| served == method.as_str())
    };
    let has = |resource: &str| parameters.iter().any(|(name, _)| name == resource);
    let mut asked = SERVED.iter().filter(served).filter(|(_, _, name, _)| has(name));
    let (resource, known) = match (asked.next(), asked.next()) {
        (Some((_, _, one, _)), Some((_, _, other, _))) => {
            return Err(s3_error!(
                InvalidRequest,
                "The query parameters {one} and {other} name two operations"
            ));
        }
        (Some((_, _, name, known)), None) => (*name, *known),
        (None, _) => {
            let whole = SERVED.iter().filter(served).find(|(_, _, name, _)| name.is_empty());
            ("", whole.map_or(&[] as &[&str], |(_, _, _, known)| *known))
        }
    };
    for (index, (name, _)) in parameters.iter().enumerate() {
        let is_known = name == resource || known.contains(&name.as_str());
        let is_override = reads && name.starts_with("response-");
        if (is_known || is_override)
            && parameters.iter().take(index).any(|(other, _)| other == name)
        {
            let text = "A query parameter was given more than once";
            return Err(invalid_argument(text, name, ""));
        }
        // Of those that begin with `x-`, Amazon reads only its own, and logs the others.
        let is_common = name.get(..2).is_some_and(|begin| begin.eq_ignore_ascii_case("x-"));
        let is_signature =
            PARAMETERS_V2.contains(&name.as_str()) || others.contains(&name.as_str());
        if !is_known && !is_override && !is_common && !is_signature {
            return Err(s3_error!(
                NotImplemented,
                "The query parameter {name:?} is not served with {method} on {}",
                match place {
                    Service => "the service",
                    Bucket => "a bucket",
                    Object => "an object",
                }
            ));
        }
    }
    Ok(resource)
}

/// OPERATION-2.
fn into_headers(
    headers: &mut HeaderMap,
    parameters: &[(String, Option<String>)],
    others: &[&str],
) -> S3Result<()> {
    for (name, value) in parameters {
        let lower = name.to_ascii_lowercase();
        let is_ours = lower.starts_with("x-amz-") && lower != SECURITY_TOKEN;
        let is_ours = is_ours || others.contains(&lower.as_str());
        if !is_ours || SIGNATURE.contains(&lower.as_str()) {
            continue;
        }
        let refused = |text: &str| invalid_argument(text, name, value.as_deref().unwrap_or(""));
        let text = value.as_deref().ok_or_else(|| refused("The query parameter is not text"))?;
        // It is what a presigned URL signs anyway.
        if lower == CONTENT_SHA256 && text == "UNSIGNED-PAYLOAD" {
            continue;
        }
        let invalid = "The query parameter cannot be a header";
        let header = HeaderName::from_bytes(lower.as_bytes()).map_err(|_| refused(invalid))?;
        let value = HeaderValue::from_bytes(text.as_bytes()).map_err(|_| refused(invalid))?;
        if headers.get(&header).is_some_and(|other| *other != value) {
            return Err(refused("The header and the query parameter of the same name differ"));
        }
        headers.insert(header, value);
    }
    Ok(())
}

/// What a request that changes something says beside its operation.
fn check_headers(headers: &HeaderMap, place: RequestSubject, conditions: &[&str]) -> S3Result<()> {
    for name in headers.keys().map(HeaderName::as_str) {
        let is_condition = CONDITIONS.contains(&name);
        let is_known = match is_condition {
            true => conditions.contains(&name),
            false => {
                !name.starts_with("x-amz-") || name.starts_with(METADATA) || HEADERS.contains(&name)
            }
        };
        // MinIO deletes all keys that begin so. Of a bucket it is refused as any that is not empty.
        let deletes_more = name == "x-minio-force-delete" && place == Object;
        if !is_known || deletes_more {
            return Err(s3_error!(
                NotImplemented,
                "A header you provided implies functionality that is not implemented: {name}"
            ));
        }
        if name.starts_with("x-amz-copy-source-") && !headers.contains_key(COPY_SOURCE) {
            let text = "This header belongs to a copy, and x-amz-copy-source is missing";
            return Err(invalid_argument(text, name, ""));
        }
    }
    Ok(())
}
