//! Calls the daemon's admin API: one connection a request, over its unix socket or TCP.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body, Bytes};
use hyper::client::conn::http1;
use hyper::{Method, Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use varve_access_admin::v1::{ErrorBody, bulk};
use varve_access_admin::{ADMIN_SOCKET, ListenAddress, Token};

use crate::failure::{Failure, Result};

/// Longest wait for an answer: the API answers within 30 s or says why not.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// Largest answer in bytes: a page of 10,000 snapshots takes 4 MiB.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// Type of requests in JSON.
const JSON: &str = "application/json";

/// A daemon to call.
#[derive(Clone)]
pub struct Client {
    address: ListenAddress,
    data: Option<PathBuf>,
    /// File with the token that is shown.
    token_file: Option<PathBuf>,
    /// Longest wait for an answer.
    patience: Duration,
}

/// An answer: the JSON as it came, and as its type.
pub struct ApiAnswer<T> {
    /// As it came.
    pub json: Value,
    /// As its type.
    pub value: T,
}

/// An answer as it came.
struct RawAnswer {
    status: StatusCode,
    /// It is not ready, and whoever asks again gets it.
    asks_again: bool,
    bytes: Bytes,
}

impl<T> ApiAnswer<T> {
    /// The answer for programs, or what `text` makes of it for people.
    pub fn print(self, json: bool, text: impl FnOnce(T) -> String) -> String {
        if json { format!("{:#}\n", self.json) } else { text(self.value) }
    }
}

impl Client {
    /// The daemon that listens at `address`.
    pub fn at(address: ListenAddress) -> Self {
        Self { address, data: None, token_file: None, patience: ANSWER_TIMEOUT }
    }

    /// The daemon that serves the data directory.
    pub fn of_data(data: &Path) -> Self {
        let address = ListenAddress::Unix(data.join(ADMIN_SOCKET));
        Self { address, data: Some(data.to_owned()), token_file: None, patience: ANSWER_TIMEOUT }
    }

    /// The same daemon, which is shown the token of a file.
    pub fn with_token(self, token_file: Option<PathBuf>) -> Self {
        Self { token_file, ..self }
    }

    /// The same daemon, for whose answers to wait no longer than that.
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience: patience.min(ANSWER_TIMEOUT), ..self }
    }

    /// The value of the header that shows the token.
    fn authorization(&self) -> Result<Option<String>> {
        let Some(path) = &self.token_file else { return Ok(None) };
        let shown = path.display();
        let text = std::fs::read_to_string(path).map_err(|error| {
            Failure::misuse(format!("read the token file {shown}: {error}"))
                .hint("it is admin.token in the data directory of the daemon, for its user only")
        })?;
        let token = Token::parse(&text).ok_or_else(|| {
            Failure::misuse(format!("{shown} holds no token"))
                .hint("it is admin.token in the data directory of the daemon")
        })?;
        Ok(Some(token.header()))
    }

    /// Where it listens.
    pub fn address(&self) -> &ListenAddress {
        &self.address
    }

    /// Reads what is no JSON.
    pub fn text(&self, path: &str) -> Result<String> {
        let bytes = self.bytes(Method::GET, path, JSON, Bytes::new())?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Reads.
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Result<ApiAnswer<T>> {
        self.call(Method::GET, path, Bytes::new())
    }

    /// Reads what is counted for it, however long that takes: the API says where it is to be asked again.
    pub fn counted<T: DeserializeOwned>(&self, path: &str) -> Result<ApiAnswer<T>> {
        let mut is_said = false;
        loop {
            let answered = self.answer(Method::GET, path, JSON, Bytes::new())?;
            if !answered.asks_again {
                return self.parse(&self.taken(answered)?);
            }
            if !is_said {
                let _ = writeln!(io::stderr(), "what is stored is being counted; Ctrl-C gives up");
                is_said = true;
            }
        }
    }

    /// Changes something; the change is durable when this returns.
    pub fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &impl Serialize,
    ) -> Result<ApiAnswer<T>> {
        let body = serde_json::to_vec(body).expect("requests are plain JSON");
        self.call(method, path, Bytes::from(body))
    }

    /// Deletes; durable when this returns.
    pub fn delete(&self, path: &str) -> Result<()> {
        self.call::<Value>(Method::DELETE, path, Bytes::new()).map(|_| ())
    }

    fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<ApiAnswer<T>> {
        self.parse(&self.bytes(method, path, JSON, body)?)
    }

    /// Reads what may be long, and is not printed as it came.
    pub fn page<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        let bytes = self.bytes(Method::GET, path, JSON, Bytes::new())?;
        serde_json::from_slice(&bytes).map_err(|e| self.not_varve(&e))
    }

    /// Asks with JSON for what is none: a head, and bodies behind it ([`bulk`]).
    pub fn read_bulk(&self, path: &str, body: &impl Serialize) -> Result<Bytes> {
        let body = serde_json::to_vec(body).expect("requests are plain JSON");
        self.bytes(Method::POST, path, JSON, Bytes::from(body))
    }

    /// Sends a head with bodies behind it ([`bulk`]); what it changes is durable when this returns.
    pub fn send_bulk<T: DeserializeOwned>(&self, path: &str, body: Vec<u8>) -> Result<T> {
        let answer = self.bytes(Method::POST, path, bulk::CONTENT_TYPE, Bytes::from(body))?;
        self.parse(&answer).map(|answer| answer.value)
    }

    /// What an answer should not have been.
    pub fn unexpected(&self, what: &str) -> Failure {
        Failure::new(format!("answer of {} is not what this version expects: {what}", self.address))
            .hint("compare `varve --version` with the daemon's version in `varve status --json`")
    }

    fn parse<T: DeserializeOwned>(&self, bytes: &[u8]) -> Result<ApiAnswer<T>> {
        // A deletion answers nothing, which reads as null.
        let text: &[u8] = if bytes.is_empty() { b"null" } else { bytes };
        let json: Value = serde_json::from_slice(text).map_err(|e| self.not_varve(&e))?;
        let value = serde_json::from_value(json.clone()).map_err(|e| self.not_varve(&e))?;
        Ok(ApiAnswer { json, value })
    }

    /// The body of an answer that is no error.
    fn bytes(
        &self,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: Bytes,
    ) -> Result<Bytes> {
        self.taken(self.answer(method, path, content_type, body)?)
    }

    fn taken(&self, answered: RawAnswer) -> Result<Bytes> {
        if !answered.status.is_success() {
            return Err(self.refused(answered.status, &answered.bytes));
        }
        Ok(answered.bytes)
    }

    fn answer(
        &self,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: Bytes,
    ) -> Result<RawAnswer> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|e| Failure::new(format!("start the client: {e}")))?;
        let answered = runtime.block_on(async {
            let exchange = self.exchange(method, path, content_type, body);
            tokio::time::timeout(self.patience, exchange).await
        });
        answered.map_err(|_| {
            let seconds = self.patience.as_secs_f64().ceil();
            Failure::new(format!("no answer from {} within {seconds} s", self.address))
                .hint("the daemon's log says what it waits for; the request may yet be carried out")
        })?
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: Bytes,
    ) -> Result<RawAnswer> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "localhost")
            .header(header::CONTENT_TYPE, content_type);
        if let Some(value) = self.authorization()? {
            request = request.header(header::AUTHORIZATION, value);
        }
        let request = request
            .body(Full::new(body))
            .map_err(|e| Failure::misuse(format!("`{path}` does not fit a request: {e}")))?;
        match &self.address {
            ListenAddress::Unix(socket) => {
                let stream = UnixStream::connect(socket).await.map_err(|e| self.unreachable(&e))?;
                self.exchange_over(stream, request).await
            }
            ListenAddress::Tcp(address) => {
                let stream = TcpStream::connect(address).await.map_err(|e| self.unreachable(&e))?;
                self.exchange_over(stream, request).await
            }
        }
    }

    async fn exchange_over(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin,
        request: Request<Full<Bytes>>,
    ) -> Result<RawAnswer> {
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|e| self.broken(&e))?;
        let answer = async {
            let answer = sender.send_request(request).await.map_err(|e| self.broken(&e))?;
            let status = answer.status();
            let asks_again = answer.headers().contains_key(header::RETRY_AFTER);
            let mut body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX);
            // Put together as it comes: a long answer is not held twice.
            let expected = usize::try_from(body.size_hint().lower()).unwrap_or(0);
            let mut bytes = Vec::with_capacity(expected.min(ANSWER_BYTES_MAX));
            while let Some(frame) = body.frame().await {
                if let Ok(data) = frame.map_err(|e| self.broken(&*e))?.into_data() {
                    bytes.extend_from_slice(&data);
                }
            }
            Ok(RawAnswer { status, asks_again, bytes: bytes.into() })
        };
        tokio::pin!(answer);
        // The connection does the I/O; it may end first when the daemon closes right after its answer.
        tokio::select! {
            biased;
            answer = &mut answer => answer,
            _ = connection => answer.await,
        }
    }

    fn refused(&self, status: StatusCode, bytes: &[u8]) -> Failure {
        match serde_json::from_slice::<ErrorBody>(bytes) {
            Ok(ErrorBody { kind, message, hint: Some(hint) }) => {
                Failure::new(message).of_kind(kind).hint(hint)
            }
            Ok(ErrorBody { kind, message, hint: None }) => Failure::new(message).of_kind(kind),
            Err(_) => Failure::new(format!("{} answered {status}", self.address))
                .hint("see whether a Varve daemon listens there"),
        }
    }

    fn unreachable(&self, error: &std::io::Error) -> Failure {
        let failure = Failure::new(format!("no daemon answers at {}: {error}", self.address));
        match &self.data {
            _ if error.kind() == std::io::ErrorKind::PermissionDenied => {
                failure.hint("run this as the user who runs the daemon, or as root")
            }
            Some(data) => failure.hint(format!(
                "start one with `varve serve --data {}`, or say where it is with --data or --addr",
                data.display()
            )),
            None => {
                failure.hint("see whether the daemon was started with `--admin` and this address")
            }
        }
    }

    fn broken(&self, error: &(impl std::fmt::Display + ?Sized)) -> Failure {
        let hint = match &self.data {
            Some(_) => "`varve status` shows whether the daemon still runs",
            None => {
                "see whether the admin API of a Varve daemon listens there, rather than NBD or S3"
            }
        };
        Failure::new(format!("connection to {} broke off: {error}", self.address)).hint(hint)
    }

    fn not_varve(&self, error: &serde_json::Error) -> Failure {
        self.unexpected(&error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use varve_access_admin::{Callers, LimitsConfig, Listener, MemoryBackend, serve, v1};

    use super::*;

    #[test]
    fn a_long_count_is_asked_for_until_it_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let address = ListenAddress::Unix(dir.path().join(ADMIN_SOCKET));
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let listener = runtime.block_on(Listener::bind(&address)).unwrap();
        let backend = Arc::new(MemoryBackend::with_slow_counts(3));
        let limits = LimitsConfig { request_timeout_ms: 50, ..LimitsConfig::default() };
        let callers = Callers { listeners: vec![listener], ..Callers::default() };
        runtime.spawn(serve(callers, backend, limits, std::future::pending()));
        let client = Client::at(address);
        let asked_once = client.get::<v1::Space>("/v1/space").err().unwrap();
        assert!(asked_once.what().contains("counting stored data"), "{}", asked_once.what());
        assert!(client.counted::<v1::Space>("/v1/space").is_ok());
    }

    #[test]
    fn a_port_that_speaks_another_protocol_is_explained() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = ListenAddress::Tcp(listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(b"NBDMAGICIHAVEOPT\0\x03").unwrap();
            let _ = io::copy(&mut stream, &mut io::sink());
        });
        let failure = Client::at(address).get::<v1::Space>("/v1/space").err().unwrap();
        let hint = failure.advice().unwrap_or_default();
        assert!(hint.contains("the admin API of a Varve daemon"), "{failure}");
        server.join().unwrap();
    }

    #[test]
    fn a_daemon_that_cannot_be_reached_is_explained() {
        let dir = tempfile::tempdir().unwrap();
        let failure = Client::of_data(dir.path()).get::<v1::Space>("/v1/space").err().unwrap();
        assert!(failure.what().starts_with("no daemon answers at "), "{failure}");
        let hint = failure.advice().unwrap_or_default();
        assert!(hint.contains(&format!("varve serve --data {}", dir.path().display())), "{hint}");
        let address = ListenAddress::Unix(dir.path().join("other.sock"));
        let failure = Client::at(address.clone()).get::<v1::Space>("/v1/space").err().unwrap();
        let hint = failure.advice().unwrap_or_default();
        assert!(hint.contains("started with `--admin` and this address"), "{hint}");
        // Root is denied nothing, so the error is not one of the system.
        let denied = io::Error::from(io::ErrorKind::PermissionDenied);
        for client in [Client::of_data(dir.path()), Client::at(address)] {
            let failure = client.unreachable(&denied);
            let hint = failure.advice().unwrap_or_default();
            assert!(hint.contains("as the user who runs the daemon, or as root"), "{hint}");
        }
    }
}
