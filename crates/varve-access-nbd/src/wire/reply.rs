//! Replies of the transmission phase: simple ones, and chunks of structured ones.

use super::constant::{SIMPLE_REPLY_MAGIC, STATE_DIRTY, STRUCTURED_REPLY_MAGIC, chunk, state};
use crate::errno::Errno;
use crate::export::{Change, Extent, ExtentKind};

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

/// Where a chunk header lies whose length or flags become known later.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChunkMark(usize);

impl ChunkMark {
    /// Appends the header of a chunk.
    pub(crate) fn append(out: &mut Vec<u8>, kind: u16, cookie: u64, payload_len: u32) -> Self {
        let mark = Self(out.len());
        out.extend_from_slice(&STRUCTURED_REPLY_MAGIC.to_be_bytes());
        out.extend_from_slice(&0u16.to_be_bytes());
        out.extend_from_slice(&kind.to_be_bytes());
        out.extend_from_slice(&cookie.to_be_bytes());
        out.extend_from_slice(&payload_len.to_be_bytes());
        mark
    }

    /// Makes the chunk the last of its reply.
    pub(crate) fn set_done(self, out: &mut [u8]) {
        self.patch(out, 4, chunk::FLAG_DONE.to_be_bytes());
    }

    /// Corrects the length of the chunk's payload.
    pub(crate) fn set_payload_len(self, out: &mut [u8], payload_len: u32) {
        self.patch(out, 16, payload_len.to_be_bytes());
    }

    /// Corrects the size of an `OFFSET_HOLE`.
    pub(crate) fn set_hole_size(self, out: &mut [u8], size: u32) {
        self.patch(out, 28, size.to_be_bytes());
    }

    fn patch<const N: usize>(self, out: &mut [u8], at: usize, bytes: [u8; N]) {
        let field = out.get_mut(self.0 + at..).and_then(|rest| rest.first_chunk_mut::<N>());
        *field.expect("the header was appended whole") = bytes;
    }
}

/// Appends the chunk that ends a reply without content.
pub(crate) fn none(out: &mut Vec<u8>, cookie: u64) {
    ChunkMark::append(out, chunk::NONE, cookie, 0).set_done(out);
}

/// Appends an error chunk that ends its reply.
pub(crate) fn error(out: &mut Vec<u8>, cookie: u64, errno: Errno) {
    let message = errno.message();
    let message_len = u16::try_from(message.len()).expect("messages are a few words");
    let mark = ChunkMark::append(out, chunk::ERROR, cookie, 6 + u32::from(message_len));
    mark.set_done(out);
    out.extend_from_slice(&errno.number().to_be_bytes());
    out.extend_from_slice(&message_len.to_be_bytes());
    out.extend_from_slice(message.as_bytes());
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

/// Appends what each context says, clipped to `len` bytes in total.
pub(crate) fn block_status(out: &mut Vec<u8>, cookie: u64, len: u32, contexts: &[ContextStatus]) {
    let mut last = None;
    for ContextStatus { context, runs } in contexts {
        let mark = ChunkMark::append(out, chunk::BLOCK_STATUS, cookie, 0);
        last = Some(mark);
        let start = out.len();
        out.extend_from_slice(&context.to_be_bytes());
        let mut left = len;
        for run in runs {
            let part = u32::try_from(run.len).unwrap_or(u32::MAX).min(left);
            if part == 0 {
                continue;
            }
            out.extend_from_slice(&part.to_be_bytes());
            out.extend_from_slice(&run.flags.to_be_bytes());
            left -= part;
        }
        assert!(left < len, "a block status covers at least one byte");
        let payload_len = u32::try_from(out.len() - start).expect("bounded by EXTENTS_MAX");
        mark.set_payload_len(out, payload_len);
    }
    last.expect("a block status has a context").set_done(out);
}
