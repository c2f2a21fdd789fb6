//! Listeners and connections of the API. Called by the daemon's control thread on a tokio runtime.
//!
//! ADMIN-SERVER-1: a connection carries one request and lives no longer than its deadline, so slow peers hold a bounded
//!     number of places.
//! ADMIN-SERVER-2: nothing is reachable from other machines: unix sockets are for their owner only, TCP is loopback
//!     only.
//! ADMIN-SERVER-3: a caller by TCP, who may be any user of the machine or a web page, shows the token (`token`).

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderMap, header};
use axum::middleware::{self, Next};
use axum::response::IntoResponse;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use varve_stdx::bind_private;

use crate::address::ListenAddress;
use crate::backend::AdminBackend;
use crate::error::{Error, Result};
use crate::token::{Token, check_caller};
use crate::v1;

/// Longest path of a unix socket in bytes: `sun_path` less its final zero.
const SOCKET_PATH_MAX: usize = 107;

/// Pause after a failed accept, in milliseconds: out of descriptors, so that others can close some.
const ACCEPT_RETRY_MS: u64 = 100;

/// Requests with bodies of objects at once, for their memory; others wait.
const BULK_MAX: usize = 8;

/// Bounds on what callers may hold.
#[derive(Clone, Copy, Debug)]
pub struct LimitsConfig {
    /// Connections served at once; one more a listener waits for a place, others in the listen queue.
    pub connections_max: usize,
    /// Largest request body in bytes.
    pub body_bytes_max: usize,
    /// Time for a request's headers, in milliseconds.
    pub header_timeout_ms: u64,
    /// Time for the shards' answer, in milliseconds.
    pub request_timeout_ms: u64,
    /// Time for a whole connection, in milliseconds.
    pub connection_timeout_ms: u64,
}

impl Default for LimitsConfig {
    /// Enough for a dashboard, a scraper and scripts: 64 connections, 64 KiB, 10 s, 30 s, 60 s.
    fn default() -> Self {
        Self {
            connections_max: 64,
            body_bytes_max: 64 << 10,
            header_timeout_ms: 10_000,
            request_timeout_ms: 30_000,
            connection_timeout_ms: 60_000,
        }
    }
}

/// An open listener.
pub struct Listener {
    socket: ListenSocket,
    address: ListenAddress,
}

enum ListenSocket {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Listener {
    /// Opens a listener. A socket that a killed server left behind is replaced.
    ///
    /// # Errors
    /// `Denied` for a TCP address that other machines reach (ADMIN-SERVER-2), `Invalid` for a socket path that is too
    /// long, `Unavailable` when the system refuses, something else is at the path, or somebody listens there.
    pub async fn bind(address: &ListenAddress) -> Result<Self> {
        if !address.is_local() {
            return Err(Error::NotLoopback { address: address.clone() });
        }
        let failed = |source| Error::Listen { address: address.clone(), source };
        match address {
            ListenAddress::Unix(path) => {
                if path.as_os_str().len() > SOCKET_PATH_MAX {
                    let limit_bytes = SOCKET_PATH_MAX;
                    return Err(Error::SocketPath { path: path.clone(), limit_bytes });
                }
                let socket = bind_private(path).map_err(failed)?;
                socket.set_nonblocking(true).map_err(failed)?;
                let socket = ListenSocket::Unix(UnixListener::from_std(socket).map_err(failed)?);
                Ok(Self { socket, address: address.clone() })
            }
            ListenAddress::Tcp(wanted) => {
                let listener = TcpListener::bind(wanted).await.map_err(failed)?;
                let address = ListenAddress::Tcp(listener.local_addr().map_err(failed)?);
                Ok(Self { socket: ListenSocket::Tcp(listener), address })
            }
        }
    }

    /// The socket, for who accepts from it before this serves.
    #[must_use]
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            ListenSocket::Unix(socket) => socket.as_fd(),
            ListenSocket::Tcp(socket) => socket.as_fd(),
        }
    }

    /// Where it listens, with the port that the system chose.
    #[must_use]
    pub fn address(&self) -> &ListenAddress {
        &self.address
    }
}

/// Clients that others have accepted: their streams, and where they come from if that is a network.
pub type Accepted = mpsc::Receiver<(Box<dyn AcceptedStream>, Option<SocketAddr>)>;

/// Where callers come from, and what those by TCP have to show.
#[derive(Default)]
pub struct Callers {
    /// Sockets to accept them from.
    pub listeners: Vec<Listener>,
    /// Those that others accept.
    pub accepted: Option<Accepted>,
    /// The token of those by TCP; none: they are refused (ADMIN-SERVER-3).
    pub token: Option<Arc<Token>>,
}

/// Serves until `stop` resolves, then lets requests under way finish within the request time limit.
pub async fn serve(
    callers: Callers,
    backend: Arc<dyn AdminBackend>,
    limits: LimitsConfig,
    stop: impl Future<Output = ()>,
) {
    assert!(limits.connections_max > 0, "a server takes at least one connection");
    let Callers { listeners, accepted, token } = callers;
    let places = Arc::new(Semaphore::new(limits.connections_max));
    let bulk = Arc::new(Semaphore::new(BULK_MAX));
    let (stop_sender, stop_receiver) = watch::channel(false);
    let mut accepting = JoinSet::new();
    for listener in listeners {
        let router = v1::router(Arc::clone(&backend), limits, Arc::clone(&bulk));
        let front =
            ListenerShared { router, limits, token: token.clone(), places: Arc::clone(&places) };
        accepting.spawn(front.accept_until(listener, stop_receiver.clone()));
    }
    if let Some(accepted) = accepted {
        let router = v1::router(Arc::clone(&backend), limits, Arc::clone(&bulk));
        let front =
            ListenerShared { router, limits, token: token.clone(), places: Arc::clone(&places) };
        accepting.spawn(front.take_until(accepted, stop_receiver));
    }
    stop.await;
    let _ = stop_sender.send(true);
    while accepting.join_next().await.is_some() {}
}

/// What the connections of one listener share.
struct ListenerShared {
    router: Router,
    limits: LimitsConfig,
    token: Option<Arc<Token>>,
    places: Arc<Semaphore>,
}

impl ListenerShared {
    /// For callers by TCP (ADMIN-SERVER-3).
    fn guarded(&self) -> Router {
        let token = self.token.clone();
        self.router.clone().layer(middleware::from_fn(move |request: Request, next: Next| {
            let token = token.clone();
            async move {
                match check_caller(request.uri().path(), request.headers(), token.as_deref()) {
                    Ok(()) => next.run(request).await,
                    Err(error) => error.into_response(),
                }
            }
        }))
    }

    async fn accept_until(mut self, listener: Listener, mut stop: watch::Receiver<bool>) {
        if matches!(listener.socket, ListenSocket::Tcp(_)) {
            self.router = self.guarded();
        }
        let mut connections = JoinSet::new();
        loop {
            let place = Arc::clone(&self.places).acquire_owned();
            let accepted = tokio::select! {
                _ = stop.changed() => break,
                accepted = accept(&listener, place) => accepted,
            };
            match accepted {
                Ok((stream, place)) => {
                    connections.spawn(serve_connection(
                        stream,
                        self.router.clone(),
                        self.limits,
                        place,
                    ));
                }
                Err(error) => {
                    tracing::warn!(address = %listener.address, %error, "accept failed");
                    tokio::time::sleep(Duration::from_millis(ACCEPT_RETRY_MS)).await;
                }
            }
            while connections.try_join_next().is_some() {}
        }
        self.drain(connections, &listener.address.to_string()).await;
    }

    async fn take_until(self, mut accepted: Accepted, mut stop: watch::Receiver<bool>) {
        let from_networks = self.guarded();
        let mut connections = JoinSet::new();
        loop {
            let taken = tokio::select! {
                _ = stop.changed() => break,
                taken = async {
                    let place = Arc::clone(&self.places).acquire_owned().await;
                    (accepted.recv().await, place.expect("the semaphore is never closed"))
                } => taken,
            };
            let (Some((stream, client)), place) = taken else { break };
            let router = if client.is_some() { &from_networks } else { &self.router };
            connections.spawn(serve_connection(stream, router.clone(), self.limits, place));
            while connections.try_join_next().is_some() {}
        }
        self.drain(connections, "sockets of the nodes").await;
    }

    async fn drain(&self, mut connections: JoinSet<()>, from: &str) {
        let grace = Duration::from_millis(self.limits.request_timeout_ms);
        let drained = async { while connections.join_next().await.is_some() {} };
        if tokio::time::timeout(grace, drained).await.is_err() {
            tracing::warn!(address = from, "admin connections cut off at shutdown");
        }
    }
}

/// A client's stream, of whatever kind.
pub trait AcceptedStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> AcceptedStream for T {}

async fn accept(
    listener: &Listener,
    place: impl Future<Output = std::result::Result<OwnedSemaphorePermit, tokio::sync::AcquireError>>,
) -> io::Result<(Box<dyn AcceptedStream>, OwnedSemaphorePermit)> {
    let stream: Box<dyn AcceptedStream> = match &listener.socket {
        ListenSocket::Unix(socket) => Box::new(socket.accept().await?.0),
        ListenSocket::Tcp(socket) => Box::new(socket.accept().await?.0),
    };
    let place = place.await.expect("the semaphore is never closed");
    Ok((stream, place))
}

/// Serves the one request of a connection (ADMIN-SERVER-1).
async fn serve_connection(
    stream: Box<dyn AcceptedStream>,
    router: Router,
    limits: LimitsConfig,
    _place: OwnedSemaphorePermit,
) {
    let mut http = http1::Builder::new();
    http.keep_alive(false)
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_millis(limits.header_timeout_ms));
    let served = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let deadline = Duration::from_millis(limits.connection_timeout_ms);
    match tokio::time::timeout(deadline, served).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "admin connection ended"),
        Err(_) => tracing::debug!("admin connection exceeded its deadline"),
    }
}

/// Refuses requests of a network that do not name this machine's loopback address as their host: a web page that a
/// browser here shows could resolve its own name to 127.0.0.1 and call the API.
pub(crate) fn check_host(headers: &HeaderMap) -> Result<()> {
    let host = headers.get(header::HOST).and_then(|value| value.to_str().ok());
    let host = host.unwrap_or_default();
    if is_loopback_name(host) { Ok(()) } else { Err(Error::Host { host: host.to_owned() }) }
}

fn is_loopback_name(host: &str) -> bool {
    if let Ok(ListenAddress::Tcp(address)) = host.parse() {
        return address.ip().is_loopback();
    }
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare == "localhost" || bare.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_names_pass_as_host() {
        for host in ["localhost", "localhost:80", "127.0.0.1:8080", "[::1]:80", "[::1]", "::1"] {
            assert!(is_loopback_name(host), "{host}");
        }
        for host in ["", "evil.example", "evil.example:80", "10.0.0.1:80", "localhost.evil:1"] {
            assert!(!is_loopback_name(host), "{host}");
        }
    }
}
