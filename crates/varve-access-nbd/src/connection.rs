//! One connection from accept to close: handshake, TLS, then transmission.

use std::fmt;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use futures_util::future::{Either, select};
use varve_types::ErrorKind;

use crate::carried::{Carried, Opening};
use crate::channel::Channel;
use crate::export::{Export, Exports};
use crate::handshake::{
    CloseReason, Event, FoundExport, Handshake, Negotiated, OpenRequest, Since, TlsMode,
};
use crate::inbox::Inbox;
use crate::limits::{CHANGES_LISTED_MAX, HANDSHAKE_TIMEOUT_MS};
use crate::service::Service;
use crate::tls::TlsSession;
use crate::transmission::{Session, transmit};
use crate::transport::{SendPart, Transport};
use crate::usage::Usage;

const NANOS_PER_MS: u64 = 1_000_000;

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
    /// The handshake took longer than [`HANDSHAKE_TIMEOUT_MS`].
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
struct Opened<E> {
    name: String,
    export: E,
    /// Snapshots that were asked for with it.
    since: Vec<String>,
}

impl<E: Export> Opened<E> {
    fn found(&self) -> FoundExport<'_> {
        FoundExport { name: &self.name, info: self.export.info(), since: &self.since }
    }
}

/// Serves a connection to its end. The stream is closed on return.
pub(crate) async fn serve_connection<T: Transport, X: Exports>(
    service: &Service<X>,
    transport: T,
    carried: Option<Arc<Carried>>,
) -> Closed {
    let mut channel = Channel::plain(transport, carried.clone());
    let mut inbox = Inbox::new();
    let mut usage = Usage::default();
    let agreed = {
        let shake = std::pin::pin!(handshake(
            service,
            carried.as_deref(),
            &mut channel,
            &mut inbox,
            &mut usage
        ));
        let deadline = service.reactor().sleep(HANDSHAKE_TIMEOUT_MS * NANOS_PER_MS);
        let stop = std::pin::pin!(service.shutdown().wait());
        match select(shake, select(deadline, stop)).await {
            Either::Left((agreed, _)) => agreed,
            Either::Right((Either::Left(_), _)) => Err(Ended::HandshakeTimeout),
            Either::Right((Either::Right(_), _)) => Err(Ended::Shutdown),
        }
    };
    let cause = match agreed {
        Err(cause) => cause,
        Ok((opened, negotiated)) => {
            tracing::debug!(export = opened.name, ?negotiated, "client attached");
            let export = Rc::new(opened.export);
            let share = service.budget().share();
            let session = Session { export, negotiated, inbox, share, usage, carried };
            let closed = transmit(service.reactor(), &channel, session, service.shutdown()).await;
            usage = closed.usage;
            closed.cause
        }
    };
    channel.close().await;
    Closed { cause, usage }
}

async fn handshake<T: Transport, X: Exports>(
    service: &Service<X>,
    carried: Option<&Carried>,
    channel: &mut Channel<T>,
    inbox: &mut Inbox,
    usage: &mut Usage,
) -> Result<(Opened<X::Export>, Negotiated), Ended> {
    let mut out = Vec::new();
    let tls_mode = if service.tls().is_some() { service.tls_mode() } else { TlsMode::Off };
    let mut handshake = Handshake::new(tls_mode, &mut out);
    let mut opened = None;
    loop {
        let (consumed, mut event) = handshake.advance(inbox.bytes(), &mut out);
        inbox.consume(consumed);
        *usage = handshake.usage();
        if let Event::Open(request) = &event {
            // The previous export of this handshake, if any, is closed first.
            drop(opened.take());
            let found = open(service.exports(), request).await;
            let answer = found.as_ref().map(Opened::found).map_err(|kind| *kind);
            let next = handshake.answer_open(answer, &mut out);
            opened = found.ok();
            match next {
                None => continue,
                Some(next) => event = next,
            }
        }
        if event == Event::List {
            let names = service.exports().list().await;
            handshake.answer_list(names.as_deref().map_err(|kind| *kind), &mut out);
            continue;
        }
        if let (Event::Ready(_), Some(opened)) = (&event, &opened) {
            pass_gate(service, carried, opened).await?; // Before the client is told.
        }
        if !out.is_empty() {
            channel.send_all(vec![SendPart::Small(std::mem::take(&mut out))]).await?;
        }
        match event {
            Event::NeedInput => {
                let (buf, range) = inbox.lend();
                let (received, buf) = channel.recv(buf, range).await;
                let received = received?;
                inbox.give_back(buf, received);
                if received == 0 {
                    return Err(Ended::PeerClosed);
                }
            }
            Event::StartTls => {
                let config = service.tls().expect("STARTTLS is refused without a configuration");
                let session =
                    TlsSession::new(config).map_err(|_| Ended::Io(io::ErrorKind::Other))?;
                let early = inbox.bytes().to_vec();
                inbox.consume(early.len());
                channel.start_tls(session, &early).await?;
                handshake.tls_started();
                opened = None;
            }
            Event::Ready(negotiated) => {
                *usage = handshake.usage();
                let opened = opened.expect("the handshake ends with an export");
                return Ok((opened, negotiated));
            }
            Event::Close(reason) => return Err(Ended::Handshake(reason)),
            Event::List | Event::Open(_) => panic!("answered above"),
        }
    }
}

/// Opens the export of this name; the empty name means the only one there is.
async fn open<X: Exports>(
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
async fn pass_gate<X: Exports>(
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
