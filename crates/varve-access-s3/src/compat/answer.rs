//! The library's answers lack what Amazon's have, and say some of it otherwise: they are completed as they leave.
//! Called for each answer (`front`).

use bytes::Bytes;
use hyper::header::{ALLOW, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use s3s::Body;

use super::signed;
use crate::answers::error::ELEMENTS;
use crate::answers::wording;
use crate::request::account::ErrorCode;
use crate::request::query::escape_xml;

/// The head of a part of an object, for which the library has no status of its own.
pub(crate) fn name_part(response: &mut Response<Body>) {
    if response.status() == StatusCode::OK && response.headers().contains_key(CONTENT_RANGE) {
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
}

/// This answer has its entity tag without quotes, unlike all others.
pub(crate) fn unquote_tag(response: &mut Response<Body>) {
    let Some(bytes) = response.body().bytes() else { return };
    let Ok(text) = std::str::from_utf8(&bytes) else { return };
    *response.body_mut() = Body::from(without_quotes(text));
    response.headers_mut().remove(CONTENT_LENGTH);
}

/// Escapes carriage returns in a document: its reader would take them for ends of lines, and have the name of another
/// key. The protocol library writes none of its own.
pub(crate) fn escape_returns(response: &mut Response<Body>) {
    let is_xml = response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == "application/xml");
    // Objects are no such documents: they pass as streams.
    let Some(bytes) = response.body().bytes().filter(|bytes| is_xml && bytes.contains(&b'\r'))
    else {
        return;
    };
    if let Ok(text) = std::str::from_utf8(&bytes) {
        *response.body_mut() = Body::from(text.replace('\r', "&#13;"));
        response.headers_mut().remove(CONTENT_LENGTH);
    }
}

/// Quotes around tags go, escaped or not.
fn without_quotes(document: &str) -> String {
    let mut plain = document.to_owned();
    for quote in ["&quot;", "\""] {
        plain = plain.replace(&format!("<ETag>{quote}"), "<ETag>");
        plain = plain.replace(&format!("{quote}</ETag>"), "</ETag>");
    }
    plain
}

/// Puts what every error document has into one that lacks it.
pub(crate) fn complete_error(response: &mut Response<Body>, path: &str, id: &str, head: bool) {
    if response.status() == StatusCode::METHOD_NOT_ALLOWED
        && !response.headers().contains_key(ALLOW)
    {
        response
            .headers_mut()
            .insert(ALLOW, HeaderValue::from_static("GET, HEAD, PUT, POST, DELETE"));
    }
    let elements = response.headers_mut().remove(ELEMENTS);
    let Some(bytes) = response.body().bytes() else { return };
    if let Some(code) = code_of(&bytes) {
        response.extensions_mut().insert(ErrorCode(code));
    }
    if head {
        *response.body_mut() = Body::empty();
        response.headers_mut().remove(CONTENT_LENGTH);
        return;
    }
    let Some(text) =
        std::str::from_utf8(&bytes).ok().and_then(|text| text.strip_suffix("</Error>"))
    else {
        return;
    };
    // Quotes need no escape in what stands between tags, and clients look for them.
    let text = text.replace("&quot;", "\"");
    let text = wording::reword(&text);
    let resource = escape_xml(path);
    let region =
        response.headers().get(signed::REGION_HEADER).and_then(|region| region.to_str().ok());
    let region = region.map(|region| format!("<Region>{region}</Region>")).unwrap_or_default();
    let elements = elements.as_ref().and_then(|text| std::str::from_utf8(text.as_bytes()).ok());
    let elements = elements.unwrap_or_default();
    let whole = format!(
        "{text}{elements}{region}<Resource>{resource}</Resource><RequestId>{id}</RequestId><HostId>{id}</HostId></Error>"
    );
    *response.body_mut() = Body::from(Bytes::from(whole));
    response.headers_mut().remove(CONTENT_LENGTH);
}

/// The code in an error document.
fn code_of(document: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(document).ok()?;
    let (_, rest) = text.split_once("<Code>")?;
    rest.split_once("</Code>").map(|(code, _)| code.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_have_tags_without_quotes() {
        for tag in ["&quot;ab-2&quot;", "\"ab-2\"", "ab-2"] {
            let document = format!("<R><ETag>{tag}</ETag><Key>\"</Key></R>");
            assert_eq!(without_quotes(&document), "<R><ETag>ab-2</ETag><Key>\"</Key></R>");
        }
    }
}
