//! The transmission phase of one connection: one task that receives, serves and replies at the same time.
//!
//! ```text
//!   socket --> link: inbox, admission --> in flight --> link: outbox --> socket
//!                  (limits hold here)                (a batch a send)
//! ```
//!
//! A round takes in all that arrived and finished, starts all requests that are whole, and sends all replies that are
//! ready in one call. While a send is under way the next batch gathers.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use varve_reactor::Reactor;

use crate::budget::Share;
use crate::channel::Channel;
use crate::connection::{Closed, Ended};
use crate::export::Export;
use crate::handshake::Negotiated;
use crate::inbox::Inbox;
use crate::inflight::InFlight;
use crate::limits::{DRAIN_TIMEOUT_MS, LINGER_MS, STALL_CHECK_MS};
use crate::link::{Link, Parsed};
use crate::outbox::Charge;
use crate::serve::serve;
use crate::shutdown::Shutdown;
use crate::transport::Transport;
use crate::usage::Usage;

const NANOS_PER_MS: u64 = 1_000_000;

/// What the transmission phase starts with.
pub(crate) struct Session<E> {
    pub(crate) export: Rc<E>,
    pub(crate) negotiated: Negotiated,
    /// Holds what arrived behind the handshake.
    pub(crate) inbox: Inbox,
    pub(crate) share: Share,
    pub(crate) usage: Usage,
}

/// Why the loop below goes round.
enum Event {
    Progress,
    Shutdown,
    Timer,
}

/// What the timer means next.
enum Clock {
    StallCheck,
    EndOfLinger,
    EndOfDrain,
}

/// Serves requests until the connection ends. Whoever calls closes the channel.
pub(crate) async fn transmit<T: Transport, E: Export>(
    reactor: &Reactor,
    channel: &Channel<T>,
    session: Session<E>,
    shutdown: &Shutdown,
) -> Closed {
    let Session { export, negotiated, inbox, share, usage } = session;
    let mut link = Link::new(Rc::clone(&export), negotiated, inbox, share, usage);
    let mut inflight = InFlight::new();
    let mut receiving = pin!(None);
    let mut sending = pin!(None);
    let mut sent_charge = Charge::default();
    let mut shutdown_begins = pin!(shutdown.wait());
    let mut clock = Clock::StallCheck;
    let mut timer = pin!(reactor.sleep(STALL_CHECK_MS * NANOS_PER_MS));
    loop {
        let mut budget_wanted = None;
        while receiving.is_none() {
            match link.parse() {
                Parsed::Request(request) => {
                    if let Some(done) = inflight.start(serve(Rc::clone(&export), request)) {
                        link.finished(done);
                    }
                }
                Parsed::NeedInput => {
                    let (buf, range) = link.lend();
                    receiving.set(Some(channel.recv(buf, range)));
                }
                Parsed::NeedBudget(bytes) => {
                    budget_wanted = Some(bytes);
                    break;
                }
                Parsed::NeedReplies | Parsed::Ended => break,
            }
        }
        if sending.is_none() {
            if let Some((parts, charge)) = link.outbox.take_batch() {
                sent_charge = charge;
                sending.set(Some(channel.send_all(parts)));
            } else if inflight.is_empty()
                && let Some(cause) = link.cause()
            {
                return Closed { cause, usage: link.usage };
            }
        }
        let event = poll_fn(|cx| {
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
            progress |= inflight.poll_finished(cx, |done| link.finished(done)).is_ready();
            if let Some(bytes) = budget_wanted {
                progress |= link.share.poll_available(cx, bytes).is_ready();
            }
            if progress {
                return Poll::Ready(Event::Progress);
            }
            if !link.is_stopping() && shutdown_begins.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Event::Shutdown);
            }
            timer.as_mut().poll(cx).map(|()| Event::Timer)
        })
        .await;
        let next_ms = match event {
            Event::Progress => continue,
            Event::Shutdown => {
                link.stop();
                clock = Clock::EndOfLinger;
                LINGER_MS
            }
            Event::Timer => match clock {
                Clock::StallCheck if link.peer_stalled(sending.is_some()) => {
                    return Closed { cause: Ended::Stalled, usage: link.usage };
                }
                Clock::StallCheck => STALL_CHECK_MS,
                Clock::EndOfLinger => {
                    link.end(Ended::Shutdown);
                    clock = Clock::EndOfDrain;
                    DRAIN_TIMEOUT_MS - LINGER_MS
                }
                Clock::EndOfDrain => {
                    return Closed { cause: Ended::Shutdown, usage: link.usage };
                }
            },
        };
        timer.set(reactor.sleep(next_ms * NANOS_PER_MS));
    }
}
