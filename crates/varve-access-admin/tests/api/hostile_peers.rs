//! Goal: slow, large and foreign requests get an error or a closed connection and hold a bounded number of places.
//! Method: peers that break one bound each, against limits small enough to reach.

use std::os::unix::fs::PermissionsExt;

use crate::peer::{Server, TOKEN, status_of};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use varve_access_admin::{LimitsConfig, ListenAddress, Listener, MemoryBackend, Token};

async fn server(limits: LimitsConfig) -> Server {
    Server::start(MemoryBackend::default(), limits).await
}

#[tokio::test]
async fn an_oversized_body_is_refused() {
    let server = server(LimitsConfig { body_bytes_max: 64, ..LimitsConfig::default() }).await;
    let body = format!("{{\"name\":\"{}\",\"size_bytes\":1}}", "x".repeat(100));
    let answer = server
        .exchange(&format!(
            "POST /v1/volumes HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        ))
        .await;
    assert_eq!(status_of(&answer), 400, "{answer}");
    assert!(answer.contains("longer than 64 bytes"), "{answer}");
}

#[tokio::test]
async fn headers_that_never_end_close_the_connection() {
    let limits = LimitsConfig { header_timeout_ms: 50, ..LimitsConfig::default() };
    let server = server(limits).await;
    let answer = server.exchange("GET /v1/status HTTP/1.1\r\nhost: ").await;
    assert!(answer.is_empty() || status_of(&answer) == 408, "{answer}");
}

#[tokio::test]
async fn a_body_that_never_arrives_ends_at_the_deadline() {
    let limits = LimitsConfig { connection_timeout_ms: 50, ..LimitsConfig::default() };
    let server = server(limits).await;
    let answer = server
        .exchange(
            "POST /v1/volumes HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
             content-length: 60\r\n\r\n{",
        )
        .await;
    assert_eq!(answer, "");
}

#[tokio::test]
async fn idle_peers_hold_no_more_than_their_places() {
    let limits =
        LimitsConfig { connections_max: 2, header_timeout_ms: 200, ..LimitsConfig::default() };
    let server = server(limits).await;
    let mut idle = Vec::new();
    for _ in 0..8 {
        let mut stream = UnixStream::connect(&server.socket).await.unwrap();
        stream.write_all(b"GET").await.unwrap();
        idle.push(stream);
    }
    let answer = server.exchange("GET /v1/status HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert_eq!(status_of(&answer), 200, "served once the idle ones time out");
    let mut rest = Vec::new();
    idle[0].read_to_end(&mut rest).await.unwrap();
}

#[tokio::test]
async fn bytes_that_are_not_http_are_refused() {
    let server = server(LimitsConfig::default()).await;
    let answer = server.exchange("\u{1}\u{2}\u{3} nonsense\r\n\r\n").await;
    assert!(answer.is_empty() || status_of(&answer) == 400, "{answer}");
}

#[tokio::test]
async fn a_web_page_of_another_site_cannot_call() {
    let server = server(LimitsConfig::default()).await;
    let shown = format!("authorization: {}\r\n", Token::of(TOKEN).header());
    let foreign = format!("GET /v1/status HTTP/1.1\r\nhost: evil.example\r\n{shown}\r\n");
    assert_eq!(status_of(&server.exchange_tcp(&foreign).await), 403);
    let own = format!("GET /v1/status HTTP/1.1\r\nhost: {}\r\n{shown}\r\n", server.tcp);
    assert_eq!(status_of(&server.exchange_tcp(&own).await), 200);
    let form = format!(
        "POST /v1/volumes HTTP/1.1\r\nhost: localhost\r\n{shown}content-type: text/plain\r\n\
         content-length: 2\r\n\r\n{{}}"
    );
    assert_eq!(status_of(&server.exchange_tcp(&form).await), 400);
}

#[tokio::test]
async fn whoever_comes_by_tcp_shows_the_token() {
    let server = server(LimitsConfig::default()).await;
    let wrong = Token::of([4; 32]).header();
    for shown in ["", "authorization: Basic x\r\n", &format!("authorization: {wrong}\r\n")] {
        // What web pages of other sites can send, a check and a deletion among it.
        for line in ["GET /v1/status", "GET /metrics", "POST /v1/check", "DELETE /v1/volumes/v"] {
            let request = format!(
                "{line} HTTP/1.1\r\nhost: {}\r\n{shown}content-length: 0\r\n\r\n",
                server.tcp
            );
            let answer = server.exchange_tcp(&request).await;
            assert_eq!(status_of(&answer), 401, "{line}: {answer}");
            assert!(answer.contains("www-authenticate: Bearer\r\n"), "{answer}");
        }
    }
    let (status, check) = server.call("GET", "/v1/check", None).await;
    assert_eq!((status, &check["state"]), (200, &"idle".into()), "no check was started");
}

#[tokio::test]
async fn a_socket_is_for_its_owner_only_and_replaces_nothing_but_a_stale_one() {
    let server = server(LimitsConfig::default()).await;
    let mode = std::fs::metadata(&server.socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let parent = server.socket.parent().unwrap();
    assert_eq!(std::fs::read_dir(parent).unwrap().count(), 1, "nothing but the socket remains");
    assert!(Listener::bind(&ListenAddress::Unix(server.socket.clone())).await.is_err(), "served");
    let stale = parent.join("stale");
    drop(std::os::unix::net::UnixListener::bind(&stale).unwrap());
    assert!(Listener::bind(&ListenAddress::Unix(stale)).await.is_ok());
    let file = parent.join("file");
    std::fs::write(&file, "precious").unwrap();
    let refused = Listener::bind(&ListenAddress::Unix(file.clone())).await.err().unwrap();
    assert!(refused.to_string().contains("not a socket"), "{refused}");
    assert_eq!(std::fs::read(&file).unwrap(), b"precious");
}

#[tokio::test]
async fn addresses_that_others_reach_or_that_do_not_fit_are_refused() {
    let open = Listener::bind(&"0.0.0.0:0".parse().unwrap()).await;
    assert_eq!(open.err().unwrap().kind(), varve_types::ErrorKind::Denied);
    let long = ListenAddress::Unix(format!("/tmp/{}", "x".repeat(110)).into());
    let error = Listener::bind(&long).await.err().unwrap();
    assert_eq!(
        error.to_string().split(" is ").nth(1).unwrap(),
        "115 bytes long; the system allows 107"
    );
}
