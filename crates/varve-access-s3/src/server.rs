//! The listening socket: connections with their limits, TLS, an orderly end.

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body as HttpBody, Bytes, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use s3s::Body;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::{Instant, Sleep};
use tokio_io_timeout::TimeoutStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::access::Peer;
use crate::error::{Error, Result};
use crate::front::{Front, Rate};
use crate::gateway::{Gateway, Inner};

/// Longest head of a request, in bytes: the protocol allows 8 KiB of headers, policies of forms and presigned URLs need more.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// Most headers of a request.
const HEADERS_MAX: usize = 256;
/// Pause after an accept has failed, as it does when file descriptors run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Certificates for clients to trust.
#[derive(Clone)]
pub struct Tls {
    acceptor: TlsAcceptor,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

impl Tls {
    /// Reads a chain of certificates and their key, both PEM.
    ///
    /// # Errors
    /// `Invalid` when the files are not that, or do not belong together.
    pub fn load(certificates: &Path, key: &Path) -> Result<Self> {
        let invalid = |path: &Path, why: &dyn std::fmt::Display| Error::Invalid {
            what: format!("{}: {why}", path.display()),
        };
        let chain = CertificateDer::pem_file_iter(certificates)
            .map_err(|error| invalid(certificates, &error))?;
        let chain = chain
            .collect::<std::result::Result<Vec<_>, _>>()
            .map_err(|error| invalid(certificates, &error))?;
        let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| invalid(key, &error))?;
        let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
        let config =
            ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.map_err(|error| invalid(key, &error))?.with_no_client_auth();
        let config = config
            .with_single_cert(chain, secret)
            .map_err(|error| invalid(certificates, &error))?;
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)) })
    }
}

/// Where clients come from.
#[derive(Debug)]
pub struct Clients {
    /// The socket that they connect to, where they do not only come by others.
    pub listener: Option<TcpListener>,
    /// Those that others have accepted, and their addresses. Nothing where nobody does.
    pub accepted: Option<mpsc::Receiver<(Client, Option<SocketAddr>)>>,
}

/// A client that others have accepted.
#[derive(Debug)]
pub enum Client {
    /// A socket that does not block.
    Socket(std::net::TcpStream),
    /// What somebody carries.
    Stream(DuplexStream),
}

/// A stream of either kind.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Clients {
    /// The next one.
    async fn next(&mut self) -> std::io::Result<(Box<dyn Stream>, Option<IpAddr>)> {
        let (listener, accepted) = (self.listener.as_ref(), self.accepted.as_mut());
        let connected = async {
            match listener {
                Some(listener) => listener.accept().await,
                None => std::future::pending().await,
            }
        };
        let taken = async {
            match accepted {
                Some(accepted) => accepted.recv().await,
                None => None,
            }
        };
        tokio::select! {
            connected = connected => {
                let (stream, address) = connected?;
                // Head and body of an answer go out in two sends: the second must not wait for the first one's acknowledgement.
                let _ = stream.set_nodelay(true);
                Ok((Box::new(stream), Some(address.ip())))
            }
            Some((client, address)) = taken => {
                let stream: Box<dyn Stream> = match client {
                    Client::Socket(stream) => Box::new(TcpStream::from_std(stream)?),
                    Client::Stream(stream) => Box::new(stream),
                };
                Ok((stream, address.map(|address| address.ip())))
            }
        }
    }
}

impl Gateway {
    /// Serves clients until `stop` is true or its sender is gone; then waits until requests under way have been answered.
    pub async fn serve(
        &self,
        mut clients: Clients,
        tls: Option<Tls>,
        mut stop: watch::Receiver<bool>,
    ) {
        let places = Arc::new(Semaphore::new(self.inner.options.connections_max));
        let front = Front::new(Arc::clone(&self.inner));
        let mut connections = tokio::task::JoinSet::new();
        loop {
            let place = tokio::select! {
                place = Arc::clone(&places).acquire_owned() => place,
                () = stopped(&mut stop) => break,
            };
            let accepted = tokio::select! {
                accepted = clients.next() => accepted,
                () = stopped(&mut stop) => break,
            };
            while connections.try_join_next().is_some() {}
            let (Ok(place), Ok((stream, address))) = (place, accepted) else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            let connection = Connection {
                front: front.clone(),
                idle: self.inner.options.idle,
                rate: Arc::new(Rate::new(self.inner.options.requests_per_second)),
                stop: stop.clone(),
            };
            let tls = tls.clone();
            let open = Open::begin(&self.inner);
            connections.spawn(async move {
                connection.serve(stream, address, tls).await;
                drop((place, open));
            });
        }
        while connections.join_next().await.is_some() {}
    }
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

/// A connection among those that are open.
struct Open(Arc<Inner>);

impl Open {
    fn begin(inner: &Arc<Inner>) -> Self {
        inner.figures.connections.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(inner))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.figures.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

struct Connection {
    front: Front,
    idle: Duration,
    rate: Arc<Rate>,
    stop: watch::Receiver<bool>,
}

impl Connection {
    async fn serve(self, stream: Box<dyn Stream>, address: Option<IpAddr>, tls: Option<Tls>) {
        let peer = Peer { address, tls: tls.is_some() };
        match tls {
            None => self.talk(stream, peer).await,
            Some(tls) => match tokio::time::timeout(self.idle, tls.acceptor.accept(stream)).await {
                Ok(Ok(stream)) => self.talk(stream, peer).await,
                Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
                Err(_) => tracing::debug!("TLS handshake took too long"),
            },
        }
    }

    async fn talk<S>(self, stream: S, peer: Peer)
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    {
        let Self { front, idle, rate, mut stop } = self;
        // A client that takes nothing of its answer for so long holds memory and a connection for nothing.
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(idle));
        let stream = Box::pin(stream);
        let service = service_fn(|mut request: hyper::Request<Incoming>| {
            request.extensions_mut().insert(peer);
            let received = Arc::new(AtomicU64::new(0));
            let counted = Arc::clone(&received);
            let request =
                request.map(|body| Body::http_body_unsync(Patient::new(body, idle, counted)));
            // A task of its own: what was begun is not left half done when the client goes.
            let (front, rate) = (front.clone(), Arc::clone(&rate));
            tokio::spawn(async move { front.answer(request, &rate, received).await })
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(idle)
            .max_buf_size(HEAD_BYTES_MAX)
            .max_headers(HEADERS_MAX)
            .half_close(false)
            .serve_connection(TokioIo::new(stream), service);
        tokio::pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = stopped(&mut stop) => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "connection ended");
        }
    }
}

/// A body whose sender must not pause longer than the limit, and whose bytes are counted.
struct Patient {
    body: Incoming,
    received: Arc<AtomicU64>,
    limit: Duration,
    deadline: Pin<Box<Sleep>>,
}

#[derive(Debug, thiserror::Error)]
#[error("Incomplete: the client paused too long")]
struct Paused;

impl Patient {
    fn new(body: Incoming, limit: Duration, received: Arc<AtomicU64>) -> Self {
        Self { body, received, limit, deadline: Box::pin(tokio::time::sleep(limit)) }
    }
}

impl HttpBody for Patient {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, Self::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            let next = Instant::now() + self.limit;
            self.deadline.as_mut().reset(next);
            if let Some(Ok(frame)) = &frame {
                let more = frame.data_ref().map_or(0, |data| data.len() as u64);
                self.received.fetch_add(more, Ordering::Relaxed);
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        match self.deadline.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Some(Err(Box::new(Paused)))),
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
