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
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, Sleep};
use tokio_io_timeout::TimeoutStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::answers::error::{Error, Result};
use crate::body::memory::Pressure;
use crate::gateway::{Gateway, GatewayInner};
use crate::identity::principal::Peer;
use crate::request::connections::{Activity, Busy, Connections};
use crate::request::front::{Front, Rate};

/// Longest head of a request, in bytes: the protocol allows 8 KiB of headers, policies of forms and presigned URLs need
/// more.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// Most headers of a request.
const HEADERS_MAX: usize = 256;
/// Longest pause of a client within a body while others wait for memory or a connection.
const STALLED: Duration = Duration::from_secs(5);
/// How often pauses are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Longest that an answer to a client that is not served may take.
const SAY_MAX: Duration = Duration::from_millis(100);
/// To a client whose address has too many connections.
const TOO_MANY: &str = "HTTP/1.1 503 Slow Down\r\nContent-Type: application/xml\r\nContent-Length: 95\r\nRetry-After: 1\r\nConnection: close\r\n\r\n\
<Error><Code>SlowDown</Code><Message>Too many connections from your address.</Message></Error>\n";
/// To a client that speaks HTTP where HTTPS is served.
const NOT_TLS: &str = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 58\r\nConnection: close\r\n\r\n\
This port serves HTTPS, and the request was sent by HTTP.\n";
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
    pub accepted: Option<mpsc::Receiver<(AcceptedClient, Option<SocketAddr>)>>,
}

/// A client that others have accepted.
#[derive(Debug)]
pub enum AcceptedClient {
    /// A socket that does not block.
    Socket(std::net::TcpStream),
    /// What somebody carries.
    Stream(DuplexStream),
}

/// A stream of either kind.
trait SocketStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> SocketStream for T {}

impl Clients {
    /// The next one.
    async fn next(&mut self) -> std::io::Result<(Box<dyn SocketStream>, Option<IpAddr>)> {
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
                // Head and body of an answer go out in two sends: the second must not wait for the first one's
                // acknowledgement.
                let _ = stream.set_nodelay(true);
                Ok((Box::new(stream), Some(address.ip())))
            }
            Some((client, address)) = taken => {
                let stream: Box<dyn SocketStream> = match client {
                    AcceptedClient::Socket(stream) => Box::new(TcpStream::from_std(stream)?),
                    AcceptedClient::Stream(stream) => Box::new(stream),
                };
                Ok((stream, address.map(|address| address.ip())))
            }
        }
    }
}

impl Gateway {
    /// Serves clients until `stop` is true or its sender is gone; then waits until requests under way have been
    /// answered.
    pub async fn serve(
        &self,
        mut clients: Clients,
        tls: Option<Tls>,
        mut stop: watch::Receiver<bool>,
    ) {
        let options = &self.inner.options;
        let pressure = &self.inner.pressure;
        let (most, per_address) = (options.connections_max, options.connections_per_address);
        let places = Connections::new(most, per_address, pressure.clone());
        let front = Front::new(Arc::clone(&self.inner));
        let mut connections = tokio::task::JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = clients.next() => accepted,
                () = stopped(&mut stop) => break,
            };
            while connections.try_join_next().is_some() {}
            let Ok((mut stream, address)) = accepted else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            let place = tokio::select! {
                place = places.place(address) => place,
                () = stopped(&mut stop) => break,
            };
            let Ok(place) = place else {
                tracing::debug!(?address, "too many connections of an address");
                if tls.is_none() {
                    say(&mut stream, TOO_MANY).await;
                }
                continue;
            };
            let connection = HttpConnection {
                front: front.clone(),
                idle: self.inner.options.idle,
                activity: Arc::clone(place.activity()),
                pressure: pressure.clone(),
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
struct Open(Arc<GatewayInner>);

impl Open {
    fn begin(inner: &Arc<GatewayInner>) -> Self {
        inner.figures.connections.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(inner))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.figures.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An answer to a client that is not served, if it can be told at once.
async fn say(stream: &mut (impl AsyncWrite + Unpin), text: &str) {
    let said = async {
        stream.write_all(text.as_bytes()).await?;
        stream.shutdown().await
    };
    let _ = tokio::time::timeout(SAY_MAX, said).await;
}

/// A stream whose first byte has been looked at.
struct FirstByte {
    byte: Option<u8>,
    stream: Box<dyn SocketStream>,
}

impl FirstByte {
    async fn read_first(&mut self) -> std::io::Result<u8> {
        let byte = self.stream.read_u8().await?;
        self.byte = Some(byte);
        Ok(byte)
    }
}

impl AsyncRead for FirstByte {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        if buffer.remaining() > 0
            && let Some(byte) = self.byte.take()
        {
            buffer.put_slice(&[byte]);
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for FirstByte {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// The body of an answer, whose connection is busy until it has ended.
struct BusyBody<B> {
    body: B,
    #[expect(dead_code, reason = "held for its drop")]
    busy: Busy,
}

impl<B: HttpBody + Unpin> HttpBody for BusyBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

struct HttpConnection {
    front: Front,
    idle: Duration,
    activity: Arc<Activity>,
    pressure: Pressure,
    rate: Arc<Rate>,
    stop: watch::Receiver<bool>,
}

impl HttpConnection {
    async fn serve(self, stream: Box<dyn SocketStream>, address: Option<IpAddr>, tls: Option<Tls>) {
        let peer = Peer { address, tls: tls.is_some() };
        let Some(tls) = tls else { return self.talk(stream, peer).await };
        let activity = Arc::clone(&self.activity);
        let handshake = async {
            let mut stream = FirstByte { byte: None, stream };
            // Records of a handshake begin with this; a request of plain HTTP begins with a letter.
            if stream.read_first().await?.is_ascii_alphabetic() {
                say(&mut stream, NOT_TLS).await;
                return Err(std::io::Error::other("plain HTTP where HTTPS is served"));
            }
            tls.acceptor.accept(stream).await
        };
        let shaken = tokio::select! {
            shaken = tokio::time::timeout(self.idle, handshake) => shaken,
            () = activity.evicted() => return,
        };
        match shaken {
            Ok(Ok(stream)) => self.talk(stream, peer).await,
            Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
            Err(_) => tracing::debug!("TLS handshake took too long"),
        }
    }

    async fn talk<S>(self, stream: S, peer: Peer)
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    {
        let Self { front, idle, activity, pressure, rate, mut stop } = self;
        // A client that takes nothing of its answer for so long holds memory and a connection for nothing.
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(idle));
        let stream = Box::pin(stream);
        let service = service_fn(|mut request: hyper::Request<Incoming>| {
            request.extensions_mut().insert(peer);
            let busy = activity.busy();
            let received = Arc::new(AtomicU64::new(0));
            let counted = Arc::clone(&received);
            let pressure = pressure.clone();
            let request = request
                .map(|body| Body::http_body_unsync(Patient::new(body, idle, pressure, counted)));
            // A task of its own: what was begun is not left half done when the client goes.
            let (front, rate) = (front.clone(), Arc::clone(&rate));
            let answer = tokio::spawn(async move { front.answer(request, &rate, received).await });
            async move { answer.await.map(|answer| answer.map(|body| BusyBody { body, busy })) }
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
            // CONNECTIONS-2: nothing is under way.
            () = activity.evicted() => return,
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
    pressure: Pressure,
    /// When it sent the last bytes.
    since: Instant,
    /// When to look whether that is too long ago.
    look: Pin<Box<Sleep>>,
}

#[derive(Debug, thiserror::Error)]
#[error("Incomplete: the client paused too long")]
struct PausedBody;

impl Patient {
    fn new(body: Incoming, limit: Duration, pressure: Pressure, received: Arc<AtomicU64>) -> Self {
        let look = Box::pin(tokio::time::sleep(limit.min(LOOK_EVERY)));
        Self { body, received, limit, pressure, since: Instant::now(), look }
    }

    /// Whether the sender has paused too long: less is too long while others wait for what it holds.
    fn is_over(&self) -> bool {
        let paused = self.since.elapsed();
        paused >= self.limit || (paused >= STALLED && self.pressure.is_felt()) // BODY-MEMORY-2
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
            self.since = Instant::now();
            if let Some(Ok(frame)) = &frame {
                let more = frame.data_ref().map_or(0, |data| data.len() as u64);
                self.received.fetch_add(more, Ordering::Relaxed);
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        while self.look.as_mut().poll(cx).is_ready() {
            if self.is_over() {
                return Poll::Ready(Some(Err(Box::new(PausedBody))));
            }
            let left = self.limit.saturating_sub(self.since.elapsed());
            let next = Instant::now() + left.min(LOOK_EVERY);
            self.look.as_mut().reset(next);
        }
        Poll::Pending
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use tokio_rustls::rustls::server::ResolvesServerCertUsingSni;
    use varve_object::MemoryStore;

    use super::*;
    use crate::body::seal::MasterKey;
    use crate::gateway::{OpenedGateway, Options};

    /// Certificates for nobody: enough for clients that never begin a handshake.
    fn tls() -> Tls {
        let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider);
        let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let config = config.with_cert_resolver(Arc::new(ResolvesServerCertUsingSni::new()));
        Tls { acceptor: TlsAcceptor::from(Arc::new(config)) }
    }

    #[tokio::test]
    async fn a_request_of_plain_http_to_the_https_port_is_answered() {
        let store = Arc::new(MemoryStore::default());
        let opened = Gateway::open(store, MasterKey::of([7; 32]), Options::default()).await;
        let OpenedGateway { gateway, .. } = opened.unwrap();
        let (taker, accepted) = mpsc::channel(1);
        let (stop, stopped) = watch::channel(false);
        let clients = Clients { listener: None, accepted: Some(accepted) };
        let serving =
            tokio::spawn(async move { gateway.serve(clients, Some(tls()), stopped).await });
        let (mut client, served) = tokio::io::duplex(1 << 10);
        taker.send((AcceptedClient::Stream(served), None)).await.unwrap();
        client.write_all(b"GET / HTTP/1.1\r\nhost: s3\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 400 "), "{answer}");
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{answer}");
        assert!(body.contains("serves HTTPS"), "{answer}");
        stop.send(true).unwrap();
        serving.await.unwrap();
    }
}
