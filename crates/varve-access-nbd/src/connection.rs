//! One connection from accept to close: agreement, then transmission.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;

use futures_util::future::{Either, select};
use varve_access_block::{Export, Exports, Peer, PendingOpen};
use varve_stdx::AlignedBuf;
use varve_types::ErrorKind;

use crate::agree::{AgreedTerms, Agreement, AgreementStep, KnownExport};
use crate::carried::RelayProgress;
use crate::channel::Channel;
use crate::client::ClientState;
use crate::handshake::{CloseReason, OpenRequest, Since};
use crate::inbox::Inbox;
use crate::limits::{AGREEMENT_RECEIVE_BYTES, CHANGES_LISTED_MAX, HANDSHAKE_TIMEOUT_MS};
use crate::service::Service;
use crate::transmission::{Session, transmit};
use crate::transport::{SendPart, Transport};
use crate::usage::ClientUsage;

const NANOS_PER_MS: u64 = 1_000_000;

/// How a connection ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConnectionEnd {
    /// The client asked for it.
    Disconnected,
    /// The client's end of the stream was closed.
    PeerClosed,
    /// What should be a request was something else.
    BadMagic(u32),
    /// The client announced a payload of so many bytes, which is longer than any may be.
    LongPayload(u64),
    /// The socket, or TLS over it, failed.
    Io(io::ErrorKind),
    /// The client neither sent nor took anything while others waited for it.
    Stalled,
    /// The server is shutting down.
    Shutdown,
    /// Somebody had the server end it.
    ToldToLeave,
    /// The handshake took longer than [`HANDSHAKE_TIMEOUT_MS`].
    HandshakeTimeout,
    /// The handshake ended without an export.
    Handshake(CloseReason),
    /// The export is not there any more as the client was told of it.
    Changed,
    /// Another client has opened the export, which is exclusive, since the client was told of it.
    Held,
}

/// The end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClosedConnection {
    /// Why.
    pub cause: ConnectionEnd,
    /// What the client used while it lasted.
    pub usage: ClientUsage,
}

impl fmt::Display for ConnectionEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disconnected => f.write_str("client disconnected"),
            Self::PeerClosed => f.write_str("client closed the stream"),
            Self::BadMagic(magic) => write!(f, "request magic {magic:#010x} is wrong"),
            Self::LongPayload(len) => write!(f, "payload of {len} bytes is longer than 32 MiB"),
            Self::Io(kind) => write!(f, "stream failed: {kind}"),
            Self::Stalled => f.write_str("client stalled"),
            Self::Shutdown => f.write_str("server shuts down"),
            Self::ToldToLeave => f.write_str("asked to leave"),
            Self::HandshakeTimeout => f.write_str("handshake took too long"),
            Self::Handshake(reason) => write!(f, "handshake ended: {reason:?}"),
            Self::Changed => f.write_str("export changed while it was being opened"),
            Self::Held => f.write_str("another client opened the exclusive export first"),
        }
    }
}

impl From<io::Error> for ConnectionEnd {
    fn from(error: io::Error) -> Self {
        Self::Io(error.kind())
    }
}

/// An opened export, and how it was found.
struct OpenedExport<E> {
    found: KnownExport,
    export: E,
}

/// Serves a connection to its end. The stream is closed on return.
pub(crate) async fn serve_connection<T: Transport, X: Exports>(
    service: &Service<X>,
    client: &ClientState,
    transport: T,
    carried: Option<Arc<RelayProgress>>,
) -> ClosedConnection {
    let mut agreement = Agreement::new(service.tls_mode(), service.tls().cloned());
    let mut deadline = service.reactor().sleep(HANDSHAKE_TIMEOUT_MS * NANOS_PER_MS);
    let shaken = {
        let shake = shake_hands(service, client, carried.as_deref(), &transport, &mut agreement);
        in_time(service, client, &mut deadline, shake).await
    };
    let opened = match shaken {
        Ok(opened) => opened,
        Err(cause) => {
            let usage = agreement.usage();
            let last = agreement.close();
            if !last.is_empty() {
                // The connection is closed for the first error, whatever becomes of this.
                let _ = transport.send_all(vec![SendPart::Small(last)]).await;
            }
            transport.shutdown();
            return ClosedConnection { cause, usage };
        }
    };
    let mut agreed = agreement.finish();
    let channel = Channel::new(transport, agreed.session.take(), carried.clone());
    let begun = {
        let begin = begin(service, carried.as_deref(), &channel, opened, &agreed);
        in_time(service, client, &mut deadline, begin).await
    };
    go_on(service, client, &channel, begun, agreed, carried).await
}

/// Serves a connection from where others have agreed with its client. The stream is closed on return.
pub(crate) async fn serve_agreed<T: Transport, X: Exports>(
    service: &Service<X>,
    client: &ClientState,
    transport: T,
    mut agreed: AgreedTerms,
    carried: Option<Arc<RelayProgress>>,
) -> ClosedConnection {
    let session = agreed.session.take();
    assert!(carried.is_none() || session.is_none(), "who carries a connection is its end of TLS");
    let channel = Channel::new(transport, session, carried.clone());
    let mut deadline = service.reactor().sleep(HANDSHAKE_TIMEOUT_MS * NANOS_PER_MS);
    let begun = {
        let begin = async {
            let opened = open_again(service.exports(), client.peer(), &agreed.export).await?;
            begin(service, carried.as_deref(), &channel, opened, &agreed).await
        };
        in_time(service, client, &mut deadline, begin).await
    };
    go_on(service, client, &channel, begun, agreed, carried).await
}

/// The rest of a connection.
async fn go_on<T: Transport, X: Exports>(
    service: &Service<X>,
    client: &ClientState,
    channel: &Channel<T>,
    begun: Result<OpenedExport<X::Export>, ConnectionEnd>,
    AgreedTerms { negotiated, usage, early, .. }: AgreedTerms,
    carried: Option<Arc<RelayProgress>>,
) -> ClosedConnection {
    let closed = match begun {
        Err(cause) => ClosedConnection { cause, usage },
        Ok(opened) => {
            tracing::debug!(export = opened.found.name, ?negotiated, "client attached");
            let inbox = Inbox::holding(&early);
            let (export, share) = (Rc::new(opened.export), service.budget().share());
            client.opened(&opened.found.name, export.info().read_only);
            let session = Session { export, negotiated, inbox, share, usage, client, carried };
            transmit(service.reactor(), channel, session, service.shutdown()).await
        }
    };
    channel.close().await;
    closed
}

/// Does it before the deadline, and before the service ends.
async fn in_time<X: Exports, D>(
    service: &Service<X>,
    client: &ClientState,
    deadline: &mut (impl Future<Output = ()> + Unpin),
    work: impl Future<Output = Result<D, ConnectionEnd>>,
) -> Result<D, ConnectionEnd> {
    let (work, stop) = (pin!(work), pin!(client.must_leave(service.shutdown())));
    match select(work, select(deadline, stop)).await {
        Either::Left((done, _)) => done,
        Either::Right((Either::Left(_), _)) => Err(ConnectionEnd::HandshakeTimeout),
        Either::Right((Either::Right((why, _)), _)) => Err(why),
    }
}

/// Agrees with the client on an export, which is open then.
async fn shake_hands<T: Transport, X: Exports>(
    service: &Service<X>,
    client: &ClientState,
    carried: Option<&RelayProgress>,
    transport: &T,
    agreement: &mut Agreement,
) -> Result<OpenedExport<X::Export>, ConnectionEnd> {
    let mut opened = None;
    let mut buf = AlignedBuf::zeroed(AGREEMENT_RECEIVE_BYTES);
    loop {
        let step = agreement.advance();
        if !matches!(step, Ok(AgreementStep::Agreed)) {
            send(transport, agreement).await?;
        }
        match step? {
            AgreementStep::Receive => {
                let whole = 0..buf.len();
                let (received, back) = transport.recv(buf, whole).await;
                buf = back;
                let received = received?;
                if received == 0 && agreement.is_encrypted() {
                    return Err(ConnectionEnd::Io(io::ErrorKind::UnexpectedEof)); // Without close_notify: cut off.
                }
                if received == 0 {
                    return Err(ConnectionEnd::PeerClosed);
                }
                if let Some(carried) = carried {
                    carried.received(received);
                }
                if let Err(error) = agreement.received(buf.get(..received).unwrap_or_default()) {
                    send(transport, agreement).await?; // Tells the client why.
                    return Err(error.into());
                }
            }
            AgreementStep::List => {
                let names = service.exports().list().await;
                agreement.answer_list(names.as_deref().map_err(|kind| *kind));
            }
            AgreementStep::Open(request) => {
                // The previous export of this handshake, if any, is closed first.
                drop(opened.take());
                let mut found = open(service.exports(), &request).await;
                if let Ok(opened) = &mut found {
                    opened.found.holder = opened.export.holder();
                }
                agreement.answer_open(
                    found
                        .as_ref()
                        .map_or_else(|kind| Err(*kind), |opened| Ok(opened.found.clone())),
                );
                opened = found.ok();
            }
            AgreementStep::Agreed => {
                let opened = opened.expect("an agreement ends with an export");
                // Of two that asked at the same time one comes second.
                opened.export.admit(client.peer()).map_err(|_| ConnectionEnd::Held)?;
                return Ok(opened);
            }
            AgreementStep::Close(reason) => return Err(ConnectionEnd::Handshake(reason)),
            AgreementStep::Ended => return Err(ConnectionEnd::PeerClosed),
        }
    }
}

/// Sends what the client is owed.
async fn send<T: Transport>(transport: &T, agreement: &mut Agreement) -> Result<(), ConnectionEnd> {
    let bytes = agreement.take_output()?;
    if !bytes.is_empty() {
        transport.send_all(vec![SendPart::Small(bytes)]).await?;
    }
    Ok(())
}

/// Tells the client that its export is open, once it may be.
async fn begin<T: Transport, X: Exports>(
    service: &Service<X>,
    carried: Option<&RelayProgress>,
    channel: &Channel<T>,
    opened: OpenedExport<X::Export>,
    agreed: &AgreedTerms,
) -> Result<OpenedExport<X::Export>, ConnectionEnd> {
    pass_gate(service, carried, &opened).await?;
    channel.send_all(vec![SendPart::Small(agreed.words.clone())]).await?;
    Ok(opened)
}

/// What there is by this name.
pub(crate) async fn look<X: Exports>(
    exports: &X,
    request: &OpenRequest,
) -> Result<KnownExport, ErrorKind> {
    let OpenedExport { found, export } = open(exports, request).await?;
    Ok(KnownExport { holder: export.holder(), ..found })
}

/// Opens what was found before.
async fn open_again<X: Exports>(
    exports: &X,
    peer: &Peer,
    found: &KnownExport,
) -> Result<OpenedExport<X::Export>, ConnectionEnd> {
    let since = Since::Named(found.since.clone());
    let request = OpenRequest { name: found.name.clone(), since };
    let opened = open(exports, &request).await.map_err(|kind| {
        tracing::debug!(export = found.name, %kind, "an export is not there any more");
        ConnectionEnd::Changed
    })?;
    // Its size may have changed, as that of an open export may. The rest is what its client knows it by.
    let (now, then) = (opened.found.info, found.info);
    let is_same = opened.found.since == found.since
        && (now.read_only, now.exclusive) == (then.read_only, then.exclusive);
    if !is_same {
        return Err(ConnectionEnd::Changed);
    }
    opened.export.admit(peer).map_err(|_| ConnectionEnd::Held)?;
    Ok(opened)
}

/// Opens the export of this name; the empty name means the only one there is.
async fn open<X: Exports>(
    exports: &X,
    OpenRequest { name, since }: &OpenRequest,
) -> Result<OpenedExport<X::Export>, ErrorKind> {
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
    let found = KnownExport { name, info: export.info(), since, holder: None };
    Ok(OpenedExport { found, export })
}

/// Waits until what was sent before on other connections cannot happen any more.
async fn pass_gate<X: Exports>(
    service: &Service<X>,
    carried: Option<&RelayProgress>,
    OpenedExport { found, export }: &OpenedExport<X::Export>,
) -> Result<(), ConnectionEnd> {
    if export.info().read_only {
        return Ok(());
    }
    if let Some(gate) = service.gate() {
        let (passes, mut told) = varve_reactor::port::channel(service.reactor(), 1);
        gate.pass(PendingOpen {
            export: found.name.clone(),
            by: carried.map(RelayProgress::number),
            passes,
        });
        if told.recv_batch(&mut Vec::new()).await == 0 {
            return Err(ConnectionEnd::Io(io::ErrorKind::ConnectionAborted)); // The gate has gone.
        }
    }
    if let Some(carried) = carried {
        carried.opened(&found.name);
    }
    Ok(())
}
