//! Goal: each way in which a body is refused has its code, and nothing of that body is stored. Method: requests that
//! the administrator has signed, most of them spoiled, go to the front over a store in memory.

use std::io;

use futures_util::stream;
use http_body_util::StreamBody;
use hyper::Request;
use hyper::body::Frame;
use ring::{digest, hmac};
use s3s::Body;
use time::OffsetDateTime;

use super::*;
use crate::identity::chain::Chain;
use crate::request::front::tests::World;
use varve_stdx::hex;

const CHUNKED: &str = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD";
const UNSIGNED: &str = "UNSIGNED-PAYLOAD";

/// The head of a request.
#[derive(Clone, Copy)]
struct Head<'a> {
    method: &'a str,
    path: &'a str,
    query: &'a str,
    /// What is said of the body: its SHA-256, or how it comes.
    content: &'a str,
    len: u64,
    /// Length out of chunks.
    decoded_len: Option<u64>,
    md5: Option<&'a str>,
}

impl Default for Head<'_> {
    fn default() -> Self {
        Self {
            method: "PUT",
            path: "/bucket/new",
            query: "",
            content: UNSIGNED,
            len: 5,
            decoded_len: None,
            md5: None,
        }
    }
}

fn sha256(bytes: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, bytes).as_ref())
}

/// A request that the administrator signs.
fn signed(world: &World, head: Head<'_>) -> Request<Body> {
    let now = OffsetDateTime::now_utc();
    let (date, time) = (now.date(), now.time());
    let day = format!("{:04}{:02}{:02}", date.year(), u8::from(date.month()), date.day());
    let moment = format!("{day}T{:02}{:02}{:02}Z", time.hour(), time.minute(), time.second());
    let mut headers = vec![
        ("host", "h".to_owned()),
        ("x-amz-content-sha256", head.content.to_owned()),
        ("x-amz-date", moment.clone()),
    ];
    headers.extend(head.decoded_len.map(|len| ("x-amz-decoded-content-length", len.to_string())));
    let lines: String = headers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
    let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
    let names = names.join(";");
    let Head { method, path, query, content, .. } = head;
    let canonical = format!("{method}\n{path}\n{query}\n{lines}\n{names}\n{content}");
    let scope = format!("{day}/us-east-1/s3/aws4_request");
    let text = format!("AWS4-HMAC-SHA256\n{moment}\n{scope}\n{}", sha256(canonical.as_bytes()));
    let mut key = format!("AWS4{}", world.key.secret_key).into_bytes();
    for part in scope.split('/').chain([text.as_str()]) {
        let with = hmac::Key::new(hmac::HMAC_SHA256, &key);
        key = hmac::sign(&with, part.as_bytes()).as_ref().to_vec();
    }
    let (access_key, signature) = (&world.key.access_key, hex(&key));
    let mut request = Request::builder()
        .method(method)
        .uri(if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") })
        .header("content-length", head.len)
        .header(
            "authorization",
            format!(
                "AWS4-HMAC-SHA256 Credential={access_key}/{scope},SignedHeaders={names},Signature={signature}"
            ),
        );
    for (name, value) in headers {
        request = request.header(name, value);
    }
    if let Some(md5) = head.md5 {
        request = request.header("content-md5", md5);
    }
    request.body(Body::empty()).unwrap()
}

/// A body that comes in pieces, and may end in an error.
fn pieces(pieces: Vec<io::Result<&'static str>>) -> Body {
    let frames = pieces.into_iter().map(|piece| piece.map(|text| Frame::data(Bytes::from(text))));
    Body::http_body_unsync(StreamBody::new(stream::iter(frames.collect::<Vec<_>>())))
}

/// Status and code of the answer to a request with a body.
async fn answer_of(world: &World, head: Head<'_>, body: Body) -> (u16, String) {
    respond(world, signed(world, head).map(|_| body)).await
}

async fn respond(world: &World, request: Request<Body>) -> (u16, String) {
    let (status, _, text) = world.respond(request).await;
    let code = text.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>"));
    (status, code.map(|(code, _)| code.to_owned()).unwrap_or_default())
}

/// The same of one that puts an object, which leaves nothing behind where it is refused.
async fn answer(world: &World, request: Request<Body>, body: Body) -> (u16, String) {
    let (status, code) = respond(world, request.map(|_| body)).await;
    let (found, _) = world.ask("HEAD", "/bucket/new", &[], "").await;
    assert_eq!(found == 200, status == 200, "an object exists if its body was taken: {code}");
    (status, code)
}

fn refused(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}

#[tokio::test]
async fn a_body_has_the_length_that_its_head_declares() {
    let world = World::new().await;
    for content in [UNSIGNED, &sha256(b"hello")] {
        for text in ["hell", "hello!"] {
            let request = signed(&world, Head { content, ..Head::default() });
            let found = answer(&world, request, pieces(vec![Ok("he"), Ok(&text[2..])])).await;
            assert_eq!(found, refused(400, "IncompleteBody"), "{content}: {text}");
        }
    }
    let request = signed(&world, Head { len: BODY_BYTES_MAX + 1, ..Head::default() });
    let found = answer(&world, request, pieces(vec![Ok("hello")])).await;
    assert_eq!(found, refused(400, "EntityTooLarge"));
    let request = signed(&world, Head::default());
    assert_eq!(answer(&world, request, pieces(vec![Ok("hello")])).await.0, 200);
}

#[tokio::test]
async fn a_body_has_the_digests_that_its_head_declares() {
    let world = World::new().await;
    let (sha256, md5) = (sha256(b"hello"), "XUFAKrxLKna5cZ2REBfFkg==");
    let head = Head { content: &sha256, md5: Some(md5), ..Head::default() };
    for spoiled in [vec![Ok("hellO")], vec![Ok("hel"), Ok("lO")]] {
        let found = answer(&world, signed(&world, head), pieces(spoiled)).await;
        assert_eq!(found, refused(400, "XAmzContentSHA256Mismatch"));
    }
    let empty = Head { len: 0, md5: None, ..head };
    let found = answer(&world, signed(&world, empty), Body::empty()).await;
    assert_eq!(found, refused(400, "XAmzContentSHA256Mismatch"));
    let unsigned = Head { content: UNSIGNED, ..head };
    let found = answer(&world, signed(&world, unsigned), pieces(vec![Ok("hellO")])).await;
    assert_eq!(found, refused(400, "BadDigest"));
    let found = answer(&world, signed(&world, head), pieces(vec![Ok("hel"), Ok("lo")])).await;
    assert_eq!(found.0, 200);
}

#[tokio::test]
async fn a_document_has_the_digest_that_its_head_declares() {
    let world = World::new().await;
    let document = "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>";
    let sha256 = sha256(document.as_bytes());
    let head = Head { path: "/bucket/key", query: "tagging=", content: &sha256, ..Head::default() };
    let head = Head { len: document.len() as u64, ..head };
    let (begin, end) = document.split_at(20);
    assert_eq!(answer_of(&world, head, pieces(vec![Ok(begin), Ok(end)])).await.0, 200);
    let spoiled = "<Tagging><TagSet><Tag><Key>A</Key><Value>b</Value></Tag></TagSet></Tagging>";
    let (begin, end) = spoiled.split_at(20);
    let found = answer_of(&world, head, pieces(vec![Ok(begin), Ok(end)])).await;
    assert_eq!(found, refused(400, "XAmzContentSHA256Mismatch"));
    let found = answer_of(&world, Head { len: 0, ..head }, Body::empty()).await;
    assert_eq!(found, refused(400, "XAmzContentSHA256Mismatch"));
    let (_, text) = world.ask("GET", "/bucket/key?tagging", &[], "").await;
    assert!(text.contains("<Key>a</Key>"), "{text}");
}

#[tokio::test]
async fn the_client_left_whatever_its_error_says() {
    let world = World::new().await;
    let errors = || {
        [
            io::Error::from(io::ErrorKind::UnexpectedEof),
            io::Error::from(io::ErrorKind::ConnectionReset),
            io::Error::from(io::ErrorKind::TimedOut),
            io::Error::other("SignatureMismatch"),
            io::Error::other("Sha256Mismatch"),
        ]
    };
    for content in [UNSIGNED, &sha256(b"hello")] {
        for error in errors() {
            let what = format!("{content}: {error}");
            let request = signed(&world, Head { content, ..Head::default() });
            let found = answer(&world, request, pieces(vec![Ok("hell"), Err(error)])).await;
            assert_eq!(found, refused(400, "IncompleteBody"), "{what}");
        }
    }
    for error in errors() {
        let what = error.to_string();
        let (content, len) = (CHUNKED, 1000);
        let head = Head { content, len, decoded_len: Some(5), ..Head::default() };
        let found = answer(&world, signed(&world, head), pieces(vec![Ok("5;"), Err(error)])).await;
        assert_eq!(found, refused(400, "IncompleteBody"), "{what}");
    }
}

/// An object's chunks go past the library, those of documents through it.
#[tokio::test]
async fn a_chunk_has_the_signature_of_its_bytes() {
    let world = World::new().await;
    let document = "<Delete><Object><Key>no</Key></Object></Delete>";
    for (method, path, query) in [
        ("PUT", "/bucket/new", ""),
        ("POST", "/bucket/new", "uploadId=0123456789abcdef"),
        ("POST", "/bucket", "delete="),
    ] {
        let decoded_len = Some(document.len() as u64);
        let head = Head { method, path, query, content: CHUNKED, len: 0, decoded_len, md5: None };
        for spoils in [false, true] {
            let mut request = signed(&world, head);
            let users = &world.gateway.inner.users;
            let mut chain = Chain::of(request.headers(), users).unwrap();
            let mut body = String::new();
            for chunk in [document, ""] {
                let signature = chain.sign(chunk.as_bytes());
                body += &format!("{:x};chunk-signature={signature}\r\n{chunk}\r\n", chunk.len());
            }
            if spoils {
                body = body.replace("<Key>no<", "<Key>nO<");
            }
            request.headers_mut().insert("content-length", body.len().into());
            if spoils {
                let found = answer(&world, request, Body::from(Bytes::from(body))).await;
                assert_eq!(found, refused(403, "SignatureDoesNotMatch"), "{method} {path}");
            } else if method == "POST" {
                *request.body_mut() = Body::from(Bytes::from(body));
                let (status, _, text) = world.respond(request).await;
                assert!(status != 403, "{method} {path}: {text}");
            }
        }
    }
}

#[tokio::test]
async fn chunks_are_written_as_the_protocol_has_them() {
    let world = World::new().await;
    let (content, len) = (CHUNKED, 12);
    let signature = "0".repeat(64);
    for (body, code) in [
        ("5\r\nhello\r\n0\r\n\r\n".to_owned(), "IncompleteBody"),
        (format!("100;chunk-signature={signature}\r\n"), "IncompleteBody"),
    ] {
        let head = Head { content, len, decoded_len: Some(5), ..Head::default() };
        let found = answer(&world, signed(&world, head), Body::from(Bytes::from(body))).await;
        assert_eq!(found, refused(400, code));
    }
}
