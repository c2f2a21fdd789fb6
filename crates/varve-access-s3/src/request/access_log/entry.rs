//! A line of an access log: the fields of Amazon's server access logs, in their order, `-` for what is not known or
//! does not exist here.

use hyper::header::{
    AUTHORIZATION, CONTENT_LENGTH, CONTENT_RANGE, HOST, HeaderName, HeaderValue, REFERER,
    USER_AGENT,
};
use hyper::{HeaderMap, Method, Request, StatusCode};
use s3s::header::X_AMZ_VERSION_ID;
use time::OffsetDateTime;

use crate::identity::principal::Peer;
use crate::request::query::query_value;

const DECODED_LENGTH: HeaderName = HeaderName::from_static("x-amz-decoded-content-length");
/// Values in queries that let who knows them sign, or act as somebody.
const SECRETS: [&str; 3] = ["X-Amz-Signature", "X-Amz-Security-Token", "Signature"];
/// Longest field, in bytes: the whole line stays below some 12 KiB.
const FIELD_BYTES_MAX: usize = 4096;

/// What is known of a request when it comes.
#[derive(Debug, Clone)]
pub(crate) struct LogEntry {
    pub(crate) bucket: String,
    pub(crate) owner: String,
    /// When it came, in milliseconds since 1970.
    pub(crate) begun_ms: u64,
    remote: String,
    method: Method,
    key: String,
    uri: String,
    referer: String,
    agent: String,
    host: String,
    version: String,
    size: Option<u64>,
    /// `AuthHeader`, `QueryString` or nothing.
    auth: &'static str,
}

/// What is known when its answer has ended.
#[derive(Debug, Clone)]
pub(crate) struct ResponseRecord<'a> {
    pub(crate) id: &'a str,
    pub(crate) operation: Option<&'a str>,
    pub(crate) requester: &'a str,
    pub(crate) status: StatusCode,
    pub(crate) error: Option<&'a str>,
    pub(crate) sent_bytes: u64,
    pub(crate) total_ms: u128,
    pub(crate) turnaround_ms: u128,
}

impl LogEntry {
    pub(crate) fn new<B>(request: &Request<B>, bucket: &str, owner: &str, begun_ms: u64) -> Self {
        let headers = request.headers();
        let bytes = |name: HeaderName| headers.get(name).map_or(&[][..], HeaderValue::as_bytes);
        let peer = request.extensions().get::<Peer>().copied();
        let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
        let in_path = path.trim_start_matches('/');
        // The bucket may stand in the host's name.
        let key =
            in_path.strip_prefix(bucket).filter(|rest| rest.is_empty() || rest.starts_with('/'));
        let key = key.map_or(in_path, |rest| rest.trim_start_matches('/'));
        let auth = if query_value(query, "X-Amz-Signature").is_some() {
            "QueryString"
        } else if headers.contains_key(AUTHORIZATION) {
            "AuthHeader"
        } else {
            ""
        };
        Self {
            bucket: bucket.to_owned(),
            owner: owner.to_owned(),
            begun_ms,
            remote: peer.and_then(|peer| peer.address).map(|ip| ip.to_string()).unwrap_or_default(),
            method: known(request.method()),
            key: field(key.as_bytes()),
            uri: field(without_secrets(path, query).as_bytes()),
            referer: quotable(bytes(REFERER)),
            agent: quotable(bytes(USER_AGENT)),
            host: field(bytes(HOST)),
            version: field(query_value(query, "versionId").unwrap_or_default().as_bytes()),
            size: number(headers, DECODED_LENGTH).or_else(|| number(headers, CONTENT_LENGTH)),
            auth,
        }
    }

    /// Takes what the head of the answer says: which version, and how large the object is.
    pub(crate) fn note(&mut self, status: StatusCode, headers: &HeaderMap) {
        if let Some(version) = headers.get(X_AMZ_VERSION_ID) {
            self.version = field(version.as_bytes());
        }
        if matches!(self.method, Method::GET | Method::HEAD) {
            let range = headers.get(CONTENT_RANGE).and_then(|range| range.to_str().ok());
            let whole = range.and_then(|range| range.rsplit_once('/')?.1.parse().ok());
            let size = whole.or_else(|| number(headers, CONTENT_LENGTH));
            self.size = size.filter(|_| status.is_success() && !self.key.is_empty());
        }
    }

    /// The line, with its end.
    pub(crate) fn line(&self, answer: &ResponseRecord<'_>) -> String {
        let or_dash = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
        let positive = |number: u64| Some(number).filter(|number| *number > 0);
        let count = |number: Option<u64>| {
            number.map_or_else(|| "-".to_owned(), |number| number.to_string())
        };
        let quoted =
            |text: &str| if text.is_empty() { "-".to_owned() } else { format!("\"{text}\"") };
        let fields = [
            or_dash(&self.owner),
            self.bucket.clone(),
            time_of(self.begun_ms),
            or_dash(&self.remote),
            or_dash(answer.requester),
            answer.id.to_owned(),
            operation(answer.operation, &self.method, self.key.is_empty()),
            or_dash(&self.key),
            format!("\"{} {} HTTP/1.1\"", self.method, self.uri),
            answer.status.as_u16().to_string(),
            or_dash(answer.error.unwrap_or_default()),
            count(positive(answer.sent_bytes)),
            count(self.size),
            answer.total_ms.to_string(),
            answer.turnaround_ms.to_string(),
            quoted(&self.referer),
            quoted(&self.agent),
            or_dash(&self.version),
            answer.id.to_owned(),
            or_dash(if self.auth.is_empty() { "" } else { "SigV4" }),
            "-".to_owned(), // Cipher suite.
            or_dash(self.auth),
            or_dash(&self.host),
            "-".to_owned(), // Version of TLS.
            "-".to_owned(), // Access point.
            "-".to_owned(), // Whether a list was needed.
        ];
        format!("{}\n", fields.join(" "))
    }
}

/// A header that is a number.
pub(crate) fn number(headers: &HeaderMap, name: HeaderName) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.parse().ok()
}

/// `[22/Nov/2026:14:05:09 +0000]`.
fn time_of(ms: u64) -> String {
    let time = OffsetDateTime::from_unix_timestamp_nanos(i128::from(ms) * 1_000_000);
    let time = time.unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let month = &time.month().to_string()[..3];
    let (day, year) = (time.day(), time.year());
    let (hour, minute, second) = (time.hour(), time.minute(), time.second());
    format!("[{day:02}/{month}/{year}:{hour:02}:{minute:02}:{second:02} +0000]")
}

/// A text of a client that can neither end its field nor its line.
fn field(bytes: &[u8]) -> String {
    quotable(bytes).replace(' ', "%20")
}

/// The same for a field in quotes.
fn quotable(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for byte in bytes {
        if out.len() >= FIELD_BYTES_MAX {
            break;
        }
        match byte {
            b'"' | b'\\' | 0..=0x1F | 0x7F.. => out.push_str(&format!("%{byte:02X}")),
            _ => out.push(char::from(*byte)),
        }
    }
    out
}

/// What was asked for, less what could be used again.
fn without_secrets(path: &str, query: &str) -> String {
    if query.is_empty() {
        return path.to_owned();
    }
    let shown = query.split('&').map(|pair| {
        let name = pair.split('=').next().unwrap_or_default();
        if SECRETS.contains(&name) { format!("{name}=-") } else { pair.to_owned() }
    });
    format!("{path}?{}", shown.collect::<Vec<_>>().join("&"))
}

/// A method of the protocol, or `OTHER`: clients may make up long ones.
fn known(method: &Method) -> Method {
    let is_known =
        [Method::GET, Method::HEAD, Method::PUT, Method::POST, Method::DELETE, Method::OPTIONS];
    if is_known.contains(method) {
        method.clone()
    } else {
        Method::from_bytes(b"OTHER").unwrap_or(Method::TRACE)
    }
}

/// `REST.GET.OBJECT` for `GetObject`, and so on.
fn operation(name: Option<&str>, method: &Method, of_bucket: bool) -> String {
    let method = method.as_str();
    let Some(name) = name else {
        return format!("REST.{method}.{}", if of_bucket { "BUCKET" } else { "OBJECT" });
    };
    let resource = match name {
        "CopyObject" => return "REST.COPY.OBJECT".to_owned(),
        "UploadPartCopy" => return "REST.COPY.PART".to_owned(),
        "GetObject" | "HeadObject" | "PutObject" | "DeleteObject" | "PostObject" => "OBJECT",
        "CreateBucket" | "HeadBucket" | "DeleteBucket" | "ListObjects" | "ListObjectsV2" => {
            "BUCKET"
        }
        "ListObjectVersions" => "BUCKETVERSIONS",
        "DeleteObjects" => "MULTI_OBJECT_DELETE",
        "UploadPart" => "PART",
        "CreateMultipartUpload" | "ListMultipartUploads" => "UPLOADS",
        "CompleteMultipartUpload" | "AbortMultipartUpload" | "ListParts" => "UPLOAD",
        "GetObjectAcl" | "PutObjectAcl" => "ACL",
        "GetBucketPolicy" | "PutBucketPolicy" | "DeleteBucketPolicy" => "BUCKETPOLICY",
        other => return format!("REST.{method}.{}", resource(other)),
    };
    format!("REST.{method}.{resource}")
}

/// `VERSIONING` for `GetBucketVersioning`, `OBJECT_TAGGING` for `PutObjectTagging`.
fn resource(name: &str) -> String {
    let bare = ["Get", "Put", "Delete", "List"].iter().find_map(|verb| name.strip_prefix(verb));
    let bare = bare.unwrap_or(name);
    let bare = bare.strip_prefix("Bucket").filter(|rest| !rest.is_empty()).unwrap_or(bare);
    let mut out = String::new();
    for letter in bare.chars() {
        if letter.is_ascii_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.push(letter.to_ascii_uppercase());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(method: &str, uri: &str, headers: &[(&str, &str)]) -> LogEntry {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut request = request.body(()).unwrap();
        request.extensions_mut().insert(Peer { address: "10.0.0.7".parse().ok(), tls: false });
        LogEntry::new(&request, "photos", "ann", 1_763_820_309_000)
    }

    fn answer(status: u16) -> ResponseRecord<'static> {
        ResponseRecord {
            id: "00F1",
            operation: Some("GetObject"),
            requester: "bob",
            status: StatusCode::from_u16(status).unwrap(),
            error: None,
            sent_bytes: 1024,
            total_ms: 12,
            turnaround_ms: 3,
        }
    }

    #[test]
    fn a_line_has_amazons_fields() {
        let mut entry = entry(
            "GET",
            "/photos/a%20b.jpg?x=1",
            &[
                ("host", "s3:9000"),
                ("user-agent", "aws/2 \"x\""),
                ("authorization", "AWS4-HMAC-SHA256"),
            ],
        );
        let mut head = HeaderMap::new();
        head.insert(CONTENT_RANGE, "bytes 0-1023/5000".parse().unwrap());
        entry.note(StatusCode::PARTIAL_CONTENT, &head);
        let expected = "ann photos [22/Nov/2025:14:05:09 +0000] 10.0.0.7 bob 00F1 REST.GET.OBJECT a%20b.jpg \
            \"GET /photos/a%20b.jpg?x=1 HTTP/1.1\" 206 - 1024 5000 12 3 - \"aws/2 %22x%22\" - 00F1 SigV4 - AuthHeader s3:9000 - - -\n";
        assert_eq!(entry.line(&answer(206)), expected);
    }

    #[test]
    fn what_is_not_known_is_a_dash_and_what_fails_says_why() {
        let entry = entry("PUT", "/photos/k", &[("content-length", "9")]);
        let failed = ResponseRecord {
            operation: None,
            requester: "",
            error: Some("AccessDenied"),
            sent_bytes: 0,
            ..answer(403)
        };
        let line = entry.line(&failed);
        let expected = "10.0.0.7 - 00F1 REST.PUT.OBJECT k \"PUT /photos/k HTTP/1.1\" 403 AccessDenied - 9 12 3 - - - 00F1 - - - - - - -\n";
        assert!(line.ends_with(expected), "{line}");
    }

    #[test]
    fn signatures_are_not_logged() {
        let uri =
            "/photos/k?X-Amz-Credential=K&X-Amz-Signature=0123abcd&X-Amz-Security-Token=t0ken&a=b";
        let line = entry("GET", uri, &[]).line(&answer(200));
        assert!(!line.contains("0123abcd") && !line.contains("t0ken"), "{line}");
        assert!(
            line.contains("?X-Amz-Credential=K&X-Amz-Signature=-&X-Amz-Security-Token=-&a=b "),
            "{line}"
        );
        assert!(line.contains(" SigV4 - QueryString "), "{line}");
    }

    #[test]
    fn no_client_can_end_a_line_or_make_it_endless() {
        assert_eq!(field(b"a\nb\"c\\d\xFF"), "a%0Ab%22c%5Cd%FF");
        assert_eq!(field(&[b'x'; 10_000]).len(), FIELD_BYTES_MAX);
    }

    #[test]
    fn operations_have_amazons_names() {
        for (name, method, expected) in [
            ("ListObjectsV2", Method::GET, "REST.GET.BUCKET"),
            ("GetBucketVersioning", Method::GET, "REST.GET.VERSIONING"),
            ("PutObjectTagging", Method::PUT, "REST.PUT.OBJECT_TAGGING"),
            ("UploadPart", Method::PUT, "REST.PUT.PART"),
            ("UploadPartCopy", Method::PUT, "REST.COPY.PART"),
            ("CompleteMultipartUpload", Method::POST, "REST.POST.UPLOAD"),
            ("GetPublicAccessBlock", Method::GET, "REST.GET.PUBLIC_ACCESS_BLOCK"),
        ] {
            assert_eq!(operation(Some(name), &method, false), expected);
        }
        assert_eq!(operation(None, &Method::HEAD, true), "REST.HEAD.BUCKET");
    }
}
