//! Signatures of S3 requests, version 4, in headers.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use ring::digest::{SHA256, digest};
use ring::hmac::{HMAC_SHA256, Key, sign};
use time::OffsetDateTime;
use varve_stdx::hex;

const REGION: &str = "us-east-1";
const SIGNED_HEADERS: &str = "host;x-amz-content-sha256;x-amz-date";

/// What stays as it is in a path.
const PLAIN: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// Who signs, and the key that is good for one day.
#[derive(Clone, Debug)]
pub struct Signer {
    access_key: String,
    secret_key: String,
    host: String,
    day: String,
    day_key: Key,
}

/// A request to be signed.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// Method of HTTP.
    pub method: &'a str,
    /// Path, encoded.
    pub path: &'a str,
    /// What stands behind the question mark, encoded and in order; may be empty.
    pub query: &'a str,
    /// SHA-256 of the body in hexadecimal, or the word in its place.
    pub payload: &'a str,
    /// Bytes of the body.
    pub length: u64,
    /// The time.
    pub now: OffsetDateTime,
}

/// A path as requests and signatures have it.
#[must_use]
pub fn encoded(path: &str) -> String {
    utf8_percent_encode(path, PLAIN).to_string()
}

impl Signer {
    /// A signer of requests to `host` (as the header names it: with its port).
    #[must_use]
    pub fn new(access_key: String, secret_key: String, host: String) -> Self {
        let day_key = Key::new(HMAC_SHA256, &[]);
        Self { access_key, secret_key, host, day: String::new(), day_key }
    }

    /// Head of a request, signed.
    #[must_use]
    pub fn head(&mut self, head: Head<'_>) -> String {
        let Head { method, path, query, payload, length, now } = head;
        let day = format!("{:04}{:02}{:02}", now.year(), u8::from(now.month()), now.day());
        let moment = format!("{day}T{:02}{:02}{:02}Z", now.hour(), now.minute(), now.second());
        if day != self.day {
            self.day_key = self.key_of(&day);
            self.day = day;
        }
        let scope = format!("{}/{REGION}/s3/aws4_request", self.day);
        let host = &self.host;
        let canonical = format!(
            "{method}\n{path}\n{query}\nhost:{host}\nx-amz-content-sha256:{payload}\nx-amz-date:{moment}\n\n{SIGNED_HEADERS}\n{payload}"
        );
        let text = format!("AWS4-HMAC-SHA256\n{moment}\n{scope}\n{}", sha256(canonical.as_bytes()));
        let signature = hex(sign(&self.day_key, text.as_bytes()).as_ref());
        let access_key = &self.access_key;
        let question = if query.is_empty() { "" } else { "?" };
        format!(
            "{method} {path}{question}{query} HTTP/1.1\r\nHost: {host}\r\nx-amz-content-sha256: {payload}\r\nx-amz-date: {moment}\r\n\
             Content-Length: {length}\r\nAuthorization: AWS4-HMAC-SHA256 Credential={access_key}/{scope}, \
             SignedHeaders={SIGNED_HEADERS}, Signature={signature}\r\n\r\n"
        )
    }

    fn key_of(&self, day: &str) -> Key {
        let first = Key::new(HMAC_SHA256, format!("AWS4{}", self.secret_key).as_bytes());
        [day, REGION, "s3", "aws4_request"]
            .iter()
            .fold(first, |key, part| Key::new(HMAC_SHA256, sign(&key, part.as_bytes()).as_ref()))
    }
}

/// SHA-256 in hexadecimal, as signatures name the body.
#[must_use]
pub fn sha256(bytes: &[u8]) -> String {
    hex(digest(&SHA256, bytes).as_ref())
}
