//! Replies of the transmission phase: simple ones, and chunks of others.

use varve_access_block::{Change, Extent, ExtentKind};
use varve_nbd::constant::{
    EXTENDED_REPLY_MAGIC, SIMPLE_REPLY_MAGIC, STATE_DIRTY, STRUCTURED_REPLY_MAGIC, chunk, state,
};
use varve_nbd::{Framing, RequestHeader};

use crate::errno::Errno;

/// Appends a simple reply; the data of a successful read follows it.
pub(crate) fn simple(out: &mut Vec<u8>, cookie: u64, error: u32) {
    let mut bytes = [0; 16];
    let (magic, rest) = bytes.split_at_mut(4);
    let (number, name) = rest.split_at_mut(4);
    magic.copy_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
    number.copy_from_slice(&error.to_be_bytes());
    name.copy_from_slice(&cookie.to_be_bytes());
    out.extend_from_slice(&bytes);
}

/// What a reply repeats of its request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Echo {
    pub(crate) cookie: u64,
    /// Repeated in extended headers only.
    pub(crate) offset: u64,
}

impl From<&RequestHeader> for Echo {
    #[inline]
    fn from(header: &RequestHeader) -> Self {
        Self { cookie: header.cookie, offset: header.offset }
    }
}

/// A reply in chunks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChunkedReply {
    /// [`Framing::Simple`] has no chunks.
    pub(crate) framing: Framing,
    pub(crate) echo: Echo,
}

/// Where a chunk header lies whose length or flags become known later.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChunkMark {
    at: usize,
    is_extended: bool,
}

impl ChunkedReply {
    fn is_extended(self) -> bool {
        match self.framing {
            Framing::Simple => panic!("chunks need structured replies or extended headers"),
            Framing::Structured => false,
            Framing::Extended => true,
        }
    }

    /// Appends the header of a chunk.
    pub(crate) fn chunk(self, out: &mut Vec<u8>, kind: u16, payload_len: u32) -> ChunkMark {
        let mark = ChunkMark { at: out.len(), is_extended: self.is_extended() };
        let Echo { cookie, offset } = self.echo;
        let magic = if mark.is_extended { EXTENDED_REPLY_MAGIC } else { STRUCTURED_REPLY_MAGIC };
        out.extend_from_slice(&magic.to_be_bytes());
        out.extend_from_slice(&0u16.to_be_bytes());
        out.extend_from_slice(&kind.to_be_bytes());
        out.extend_from_slice(&cookie.to_be_bytes());
        if mark.is_extended {
            out.extend_from_slice(&offset.to_be_bytes());
            out.extend_from_slice(&u64::from(payload_len).to_be_bytes());
        } else {
            out.extend_from_slice(&payload_len.to_be_bytes());
        }
        mark
    }

    /// Appends the chunk that ends a reply without content.
    pub(crate) fn none(self, out: &mut Vec<u8>) {
        self.chunk(out, chunk::NONE, 0).set_done(out);
    }

    /// Appends an error chunk that ends its reply.
    pub(crate) fn error(self, out: &mut Vec<u8>, errno: Errno) {
        let message = errno.message();
        let message_len = u16::try_from(message.len()).expect("messages are a few words");
        let mark = self.chunk(out, chunk::ERROR, 6 + u32::from(message_len));
        mark.set_done(out);
        out.extend_from_slice(&errno.number().to_be_bytes());
        out.extend_from_slice(&message_len.to_be_bytes());
        out.extend_from_slice(message.as_bytes());
    }

    /// Appends what each context says, clipped to `len` bytes in total.
    pub(crate) fn block_status(self, out: &mut Vec<u8>, len: u64, contexts: &[ContextStatus]) {
        let mut last = None;
        for ContextStatus { context, runs } in contexts {
            let runs = clip(runs, len);
            assert!(!runs.is_empty(), "a block status covers at least one byte");
            let count = u32::try_from(runs.len()).expect("bounded by EXTENTS_MAX");
            if self.is_extended() {
                last = Some(self.chunk(out, chunk::BLOCK_STATUS_EXT, 8 + 16 * count));
                out.extend_from_slice(&context.to_be_bytes());
                out.extend_from_slice(&count.to_be_bytes());
                for StatusRun { len, flags } in runs {
                    out.extend_from_slice(&len.to_be_bytes());
                    out.extend_from_slice(&u64::from(flags).to_be_bytes());
                }
            } else {
                last = Some(self.chunk(out, chunk::BLOCK_STATUS, 4 + 8 * count));
                out.extend_from_slice(&context.to_be_bytes());
                for StatusRun { len, flags } in runs {
                    let len = u32::try_from(len).expect("compact requests have 32-bit lengths");
                    out.extend_from_slice(&len.to_be_bytes());
                    out.extend_from_slice(&flags.to_be_bytes());
                }
            }
        }
        last.expect("a block status has a context").set_done(out);
    }
}

impl ChunkMark {
    /// Makes the chunk the last of its reply.
    pub(crate) fn set_done(self, out: &mut [u8]) {
        self.patch(out, 4, chunk::FLAG_DONE.to_be_bytes());
    }

    /// Corrects the length of the chunk's payload.
    pub(crate) fn set_payload_len(self, out: &mut [u8], payload_len: u32) {
        if self.is_extended {
            self.patch(out, 24, u64::from(payload_len).to_be_bytes());
        } else {
            self.patch(out, 16, payload_len.to_be_bytes());
        }
    }

    /// Corrects the size of an `OFFSET_HOLE`.
    pub(crate) fn set_hole_size(self, out: &mut [u8], size: u32) {
        let header_bytes = if self.is_extended { 32 } else { 20 };
        self.patch(out, header_bytes + 8, size.to_be_bytes());
    }

    fn patch<const N: usize>(self, out: &mut [u8], at: usize, bytes: [u8; N]) {
        let field = out.get_mut(self.at + at..).and_then(|rest| rest.first_chunk_mut::<N>());
        *field.expect("the header was appended whole") = bytes;
    }
}

/// A run of bytes with the status flags that its context gives it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct StatusRun {
    len: u64,
    flags: u32,
}

/// What one metadata context says of consecutive runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ContextStatus {
    pub(crate) context: u32,
    pub(crate) runs: Vec<StatusRun>,
}

impl From<&Extent> for StatusRun {
    fn from(extent: &Extent) -> Self {
        let flags = match extent.kind {
            ExtentKind::Hole => state::HOLE | state::ZERO,
            ExtentKind::Zero => state::ZERO,
            ExtentKind::Data => 0,
        };
        Self { len: extent.len, flags }
    }
}

impl From<&Change> for StatusRun {
    fn from(change: &Change) -> Self {
        Self { len: change.len, flags: if change.dirty { STATE_DIRTY } else { 0 } }
    }
}

/// The runs of the first `len` bytes.
fn clip(runs: &[StatusRun], len: u64) -> Vec<StatusRun> {
    let mut left = len;
    let part = |run: &StatusRun| {
        let len = run.len.min(left);
        left -= len;
        (len > 0).then_some(StatusRun { len, ..*run })
    };
    runs.iter().filter_map(part).collect()
}
