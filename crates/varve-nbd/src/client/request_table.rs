//! Requests of a connection that are under way, and the replies to them. No I/O: whoever drives it reads as many bytes
//! of its stream as it is told.
//!
//! NBD-CLIENT-1. What a server sends is compared with what it was asked; anything else is an error, and the connection
//!     is of no more use.

use std::collections::HashMap;
use std::io;
use std::ops::Range;

use varve_stdx::{BigEndian, Reader};

use crate::constant::{SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC, chunk, cmd};
use crate::error::{Error, Result};
use crate::framing::Framing;
use crate::request::RequestHeader;

/// Bytes of a simple reply, and of the front of a chunk.
const SIMPLE_REPLY_BYTES: usize = 16;
const CHUNK_BYTES: usize = 20;

/// Longest chunk with an error that is looked at, in bytes.
const ERROR_BYTES_MAX: usize = 64 << 10;

/// Most bytes that a step asks for.
pub const REPLY_HEAD_BYTES_MAX: usize = CHUNK_BYTES + ERROR_BYTES_MAX;

const UNASKED: Error = Error::Protocol("the server answered what was not asked");

/// A request that is to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewRequest {
    /// Command number.
    pub command: u16,
    /// Command flags.
    pub flags: u16,
    /// First byte concerned.
    pub offset: u64,
    /// Bytes concerned, or of payload.
    pub len: u32,
}

/// A request that is under way.
pub struct StartedRequest {
    /// Its number on this connection.
    pub cookie: u64,
    /// What is sent; the payload of a write follows it.
    pub header: Vec<u8>,
}

/// The requests of one connection. With each there is a value of whoever asked.
pub struct RequestTable<T> {
    framing: Framing,
    last_cookie: u64,
    under_way: HashMap<u64, PendingRequest<T>>,
}

struct PendingRequest<T> {
    cookie: u64,
    offset: u64,
    /// Bytes that a good answer has.
    len: usize,
    /// Bytes that were answered so far.
    answered: usize,
    error: Option<u32>,
    value: T,
}

/// What is next in a reply.
pub enum ReplyStep<T> {
    /// So many bytes of the reply, from its front, are needed to know; fewer were handed in.
    NeedBytes(usize),
    /// What was handed in is done with; data follow.
    Data(ReplyData<T>),
    /// What was handed in is done with; nothing follows, and more replies to the same request come.
    Continued,
    /// What was handed in is done with; the request is over.
    Finished(FinishedRequest<T>),
}

/// Data of a read, which are next on the stream. Until they are taken the request is not in the table.
pub struct ReplyData<T> {
    request: PendingRequest<T>,
    range: Range<usize>,
    is_last: bool,
}

impl<T> ReplyData<T> {
    /// Where they belong within what was asked for.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// The value of whoever asked.
    pub fn value_mut(&mut self) -> &mut T {
        &mut self.request.value
    }

    /// The value of whoever asked, where the data do not come.
    #[must_use]
    pub fn into_value(self) -> T {
        self.request.value
    }
}

/// A request that was answered.
#[derive(Debug)]
pub struct FinishedRequest<T> {
    /// Its number.
    pub cookie: u64,
    /// Where its range begins.
    pub offset: u64,
    /// Why the server failed it.
    pub error: Option<io::Error>,
    /// The value of whoever asked.
    pub value: T,
}

/// Front of a chunk.
struct ChunkHead {
    flags: u16,
    kind: u16,
    cookie: u64,
    len: usize,
}

impl ChunkHead {
    /// What stands behind the magic number.
    fn decode(fields: &mut Reader<'_, BigEndian>) -> Option<Self> {
        let (flags, kind) = (fields.u16().ok()?, fields.u16().ok()?);
        let (cookie, len) = (fields.u64().ok()?, fields.u32().ok()?);
        Some(Self { flags, kind, cookie, len: usize::try_from(len).ok()? })
    }

    /// Bytes of its payload that are no data.
    fn prefix_bytes(&self) -> Result<usize> {
        match (self.kind, self.len) {
            (chunk::NONE, 0) => Ok(0),
            (chunk::OFFSET_DATA, 9..) => Ok(8),
            (chunk::OFFSET_HOLE, 12) => Ok(12),
            (chunk::ERROR, 6..=ERROR_BYTES_MAX) => Ok(self.len),
            _ => Err(Error::Protocol("the server sent a chunk that was not asked for")),
        }
    }
}

impl<T> PendingRequest<T> {
    /// Where bytes of an answer belong (NBD-CLIENT-1).
    fn range(&self, offset: u64, len: usize) -> Result<Range<usize>> {
        let start = offset.checked_sub(self.offset).and_then(|start| usize::try_from(start).ok());
        let range = start.and_then(|start| Some(start..start.checked_add(len)?));
        range
            .filter(|range| range.end <= self.len)
            .ok_or(Error::Protocol("the server sent bytes that were not asked for"))
    }

    fn finish(self) -> Result<FinishedRequest<T>> {
        if self.error.is_none() && self.answered != self.len {
            return Err(Error::Protocol("the server answered a read with another length"));
        }
        let number = |error| i32::try_from(error).unwrap_or(i32::MAX);
        let error = self.error.map(|error| io::Error::from_raw_os_error(number(error)));
        let Self { cookie, offset, value, .. } = self;
        Ok(FinishedRequest { cookie, offset, error, value })
    }
}

impl<T> RequestTable<T> {
    /// Of a connection whose client and server have agreed on this.
    ///
    /// # Panics
    /// For extended headers, which it does not know.
    #[must_use]
    pub fn new(framing: Framing) -> Self {
        match framing {
            Framing::Simple | Framing::Structured => {}
            Framing::Extended => panic!("the client knows no extended headers"),
        }
        Self { framing, last_cookie: 0, under_way: HashMap::new() }
    }

    /// Begins a request.
    pub fn start(&mut self, request: NewRequest, value: T) -> StartedRequest {
        self.last_cookie += 1;
        let NewRequest { command, flags, offset, len } = request;
        let cookie = self.last_cookie;
        let header = RequestHeader { flags, command, cookie, offset, len: u64::from(len) };
        let len = if command == cmd::READ { len } else { 0 };
        let len = usize::try_from(len).expect("usize has at least 32 bits");
        let request = PendingRequest { cookie, offset, len, answered: 0, error: None, value };
        self.under_way.insert(cookie, request);
        StartedRequest { cookie, header: header.encode(self.framing) }
    }

    /// Ends all requests without an answer; their values.
    pub fn abandon(&mut self) -> Vec<T> {
        self.under_way.drain().map(|(_, request)| request.value).collect()
    }

    /// What is next, given the bytes at the front of a reply: none at first, then as many as it says.
    ///
    /// # Errors
    /// NBD-CLIENT-1.
    pub fn take_reply(&mut self, front: &[u8]) -> Result<ReplyStep<T>> {
        let mut fields = Reader::big_endian("reply", front);
        match fields.u32() {
            Err(_) => Ok(ReplyStep::NeedBytes(SIMPLE_REPLY_BYTES)),
            Ok(SIMPLE_REPLY_MAGIC) => match (fields.u32(), fields.u64()) {
                (Ok(error), Ok(cookie)) => self.take_simple(error, cookie),
                _ => Ok(ReplyStep::NeedBytes(SIMPLE_REPLY_BYTES)),
            },
            Ok(STRUCTURED_REPLY_MAGIC) if self.framing.has_chunks() => {
                match ChunkHead::decode(&mut fields) {
                    Some(head) => self.take_chunk(&head, fields),
                    None => Ok(ReplyStep::NeedBytes(CHUNK_BYTES)),
                }
            }
            Ok(_) => Err(Error::Protocol("the server sent no reply where one should begin")),
        }
    }

    fn take_simple(&mut self, error: u32, cookie: u64) -> Result<ReplyStep<T>> {
        let mut request = self.under_way.remove(&cookie).ok_or(UNASKED)?;
        if error != 0 {
            request.error = Some(error);
        } else if request.len > 0 && !self.framing.has_chunks() {
            request.answered = request.len;
            let range = 0..request.len;
            return Ok(ReplyStep::Data(ReplyData { request, range, is_last: true }));
        }
        request.finish().map(ReplyStep::Finished)
    }

    fn take_chunk(
        &mut self,
        head: &ChunkHead,
        mut payload: Reader<'_, BigEndian>,
    ) -> Result<ReplyStep<T>> {
        let prefix_bytes = head.prefix_bytes()?;
        let Ok(prefix) = payload.bytes(prefix_bytes) else {
            return Ok(ReplyStep::NeedBytes(CHUNK_BYTES + prefix_bytes));
        };
        let mut prefix = Reader::big_endian("chunk of a reply", prefix);
        let mut request = self.under_way.remove(&head.cookie).ok_or(UNASKED)?;
        let is_last = head.flags & chunk::FLAG_DONE != 0;
        let short = "the length was compared";
        match head.kind {
            chunk::OFFSET_DATA => {
                let range = request.range(prefix.u64().expect(short), head.len - prefix_bytes)?;
                request.answered += range.len();
                return Ok(ReplyStep::Data(ReplyData { request, range, is_last }));
            }
            chunk::OFFSET_HOLE => {
                let (offset, len) = (prefix.u64().expect(short), prefix.u32().expect(short));
                let len = usize::try_from(len).expect("usize has at least 32 bits");
                request.answered += request.range(offset, len)?.len();
            }
            chunk::ERROR => request.error = Some(prefix.u32().expect(short)),
            _ => {}
        }
        self.go_on(request, is_last)
    }

    /// To be called once data were taken off the stream.
    ///
    /// # Errors
    /// NBD-CLIENT-1.
    pub fn data_taken(&mut self, data: ReplyData<T>) -> Result<Option<FinishedRequest<T>>> {
        Ok(match self.go_on(data.request, data.is_last)? {
            ReplyStep::Finished(request) => Some(request),
            ReplyStep::NeedBytes(_) | ReplyStep::Data(_) | ReplyStep::Continued => None,
        })
    }

    fn go_on(&mut self, request: PendingRequest<T>, is_last: bool) -> Result<ReplyStep<T>> {
        if is_last {
            return request.finish().map(ReplyStep::Finished);
        }
        self.under_way.insert(request.cookie, request);
        Ok(ReplyStep::Continued)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::constant::EXTENDED_REPLY_MAGIC;

    fn read(offset: u64, len: u32) -> NewRequest {
        NewRequest { command: cmd::READ, flags: 0, offset, len }
    }

    const WRITE: NewRequest = NewRequest { command: cmd::WRITE, flags: 0, offset: 7, len: 9 };

    fn table(framing: Framing, requests: &[NewRequest]) -> RequestTable<Vec<u8>> {
        let mut table = RequestTable::new(framing);
        for request in requests {
            let len = if request.command == cmd::READ { request.len } else { 0 };
            table.start(*request, vec![0; usize::try_from(len).unwrap()]);
        }
        table
    }

    /// What is finished by what the server says, which may end anywhere.
    fn take(
        table: &mut RequestTable<Vec<u8>>,
        mut says: &[u8],
    ) -> Result<Vec<FinishedRequest<Vec<u8>>>> {
        let (mut finished, mut front) = (Vec::new(), 0);
        while let Some((bytes, rest)) = says.split_at_checked(front) {
            match table.take_reply(bytes)? {
                ReplyStep::NeedBytes(bytes) => {
                    assert!(bytes > front && bytes <= REPLY_HEAD_BYTES_MAX);
                    front = bytes;
                    continue;
                }
                ReplyStep::Data(mut data) => {
                    let range = data.range();
                    let Some((payload, rest)) = rest.split_at_checked(range.len()) else { break };
                    says = rest;
                    data.value_mut()[range].copy_from_slice(payload);
                    finished.extend(table.data_taken(data)?);
                }
                ReplyStep::Continued => says = rest,
                ReplyStep::Finished(request) => {
                    says = rest;
                    finished.push(request);
                }
            }
            front = 0;
        }
        Ok(finished)
    }

    fn simple(cookie: u64, error: u32, data: &[u8]) -> Vec<u8> {
        let numbers = [SIMPLE_REPLY_MAGIC, error].map(u32::to_be_bytes).concat();
        [&numbers, &cookie.to_be_bytes()[..], data].concat()
    }

    fn chunk_of(kind: u16, flags: u16, cookie: u64, payload: &[u8]) -> Vec<u8> {
        let len = u32::try_from(payload.len()).unwrap();
        [
            &STRUCTURED_REPLY_MAGIC.to_be_bytes()[..],
            &flags.to_be_bytes(),
            &kind.to_be_bytes(),
            &cookie.to_be_bytes(),
            &len.to_be_bytes(),
            payload,
        ]
        .concat()
    }

    fn data(cookie: u64, flags: u16, offset: u64, bytes: &[u8]) -> Vec<u8> {
        let payload = [&offset.to_be_bytes()[..], bytes].concat();
        chunk_of(chunk::OFFSET_DATA, flags, cookie, &payload)
    }

    fn hole(cookie: u64, flags: u16, offset: u64, len: u32) -> Vec<u8> {
        let payload = [&offset.to_be_bytes()[..], &len.to_be_bytes()].concat();
        chunk_of(chunk::OFFSET_HOLE, flags, cookie, &payload)
    }

    #[test]
    fn chunks_of_several_reads_fill_what_each_asked_for() {
        let requests = [read(100, 6), read(50, 2), WRITE];
        let says = [
            data(1, 0, 104, b"ef"),
            data(2, 0, 50, b"xy"),
            hole(1, 0, 102, 2),
            chunk_of(chunk::NONE, 1, 3, &[]),
            data(1, 1, 100, b"ab"),
            chunk_of(chunk::NONE, 1, 2, &[]),
        ]
        .concat();
        let mut whole = table(Framing::Structured, &requests);
        let finished = take(&mut whole, &says).unwrap();
        let found = finished.iter().map(|done| (done.cookie, done.offset, &done.value[..]));
        let expected: [(u64, u64, &[u8]); 3] = [(3, 7, b""), (1, 100, b"ab\0\0ef"), (2, 50, b"xy")];
        assert_eq!(found.collect::<Vec<_>>(), expected);
        assert!(finished.iter().all(|request| request.error.is_none()));
        for len in 0..says.len() {
            let cut = take(&mut table(Framing::Structured, &requests), &says[..len]).unwrap();
            assert!(cut.len() < 3);
        }
        for bit in 0..says.len() * 8 {
            let mut flipped = says.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let finished = take(&mut table(Framing::Structured, &requests), &flipped);
            for request in finished.unwrap_or_default() {
                let asked = requests[usize::try_from(request.cookie).unwrap() - 1];
                assert_eq!(request.offset, asked.offset, "bit {bit}");
            }
        }
    }

    #[test]
    fn simple_replies_have_their_data_behind_them() {
        let mut table = table(Framing::Simple, &[read(0, 3), WRITE, read(0, 3)]);
        let says = [simple(2, 0, &[]), simple(3, 5, &[]), simple(1, 0, b"abc")].concat();
        let finished = take(&mut table, &says).unwrap();
        let found =
            finished.iter().map(|done| (done.cookie, done.error.is_some(), &done.value[..]));
        let expected: [(u64, bool, &[u8]); 3] =
            [(2, false, b""), (3, true, &[0; 3]), (1, false, b"abc")];
        assert_eq!(found.collect::<Vec<_>>(), expected);
        assert!(table.abandon().is_empty());
    }

    #[test]
    fn an_error_is_told_when_its_reply_ends_and_others_go_on() {
        let mut table = table(Framing::Structured, &[read(0, 3), read(0, 1), WRITE]);
        let error = |flags| chunk_of(chunk::ERROR, flags, 1, b"\0\0\0\x1c\0\x02no");
        let says = [error(0), data(2, 1, 0, b"z"), chunk_of(chunk::NONE, 1, 1, &[])].concat();
        let finished = take(&mut table, &says).unwrap();
        assert_eq!(finished[0].value, b"z");
        let told = finished[1].error.as_ref().unwrap();
        assert_eq!((finished[1].cookie, told.raw_os_error()), (1, Some(28)));
        assert_eq!(table.abandon().len(), 1);
    }

    #[test]
    fn what_was_not_asked_ends_the_connection() {
        let other_magic = EXTENDED_REPLY_MAGIC.to_be_bytes();
        let wrong = [
            [&other_magic[..], &[0; 12]].concat(),
            simple(3, 0, &[]),
            simple(1, 0, b"abc"), // A read, where chunks were agreed on.
            chunk_of(chunk::NONE, 1, 3, &[]),
            chunk_of(chunk::NONE, 1, 1, &[]), // Without its data.
            chunk_of(chunk::NONE, 1, 2, b"more"),
            chunk_of(chunk::BLOCK_STATUS, 1, 1, &[0; 12]),
            chunk_of(chunk::ERROR, 1, 1, &[0; 5]),
            data(1, 1, 9, b"abc"),
            data(1, 1, 10, b"abcd"),
            data(1, 1, u64::MAX, b"ab"),
            data(2, 1, 7, b"a"), // To a write.
            hole(1, 1, 12, 2),
            hole(1, 1, 10, u32::MAX),
            [data(1, 0, 10, b"abc"), hole(1, 1, 10, 3)].concat(),
        ];
        for says in wrong {
            let taken = take(&mut table(Framing::Structured, &[read(10, 3), WRITE]), &says);
            assert!(matches!(taken, Err(Error::Protocol(_))), "{says:?}: {taken:?}");
        }
        let taken = take(&mut table(Framing::Simple, &[read(10, 3)]), &data(1, 1, 10, b"abc"));
        assert!(matches!(taken, Err(Error::Protocol(_))));
    }
}
