//! The transmission phase of one connection: one task that receives, serves and replies at the same time.
//!
//! ```text
//!   socket --> link: inbox, admission --> in flight --> link: outbox --> socket
//!                  (limits hold here)                (a batch a send)
//! ```
//!
//! A round takes in all that arrived and finished, starts all requests that are whole, and sends all replies that are
//! ready in one call. While a send is under way the next batch gathers. What reads ask of the drive is handed to the
//! kernel a few reads at a time, so that the drive works while the rest of a batch is taken in. Writes need none of it:
//! they share a write of the journal.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::FutureExt;
use varve_access_block::Export;
use varve_reactor::Reactor;
use varve_stdx::AlignedBuf;

use crate::budget::Share;
use crate::carried::RelayProgress;
use crate::channel::Channel;
use crate::client::ClientState;
use crate::command::CheckedCommand;
use crate::connection::{ClosedConnection, ConnectionEnd};
use crate::handshake::NegotiatedExport;
use crate::inbox::Inbox;
use crate::inflight::InFlight;
use crate::limits::{DRAIN_TIMEOUT_MS, READS_A_SUBMIT, SEND_BYTES_MAX, STALL_CHECK_MS};
use crate::link::{Link, Parse};
use crate::outbox::RequestCost;
use crate::serve::serve;
use crate::shutdown::Shutdown;
use crate::transport::{SendPart, Transport};
use crate::usage::ClientUsage;

const NANOS_PER_MS: u64 = 1_000_000;

/// What the transmission phase starts with.
pub(crate) struct Session<'a, E> {
    pub(crate) export: Rc<E>,
    pub(crate) negotiated: NegotiatedExport,
    /// Holds what arrived behind the handshake.
    pub(crate) inbox: Inbox,
    pub(crate) share: Share,
    pub(crate) usage: ClientUsage,
    pub(crate) client: &'a ClientState,
    /// Told how far the connection has come, where another node carries it.
    pub(crate) carried: Option<Arc<RelayProgress>>,
}

/// Why the loop below goes round.
enum Event {
    Progress,
    MustLeave(ConnectionEnd),
    Timer,
}

/// What the socket has taken since the timer fired last.
struct Sends<'a> {
    under_way: bool,
    bytes: &'a Cell<u64>,
}

/// What the timer means next.
#[derive(Clone, Copy)]
enum Clock {
    StallCheck,
    EndOfDrain,
}

impl Clock {
    /// What the timer means after an event, unless it goes on; or why the connection ends here.
    fn after<E: Export>(
        self,
        event: Event,
        link: &mut Link<E>,
        sends: &Sends<'_>,
    ) -> Result<Option<Self>, ConnectionEnd> {
        match event {
            Event::Progress => Ok(None),
            Event::MustLeave(why) => Ok(Some(Self::drain(link, why))),
            Event::Timer => self.fired(link, sends).map(Some),
        }
    }

    /// The timer fired: what it means from now on, or why the connection ends here.
    fn fired<E: Export>(
        self,
        link: &mut Link<E>,
        sends: &Sends<'_>,
    ) -> Result<Self, ConnectionEnd> {
        match self {
            Self::StallCheck if link.peer_stalled(sends.under_way, sends.bytes.take()) => {
                Err(ConnectionEnd::Stalled)
            }
            Self::StallCheck => Ok(Self::StallCheck),
            Self::EndOfDrain if link.cause() == Some(ConnectionEnd::ToldToLeave) => {
                Err(ConnectionEnd::ToldToLeave)
            }
            Self::EndOfDrain => Err(ConnectionEnd::Shutdown),
        }
    }

    /// The connection is to end: no more requests are read from now on (NBD-LINK-3).
    fn drain<E: Export>(link: &mut Link<E>, why: ConnectionEnd) -> Self {
        link.end(why);
        Self::EndOfDrain
    }

    /// Time until it fires.
    fn nanos(self) -> u64 {
        let ms = match self {
            Self::StallCheck => STALL_CHECK_MS,
            Self::EndOfDrain => DRAIN_TIMEOUT_MS,
        };
        ms * NANOS_PER_MS
    }
}

/// Serves requests until the connection ends. Whoever calls closes the channel.
pub(crate) async fn transmit<T: Transport, E: Export>(
    reactor: &Reactor,
    channel: &Channel<T>,
    Session { export, negotiated, inbox, share, usage, client, carried }: Session<'_, E>,
    shutdown: &Shutdown,
) -> ClosedConnection {
    let mut link = Link::new(Rc::clone(&export), negotiated, inbox, share, usage);
    let (mut inflight, mut reads) = (InFlight::new(), ReadBatch { reactor, started: 0 });
    let (sent_bytes, mut taken) = (Cell::new(0), RequestCost::default());
    let mut receiving = pin!(None);
    let mut sending = pin!(None);
    let mut must_leave = pin!(client.must_leave(shutdown).fuse());
    let mut clock = Clock::StallCheck;
    let mut timer = pin!(reactor.sleep(clock.nanos()));
    loop {
        let mut budget_wanted = None;
        while receiving.is_none() {
            match link.parse() {
                Parse::Request(request) => {
                    reads.hand_over_before(request.command);
                    if let Some(done) = inflight.start(serve(Rc::clone(&export), request)) {
                        link.finished(done);
                    }
                }
                Parse::NeedInput if !inflight.is_empty() && is_held(carried.as_deref()) => break,
                Parse::NeedInput => {
                    let (buf, range) = link.lend();
                    receiving.set(Some(channel.recv(buf, range)));
                }
                Parse::NeedBudget(bytes) => {
                    budget_wanted = Some(bytes);
                    break;
                }
                Parse::NeedReplies | Parse::Ended => break,
            }
        }
        note_settled(carried.as_deref(), channel, receiving.is_some() && inflight.is_empty());
        if sending.is_none() {
            if let Some((parts, charge)) = link.outbox.take_batch() {
                taken = charge;
                sending.set(Some(send_batch(channel, parts, &sent_bytes)));
            } else if inflight.is_empty()
                && let Some(cause) = link.cause()
            {
                return ClosedConnection { cause, usage: link.usage };
            }
        }
        client.has_requests(link.outstanding_requests());
        let event = poll_fn(|cx| {
            let progress = poll_io(cx, &mut link, receiving.as_mut(), sending.as_mut(), taken);
            let finished = inflight.poll_finished(cx, |done| link.finished(done));
            let available = budget_wanted.map(|bytes| link.share.poll_available(cx, bytes));
            if progress || finished.is_ready() || available.is_some_and(|poll| poll.is_ready()) {
                return Poll::Ready(Event::Progress);
            }
            if let Poll::Ready(why) = must_leave.as_mut().poll(cx) {
                return Poll::Ready(Event::MustLeave(why));
            }
            timer.as_mut().poll(cx).map(|()| Event::Timer)
        })
        .await;
        let sends = Sends { under_way: sending.is_some(), bytes: &sent_bytes };
        match clock.after(event, &mut link, &sends) {
            Ok(None) => continue,
            Ok(Some(next)) => clock = next,
            Err(cause) => return end(cause, link.usage, &mut inflight).await,
        }
        timer.set(reactor.sleep(clock.nanos()));
    }
}

/// Reads of a connection that were started, a few of which go to the drive at a time.
struct ReadBatch<'a> {
    reactor: &'a Reactor,
    started: u32,
}

impl ReadBatch<'_> {
    /// Hands what was queued for the drive to the kernel where enough reads were started before this command.
    fn hand_over_before(&mut self, command: CheckedCommand) {
        if !matches!(command, CheckedCommand::Read { .. }) {
            return;
        }
        if self.started == READS_A_SUBMIT {
            self.started = 0;
            if let Some(ring) = self.reactor.ring() {
                ring.submit();
            }
        }
        self.started += 1;
    }
}

/// Sends a batch; a large one in pieces, so that it shows whether the peer takes them.
async fn send_batch<T: Transport>(
    channel: &Channel<T>,
    parts: Vec<SendPart>,
    sent_bytes: &Cell<u64>,
) -> io::Result<()> {
    let (mut piece, mut piece_bytes) = (Vec::new(), 0);
    for part in parts {
        piece_bytes += match &part {
            SendPart::Small(bytes) => bytes.len(),
            SendPart::Slice(bytes) => bytes.len(),
        };
        piece.push(part);
        if piece_bytes >= SEND_BYTES_MAX {
            channel.send_all(std::mem::take(&mut piece)).await?;
            sent_bytes.set(sent_bytes.get() + to_u64(std::mem::take(&mut piece_bytes)));
        }
    }
    if !piece.is_empty() {
        channel.send_all(piece).await?;
        sent_bytes.set(sent_bytes.get() + to_u64(piece_bytes));
    }
    Ok(())
}

fn to_u64(len: usize) -> u64 {
    u64::try_from(len).expect("usize has at most 64 bits")
}

fn is_held(carried: Option<&RelayProgress>) -> bool {
    carried.is_some_and(RelayProgress::is_held)
}

/// Tells who carries the connection that everything that was received has happened, where that is so.
fn note_settled<T: Transport>(
    carried: Option<&RelayProgress>,
    channel: &Channel<T>,
    is_idle: bool,
) {
    if let Some(carried) = carried.filter(|_| is_idle && channel.is_drained()) {
        carried.settle();
    }
}

/// The end of a connection whose client holds up others or does not leave, or the shutdown. What is under way still
/// finishes but at the shutdown: openings may wait for it.
async fn end<F: Future>(
    cause: ConnectionEnd,
    usage: ClientUsage,
    inflight: &mut InFlight<F>,
) -> ClosedConnection {
    if cause != ConnectionEnd::Shutdown {
        inflight.finish().await;
    }
    ClosedConnection { cause, usage }
}

/// Polls the receive and the send that are under way, and takes in what they yield; true when one did.
fn poll_io<E: Export>(
    cx: &mut Context<'_>,
    link: &mut Link<E>,
    mut receiving: Pin<&mut Option<impl Future<Output = (io::Result<usize>, AlignedBuf)>>>,
    mut sending: Pin<&mut Option<impl Future<Output = io::Result<()>>>>,
    sent_charge: RequestCost,
) -> bool {
    let mut progress = false;
    if let Some(receive) = receiving.as_mut().as_pin_mut()
        && let Poll::Ready((result, buf)) = receive.poll(cx)
    {
        receiving.set(None);
        link.received(result, buf);
        progress = true;
    }
    if let Some(send) = sending.as_mut().as_pin_mut()
        && let Poll::Ready(result) = send.poll(cx)
    {
        sending.set(None);
        link.sent(result, sent_charge);
        progress = true;
    }
    progress
}
