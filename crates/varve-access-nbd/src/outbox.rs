//! Finished replies on their way out, gathered into batches that leave in one send each.
//!
//! OUTBOX-1. Replies leave in the order they were added; a reply is never split over two batches.
//! OUTBOX-2. Payload is sent from where it lies; only headers are copied.

use std::collections::VecDeque;

use varve_access_block::ReadPart;
use varve_nbd::Framing;
use varve_nbd::constant::chunk;
use varve_stdx::{AlignedBuf, BufSlice};

use crate::errno::Errno;
use crate::limits::{SEND_BYTES_MAX, SEND_PARTS_MAX};
use crate::transport::SendPart;
use crate::wire::reply::{self, ChunkMark, ChunkedReply, ContextStatus, Echo};

/// Runs of zeros up to this many bytes are copied among the headers: a part of its own costs as much.
const ZEROS_INLINE_MAX: usize = 256;

/// Bytes of the shared zeros from which longer runs are sent.
const ZEROS_BYTES: usize = 64 << 10;

/// A part of a batch: so many bytes of its headers, or payload.
enum BatchPart {
    Head(usize),
    Data(BufSlice),
}

/// Replies that leave together.
#[derive(Default)]
struct ReplyBatch {
    head: Vec<u8>,
    /// Bytes of `head` already covered by `parts`.
    head_placed: usize,
    parts: Vec<BatchPart>,
    bytes: usize,
    charge: RequestCost,
}

/// What the replies of a batch hold of their connection's limits until they are sent.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct RequestCost {
    pub(crate) requests: usize,
    pub(crate) payload_bytes: usize,
}

impl RequestCost {
    pub(crate) fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.payload_bytes += other.payload_bytes;
    }

    pub(crate) fn subtract(&mut self, other: Self) {
        assert!(self.requests >= other.requests, "more requests end than began");
        assert!(
            self.payload_bytes >= other.payload_bytes,
            "more payload is released than was held"
        );
        self.requests -= other.requests;
        self.payload_bytes -= other.payload_bytes;
    }
}

/// The finished replies of one connection.
pub(crate) struct Outbox {
    batches: VecDeque<ReplyBatch>,
    framing: Framing,
    zeros: Option<BufSlice>,
}

/// The read that a reply answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadReply {
    pub(crate) echo: Echo,
    pub(crate) len: u32,
    pub(crate) unfragmented: bool,
}

impl Outbox {
    pub(crate) fn new(framing: Framing) -> Self {
        Self { batches: VecDeque::new(), framing, zeros: None }
    }

    /// The oldest batch as parts of one send, and what it releases once it is sent.
    pub(crate) fn take_batch(&mut self) -> Option<(Vec<SendPart>, RequestCost)> {
        self.batches.pop_front().map(ReplyBatch::into_parts) // OUTBOX-1
    }

    /// Success of a command that returns no data.
    pub(crate) fn done(&mut self, echo: Echo, charge: RequestCost) {
        let framing = self.framing;
        let head = &mut self.open_batch(charge).head;
        match framing {
            Framing::Simple | Framing::Structured => reply::simple(head, echo.cookie, 0),
            Framing::Extended => ChunkedReply { framing, echo }.none(head),
        }
    }

    /// Failure; in a chunk when negotiated, as a failed read has no other reply.
    pub(crate) fn error(&mut self, echo: Echo, errno: Errno, charge: RequestCost) {
        let framing = self.framing;
        let head = &mut self.open_batch(charge).head;
        match framing {
            Framing::Simple => reply::simple(head, echo.cookie, errno.number()),
            Framing::Structured | Framing::Extended => {
                ChunkedReply { framing, echo }.error(head, errno);
            }
        }
    }

    /// What each selected context says from the start of the range on.
    pub(crate) fn block_status(
        &mut self,
        echo: Echo,
        len: u64,
        contexts: &[ContextStatus],
        charge: RequestCost,
    ) {
        let reply = ChunkedReply { framing: self.framing, echo };
        reply.block_status(&mut self.open_batch(charge).head, len, contexts);
    }

    /// What a read returned.
    ///
    /// # Panics
    /// When the parts do not add up to the length asked for.
    pub(crate) fn read(
        &mut self,
        ReadReply { echo, len, unfragmented }: ReadReply,
        parts: impl IntoIterator<Item = ReadPart>,
        charge: RequestCost,
    ) {
        let zeros = self.zeros().clone();
        let reply = ChunkedReply { framing: self.framing, echo };
        let batch = self.open_batch(charge);
        let sent = if !reply.framing.has_chunks() {
            reply::simple(&mut batch.head, echo.cookie, 0);
            batch.plain(parts, &zeros)
        } else if unfragmented {
            batch.one_chunk(reply, len, parts, &zeros)
        } else {
            batch.chunks(reply, parts)
        };
        assert_eq!(sent, u64::from(len), "a read returned another length than was asked for");
    }

    fn zeros(&mut self) -> &BufSlice {
        self.zeros.get_or_insert_with(|| AlignedBuf::zeroed(ZEROS_BYTES).freeze())
    }

    /// The batch that takes the next reply.
    fn open_batch(&mut self, charge: RequestCost) -> &mut ReplyBatch {
        let full = |batch: &ReplyBatch| {
            batch.bytes() >= SEND_BYTES_MAX || batch.parts.len() >= SEND_PARTS_MAX
        };
        if self.batches.back().is_none_or(full) {
            self.batches.push_back(ReplyBatch::default());
        }
        let batch = self.batches.back_mut().expect("one was just made");
        batch.charge.add(charge);
        batch
    }
}

impl ReplyBatch {
    fn bytes(&self) -> usize {
        self.bytes + self.head.len()
    }

    /// Puts payload after everything added so far.
    fn data(&mut self, data: BufSlice) {
        self.place_head();
        self.bytes += data.len();
        self.parts.push(BatchPart::Data(data)); // OUTBOX-2
    }

    fn place_head(&mut self) {
        if self.head.len() > self.head_placed {
            self.parts.push(BatchPart::Head(self.head.len() - self.head_placed));
            self.head_placed = self.head.len();
        }
    }

    fn zeros(&mut self, mut len: usize, zeros: &BufSlice) {
        if len <= ZEROS_INLINE_MAX {
            self.head.resize(self.head.len() + len, 0);
            return;
        }
        while len > 0 {
            let part = len.min(zeros.len());
            self.data(zeros.slice(0..part));
            len -= part;
        }
    }

    /// Bare data, zeros spelled out; returns the number of bytes.
    fn plain(&mut self, parts: impl IntoIterator<Item = ReadPart>, zeros: &BufSlice) -> u64 {
        let mut sent = 0;
        for part in parts {
            match part {
                ReadPart::Zero(len) => {
                    sent += to_u64(len);
                    self.zeros(len, zeros);
                }
                ReadPart::Data(data) => {
                    sent += to_u64(data.len());
                    self.data(data);
                }
            }
        }
        sent
    }

    /// One data chunk, zeros spelled out.
    fn one_chunk(
        &mut self,
        reply: ChunkedReply,
        len: u32,
        parts: impl IntoIterator<Item = ReadPart>,
        zeros: &BufSlice,
    ) -> u64 {
        if len == 0 {
            reply.none(&mut self.head);
        } else {
            let mark = data_chunk(&mut self.head, reply, reply.echo.offset);
            mark.set_payload_len(&mut self.head, 8 + len);
            mark.set_done(&mut self.head);
        }
        self.plain(parts, zeros)
    }

    /// A data chunk for each run of data, a hole chunk for each run of zeros.
    fn chunks(&mut self, reply: ChunkedReply, parts: impl IntoIterator<Item = ReadPart>) -> u64 {
        let mut offset = reply.echo.offset;
        let mut run: Option<PartRun> = None;
        for part in parts {
            let (zero, len) = match &part {
                ReadPart::Zero(len) => (true, *len),
                ReadPart::Data(data) => (false, data.len()),
            };
            if len == 0 {
                continue;
            }
            let len = u32::try_from(len).expect("at most the length of a request");
            let current = match run.take() {
                Some(open) if open.zero == zero => open,
                _ if zero => {
                    PartRun { mark: hole_chunk(&mut self.head, reply, offset), zero, len: 0 }
                }
                _ => PartRun { mark: data_chunk(&mut self.head, reply, offset), zero, len: 0 },
            };
            let current = PartRun { len: current.len + len, ..current };
            current.patch_len(&mut self.head);
            run = Some(current);
            if let ReadPart::Data(data) = part {
                self.data(data);
            }
            offset += u64::from(len);
        }
        match run {
            Some(last) => last.mark.set_done(&mut self.head),
            None => reply.none(&mut self.head),
        }
        offset - reply.echo.offset
    }

    fn into_parts(mut self) -> (Vec<SendPart>, RequestCost) {
        if self.parts.is_empty() {
            return (vec![SendPart::Small(self.head)], self.charge);
        }
        self.place_head();
        let head = AlignedBuf::from_slice(&self.head).freeze();
        let mut at = 0;
        let parts = self.parts.into_iter().map(|part| match part {
            BatchPart::Head(len) => {
                at += len;
                SendPart::Slice(head.slice(at - len..at))
            }
            BatchPart::Data(data) => SendPart::Slice(data),
        });
        (parts.collect(), self.charge)
    }
}

/// Consecutive parts of one kind, under one chunk header.
#[derive(Clone, Copy)]
struct PartRun {
    mark: ChunkMark,
    zero: bool,
    len: u32,
}

impl PartRun {
    fn patch_len(self, head: &mut [u8]) {
        if self.zero {
            self.mark.set_hole_size(head, self.len);
        } else {
            self.mark.set_payload_len(head, 8 + self.len);
        }
    }
}

fn data_chunk(head: &mut Vec<u8>, reply: ChunkedReply, offset: u64) -> ChunkMark {
    let mark = reply.chunk(head, chunk::OFFSET_DATA, 8);
    head.extend_from_slice(&offset.to_be_bytes());
    mark
}

fn hole_chunk(head: &mut Vec<u8>, reply: ChunkedReply, offset: u64) -> ChunkMark {
    let mark = reply.chunk(head, chunk::OFFSET_HOLE, 12);
    head.extend_from_slice(&offset.to_be_bytes());
    head.extend_from_slice(&0u32.to_be_bytes());
    mark
}

fn to_u64(len: usize) -> u64 {
    u64::try_from(len).expect("usize has at most 64 bits")
}

#[cfg(test)]
mod tests;
