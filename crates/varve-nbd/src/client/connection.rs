//! A connection with the few requests that copies of whole volumes need, several under way at a time. It blocks.

use std::collections::{HashMap, VecDeque};
use std::io::{Read, Write};

use super::handshake::{AttachRequest, ServedExport, shake_hands};
use super::request_table::{FinishedRequest, NewRequest, ReplyStep, RequestTable};
use super::stream::{NbdAddress, NbdStream};
use crate::constant::cmd;
use crate::error::{Error, Result};
use crate::framing::Framing;
use crate::request::RequestHeader;

/// Requests under way at most.
const REQUESTS_MAX: usize = 16;

/// Bytes that one request makes zeros, at most.
const ZEROES_BYTES_MAX: u64 = 1 << 30;

/// A connection to one export.
pub struct NbdConnection<S = NbdStream> {
    stream: S,
    export: ServedExport,
    framing: Framing,
    requests: RequestTable<Vec<u8>>,
    /// Cookies of requests, in the order they were sent.
    order: VecDeque<u64>,
    /// Data of those that were answered before their turn came.
    finished: HashMap<u64, FoundData>,
}

/// What a read found; of other requests, no data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundData {
    /// Where the request's range begins.
    pub offset: u64,
    /// The bytes that it asked for.
    pub data: Vec<u8>,
}

impl NbdConnection {
    /// Connects, and attaches to an export.
    ///
    /// # Errors
    /// All but `Request`.
    pub fn connect(address: &NbdAddress, request: &AttachRequest<'_>) -> Result<Self> {
        Self::attach(NbdStream::connect(address).map_err(Error::Connect)?, request)
    }
}

impl<S: Read + Write> NbdConnection<S> {
    /// Attaches to an export over a stream on which nothing was said.
    ///
    /// # Errors
    /// All but `Connect` and `Request`.
    pub fn attach(mut stream: S, request: &AttachRequest<'_>) -> Result<Self> {
        let export = shake_hands(&mut stream, request)?;
        let framing = request.framing();
        let requests = RequestTable::new(framing);
        let (order, finished) = (VecDeque::new(), HashMap::new());
        Ok(Self { stream, export, framing, requests, order, finished })
    }

    /// Size of the export in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.export.size_bytes
    }

    /// Whether another request may be sent before an answer is taken.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.order.len() < REQUESTS_MAX
    }

    /// Asks for bytes.
    ///
    /// # Errors
    /// `Stream`.
    ///
    /// # Panics
    /// Without room, as all that send.
    pub fn send_read(&mut self, offset: u64, len: u32) -> Result<()> {
        let bytes = usize::try_from(len).expect("usize has at least 32 bits");
        let request = NewRequest { command: cmd::READ, flags: 0, offset, len };
        // Holes are not sent: zeros until something else comes.
        self.send(request, &[], vec![0; bytes])
    }

    /// Writes bytes; whether it went well tells an answer.
    ///
    /// # Errors
    /// `Stream`.
    ///
    /// # Panics
    /// For 4 GiB and more.
    pub fn send_write(&mut self, offset: u64, data: &[u8]) -> Result<()> {
        let len = u32::try_from(data.len()).expect("a write is below 4 GiB");
        let request = NewRequest { command: cmd::WRITE, flags: 0, offset, len };
        self.send(request, data, Vec::new())
    }

    /// Makes bytes zeros, of any number; answers tell whether it went well.
    ///
    /// # Errors
    /// Those of [`Self::next_answer`].
    pub fn send_zeroes(&mut self, offset: u64, len: u64) -> Result<()> {
        let (mut offset, end) = (offset, offset + len);
        while offset < end {
            let piece = (end - offset).min(ZEROES_BYTES_MAX);
            while !self.has_room() {
                self.next_answer()?;
            }
            let len = u32::try_from(piece).expect("at most 1 GiB");
            let request = NewRequest { command: cmd::WRITE_ZEROES, flags: 0, offset, len };
            self.send(request, &[], Vec::new())?;
            offset += piece;
        }
        Ok(())
    }

    fn send(&mut self, request: NewRequest, payload: &[u8], data: Vec<u8>) -> Result<()> {
        assert!(self.has_room(), "an answer is taken first");
        let started = self.requests.start(request, data);
        self.stream.write_all(&started.header).map_err(Error::Stream)?;
        self.stream.write_all(payload).map_err(Error::Stream)?;
        self.order.push_back(started.cookie);
        Ok(())
    }

    /// Waits for the oldest request; `None` when none is under way.
    ///
    /// # Errors
    /// `Stream` and `Protocol`; `Request` for whichever request the server failed.
    pub fn next_answer(&mut self) -> Result<Option<FoundData>> {
        let Some(cookie) = self.order.front().copied() else { return Ok(None) };
        loop {
            if let Some(found) = self.finished.remove(&cookie) {
                self.order.pop_front();
                return Ok(Some(found));
            }
            self.take_reply()?;
        }
    }

    /// Waits for everything that is under way.
    ///
    /// # Errors
    /// Those of [`Self::next_answer`].
    pub fn drain(&mut self) -> Result<()> {
        while self.next_answer()?.is_some() {}
        Ok(())
    }

    /// Takes one reply, or one chunk of one.
    fn take_reply(&mut self) -> Result<()> {
        let mut front = Vec::new();
        loop {
            match self.requests.take_reply(&front)? {
                ReplyStep::NeedBytes(bytes) => {
                    let known = front.len();
                    front.resize(bytes, 0);
                    let rest = front.get_mut(known..).expect("it asks for more than there is");
                    self.stream.read_exact(rest).map_err(Error::Stream)?;
                }
                ReplyStep::Data(mut data) => {
                    let range = data.range();
                    let place = data.value_mut().get_mut(range).expect("within what was asked");
                    self.stream.read_exact(place).map_err(Error::Stream)?;
                    let finished = self.requests.data_taken(data)?;
                    return finished.map_or(Ok(()), |request| self.keep(request));
                }
                ReplyStep::Continued => return Ok(()),
                ReplyStep::Finished(request) => return self.keep(request),
            }
        }
    }

    fn keep(&mut self, request: FinishedRequest<Vec<u8>>) -> Result<()> {
        let FinishedRequest { cookie, offset, error, value: data } = request;
        if let Some(source) = error {
            return Err(Error::Request { offset, source });
        }
        self.finished.insert(cookie, FoundData { offset, data });
        Ok(())
    }

    /// Says goodbye; what is under way is waited for, and durable on return.
    ///
    /// # Errors
    /// Those of [`Self::next_answer`].
    pub fn end(mut self) -> Result<()> {
        while !self.has_room() {
            self.next_answer()?;
        }
        let flush = NewRequest { command: cmd::FLUSH, flags: 0, offset: 0, len: 0 };
        self.send(flush, &[], Vec::new())?;
        self.drain()?;
        let command = cmd::DISC;
        let goodbye = RequestHeader { flags: 0, command, cookie: 0, offset: 0, len: 0 };
        self.stream.write_all(&goodbye.encode(self.framing)).map_err(Error::Stream)
    }
}
