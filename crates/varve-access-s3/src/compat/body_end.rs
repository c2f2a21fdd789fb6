//! The library ends a body in errors of private types that hide the cause, its own or ours: so the cause is kept beside
//! the body. Travels with a request; asked by those who read its body (`receive`, `repair`).
//!
//! BODY-END-1. The body that the library is given ends last of all streams of ours: what ended it is kept before the
//!     library sees it.
//! BODY-END-2. What the library itself compares is the SHA-256 of a signed body that is not in chunks: where it ends
//!     one of which everything has come, the SHA-256 is another one.

use std::error::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hyper::http::Extensions;

use crate::body::refusal::BodyRefusal;

/// How the body of a request ended. Clones are of the same body.
#[derive(Clone, Default)]
pub(crate) struct BodyEnd(Arc<Mutex<EndState>>);

/// Held for moments.
#[derive(Default)]
struct EndState {
    refusal: Option<BodyRefusal>,
    /// Bytes that have yet to come of a body whose SHA-256 the library compares.
    left_to_hash: Option<u64>,
}

impl BodyEnd {
    /// For a body of which the library compares the SHA-256.
    pub(crate) fn hashed_by_library(len: u64) -> Self {
        Self(Arc::new(Mutex::new(EndState { refusal: None, left_to_hash: Some(len) })))
    }

    /// That of a request; where nothing is known of its body, nothing hid the cause.
    pub(crate) fn of(extensions: &Extensions) -> Self {
        extensions.get::<Self>().cloned().unwrap_or_default()
    }

    /// More of the body has come.
    pub(crate) fn pass(&self, bytes: u64) {
        let mut state = self.lock();
        state.left_to_hash = state.left_to_hash.and_then(|left| left.checked_sub(bytes));
    }

    /// The body ends in an error. BODY-END-1.
    pub(crate) fn keep(&self, error: &(dyn Error + 'static)) {
        let refusal = BodyRefusal::find(error).unwrap_or(BodyRefusal::Interrupted);
        self.lock().refusal.get_or_insert(refusal);
    }

    /// What ended the body, if something of ours or of the connection did.
    pub(crate) fn kept(&self) -> Option<BodyRefusal> {
        self.lock().refusal
    }

    /// Why a body ended in `error`, through the library or without it.
    pub(crate) fn cause(&self, error: &(dyn Error + 'static)) -> BodyRefusal {
        let state = self.lock();
        let is_other_sha256 = state.left_to_hash == Some(0); // BODY-END-2
        let cause = BodyRefusal::find(error).or(state.refusal);
        cause.or(is_other_sha256.then_some(BodyRefusal::Sha256)).unwrap_or(BodyRefusal::Interrupted)
    }

    fn lock(&self) -> MutexGuard<'_, EndState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An error like those of the library: it has no source.
    fn hidden() -> std::fmt::Error {
        std::fmt::Error
    }

    /// BODY-END-1.
    #[test]
    fn what_the_library_hides_is_known_beside_the_body() {
        let end = BodyEnd::default();
        assert_eq!(end.cause(&hidden()), BodyRefusal::Interrupted);
        end.keep(&BodyRefusal::Trailers);
        end.keep(&hidden());
        assert_eq!(end.cause(&hidden()), BodyRefusal::Trailers, "the first counts");
        assert_eq!(end.cause(&BodyRefusal::Cut), BodyRefusal::Cut, "nothing hides it");
    }

    /// BODY-END-2.
    #[test]
    fn a_body_that_has_come_and_is_refused_by_the_library_is_another_one() {
        let end = BodyEnd::hashed_by_library(10);
        end.pass(9);
        assert_eq!(end.cause(&hidden()), BodyRefusal::Interrupted, "a byte is missing");
        end.pass(1);
        assert_eq!(end.cause(&hidden()), BodyRefusal::Sha256);
        end.pass(1);
        assert_eq!(end.cause(&hidden()), BodyRefusal::Interrupted, "a byte too many");
    }
}
