//! The library does not compare the digests that a request declares of a document, nor `x-amz-content-sha256` of a
//! request that nobody signed: they are compared here. Called for each request (`front`).
//!
//! DIGESTS-1: the body ends in an error where a digest is not the declared one, or a document is too long, so that the
//! operation does nothing. Where the length is known that is at the last byte, before the library looks at the whole.
//! It hides that error behind one of its own, so the answer is kept beside the body.

use std::error::Error;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use hyper::{HeaderMap, Request, StatusCode};
use ring::digest;
use s3s::crypto::{Checksum as _, Md5};
use s3s::{Body, S3Error, S3Result, s3_error};
use varve_stdx::hex;

use crate::answers::error::{bad_digest, named, with_elements};
use crate::body::receive::check_sum;
use crate::body::refusal::BodyRefusal;
use crate::body::sums::{self, ChecksumRequest, Hasher};
use crate::compat::body_end::BodyEnd;
use crate::compat::frames::is_in_chunks;
use crate::compat::xml::{self, XML_BYTES_MAX};
use crate::request::given::content_md5;

/// What the body of a request is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyContent {
    /// Of an object, or of a part of one.
    Object,
    /// Arguments of an operation.
    Document,
    /// The same where the checksum in the head is the object's: the completion of an upload.
    Completion,
}

/// What a request is checked for.
#[derive(Default)]
pub(crate) struct Digests {
    md5: Option<[u8; 16]>,
    sha256: Option<String>,
    sum: Option<ChecksumRequest>,
    is_document: bool,
    /// Guards the error; held for moments.
    refused: Arc<Mutex<Option<S3Error>>>,
    /// Length that the head declares, in bytes.
    len: Option<u64>,
    /// How the body ended. An end before its time is one that the protocol library takes for an error of ours.
    end: BodyEnd,
}

impl Digests {
    /// Those declared for a document, or for what has no signature.
    pub(crate) fn declared(
        headers: &HeaderMap,
        content: BodyContent,
        is_signed: bool,
    ) -> S3Result<Self> {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let is_document = content != BodyContent::Object;
        let md5 = content_md5(text("content-md5").filter(|_| is_document))?;
        let sha256 = text("x-amz-content-sha256").filter(|text| {
            let is_digest = !text.is_empty() && *text != "UNSIGNED-PAYLOAD";
            is_digest && (is_document || !is_signed) && !is_in_chunks(headers)
        });
        let sum = if content == BodyContent::Document {
            sums::resolve_checksum(headers, None)?
        } else {
            None
        };
        let sum = sum.filter(|sum| sum.value.is_some());
        let sha256 = sha256.map(str::to_owned);
        // The length that the library goes by.
        let len = text("content-length").and_then(|len| len.parse().ok());
        let is_hashed = is_signed
            && !is_in_chunks(headers)
            && text("x-amz-content-sha256").is_some_and(|text| text != "UNSIGNED-PAYLOAD");
        let end =
            len.filter(|_| is_hashed).map_or_else(BodyEnd::default, BodyEnd::hashed_by_library);
        Ok(Self { md5, sha256, sum, is_document, refused: Arc::default(), len, end })
    }

    /// Compares them when the body of a request has been read.
    pub(crate) fn watch(&self, request: &mut Request<Body>) {
        request.extensions_mut().insert(self.end.clone());
        if hyper::body::Body::is_end_stream(request.body()) {
            return;
        }
        let body = std::mem::take(request.body_mut());
        *request.body_mut() = Body::http_body_unsync(DigestedBody {
            body,
            md5: self.md5.map(|declared| (declared, Md5::new())),
            sha256: self
                .sha256
                .clone()
                .map(|declared| (declared, digest::Context::new(&digest::SHA256))),
            sum: self.sum.clone().map(|wanted| (Hasher::new(wanted.kind), wanted)),
            document: self.is_document.then(Vec::new),
            refused: Arc::clone(&self.refused),
            left: self.len,
            end: self.end.clone(),
        });
    }

    /// Why the body was refused, if it was. DIGESTS-1.
    pub(crate) fn refused(&self) -> Option<S3Error> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Why the body ended before its end, if it did, or that there is none where one was signed.
    pub(crate) fn broken(&self) -> Option<S3Error> {
        self.end.kept().map(S3Error::from).or_else(|| self.empty_document())
    }

    /// The library compares the digest of a document without a byte before anything is read of it.
    fn empty_document(&self) -> Option<S3Error> {
        let declared =
            self.sha256.as_deref().filter(|_| self.is_document && self.len == Some(0))?;
        let found = hex(digest::digest(&digest::SHA256, b"").as_ref());
        (!declared.eq_ignore_ascii_case(&found)).then(|| sha256_mismatch(declared, &found))
    }
}

/// A body whose digests are declared.
struct DigestedBody {
    body: Body,
    md5: Option<([u8; 16], Md5)>,
    sha256: Option<(String, digest::Context)>,
    sum: Option<(Hasher, ChecksumRequest)>,
    /// A document as far as it is here, to be looked at when it is whole; at most [`XML_BYTES_MAX`] and a frame.
    document: Option<Vec<u8>>,
    refused: Arc<Mutex<Option<S3Error>>>,
    /// Bytes that have yet to come, where that is known.
    left: Option<u64>,
    end: BodyEnd,
}

type BodyError = Box<dyn Error + Send + Sync>;

impl DigestedBody {
    /// Ends in an error, and keeps why. DIGESTS-1.
    fn refuse(&self, why: S3Error) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
        self.end.keep(&BodyRefusal::Document);
        Poll::Ready(Some(Err(Box::new(BodyRefusal::Document))))
    }

    /// Compares at the end.
    fn finish(&mut self) -> Result<(), S3Error> {
        if let Some((declared, hasher)) = self.md5.take() {
            let found = hasher.finalize();
            if found != declared {
                return Err(bad_digest(&declared, &found));
            }
        }
        if let Some((declared, hasher)) = self.sha256.take() {
            let found = hex(hasher.finish().as_ref());
            if !declared.eq_ignore_ascii_case(&found) {
                return Err(sha256_mismatch(&declared, &found));
            }
        }
        if let Some((hasher, wanted)) = self.sum.take() {
            check_sum(Some(&wanted), Some(&hasher.finish()), None)?;
        }
        match self.document.take() {
            Some(document) if !xml::is_clear(&document) => Err(s3_error!(MalformedXML)),
            _ => Ok(()),
        }
    }
}

fn sha256_mismatch(declared: &str, found: &str) -> S3Error {
    let text = "The provided 'x-amz-content-sha256' header does not match what was computed.";
    with_elements(
        named("XAmzContentSHA256Mismatch", StatusCode::BAD_REQUEST, text),
        &[("ClientComputedContentSHA256", declared), ("S3ComputedContentSHA256", found)],
    )
}

impl hyper::body::Body for DigestedBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = &mut *self;
        let next = ready!(hyper::body::Body::poll_frame(Pin::new(&mut this.body), cx));
        match &next {
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    this.end.pass(data.len() as u64);
                    this.left = this.left.and_then(|left| left.checked_sub(data.len() as u64));
                    this.md5.iter_mut().for_each(|(_, hasher)| hasher.update(data));
                    this.sha256.iter_mut().for_each(|(_, hasher)| hasher.update(data));
                    this.sum.iter_mut().for_each(|(hasher, _)| hasher.update(data));
                    if let Some(kept) = &mut this.document {
                        kept.extend_from_slice(data);
                        // One in chunks of HTTP has not said its length.
                        if kept.len() > XML_BYTES_MAX {
                            return this.refuse(s3_error!(MaxMessageLengthExceeded));
                        }
                    }
                    if this.left == Some(0)
                        && let Err(error) = this.finish()
                    {
                        return this.refuse(error); // DIGESTS-1
                    }
                }
            }
            Some(Err(error)) => {
                this.end.keep(&**error); // BODY-END-1
            }
            None => {
                if let Err(error) = this.finish() {
                    return this.refuse(error);
                }
            }
        }
        Poll::Ready(next)
    }

    fn size_hint(&self) -> SizeHint {
        hyper::body::Body::size_hint(&self.body)
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::prelude::BASE64_STANDARD;
    use hyper::header::{HeaderName, HeaderValue};

    use super::*;

    /// The code of the refusal of a body.
    async fn refused(
        headers: &[(&'static str, &str)],
        content: BodyContent,
        signed: bool,
        body: &'static str,
    ) -> String {
        let headers = headers.iter().map(|(name, value)| {
            (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        });
        let digests = match Digests::declared(&headers.collect(), content, signed) {
            Ok(digests) => digests,
            Err(error) => return error.code().as_str().to_owned(),
        };
        let mut request = Request::new(Body::from(Bytes::from_static(body.as_bytes())));
        digests.watch(&mut request);
        let read = http_body_util::BodyExt::collect(request.into_body()).await;
        let refused = digests.refused();
        assert_eq!(read.is_err(), refused.is_some(), "DIGESTS-1");
        refused.map(|error| error.code().as_str().to_owned()).unwrap_or_default()
    }

    #[tokio::test]
    async fn documents_that_would_be_read_as_others_are_refused() {
        let body = "<LifecycleConfiguration><Rule><Filter><Prefx>a</Prefx></Filter></Rule></LifecycleConfiguration>";
        assert_eq!(refused(&[], BodyContent::Document, true, body).await, "MalformedXML");
        assert_eq!(refused(&[], BodyContent::Object, true, body).await, "");
        let body = "<Tagging><TagSet/></Tagging>";
        assert_eq!(refused(&[], BodyContent::Document, true, body).await, "");
    }

    #[tokio::test]
    async fn bodies_have_the_digests_declared() {
        let md5 = BASE64_STANDARD.encode(Md5::checksum(b"hello"));
        let sha256 = hex(digest::digest(&digest::SHA256, b"hello").as_ref());
        let crc32 = "x-amz-checksum-crc32";
        for (name, value, content, signed, wanted) in [
            ("content-md5", md5.as_str(), BodyContent::Document, true, ""),
            ("content-md5", "XrY7u+Ae7tCTyyK7j1rNww==", BodyContent::Document, true, "BadDigest"),
            ("content-md5", "XrY7u+Ae7tCTyyK7j1rNww==", BodyContent::Completion, true, "BadDigest"),
            ("content-md5", "XrY7u+Ae7tCTyyK7j1rNwx==", BodyContent::Document, true, "BadDigest"),
            ("content-md5", "no digest", BodyContent::Document, true, "InvalidDigest"),
            ("content-md5", "", BodyContent::Document, true, "InvalidDigest"),
            ("x-amz-content-sha256", &sha256, BodyContent::Document, false, ""),
            ("x-amz-content-sha256", "UNSIGNED-PAYLOAD", BodyContent::Document, false, ""),
            (
                "x-amz-content-sha256",
                "other",
                BodyContent::Object,
                false,
                "XAmzContentSHA256Mismatch",
            ),
            ("x-amz-content-sha256", "other", BodyContent::Object, true, ""),
            (
                "x-amz-content-sha256",
                "other",
                BodyContent::Document,
                true,
                "XAmzContentSHA256Mismatch",
            ),
            (crc32, "NhCmhg==", BodyContent::Document, true, ""),
            (crc32, "NhCmhw==", BodyContent::Document, true, "BadDigest"),
            (crc32, "NhCm", BodyContent::Document, true, "InvalidRequest"),
            (crc32, "NhCmhw==", BodyContent::Completion, true, ""),
            (crc32, "NhCmhw==", BodyContent::Object, true, ""),
        ] {
            let refused = refused(&[(name, value)], content, signed, "hello").await;
            assert_eq!(refused, wanted, "{name}: {value}");
        }
    }
}
