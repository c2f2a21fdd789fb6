//! The listener for scrapers and probes: `/metrics` and the health of the daemon, and nothing else, without a token.
//!
//! It has a thread of its own and forwards to the admin API's socket, so that it answers before the pool is open, and
//! also on a node that stands by. `/health/live` is answered here: the process runs.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1 as client;
use hyper::server::conn::http1 as server;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use varve_access_admin::ADMIN_SOCKET;
use varve_client::{Failure, Result};

use crate::config::Settings;

/// Connections served at a time; more wait in the listen queue.
const CLIENTS_MAX: usize = 32;
/// Time limit for a connection.
const CONNECTION_MAX: Duration = Duration::from_secs(20);
/// Time limit for the answer of the admin API.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// Longest answer: some hundred metrics for each of 256 shards.
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// Pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves at `metrics.listen`, if that is set, for the life of the process. Returns the bound address.
pub(super) fn start(settings: &Settings) -> Result<Option<SocketAddr>> {
    let Some(address) = settings.metrics_listen else { return Ok(None) };
    let failed = |error| {
        Failure::new(format!("listen on {address} for metrics: {error}"))
            .hint("end the process that holds the address, or set metrics.listen to another")
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(failed)?;
    let listener = runtime.block_on(TcpListener::bind(address)).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let admin = settings.data.join(ADMIN_SOCKET);
    std::thread::Builder::new()
        .name("metrics".to_owned())
        .spawn(move || runtime.block_on(accept(listener, admin)))
        .map_err(failed)?;
    Ok(Some(address))
}

async fn accept(listener: TcpListener, admin: PathBuf) {
    let (places, admin) = (Arc::new(Semaphore::new(CLIENTS_MAX)), Arc::<Path>::from(admin));
    loop {
        let place = Arc::clone(&places).acquire_owned().await;
        let place = place.expect("the semaphore is never closed");
        match listener.accept().await {
            Ok((stream, _)) => {
                let admin = Arc::clone(&admin);
                tokio::spawn(async move {
                    serve(stream, admin).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "accept failed");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Serves the only request of a connection.
async fn serve(stream: TcpStream, admin: Arc<Path>) {
    let service = service_fn(|request| {
        let admin = Arc::clone(&admin);
        async move { Ok::<_, Infallible>(answer(&request, &admin).await) }
    });
    let mut http = server::Builder::new();
    http.keep_alive(false).timer(TokioTimer::new()).header_read_timeout(ANSWER_MAX);
    // Clients that leave early or are too slow are dropped.
    let _ = timeout(CONNECTION_MAX, http.serve_connection(TokioIo::new(stream), service)).await;
}

async fn answer(request: &Request<Incoming>, admin: &Path) -> Response<Full<Bytes>> {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    match request.uri().path() {
        _ if !is_read => text(StatusCode::METHOD_NOT_ALLOWED, "only GET is supported\n".to_owned()),
        "/health/live" => text(StatusCode::OK, "live\n".to_owned()),
        "/metrics" | "/health/ready" => {
            let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
            let forwarded = timeout(ANSWER_MAX, forward(admin, path)).await;
            let late = || Err(format!("no answer within {} s", ANSWER_MAX.as_secs()).into());
            match forwarded.unwrap_or_else(|_| late()) {
                Ok(answer) => answer,
                Err(error) => text(
                    StatusCode::SERVICE_UNAVAILABLE,
                    format!("the pool is not served: {error}\n"),
                ),
            }
        }
        _ => text(
            StatusCode::NOT_FOUND,
            "not found: this listener has /metrics, /health/live and /health/ready\n".to_owned(),
        ),
    }
}

/// The answer of the admin API.
async fn forward(
    admin: &Path,
    path: &str,
) -> std::result::Result<Response<Full<Bytes>>, Box<dyn std::error::Error + Send + Sync>> {
    let stream = UnixStream::connect(admin).await?;
    let (mut sender, connection) = client::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection); // It ends with the answer.
    let request = Request::get(path).header(header::HOST, "localhost");
    let answer = sender.send_request(request.body(Full::new(Bytes::new()))?).await?;
    let (head, body) = answer.into_parts();
    let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await?.to_bytes();
    let mut answer = Response::new(Full::new(body));
    *answer.status_mut() = head.status;
    if let Some(kind) = head.headers.get(header::CONTENT_TYPE) {
        answer.headers_mut().insert(header::CONTENT_TYPE, kind.clone());
    }
    Ok(answer)
}

fn text(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(Bytes::from(text)));
    *answer.status_mut() = status;
    let kind = header::HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(header::CONTENT_TYPE, kind);
    answer
}
