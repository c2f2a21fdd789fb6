//! State of the transmission phase: the stream is cut into requests here, and replies are gathered. No I/O.
//!
//! NBD-LINK-1. From admission until its reply is sent a request counts against [`REQUESTS_MAX`]; the data of a read and
//!     the extents of a block status count against the thread's budget as long, the data of a write until it is
//!     written, those of a cache request until they are read. What does not fit stays unread.
//! NBD-LINK-2. The payload of a refused request is dropped as it arrives, and the request is answered then: clients
//!     look for the request of a reply among those that they have sent to the end. With extended headers one that is
//!     longer than any may be ends the connection, as the protocol asks for.
//! NBD-LINK-3. After a wrong magic, such a payload, a disconnect or a failed socket, and once the server shuts down,
//!     nothing more is read; what is in flight still finishes. No request is refused for a shutdown: clients repeat on
//!     a new connection what has no answer, and pass an error on.

use std::io;
use std::ops::Range;
use std::rc::Rc;

use varve_access_block::{Export, ReadPart};
use varve_nbd::{DecodedHeader, Framing, RequestHeader};
use varve_stdx::AlignedBuf;
use varve_types::limits::REQUEST_BYTES_MAX;

use crate::budget::{Admission, Share};
use crate::command::{CheckedCommand, admit};
use crate::connection::ConnectionEnd;
use crate::errno::Errno;
use crate::handshake::NegotiatedExport;
use crate::inbox::Inbox;
use crate::limits::{
    DIRECT_PAYLOAD_BYTES_MIN, REQUESTS_MAX, STALL_BYTES_MIN, STALL_CHECKS, STALL_PART,
};
use crate::outbox::{Outbox, RequestCost};
use crate::serve::{Request, RequestOutcome};
use crate::usage::ClientUsage;
use crate::wire::reply::Echo;

/// What the next bytes of the stream are.
enum Expect {
    Request,
    /// The rest of a large payload, received straight into the buffer of its request; away during a receive.
    Payload {
        echo: Echo,
        command: CheckedCommand,
        buf: Option<AlignedBuf>,
        filled: usize,
    },
    /// The rest of a refused payload, and the answer that it gets then (NBD-LINK-2).
    Skip {
        left: usize,
        echo: Echo,
        errno: Errno,
    },
    /// Nothing any more (NBD-LINK-3).
    Nothing,
}

/// Outcome of looking at what was received.
pub(crate) enum Parse {
    /// A request that may run.
    Request(Request),
    /// More bytes are needed.
    NeedInput,
    /// So many bytes of the budget are needed.
    NeedBudget(usize),
    /// Requests must finish, or replies be sent, first.
    NeedReplies,
    /// Nothing more is read (NBD-LINK-3).
    Ended,
}

/// See the module.
pub(crate) struct Link<E> {
    pub(crate) outbox: Outbox,
    pub(crate) share: Share,
    pub(crate) usage: ClientUsage,
    export: Rc<E>,
    negotiated: NegotiatedExport,
    inbox: Inbox,
    expect: Expect,
    outstanding: RequestCost,
    send_failed: bool,
    ended: Option<ConnectionEnd>,
    /// Bytes received since the last check.
    moved: u64,
    idle_checks: u32,
}

impl<E: Export> Link<E> {
    pub(crate) fn new(
        export: Rc<E>,
        negotiated: NegotiatedExport,
        inbox: Inbox,
        share: Share,
        usage: ClientUsage,
    ) -> Self {
        Self {
            outbox: Outbox::new(negotiated.framing),
            share,
            usage,
            export,
            negotiated,
            inbox,
            expect: Expect::Request,
            outstanding: RequestCost::default(),
            send_failed: false,
            ended: None,
            moved: 0,
            idle_checks: 0,
        }
    }

    /// The next request, or why there is none.
    pub(crate) fn parse(&mut self) -> Parse {
        loop {
            match &mut self.expect {
                Expect::Nothing => return Parse::Ended,
                Expect::Request => {
                    if let Some(parsed) = self.next_request() {
                        return parsed;
                    }
                }
                Expect::Skip { left, echo, errno } => {
                    let part = self.inbox.len().min(*left);
                    *left -= part;
                    let (rest, echo, errno) = (*left, *echo, *errno);
                    self.inbox.consume(part);
                    if rest > 0 {
                        return Parse::NeedInput;
                    }
                    self.expect = Expect::Request;
                    self.answer_refused(echo, errno);
                }
                Expect::Payload { echo, command, buf, filled } => {
                    let whole = buf.take_if(|buf| buf.len() == *filled);
                    let Some(buf) = whole else { return Parse::NeedInput };
                    let (echo, command) = (*echo, *command);
                    self.expect = Expect::Request;
                    let payload = Some(buf.freeze());
                    return Parse::Request(Request { echo, command, payload });
                }
            }
        }
    }

    /// `None`: look again, the request was refused or its payload is on its way.
    fn next_request(&mut self) -> Option<Parse> {
        let framing = self.negotiated.framing;
        let header = match RequestHeader::decode(self.inbox.bytes(), framing) {
            DecodedHeader::Header(header) => header,
            DecodedHeader::Incomplete => return Some(Parse::NeedInput),
            DecodedHeader::BadMagic(magic) => {
                self.end(ConnectionEnd::BadMagic(magic));
                return Some(Parse::Ended);
            }
        };
        if self.outstanding.requests >= REQUESTS_MAX {
            return Some(Parse::NeedReplies); // NBD-LINK-1
        }
        let payload_len = header.payload_len(framing);
        if framing == Framing::Extended && payload_len > u64::from(REQUEST_BYTES_MAX) {
            self.usage.request(&header);
            self.end(ConnectionEnd::LongPayload(payload_len)); // NBD-LINK-2
            return Some(Parse::Ended);
        }
        match admit(&header, self.export.info(), self.negotiated) {
            Ok(CheckedCommand::Disconnect) => {
                self.usage.request(&header);
                self.end(ConnectionEnd::Disconnected);
                Some(Parse::Ended)
            }
            Ok(command) => self.admitted(&header, command),
            Err(errno) => {
                self.refuse(&header, errno);
                None
            }
        }
    }

    fn refuse(&mut self, header: &RequestHeader, errno: Errno) {
        self.consume_header();
        self.usage.request(header);
        // It may have waited for the budget before the export shrank.
        self.share.stop_waiting();
        let payload_len = header.payload_len(self.negotiated.framing);
        let left = usize::try_from(payload_len).expect("checked, or of 32 bits");
        if left > 0 {
            self.expect = Expect::Skip { left, echo: Echo::from(header), errno }; // NBD-LINK-2
        } else {
            self.answer_refused(Echo::from(header), errno);
        }
    }

    fn consume_header(&mut self) {
        self.inbox.consume(self.negotiated.framing.request_bytes());
    }

    fn answer_refused(&mut self, echo: Echo, errno: Errno) {
        let charge = RequestCost { requests: 1, payload_bytes: 0 };
        self.outstanding.add(charge);
        self.outbox.error(echo, errno, charge);
    }

    fn admitted(&mut self, header: &RequestHeader, command: CheckedCommand) -> Option<Parse> {
        let echo = Echo::from(header);
        let len = command.payload_bytes();
        let is_write = matches!(command, CheckedCommand::Write { .. });
        let arrived = self.inbox.len() - self.negotiated.framing.request_bytes();
        let direct = is_write && len >= DIRECT_PAYLOAD_BYTES_MIN && arrived < len;
        if is_write && !direct && arrived < len {
            return Some(Parse::NeedInput);
        }
        match self.share.try_take(len) {
            Admission::Taken => {}
            Admission::OwnReplies => return Some(Parse::NeedReplies), // NBD-LINK-1
            Admission::Queued => return Some(Parse::NeedBudget(len)), // NBD-LINK-1
        }
        self.usage.request(header);
        self.outstanding.add(RequestCost { requests: 1, payload_bytes: len });
        self.consume_header();
        if !is_write || len == 0 {
            return Some(Parse::Request(Request { echo, command, payload: None }));
        }
        let bytes = self.inbox.bytes();
        let here = bytes.get(..len.min(bytes.len())).unwrap_or_default();
        if !direct {
            let payload = AlignedBuf::from_slice(here).freeze();
            self.inbox.consume(len);
            return Some(Parse::Request(Request { echo, command, payload: Some(payload) }));
        }
        let mut buf = AlignedBuf::scratch(len); // It is filled to its end before anybody gets it.
        let filled = here.len();
        buf.get_mut(..filled).expect("less than the payload arrived").copy_from_slice(here);
        self.inbox.consume(filled);
        self.expect = Expect::Payload { echo, command, buf: Some(buf), filled };
        None
    }

    /// Where the next receive goes.
    pub(crate) fn lend(&mut self) -> (AlignedBuf, Range<usize>) {
        match &mut self.expect {
            Expect::Payload { buf, filled, .. } => {
                let buf = buf.take().expect("one receive at a time");
                let rest = *filled..buf.len();
                (buf, rest)
            }
            Expect::Request | Expect::Skip { .. } | Expect::Nothing => self.inbox.lend(),
        }
    }

    /// Takes in what a receive yielded.
    pub(crate) fn received(&mut self, result: io::Result<usize>, returned: AlignedBuf) {
        let count = match result {
            Ok(count) => count,
            Err(error) => {
                self.end(ConnectionEnd::Io(error.kind()));
                0
            }
        };
        self.moved += u64::try_from(count).expect("usize has at most 64 bits");
        match &mut self.expect {
            Expect::Payload { buf, filled, .. } => {
                *filled += count;
                *buf = Some(returned);
            }
            Expect::Request | Expect::Skip { .. } => self.inbox.give_back(returned, count),
            Expect::Nothing => {}
        }
        if count == 0 {
            self.end(ConnectionEnd::PeerClosed);
        }
    }

    /// Takes in what became of a request.
    pub(crate) fn finished<P: IntoIterator<Item = ReadPart>>(
        &mut self,
        finished: RequestOutcome<P>,
    ) {
        let mut payload_bytes = finished.command.payload_bytes();
        if matches!(finished.command, CheckedCommand::Write { .. } | CheckedCommand::Cache { .. }) {
            self.release(RequestCost { requests: 0, payload_bytes });
            payload_bytes = 0;
        }
        let charge = RequestCost { requests: 1, payload_bytes };
        if self.send_failed {
            self.release(charge);
        } else {
            finished.reply(&mut self.outbox, charge);
        }
    }

    /// Takes in how the send of a batch went.
    pub(crate) fn sent(&mut self, result: io::Result<()>, charge: RequestCost) {
        self.release(charge);
        if let Err(error) = result {
            self.send_failed = true;
            self.end(ConnectionEnd::Io(error.kind()));
            while let Some((_, charge)) = self.outbox.take_batch() {
                self.release(charge);
            }
        }
    }

    fn release(&mut self, charge: RequestCost) {
        self.outstanding.subtract(charge);
        self.share.give_back(charge.payload_bytes);
    }

    /// Stops reading (NBD-LINK-3). The first cause counts.
    pub(crate) fn end(&mut self, cause: ConnectionEnd) {
        self.ended.get_or_insert(cause);
        self.expect = Expect::Nothing;
        self.share.stop_waiting();
    }

    /// Requests that have arrived and whose replies are not sent.
    pub(crate) fn outstanding_requests(&self) -> usize {
        self.outstanding.requests
    }

    pub(crate) fn cause(&self) -> Option<ConnectionEnd> {
        self.ended
    }

    /// Looks, once in a while, whether the peer holds up others or its own end; `sent` bytes have left since the last
    /// look.
    pub(crate) fn peer_stalled(&mut self, send_under_way: bool, sent: u64) -> bool {
        let moved = std::mem::take(&mut self.moved) + sent;
        let held_up = self.share.held_up();
        let owes = match self.expect {
            Expect::Payload { .. } => held_up > 0,
            Expect::Request | Expect::Skip { .. } => send_under_way && held_up > 0,
            Expect::Nothing => send_under_way,
        };
        let part = u64::try_from(held_up / STALL_PART).expect("usize has at most 64 bits");
        let idle = owes && moved < STALL_BYTES_MIN.max(part);
        self.idle_checks = if idle { self.idle_checks + 1 } else { 0 };
        self.idle_checks >= STALL_CHECKS
    }
}
