//! Why the bytes of a client were not taken: what the streams that a body passes through end in, and what clients are
//! told of it. Put into streams by `frames`, `digests` and the parser of forms, found by `body_end`.
//!
//! REFUSAL-1. A refusal is found by its type, never by a text. What is none of ours is a body that did not arrive: the
//!     client left, or took too long.

use std::error::Error;

use hyper::StatusCode;
use s3s::{S3Error, s3_error};

use crate::answers::error::named;

/// Why a body is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BodyRefusal {
    /// Of a chunk or of trailers.
    #[error("a signature is not that of its chunk")]
    ChunkSignature,
    /// Longer than may be kept in memory.
    #[error("a signed chunk of a document is too long")]
    ChunkTooLarge,
    /// And not the last.
    #[error("a chunk that is not the last is too short")]
    ChunkTooSmall,
    /// A line that is not one of the protocol.
    #[error("the line before or behind a chunk is malformed")]
    ChunkFormat,
    /// Before the last line, or the end of a form's file.
    #[error("the body ends before its end")]
    Cut,
    /// Than the head of the request says.
    #[error("the body has another length than declared")]
    Length,
    /// Than the head of the request announces.
    #[error("the trailers are not those that were announced")]
    Trailers,
    /// The digest in the head of the request.
    #[error("the body does not have the declared SHA-256")]
    Sha256,
    /// Another check of a document, whose answer is kept beside the body.
    #[error("the document is not the one declared, or not a clear one")]
    Document,
    /// Than the policy of its form allows.
    #[error("the file is longer than the policy allows")]
    FileTooLong,
    /// Than the policy of its form allows.
    #[error("the file is shorter than the policy allows")]
    FileTooShort,
    /// The client left, or took too long.
    #[error("the body did not arrive")]
    Interrupted,
}

impl BodyRefusal {
    /// The refusal in an error of a stream, or in what caused it.
    pub(crate) fn find(error: &(dyn Error + 'static)) -> Option<Self> {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(refusal) = error.downcast_ref::<Self>() {
                return Some(*refusal); // REFUSAL-1
            }
            next = error.source();
        }
        None
    }
}

impl From<BodyRefusal> for S3Error {
    fn from(refusal: BodyRefusal) -> Self {
        let bad_request = |code, text| named(code, StatusCode::BAD_REQUEST, text);
        match refusal {
            BodyRefusal::ChunkSignature => s3_error!(SignatureDoesNotMatch),
            BodyRefusal::Sha256 | BodyRefusal::Document => bad_request(
                "XAmzContentSHA256Mismatch",
                "The provided 'x-amz-content-sha256' header does not match what was computed.",
            ),
            BodyRefusal::FileTooLong => {
                s3_error!(EntityTooLarge, "Your proposed upload exceeds the maximum allowed size")
            }
            BodyRefusal::FileTooShort => s3_error!(
                EntityTooSmall,
                "Your proposed upload is smaller than the minimum allowed size"
            ),
            BodyRefusal::Length => s3_error!(
                IncompleteBody,
                "You did not provide the number of bytes specified by the Content-Length HTTP header"
            ),
            BodyRefusal::Trailers => bad_request(
                "MalformedTrailerError",
                "The request contained trailing data that was not well-formed or did not conform to our published schema.",
            ),
            BodyRefusal::ChunkTooSmall => bad_request(
                "InvalidChunkSizeError",
                "Only the last chunk is allowed to have a size less than 8192 bytes",
            ),
            BodyRefusal::ChunkTooLarge
            | BodyRefusal::ChunkFormat
            | BodyRefusal::Cut
            | BodyRefusal::Interrupted => {
                s3_error!(IncompleteBody, "The request body terminated unexpectedly")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[source] Box<dyn Error + Send + Sync>);

    /// REFUSAL-1.
    #[test]
    fn a_refusal_is_found_behind_what_it_caused_and_by_no_text() {
        let wrapped = Outer(Box::new(Outer(Box::new(BodyRefusal::Sha256))));
        assert_eq!(BodyRefusal::find(&wrapped), Some(BodyRefusal::Sha256));
        let text = BodyRefusal::ChunkSignature.to_string();
        assert_eq!(BodyRefusal::find(&std::io::Error::other(text)), None);
    }

    #[test]
    fn each_refusal_has_its_code() {
        for (refusal, status, code) in [
            (BodyRefusal::ChunkSignature, 403, "SignatureDoesNotMatch"),
            (BodyRefusal::ChunkTooLarge, 400, "IncompleteBody"),
            (BodyRefusal::ChunkTooSmall, 400, "InvalidChunkSizeError"),
            (BodyRefusal::ChunkFormat, 400, "IncompleteBody"),
            (BodyRefusal::Cut, 400, "IncompleteBody"),
            (BodyRefusal::Length, 400, "IncompleteBody"),
            (BodyRefusal::Trailers, 400, "MalformedTrailerError"),
            (BodyRefusal::Sha256, 400, "XAmzContentSHA256Mismatch"),
            (BodyRefusal::FileTooLong, 400, "EntityTooLarge"),
            (BodyRefusal::FileTooShort, 400, "EntityTooSmall"),
            (BodyRefusal::Interrupted, 400, "IncompleteBody"),
        ] {
            let error = S3Error::from(refusal);
            let found = error.status_code().map(|status| status.as_u16());
            assert_eq!((found, error.code().as_str()), (Some(status), code), "{refusal}");
        }
    }
}
