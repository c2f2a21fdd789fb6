//! A client of S3 that says what it gets, and a description of everything that clients see of a bucket.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::TcpStream;

use ring::{digest, hmac};
use serde_json::Value;
use time::OffsetDateTime;
use varve_access_admin::v1::Base64;

use crate::daemon::Home;

/// A user's key at a daemon.
#[derive(Clone)]
pub(crate) struct S3 {
    address: String,
    access_key: String,
    secret_key: String,
}

/// An answer.
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// By lower-case name, in order.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

fn hex(bytes: impl AsRef<[u8]>) -> String {
    varve_stdx::hex(bytes.as_ref())
}

fn sha256(bytes: &[u8]) -> digest::Digest {
    digest::digest(&digest::SHA256, bytes)
}

fn base64(bytes: &[u8]) -> String {
    let text = serde_json::to_value(Base64(bytes.to_vec())).unwrap();
    text.as_str().unwrap().to_owned()
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(one, _)| one == name).map(|(_, value)| value.as_str())
    }

    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        assert!((200..300).contains(&self.status), "{}: {}", self.status, self.text());
        self
    }
}

impl S3 {
    /// A new user of a daemon.
    pub(crate) fn of_new_user(home: &Home, name: &str) -> Self {
        let key = home.varve(&["user", "create", name, "--json"]).json();
        let text = |what: &str| key[what].as_str().unwrap().to_owned();
        let (access_key, secret_key) = (text("access_key"), text("secret_key"));
        Self { address: String::new(), access_key, secret_key }.at(home)
    }

    /// The same key at another daemon.
    pub(crate) fn at(&self, home: &Home) -> Self {
        let status = home.varve(&["status", "--json"]).json();
        let listeners = status["listeners"].as_array().unwrap();
        let listener = listeners.iter().find(|one| one["protocol"] == "s3").unwrap();
        Self { address: listener["address"].as_str().unwrap().to_owned(), ..self.clone() }
    }

    /// A request; `query` is encoded, and in order.
    pub(crate) fn ask(
        &self,
        method: &str,
        path: &str,
        query: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let now = OffsetDateTime::now_utc();
        let (year, month, day) = now.to_calendar_date();
        let (hour, minute, second) = now.to_hms();
        let month = u8::from(month);
        let now = format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z");
        let hash = hex(sha256(body));
        let sum = base64(sha256(body).as_ref());
        let mut all: Vec<(&str, &str)> =
            vec![("host", &self.address), ("x-amz-content-sha256", &hash), ("x-amz-date", &now)];
        if !body.is_empty() {
            all.push(("x-amz-checksum-sha256", &sum));
        }
        all.extend(headers);
        all.sort_unstable();
        let lines: String = all.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
        let names = all.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";");
        // A parameter without a value has an empty one when it is signed.
        let canonical = |part: &str| {
            if part.contains('=') { part.to_owned() } else { format!("{part}=") }
        };
        let signed_query: Vec<String> =
            query.split('&').filter(|part| !part.is_empty()).map(canonical).collect();
        let signed_query = signed_query.join("&");
        let request = format!("{method}\n{path}\n{signed_query}\n{lines}\n{names}\n{hash}");
        let scope = format!("{}/us-east-1/s3/aws4_request", &now[..8]);
        let to_sign =
            format!("AWS4-HMAC-SHA256\n{now}\n{scope}\n{}", hex(sha256(request.as_bytes())));
        let mut key = format!("AWS4{}", self.secret_key).into_bytes();
        for part in scope.split('/').chain([to_sign.as_str()]) {
            let with = hmac::Key::new(hmac::HMAC_SHA256, &key);
            key = hmac::sign(&with, part.as_bytes()).as_ref().to_vec();
        }
        let signature = hex(key);
        let mut head = format!(
            "{method} {path}?{query} HTTP/1.1\r\nconnection: close\r\ncontent-length: {}\r\n\
             authorization: AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders={names}, Signature={signature}\r\n",
            body.len(),
            self.access_key
        );
        for (name, value) in all {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        self.exchange(&[head.as_bytes(), b"\r\n", body].concat())
    }

    fn exchange(&self, request: &[u8]) -> Answer {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.write_all(request).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
        let head = String::from_utf8_lossy(&answer[..end]).into_owned();
        let mut lines = head.lines();
        let status = lines.next().unwrap()[9..12].parse().unwrap();
        let mut headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
            .collect();
        headers.sort_unstable();
        let mut body = answer.split_off(end + 4);
        if headers.contains(&("transfer-encoding".to_owned(), "chunked".to_owned())) {
            body = dechunked(&body);
        }
        Answer { status, headers, body }
    }

    pub(crate) fn get(&self, path: &str, query: &str) -> Answer {
        self.ask("GET", path, query, &[], b"")
    }

    pub(crate) fn put(&self, path: &str, query: &str, body: &[u8]) -> Answer {
        self.ask("PUT", path, query, &[], body)
    }

    /// An object of parts of these lengths, each of one byte; returns the upload when it is not to be completed.
    pub(crate) fn upload(&self, path: &str, parts: &[(usize, u8)], completes: bool) -> String {
        let begun = self.ask("POST", path, "uploads", &[], b"").ok().text();
        let id = between(&begun, "<UploadId>", "</UploadId>").next().unwrap().to_owned();
        let mut all = String::new();
        for (number, (len, byte)) in (1..).zip(parts) {
            let query = format!("partNumber={number}&uploadId={id}");
            let put = self.put(path, &query, &vec![*byte; *len]).ok();
            let etag = put.header("etag").unwrap().to_owned();
            let _ =
                write!(all, "<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>");
        }
        if completes {
            let body = format!("<CompleteMultipartUpload>{all}</CompleteMultipartUpload>");
            let query = format!("uploadId={id}");
            self.ask("POST", path, &query, &[], body.as_bytes()).ok();
        }
        id
    }

    /// Everything that clients see of a bucket: its settings, and each version with its headers, a hash of its bytes,
    /// tags and locks.
    pub(crate) fn seen(&self, bucket: &str) -> String {
        let mut text = String::new();
        let path = format!("/{bucket}");
        for what in [
            "versioning",
            "policy",
            "cors",
            "lifecycle",
            "tagging",
            "object-lock",
            "acl",
            "encryption",
        ] {
            let answer = self.get(&path, what);
            let _ = writeln!(text, "{what}: {} {}", answer.status, without_ids(&answer.text()));
        }
        let listed = self.get(&path, "versions=").ok().text();
        let _ = writeln!(text, "{}", without_ids(&listed));
        let keys = between(&listed, "<Key>", "</Key>");
        for (key, version) in keys.zip(between(&listed, "<VersionId>", "</VersionId>")) {
            let object = format!("{path}/{}", encoded(key));
            let query = format!("versionId={version}");
            let _ = writeln!(text, "{key} {version}: {}", described(&self.get(&object, &query)));
            for what in ["tagging", "retention", "legal-hold"] {
                let query = format!("{what}&{query}"); // Parameters are in order.
                let answer = self.get(&object, &query);
                let _ =
                    writeln!(text, "  {what}: {} {}", answer.status, without_ids(&answer.text()));
            }
            for part in 1..=2 {
                let answer = self.get(&object, &format!("partNumber={part}&{query}"));
                let _ = writeln!(text, "  part {part}: {}", described(&answer));
            }
        }
        text
    }
}

/// What stands between two words, each time.
fn between<'a>(
    text: &'a str,
    begin: &'a str,
    end: &'a str,
) -> impl Iterator<Item = &'a str> + use<'a> {
    text.split(begin).skip(1).filter_map(move |rest| rest.split_once(end).map(|(found, _)| found))
}

/// A key of a listing as it stands in a path.
fn encoded(key: &str) -> String {
    let key = key.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    key.bytes().map(encode).collect()
}

/// The text of an answer without what is another one each time.
fn without_ids(text: &str) -> String {
    let cut = |text: &str, name: &str| match text.split_once(&format!("<{name}>")) {
        Some((before, rest)) => {
            let after = rest.split_once(&format!("</{name}>")).map_or("", |(_, after)| after);
            format!("{before}{after}")
        }
        None => text.to_owned(),
    };
    ["RequestId", "HostId"].iter().fold(text.to_owned(), |text, name| cut(&text, name))
}

fn described(answer: &Answer) -> String {
    let changing = ["date", "x-amz-request-id", "x-amz-id-2", "connection", "transfer-encoding"];
    let headers = answer.headers.iter().filter(|(name, _)| !changing.contains(&name.as_str()));
    let headers: Vec<String> = headers.map(|(name, value)| format!("{name}: {value}")).collect();
    let body = match answer.status {
        200..300 => hex(sha256(&answer.body)),
        _ => without_ids(&answer.text()),
    };
    format!("{} {} {body}", answer.status, headers.join(", "))
}

fn dechunked(mut bytes: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    loop {
        let end = bytes.windows(2).position(|window| window == b"\r\n").unwrap();
        let len = usize::from_str_radix(std::str::from_utf8(&bytes[..end]).unwrap(), 16).unwrap();
        if len == 0 {
            return whole;
        }
        whole.extend(&bytes[end + 2..end + 2 + len]);
        bytes = &bytes[end + 4 + len..];
    }
}

/// What the admin API says of a bucket.
pub(crate) fn bucket(home: &Home, name: &str) -> Value {
    let path = format!("/v1/buckets/{name}");
    let (status, bucket) = crate::between::call(home, "GET", &path, &Value::Null);
    if status == 404 { "no bucket".into() } else { bucket }
}
