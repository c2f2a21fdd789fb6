//! A running API over a memory backend, and a peer that speaks plain HTTP to it.

use std::sync::Arc;

use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::oneshot;
use varve_access_admin::v1::bulk;
use varve_access_admin::{
    AdminBackend, Callers, LimitsConfig, ListenAddress, Listener, Token, serve,
};

/// Bytes of the token that callers by TCP show.
pub(crate) const TOKEN: [u8; 32] = [3; 32];

/// A server on a unix socket and on TCP, stopped by dropping it.
pub(crate) struct Server {
    pub(crate) socket: std::path::PathBuf,
    pub(crate) tcp: String,
    _stop: oneshot::Sender<()>,
    _dir: TempDir,
}

impl Server {
    pub(crate) async fn start(backend: impl AdminBackend, limits: LimitsConfig) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("admin.sock");
        let unix = Listener::bind(&ListenAddress::Unix(socket.clone())).await.unwrap();
        let tcp = Listener::bind(&"127.0.0.1:0".parse().unwrap()).await.unwrap();
        let tcp_address = tcp.address().to_string();
        let (stop, stopped) = oneshot::channel();
        let stopped = async {
            let _ = stopped.await;
        };
        let token = Some(Arc::new(Token::of(TOKEN)));
        let callers = Callers { listeners: vec![unix, tcp], accepted: None, token };
        tokio::spawn(serve(callers, Arc::new(backend), limits, stopped));
        Self { socket, tcp: tcp_address, _stop: stop, _dir: dir }
    }

    /// Sends bytes over the unix socket and reads to the end.
    pub(crate) async fn exchange(&self, request: &str) -> String {
        let mut stream = UnixStream::connect(&self.socket).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    /// The same over TCP.
    pub(crate) async fn exchange_tcp(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(&self.tcp).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    /// One request over the unix socket: status and JSON body (null when empty).
    pub(crate) async fn call(&self, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        let body = body.map(|b| b.to_string()).unwrap_or_default();
        let length = body.len();
        let answer = self
            .exchange(&format!(
                "{method} {path} HTTP/1.1\r\nhost: varve\r\ncontent-type: application/json\r\n\
                 content-length: {length}\r\n\r\n{body}"
            ))
            .await;
        let status = status_of(&answer);
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        (status, serde_json::from_str(body).unwrap_or(Value::Null))
    }
}

impl Server {
    /// A request of any bytes and the bytes of its answer.
    pub(crate) async fn call_bytes(
        &self,
        path: &str,
        content_type: &str,
        body: &[u8],
    ) -> (u16, Vec<u8>) {
        let length = body.len();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: varve\r\ncontent-type: {content_type}\r\n\
             content-length: {length}\r\n\r\n"
        );
        let mut stream = UnixStream::connect(&self.socket).await.unwrap();
        // A refusal may come, and the connection end, before all is sent.
        let _ = stream.write_all(&[head.as_bytes(), body].concat()).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        let head = String::from_utf8_lossy(&answer[..end]).into_owned();
        (status_of(&head), answer.split_off(end + 4))
    }

    /// A request of a head and bytes behind it: status and JSON of the answer (null when there is none).
    pub(crate) async fn call_bulk(
        &self,
        path: &str,
        head: &Value,
        following: &[u8],
    ) -> (u16, Value) {
        let body = bulk::with_bodies(head, &[following]);
        let (status, answer) = self.call_bytes(path, bulk::CONTENT_TYPE, &body).await;
        (status, serde_json::from_slice(&answer).unwrap_or(Value::Null))
    }
}

pub(crate) fn status_of(answer: &str) -> u16 {
    let status = answer.split(' ').nth(1).unwrap_or_else(|| panic!("no status in {answer:?}"));
    status.parse().unwrap()
}
