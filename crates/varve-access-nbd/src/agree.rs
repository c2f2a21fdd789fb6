//! The handshake on a connection: bytes, TLS and time around the state machine of `handshake.rs`. Whose the exports are is left to an [`Offer`]: those of the
//! service that goes on with the connection, or of others that it is handed to afterwards.
//!
//! A1. One export at a time is held for a connection; it is let go of before another one is opened, and when TLS begins.
//! A2. The client is told that its export is open after [`Offer::ready`].
//! A3. What arrived behind the handshake goes with the connection.

use std::future::Future;
use std::io;
use std::sync::Arc;

use futures_util::future::{Either, select};
use varve_reactor::Reactor;
use varve_types::ErrorKind;

use crate::carried::Carried;
use crate::channel::Channel;
use crate::connection::{Closed, Ended};
use crate::handshake::{Event, FoundExport, Handshake, Negotiated, OpenRequest, TlsMode};
use crate::inbox::Inbox;
use crate::limits::HANDSHAKE_TIMEOUT_MS;
use crate::shutdown::Shutdown;
use crate::tls::{TlsConfig, TlsSession};
use crate::transport::{SendPart, Transport};
use crate::usage::Usage;

const NANOS_PER_MS: u64 = 1_000_000;

/// An export that was found, and is open as long as this lives.
pub trait Held {
    /// What the client is told of it.
    fn found(&self) -> FoundExport<'_>;
}

/// The exports that clients may choose from.
pub trait Offer {
    /// One of them, opened.
    type Held: Held;

    /// Names that LIST shows, in order.
    fn list(&self) -> impl Future<Output = Result<Vec<String>, ErrorKind>>;

    /// Opens an export; the empty name means the only one there is.
    ///
    /// # Errors
    /// `NotFound` when there is none of this name.
    fn open(&self, request: &OpenRequest) -> impl Future<Output = Result<Self::Held, ErrorKind>>;

    /// Returns once the client may be told that the export is open (A2).
    ///
    /// # Errors
    /// Why the connection ends instead.
    fn ready(&self, held: &Self::Held) -> impl Future<Output = Result<(), Ended>>;
}

/// With what handshakes are gone through.
#[derive(Clone, Copy)]
pub struct Agreeing<'a> {
    /// The loop of this thread.
    pub reactor: &'a Reactor,
    /// Ends them.
    pub shutdown: &'a Shutdown,
    /// Certificates.
    pub tls: Option<&'a TlsConfig>,
    /// Whether connections use TLS. Without certificates they do not.
    pub tls_mode: TlsMode,
}

/// A connection whose handshake is over: what goes on with it serves requests.
pub struct Connection<T> {
    pub(crate) channel: Channel<T>,
    pub(crate) inbox: Inbox,
    pub(crate) negotiated: Negotiated,
    pub(crate) usage: Usage,
}

/// It goes to other threads, if its stream does.
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<Connection<()>>();
};

impl<T> Connection<T> {
    /// The same over another handle of its stream: one that goes to another thread, or that of another thread's loop.
    ///
    /// # Errors
    /// Those of `hand_over`; the connection is gone then.
    pub fn over<U, E>(self, hand_over: impl FnOnce(T) -> Result<U, E>) -> Result<Connection<U>, E> {
        let Self { channel, inbox, negotiated, usage } = self;
        Ok(Connection { channel: channel.over(hand_over)?, inbox, negotiated, usage })
    }

    /// Counts what arrives from now on, and what has arrived and not been looked at (A3).
    pub(crate) fn carried_as(&mut self, carried: Arc<Carried>) {
        carried.received(self.inbox.len());
        self.channel.carried_as(carried);
    }
}

impl Agreeing<'_> {
    /// Goes through the handshake of a new connection; returns it with the export that its client has chosen. The stream is closed when that comes to nothing.
    ///
    /// # Errors
    /// How the connection ended.
    pub async fn with<T: Transport, O: Offer>(
        &self,
        transport: T,
        offer: &O,
    ) -> Result<(Connection<T>, O::Held), Closed> {
        self.on(Channel::plain(transport, None), offer).await
    }

    pub(crate) async fn on<T: Transport, O: Offer>(
        &self,
        mut channel: Channel<T>,
        offer: &O,
    ) -> Result<(Connection<T>, O::Held), Closed> {
        let (mut inbox, mut usage) = (Inbox::new(), Usage::default());
        let agreed = {
            let shake = std::pin::pin!(self.handshake(offer, &mut channel, &mut inbox, &mut usage));
            let deadline = self.reactor.sleep(HANDSHAKE_TIMEOUT_MS * NANOS_PER_MS);
            let stop = std::pin::pin!(self.shutdown.wait());
            match select(shake, select(deadline, stop)).await {
                Either::Left((agreed, _)) => agreed,
                Either::Right((Either::Left(_), _)) => Err(Ended::HandshakeTimeout),
                Either::Right((Either::Right(_), _)) => Err(Ended::Shutdown),
            }
        };
        match agreed {
            Ok((held, negotiated)) => Ok((Connection { channel, inbox, negotiated, usage }, held)),
            Err(cause) => {
                channel.close().await;
                Err(Closed { cause, usage })
            }
        }
    }

    async fn handshake<T: Transport, O: Offer>(
        &self,
        offer: &O,
        channel: &mut Channel<T>,
        inbox: &mut Inbox,
        usage: &mut Usage,
    ) -> Result<(O::Held, Negotiated), Ended> {
        let mut out = Vec::new();
        let tls_mode = if self.tls.is_some() { self.tls_mode } else { TlsMode::Off };
        let mut handshake = Handshake::new(tls_mode, &mut out);
        let mut held = None;
        loop {
            let (consumed, mut event) = handshake.advance(inbox.bytes(), &mut out);
            inbox.consume(consumed);
            *usage = handshake.usage();
            if let Event::Open(request) = &event {
                drop(held.take()); // A1
                let opened = offer.open(request).await;
                let answer = opened.as_ref().map(Held::found).map_err(|kind| *kind);
                let next = handshake.answer_open(answer, &mut out);
                held = opened.ok();
                match next {
                    None => continue,
                    Some(next) => event = next,
                }
            }
            if event == Event::List {
                let names = offer.list().await;
                handshake.answer_list(names.as_deref().map_err(|kind| *kind), &mut out);
                continue;
            }
            if let (Event::Ready(_), Some(held)) = (&event, &held) {
                offer.ready(held).await?; // A2
            }
            if !out.is_empty() {
                channel.send_all(vec![SendPart::Small(std::mem::take(&mut out))]).await?;
            }
            match event {
                Event::NeedInput => receive(channel, inbox).await?,
                Event::StartTls => {
                    let config = self.tls.expect("STARTTLS is refused without a configuration");
                    let session =
                        TlsSession::new(config).map_err(|_| Ended::Io(io::ErrorKind::Other))?;
                    let early = inbox.bytes().to_vec();
                    inbox.consume(early.len());
                    channel.start_tls(session, &early).await?;
                    handshake.tls_started();
                    held = None; // A1
                }
                Event::Ready(negotiated) => {
                    *usage = handshake.usage();
                    return Ok((held.expect("the handshake ends with an export"), negotiated));
                }
                Event::Close(reason) => return Err(Ended::Handshake(reason)),
                Event::List | Event::Open(_) => panic!("answered above"),
            }
        }
    }
}

async fn receive<T: Transport>(channel: &Channel<T>, inbox: &mut Inbox) -> Result<(), Ended> {
    let (buf, range) = inbox.lend();
    let (received, buf) = channel.recv(buf, range).await;
    let received = received?;
    inbox.give_back(buf, received);
    if received == 0 { Err(Ended::PeerClosed) } else { Ok(()) }
}
