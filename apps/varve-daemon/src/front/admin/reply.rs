//! Answers to clients.

use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{HeaderMap, Response, StatusCode, header};
use serde::Serialize;
use serde_json::{Value, json};
use varve_access_admin::{Error, Result};
use varve_types::CellId;

use super::request::Whole;

/// See the module.
pub(super) type Reply = Response<BoxBody<Bytes, hyper::Error>>;

/// Headers that are between two ends of a connection, and of no concern to whoever is behind.
const OF_CONNECTIONS: [header::HeaderName; 5] =
    [header::CONNECTION, header::TE, header::TRAILER, header::TRANSFER_ENCODING, header::UPGRADE];

/// Takes away what concerns one connection only.
pub(super) fn strip(headers: &mut HeaderMap) {
    OF_CONNECTIONS.iter().for_each(|name| drop(headers.remove(name)));
    headers.remove("keep-alive");
}

/// An answer that was made here.
pub(super) fn text(status: StatusCode, content_type: &'static str, body: Vec<u8>) -> Reply {
    let mut reply = Response::new(whole(Bytes::from(body)));
    *reply.status_mut() = status;
    let content_type = header::HeaderValue::from_static(content_type);
    reply.headers_mut().insert(header::CONTENT_TYPE, content_type);
    reply
}

pub(super) fn json(status: StatusCode, value: &impl Serialize) -> Reply {
    let body = serde_json::to_vec(value).expect("answers are plain JSON");
    text(status, "application/json", body)
}

pub(super) fn refusal(error: &Error) -> Reply {
    let (status, body) = error.answer();
    json(status, &body)
}

/// A cell's answer, as it comes.
pub(super) fn passed(answer: Response<Incoming>) -> Reply {
    let (mut head, body) = answer.into_parts();
    strip(&mut head.headers);
    Response::from_parts(head, body.boxed())
}

/// A cell's answer that is there whole.
pub(super) fn passed_whole(answer: Whole) -> Reply {
    let Whole { mut head, body } = answer;
    strip(&mut head.headers);
    Response::from_parts(head, whole(body))
}

/// A cell's answer about a volume, which does not know its cell.
pub(super) async fn volume(answer: Response<Incoming>, cell: CellId) -> Result<Reply> {
    let mut answer = Whole::read(answer, cell).await?;
    if answer.head.status.is_success()
        && let Ok(Value::Object(mut volume)) = serde_json::from_slice(&answer.body)
    {
        volume.insert("cell".to_owned(), json!(cell.0));
        answer.body = serde_json::to_vec(&volume).expect("it was JSON before").into();
        answer.head.headers.remove(header::CONTENT_LENGTH);
    }
    Ok(passed_whole(answer))
}

fn whole(body: Bytes) -> BoxBody<Bytes, hyper::Error> {
    Full::new(body).map_err(|never| match never {}).boxed()
}
