//! Errors as HTTP: one exhaustive table from kinds to statuses, and the JSON body that every error answer has.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use varve_types::ErrorKind;

use crate::error::Error;
use crate::v1::ErrorBody;

/// Status of an error's answer and the name of its kind on the wire.
pub(crate) fn status_and_name(kind: ErrorKind) -> (StatusCode, &'static str) {
    match kind {
        ErrorKind::NotFound => (StatusCode::NOT_FOUND, "not_found"),
        ErrorKind::Exists => (StatusCode::CONFLICT, "exists"),
        ErrorKind::Invalid => (StatusCode::BAD_REQUEST, "invalid"),
        ErrorKind::Unsupported => (StatusCode::NOT_IMPLEMENTED, "unsupported"),
        ErrorKind::Denied => (StatusCode::FORBIDDEN, "denied"),
        ErrorKind::Conflict => (StatusCode::CONFLICT, "conflict"),
        ErrorKind::NoSpace => (StatusCode::INSUFFICIENT_STORAGE, "no_space"),
        ErrorKind::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
        ErrorKind::Corrupt => (StatusCode::INTERNAL_SERVER_ERROR, "corrupt"),
        ErrorKind::Fenced => (StatusCode::SERVICE_UNAVAILABLE, "fenced"),
        ErrorKind::Closed => (StatusCode::SERVICE_UNAVAILABLE, "closed"),
        ErrorKind::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
    }
}

impl Error {
    /// Status and body of the answer to who made the request.
    #[must_use]
    pub fn answer(&self) -> (StatusCode, ErrorBody) {
        let (mut status, name) = status_and_name(self.kind());
        if matches!(self, Self::Token { .. }) {
            status = StatusCode::UNAUTHORIZED;
        }
        // Refusals are the caller's business, and unavailability passes by itself.
        if matches!(self.kind(), ErrorKind::Corrupt | ErrorKind::Internal) {
            tracing::warn!(kind = name, error = %self, "admin request failed");
        }
        let body =
            ErrorBody { kind: name.to_owned(), message: self.to_string(), hint: self.hint() };
        (status, body)
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let (status, body) = self.answer();
        let mut response = (status, Json(body)).into_response();
        if matches!(self, Self::Counting { .. }) {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("0"));
        }
        if status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }
}
