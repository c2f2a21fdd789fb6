//! Calls an S3 server for loads: who calls it where, and one connection with one request at a time.

use std::fmt::Write;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use time::OffsetDateTime;
use varve_client::{Failure, Result, read_file};
use varve_tool_bench::s3::{Head, S3Connection, Signer, encoded};

/// The word in place of a body's hash.
const UNSIGNED: &str = "UNSIGNED-PAYLOAD";

/// Bytes of a body that are made and sent at once.
const PIECE_BYTES: usize = 64 << 10;

/// Most bytes of what a server says that are kept.
const SAID_BYTES_MAX: usize = 64 << 10;

/// A server and who calls it.
#[derive(Clone, Debug)]
pub struct S3Server {
    /// `HOST:PORT`.
    pub(crate) host: String,
    pub(crate) access_key: String,
    pub(crate) secret_key: String,
}

/// Where a server is and who calls it, as far as somebody said so.
#[derive(Clone, Default, Debug)]
pub struct S3Settings {
    pub(crate) endpoint: Option<String>,
    pub(crate) access_key: Option<String>,
    pub(crate) secret_key: Option<String>,
}

impl S3Settings {
    /// What the command line says; the secret is in a file.
    pub fn from_arguments(
        endpoint: Option<String>,
        access_key: Option<String>,
        secret_file: Option<&Path>,
    ) -> Result<Self> {
        let secret = secret_file.map(read_file).transpose()?;
        let secret_key = secret.map(|secret| secret.trim_end().to_owned());
        Ok(Self { endpoint, access_key, secret_key })
    }

    /// The server: what is said here, else what `other` says of `endpoint`, `accesskey` and `secretkey`, else the
    /// environment. A key and its secret come from one place.
    pub(crate) fn server(
        &self,
        who: &str,
        other: impl Fn(&str) -> Option<String>,
    ) -> Result<S3Server> {
        let missing = |what: &str| {
            Failure::misuse(format!("{who} names no {what}")).hint(
                "say --endpoint, --access-key and --secret-file, or AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
            )
        };
        let environment = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
        let endpoint = self.endpoint.clone().or_else(|| other("endpoint"));
        let endpoint = endpoint.or_else(|| environment("AWS_ENDPOINT_URL"));
        let host = host(&endpoint.ok_or_else(|| missing("endpoint"))?)?;
        let (access_key, secret_key) = if self.access_key.is_some() {
            (self.access_key.clone(), self.secret_key.clone())
        } else if other("accesskey").is_some() {
            (other("accesskey"), other("secretkey"))
        } else {
            (environment("AWS_ACCESS_KEY_ID"), environment("AWS_SECRET_ACCESS_KEY"))
        };
        Ok(S3Server {
            host,
            access_key: access_key.ok_or_else(|| missing("accesskey"))?,
            secret_key: secret_key.ok_or_else(|| missing("secretkey"))?,
        })
    }
}

/// `http://HOST:PORT` as a connection wants it.
fn host(endpoint: &str) -> Result<String> {
    let wrong = || {
        let what = format!("invalid endpoint `{endpoint}`: must be http://HOST[:PORT]");
        Failure::misuse(what)
    };
    let host = endpoint.strip_prefix("http://").ok_or_else(wrong)?.trim_end_matches('/');
    if host.is_empty() || host.contains('/') {
        return Err(wrong());
    }
    Ok(if host.contains(':') { host.to_owned() } else { format!("{host}:80") })
}

/// What is asked of a server.
#[derive(Clone, Copy, Debug)]
pub(super) struct S3Request<'a> {
    pub(super) method: &'static str,
    /// `/BUCKET`, or with an object behind it; not encoded.
    pub(super) path: &'a str,
    /// What stands behind the question mark, encoded and in order; may be empty.
    pub(super) query: &'a str,
    /// Bytes of its body.
    pub(super) length: u64,
}

/// What a server answered.
#[derive(Debug)]
pub(super) struct S3Response {
    pub(super) status: u16,
    /// Bytes of the answer's body.
    pub(super) bytes: u64,
    /// Time until it began.
    pub(super) processing: Duration,
    /// The body of a refusal, as far as it is kept.
    said: Vec<u8>,
}

impl S3Response {
    /// S3's word for a refusal, else the status.
    pub(super) fn why(&self) -> String {
        let said = String::from_utf8_lossy(&self.said);
        match between(&said, "<Code>", "</Code>") {
            Some(code) => format!("{code} ({})", self.status),
            None => format!("status {}", self.status),
        }
    }
}

/// What stands between two words.
pub(super) fn between<'a>(text: &'a str, begin: &str, end: &str) -> Option<&'a str> {
    text.split_once(begin)?.1.split_once(end).map(|(inside, _)| inside)
}

/// A connection to a server, opened when it is needed.
pub(super) struct S3Client {
    host: String,
    signer: Signer,
    connection: Option<S3Connection>,
    piece: Vec<u8>,
}

impl S3Client {
    pub(super) fn new(server: &S3Server) -> Self {
        let S3Server { host, access_key, secret_key } = server.clone();
        Self {
            signer: Signer::new(access_key, secret_key, host.clone()),
            host,
            connection: None,
            piece: vec![0; PIECE_BYTES],
        }
    }

    /// Connects anew: servers close what was idle for long.
    pub(super) fn connect(&mut self) -> io::Result<()> {
        self.connection = Some(S3Connection::open(&self.host)?);
        Ok(())
    }

    /// Forgets a connection that failed.
    pub(super) fn disconnect(&mut self) {
        self.connection = None;
    }

    /// Writes an object whose body `make` makes; one that is longer than a part in parts, one after another.
    pub(super) fn put(
        &mut self,
        path: &str,
        length: u64,
        part_bytes: Option<u64>,
        mut make: impl FnMut(u64, &mut [u8]),
    ) -> io::Result<S3Response> {
        match part_bytes {
            Some(part_bytes) if length > part_bytes => {
                self.put_in_parts(path, length, part_bytes, make)
            }
            _ => {
                let request = S3Request { method: "PUT", path, query: "", length };
                self.call(request, &mut make, |_| {})
            }
        }
    }

    fn put_in_parts(
        &mut self,
        path: &str,
        length: u64,
        part_bytes: u64,
        mut make: impl FnMut(u64, &mut [u8]),
    ) -> io::Result<S3Response> {
        let mut said = Vec::new();
        let begun = self.ask("POST", path, "uploads=", |piece| said.extend_from_slice(piece))?;
        if begun.status != 200 {
            return Ok(begun);
        }
        let text = String::from_utf8_lossy(&said);
        let id = between(&text, "<UploadId>", "</UploadId>");
        let id = id.ok_or_else(|| io::Error::other("an upload was begun that has no id"))?;
        let id = encoded(id).replace('/', "%2F");
        let written = self.put_parts(path, &id, length, part_bytes, &mut make);
        if !written.as_ref().is_ok_and(|answered| answered.status == 200) {
            // Parts of an upload that nobody completes would stay.
            let query = format!("uploadId={id}");
            let _the_first_failure_counts = self.ask("DELETE", path, &query, |_| {});
        }
        written
    }

    /// Writes the parts of an upload and completes it; the first answer that is a refusal, or the last one.
    fn put_parts(
        &mut self,
        path: &str,
        id: &str,
        length: u64,
        part_bytes: u64,
        make: &mut impl FnMut(u64, &mut [u8]),
    ) -> io::Result<S3Response> {
        let mut list = "<CompleteMultipartUpload>".to_owned();
        for (number, begin) in
            (1..).zip((0..length).step_by(usize::try_from(part_bytes).unwrap_or(usize::MAX)))
        {
            let query = format!("partNumber={number}&uploadId={id}");
            let bytes = part_bytes.min(length - begin);
            let request = S3Request { method: "PUT", path, query: &query, length: bytes };
            let answered = self.call(request, |at, into| make(begin + at, into), |_| {})?;
            if answered.status != 200 {
                return Ok(answered);
            }
            let etag = self.connection.as_ref().map_or("", S3Connection::etag);
            let _ =
                write!(list, "<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>");
        }
        list.push_str("</CompleteMultipartUpload>");
        let query = format!("uploadId={id}");
        let request = S3Request { method: "POST", path, query: &query, length: list.len() as u64 };
        let mut said = Vec::new();
        let make = |at: u64, into: &mut [u8]| {
            let at = usize::try_from(at).unwrap_or(0);
            into.copy_from_slice(&list.as_bytes()[at..at + into.len()]);
        };
        let answered = self.call(request, make, |piece| said.extend_from_slice(piece))?;
        // A completion that took long may fail after it has answered 200.
        let has_failed =
            answered.status == 200 && String::from_utf8_lossy(&said).contains("<Error>");
        Ok(if has_failed { S3Response { status: 500, said, ..answered } } else { answered })
    }

    /// Sends a request without a body; the answer's goes to `take`, unless it is a refusal.
    pub(super) fn ask(
        &mut self,
        method: &'static str,
        path: &str,
        query: &str,
        take: impl FnMut(&[u8]),
    ) -> io::Result<S3Response> {
        self.call(S3Request { method, path, query, length: 0 }, |_, _| {}, take)
    }

    /// Sends a request whose body `make` makes piece by piece; the answer's body goes to `take`, unless it is a
    /// refusal.
    pub(super) fn call(
        &mut self,
        request: S3Request<'_>,
        make: impl FnMut(u64, &mut [u8]),
        mut take: impl FnMut(&[u8]),
    ) -> io::Result<S3Response> {
        let S3Request { method, path, query, length } = request;
        let began = Instant::now();
        if self.connection.as_ref().is_none_or(S3Connection::is_spent) {
            self.connect()?;
        }
        let (path, now) = (encoded(path), OffsetDateTime::now_utc());
        let head =
            self.signer.head(Head { method, path: &path, query, payload: UNSIGNED, length, now });
        let connection = self.connection.as_mut().expect("it was opened");
        let answer = connection.request_in_pieces(&head, length, &mut self.piece, make)?;
        let (processing, mut said) = (began.elapsed(), Vec::new());
        let bytes = connection.each(answer, |piece| {
            if answer.status < 300 {
                take(piece);
            } else {
                said.extend(piece.iter().take(SAID_BYTES_MAX - said.len()));
            }
        })?;
        Ok(S3Response { status: answer.status, bytes, processing, said })
    }
}

/// What stands behind the question mark of a listing of what begins with `prefix`.
pub(super) fn listing(prefix: &str, keys_max: u32) -> String {
    let prefix = encoded(prefix).replace('/', "%2F");
    format!("list-type=2&max-keys={keys_max}&prefix={prefix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_http_and_a_host() {
        assert_eq!(host("http://a:9000/").unwrap(), "a:9000");
        assert_eq!(host("http://a").unwrap(), "a:80");
        for wrong in ["a:9000", "https://a", "http://", "http://a/b"] {
            assert!(host(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn refusals_are_told_by_their_code() {
        let said = |said: &[u8]| S3Response {
            status: 403,
            bytes: 0,
            processing: Duration::ZERO,
            said: said.to_vec(),
        };
        let xml = b"<?xml?><Error><Code>InvalidAccessKeyId</Code></Error>";
        assert_eq!(said(xml).why(), "InvalidAccessKeyId (403)");
        assert_eq!(said(b"").why(), "status 403");
    }
}
