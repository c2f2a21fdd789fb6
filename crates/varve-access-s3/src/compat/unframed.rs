//! The library keeps each signed chunk of a body in memory until it is whole: the bodies of objects in such chunks go
//! past it, out of their frames, to the operation that takes them in place of the one that the library knows.

use std::sync::{Arc, Mutex, PoisonError};

use s3s::dto::StreamingBlob;
use s3s::{Body, S3Request, TrailingHeaders};

use super::body_end::BodyEnd;
use super::frames::Trailers;

/// Where trailers are told when a body has ended.
pub(crate) enum TrailerPlace {
    /// By the protocol library.
    Library(TrailingHeaders),
    /// By `frames`.
    Decoded(Trailers),
}

impl TrailerPlace {
    pub(crate) fn value(&self, name: &str) -> Option<String> {
        match self {
            Self::Library(trailers) => trailers.read(|map| {
                map.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
            })?,
            Self::Decoded(trailers) => {
                let trailers = trailers.lock().unwrap_or_else(PoisonError::into_inner);
                trailers.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
            }
        }
    }
}

/// What is told when the body of a request has ended.
#[derive(Default)]
pub(crate) struct BodyOutcome {
    pub(crate) end: BodyEnd,
    /// Where a trailer with the checksum will be.
    pub(crate) trailers: Option<TrailerPlace>,
}

/// A body out of its frames.
#[derive(Clone)]
pub(crate) struct UnframedBody(Arc<Mutex<Option<(Body, Trailers)>>>);

impl UnframedBody {
    pub(crate) fn new(body: Body, trailers: Trailers) -> Self {
        Self(Arc::new(Mutex::new(Some((body, trailers)))))
    }

    /// The body of a request, put in the place of `body` if it went past the library, and what will be told of it.
    pub(crate) fn take<T>(
        request: &mut S3Request<T>,
        body: &mut Option<StreamingBlob>,
    ) -> BodyOutcome {
        let end = BodyEnd::of(&request.extensions);
        let unframed = request.extensions.remove::<Self>();
        let unframed = unframed
            .and_then(|Self(kept)| kept.lock().unwrap_or_else(PoisonError::into_inner).take());
        let trailers = match unframed {
            Some((unframed, trailers)) => {
                *body = Some(StreamingBlob::from(unframed));
                Some(TrailerPlace::Decoded(trailers))
            }
            None => request.trailing_headers.take().map(TrailerPlace::Library),
        };
        BodyOutcome { end, trailers }
    }
}
