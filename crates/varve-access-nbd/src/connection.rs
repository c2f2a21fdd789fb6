//! One connection from accept to close: what was agreed on in the handshake, then transmission.

use std::fmt;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use varve_types::ErrorKind;

use crate::agree::{Agreeing, Connection, Held, Offer};
use crate::carried::{Carried, Opening};
use crate::channel::Channel;
use crate::export::{Export, Exports};
use crate::handshake::{CloseReason, FoundExport, OpenRequest, Since};
use crate::limits::CHANGES_LISTED_MAX;
use crate::service::Service;
use crate::transmission::{Session, transmit};
use crate::transport::Transport;
use crate::usage::Usage;

/// How a connection ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// The client asked for it.
    Disconnected,
    /// The client's end of the stream was closed.
    PeerClosed,
    /// What should be a request was something else.
    BadMagic(u32),
    /// The socket, or TLS over it, failed.
    Io(io::ErrorKind),
    /// The client neither sent nor took anything while others waited for it.
    Stalled,
    /// The server is shutting down.
    Shutdown,
    /// The handshake took longer than [`HANDSHAKE_TIMEOUT_MS`](crate::limits::HANDSHAKE_TIMEOUT_MS).
    HandshakeTimeout,
    /// The handshake ended without an export.
    Handshake(CloseReason),
}

/// The end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Closed {
    /// Why.
    pub cause: Ended,
    /// What the client used while it lasted.
    pub usage: Usage,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disconnected => f.write_str("client disconnected"),
            Self::PeerClosed => f.write_str("client closed the stream"),
            Self::BadMagic(magic) => write!(f, "request magic {magic:#010x} is wrong"),
            Self::Io(kind) => write!(f, "stream failed: {kind}"),
            Self::Stalled => f.write_str("client stalled"),
            Self::Shutdown => f.write_str("server shuts down"),
            Self::HandshakeTimeout => f.write_str("handshake took too long"),
            Self::Handshake(reason) => write!(f, "handshake ended: {reason:?}"),
        }
    }
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Self {
        Self::Io(error.kind())
    }
}

/// An opened export under its proper name.
pub struct Opened<E> {
    name: String,
    export: E,
    /// Snapshots that were asked for with it.
    since: Vec<String>,
}

impl<E: Export> Held for Opened<E> {
    fn found(&self) -> FoundExport<'_> {
        FoundExport { name: &self.name, info: self.export.info(), since: &self.since }
    }
}

/// The exports of a service, for its own connections.
struct Here<'a, X> {
    service: &'a Service<X>,
    carried: Option<&'a Carried>,
}

impl<X: Exports> Offer for Here<'_, X> {
    type Held = Opened<X::Export>;

    async fn list(&self) -> Result<Vec<String>, ErrorKind> {
        self.service.exports().list().await
    }

    async fn open(&self, request: &OpenRequest) -> Result<Self::Held, ErrorKind> {
        open(self.service.exports(), request).await
    }

    async fn ready(&self, held: &Self::Held) -> Result<(), Ended> {
        pass_gate(self.service, self.carried, held).await
    }
}

/// Serves a connection to its end. The stream is closed on return.
pub(crate) async fn serve_connection<T: Transport, X: Exports>(
    service: &Service<X>,
    transport: T,
    carried: Option<Arc<Carried>>,
) -> Closed {
    let channel = Channel::plain(transport, carried.clone());
    let here = Here { service, carried: carried.as_deref() };
    let agreeing = Agreeing {
        reactor: service.reactor(),
        shutdown: service.shutdown(),
        tls: service.tls(),
        tls_mode: service.tls_mode(),
    };
    match agreeing.on(channel, &here).await {
        Err(closed) => closed,
        Ok((connection, opened)) => serve_agreed(service, connection, opened, carried).await,
    }
}

/// Serves a connection from its transmission phase on. The stream is closed on return.
pub(crate) async fn serve_agreed<T: Transport, X: Exports>(
    service: &Service<X>,
    connection: Connection<T>,
    opened: Opened<X::Export>,
    carried: Option<Arc<Carried>>,
) -> Closed {
    let Connection { channel, inbox, negotiated, usage } = connection;
    tracing::debug!(export = opened.name, ?negotiated, "client attached");
    let export = Rc::new(opened.export);
    let share = service.budget().share();
    let session = Session { export, negotiated, inbox, share, usage, carried };
    let closed = transmit(service.reactor(), &channel, session, service.shutdown()).await;
    channel.close().await;
    closed
}

/// Opens the export of this name; the empty name means the only one there is.
pub(crate) async fn open<X: Exports>(
    exports: &X,
    OpenRequest { name, since }: &OpenRequest,
) -> Result<Opened<X::Export>, ErrorKind> {
    let name = if name.is_empty() {
        let mut names = exports.list().await?;
        match (names.pop(), names.is_empty()) {
            (Some(only), true) => only,
            _ => return Err(ErrorKind::NotFound),
        }
    } else {
        name.clone()
    };
    let (export, since) = match since {
        Since::Named(since) => {
            let export = exports.open_since(&name, since).await?;
            let since = export.since().to_vec();
            (export, since)
        }
        Since::Listed => {
            let export = exports.open(&name).await?;
            let since = export.snapshots(CHANGES_LISTED_MAX).await?;
            (export, since)
        }
    };
    Ok(Opened { name, export, since })
}

/// Waits until what was sent before on other connections cannot happen any more.
pub(crate) async fn pass_gate<X: Exports>(
    service: &Service<X>,
    carried: Option<&Carried>,
    Opened { name, export, .. }: &Opened<X::Export>,
) -> Result<(), Ended> {
    if export.info().read_only {
        return Ok(());
    }
    if let Some(gate) = service.gate() {
        let (passes, mut told) = varve_reactor::port::channel(service.reactor(), 1);
        gate.pass(Opening { export: name.clone(), by: carried.map(Carried::number), passes });
        if told.recv_batch(&mut Vec::new()).await == 0 {
            return Err(Ended::Io(io::ErrorKind::ConnectionAborted)); // The gate has gone.
        }
    }
    if let Some(carried) = carried {
        carried.opened(name);
    }
    Ok(())
}
