//! Signatures of S3 requests, version 4, in headers.

use ring::digest::{SHA256, digest};
use ring::hmac::{HMAC_SHA256, Key, sign};
use time::OffsetDateTime;

const REGION: &str = "us-east-1";
const SIGNED_HEADERS: &str = "host;x-amz-content-sha256;x-amz-date";

/// Who signs, and the key that is good for one day.
#[derive(Clone)]
pub(crate) struct Signer {
    access_key: String,
    secret_key: String,
    host: String,
    day: String,
    day_key: Key,
}

impl Signer {
    /// A signer of requests to `host` (as the header names it: with its port).
    pub(crate) fn new(access_key: String, secret_key: String, host: String) -> Self {
        let day_key = Key::new(HMAC_SHA256, &[]);
        Self { access_key, secret_key, host, day: String::new(), day_key }
    }

    /// Head of a request for a path that needs no encoding, without a query; `payload` is the body's hash or the word in its place.
    pub(crate) fn head(
        &mut self,
        method: &str,
        path: &str,
        payload: &str,
        length: usize,
    ) -> String {
        let now = OffsetDateTime::now_utc();
        let day = format!("{:04}{:02}{:02}", now.year(), u8::from(now.month()), now.day());
        let moment = format!("{day}T{:02}{:02}{:02}Z", now.hour(), now.minute(), now.second());
        if day != self.day {
            self.day_key = self.key_of(&day);
            self.day = day;
        }
        let scope = format!("{}/{REGION}/s3/aws4_request", self.day);
        let host = &self.host;
        let canonical = format!(
            "{method}\n{path}\n\nhost:{host}\nx-amz-content-sha256:{payload}\nx-amz-date:{moment}\n\n{SIGNED_HEADERS}\n{payload}"
        );
        let text = format!("AWS4-HMAC-SHA256\n{moment}\n{scope}\n{}", sha256(canonical.as_bytes()));
        let signature = hex(sign(&self.day_key, text.as_bytes()).as_ref());
        let access_key = &self.access_key;
        format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nx-amz-content-sha256: {payload}\r\nx-amz-date: {moment}\r\n\
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
pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex(digest(&SHA256, bytes).as_ref())
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|digit| char::from(DIGITS[usize::from(digit)]))
        .collect()
}
