//! The chain of signatures of a body in signed chunks: each covers its chunk and the signature before it. Called by
//! `frames`, piece by piece.
//!
//! CHAIN-1: a chunk's bytes go on before its signature is known to be good, so that no chunk is kept in memory. The
//!     body then ends in an error, and nothing of it becomes an object: operations change something only behind the end
//!     of a body.

use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, HeaderValue};
use ring::{digest, hmac};
use varve_stdx::hex;

use crate::identity::users::Users;

const CHUNK: &str = "AWS4-HMAC-SHA256-PAYLOAD";
const TRAILER: &str = "AWS4-HMAC-SHA256-TRAILER";
/// SHA-256 of nothing.
const OF_NOTHING: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// Signatures so far.
pub(crate) struct Chain {
    key: hmac::Key,
    /// Date and scope, a line each.
    scope: String,
    previous: String,
    chunk: digest::Context,
    declared: String,
}

impl std::fmt::Debug for Chain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Chain").finish_non_exhaustive()
    }
}

/// A signature that is not that of what it covers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mismatch;

impl Chain {
    /// Begins with the signature of the head of a request, which must have been checked before bytes of the body are
    /// used. None where the head names no key of a user, or is not well written.
    pub(crate) fn of(headers: &HeaderMap, users: &Users) -> Option<Self> {
        let text = |value: Option<&HeaderValue>| value?.to_str().ok().map(str::to_owned);
        let authorization = text(headers.get(AUTHORIZATION))?;
        let part = |name: &str| {
            let (_, rest) = authorization.split_once(name)?;
            Some(rest.split([',', ' ']).next().unwrap_or_default())
        };
        let (access_key, scope) = part("Credential=")?.split_once('/')?;
        let (_, secret) = users.by_key(access_key)?;
        let date = text(headers.get("x-amz-date"))?;
        Some(Self::new(&secret, &date, scope, part("Signature=")?))
    }

    fn new(secret: &str, date: &str, scope: &str, seed: &str) -> Self {
        let mut key = format!("AWS4{secret}").into_bytes();
        for part in scope.split('/') {
            let with = hmac::Key::new(hmac::HMAC_SHA256, &key);
            key = hmac::sign(&with, part.as_bytes()).as_ref().to_vec();
        }
        Self {
            key: hmac::Key::new(hmac::HMAC_SHA256, &key),
            scope: format!("{date}\n{scope}"),
            previous: seed.to_owned(),
            chunk: digest::Context::new(&digest::SHA256),
            declared: String::new(),
        }
    }

    /// A chunk begins that should have this signature.
    pub(crate) fn begin(&mut self, declared: &str) {
        self.chunk = digest::Context::new(&digest::SHA256);
        self.declared = declared.to_ascii_lowercase();
    }

    /// More of the chunk.
    pub(crate) fn update(&mut self, data: &[u8]) {
        self.chunk.update(data);
    }

    /// The chunk has ended.
    pub(crate) fn end(&mut self) -> Result<(), Mismatch> {
        let chunk = hex(self.chunk.clone().finish().as_ref());
        let text = format!("{CHUNK}\n{}\n{}\n{OF_NOTHING}\n{chunk}", self.scope, self.previous);
        self.verify(&text, &self.declared)?;
        self.previous = std::mem::take(&mut self.declared);
        Ok(())
    }

    /// Names and values of the trailers, and their signature.
    pub(crate) fn trailers(
        &self,
        trailers: &[(String, String)],
        declared: &str,
    ) -> Result<(), Mismatch> {
        let mut sorted: Vec<_> = trailers.iter().collect();
        sorted.sort();
        let lines: String =
            sorted.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
        let lines = hex(digest::digest(&digest::SHA256, lines.as_bytes()).as_ref());
        let text = format!("{TRAILER}\n{}\n{}\n{lines}", self.scope, self.previous);
        self.verify(&text, &declared.to_ascii_lowercase())
    }

    /// The signature of a chunk, as a client makes it, and the next link.
    pub(crate) fn sign(&mut self, data: &[u8]) -> String {
        let chunk = hex(digest::digest(&digest::SHA256, data).as_ref());
        let text = format!("{CHUNK}\n{}\n{}\n{OF_NOTHING}\n{chunk}", self.scope, self.previous);
        self.previous = hex(hmac::sign(&self.key, text.as_bytes()).as_ref());
        self.previous.clone()
    }

    /// The signature of trailers, sorted and a line each.
    pub(crate) fn sign_trailers(&self, lines: &str) -> String {
        let lines = hex(digest::digest(&digest::SHA256, lines.as_bytes()).as_ref());
        let text = format!("{TRAILER}\n{}\n{}\n{lines}", self.scope, self.previous);
        hex(hmac::sign(&self.key, text.as_bytes()).as_ref())
    }

    /// One of a key that everybody knows, for fuzzing and tests.
    pub(crate) fn of_test() -> Self {
        Self::new("secret", "20260101T000000Z", "20260101/r/s3/aws4_request", "00")
    }

    fn verify(&self, text: &str, declared: &str) -> Result<(), Mismatch> {
        let tag = bytes(declared).ok_or(Mismatch)?;
        hmac::verify(&self.key, text.as_bytes(), &tag).map_err(|_| Mismatch)
    }
}

/// Bytes from hexadecimal.
pub(crate) fn bytes(hex: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, rest) = hex.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|[high, low]| Some((digit(*high)? << 4) | digit(*low)?)).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use hyper::{Request, StatusCode};
    use s3s::Body;
    use varve_object::{MemoryStore, ObjectStore, Select};

    use super::*;
    use crate::body::seal::MasterKey;
    use crate::bucket::administration::NewBucket;
    use crate::gateway::{Gateway, Options};
    use crate::request::front::{Front, Rate};

    /// A body in signed chunks, spoiled at a place, goes to the front as a client sends it. CHAIN-1.
    #[tokio::test]
    async fn a_signed_body_becomes_an_object_only_whole() {
        let store = Arc::new(MemoryStore::default());
        let opened =
            Gateway::open(Arc::clone(&store) as _, MasterKey::of([7; 32]), Options::default());
        let opened = opened.await.unwrap();
        let (gateway, key) = (opened.gateway, opened.first_key.unwrap());
        let named = NewBucket { name: "bucket".to_owned(), ..NewBucket::default() };
        gateway.create_bucket(named).await.unwrap();
        let bucket = store.bucket("bucket").await.unwrap().id;
        let front = Front::new(Arc::clone(&gateway.inner));
        let now = time::OffsetDateTime::now_utc();
        let (date, time) = (now.date(), now.time());
        let day = format!("{:04}{:02}{:02}", date.year(), u8::from(date.month()), date.day());
        let moment = format!("{day}T{:02}{:02}{:02}Z", time.hour(), time.minute(), time.second());
        let scope = format!("{day}/us-east-1/s3/aws4_request");
        let chunks = [vec![7; 300_000], vec![8; 100]];
        let mode = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD";
        let names = "host;x-amz-content-sha256;x-amz-date;x-amz-decoded-content-length";
        for (key_name, spoiled) in [("whole", None), ("first", Some(1000)), ("last", Some(300_250))]
        {
            let head = format!(
                "PUT\n/bucket/{key_name}\n\nhost:h\nx-amz-content-sha256:{mode}\nx-amz-date:{moment}\nx-amz-decoded-content-length:300100\n\n{names}\n{mode}"
            );
            let head = hex(digest::digest(&digest::SHA256, head.as_bytes()).as_ref());
            let to_sign = format!("AWS4-HMAC-SHA256\n{moment}\n{scope}\n{head}");
            let signer = Chain::new(&key.secret_key, &moment, &scope, "");
            let seed = hex(hmac::sign(&signer.key, to_sign.as_bytes()).as_ref());
            let mut chain = Chain::new(&key.secret_key, &moment, &scope, &seed);
            let mut body = Vec::new();
            for chunk in chunks.iter().chain([&Vec::new()]) {
                let signature = chain.sign(chunk);
                let line = format!("{:x};chunk-signature={signature}\r\n", chunk.len());
                body.extend([line.as_bytes(), chunk, b"\r\n"].concat());
            }
            if let Some(at) = spoiled {
                body[at] ^= 1;
            }
            let credential = format!("{}/{scope}", key.access_key);
            let request = Request::put(format!("/bucket/{key_name}"))
                .header("host", "h")
                .header("content-length", body.len())
                .header("x-amz-content-sha256", mode)
                .header("x-amz-date", &moment)
                .header("x-amz-decoded-content-length", "300100")
                .header(
                    "authorization",
                    format!("AWS4-HMAC-SHA256 Credential={credential},SignedHeaders={names},Signature={seed}"),
                );
            let request = request.body(Body::from(Bytes::from(body))).unwrap();
            let status = front.answer(request, &Rate::new(0), Arc::default()).await.status();
            let found = store.find(bucket, key_name, Select::Newest).await.unwrap();
            match spoiled {
                None => {
                    assert_eq!(status, StatusCode::OK);
                    assert_eq!(found.unwrap().version.size, 300_100);
                }
                Some(at) => {
                    assert_eq!(status, StatusCode::FORBIDDEN, "byte {at}");
                    assert!(found.is_none(), "byte {at}");
                }
            }
        }
    }

    /// The example of Amazon's documentation: 66,560 bytes `a` in chunks of 64 KiB.
    #[test]
    fn signatures_are_those_of_the_documentation() {
        let chain = || {
            Chain::new(
                "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
                "20130524T000000Z",
                "20130524/us-east-1/s3/aws4_request",
                "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9",
            )
        };
        let chunks = [
            (65536, "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648"),
            (1024, "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497"),
            (0, "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9"),
        ];
        let mut good = chain();
        for (len, signature) in chunks {
            good.begin(signature);
            for piece in vec![b'a'; len].chunks(1000) {
                good.update(piece);
            }
            assert_eq!(good.end(), Ok(()), "{len}");
        }
        let mut skipped = chain();
        skipped.begin(chunks[1].1);
        skipped.update(&[b'a'; 1024]);
        assert_eq!(skipped.end(), Err(Mismatch), "the chunk before it is missing");
        let mut changed = chain();
        changed.begin(chunks[0].1);
        changed.update(&[b'b'; 65536]);
        assert_eq!(changed.end(), Err(Mismatch));
    }
}
