//! Bytes received and not yet consumed, in one buffer that is also what receives go into.
//!
//! R1. `start <= end <= capacity`; the bytes between are what the peer sent and nobody has taken.
//! R2. While a receive is under way the buffer is away, and the inbox is not looked at.

use std::ops::Range;

use varve_stdx::AlignedBuf;

use crate::limits::RECEIVE_BYTES;

/// The receive buffer of a connection.
pub(crate) struct Inbox {
    buf: Option<AlignedBuf>,
    start: usize,
    end: usize,
}

impl Inbox {
    pub(crate) fn new() -> Self {
        Self { buf: Some(AlignedBuf::zeroed(RECEIVE_BYTES)), start: 0, end: 0 }
    }

    /// With what was received before, which fits.
    pub(crate) fn holding(bytes: &[u8]) -> Self {
        let mut inbox = Self::new();
        let (mut buf, free) = inbox.lend();
        let target = buf.get_mut(free).and_then(|free| free.get_mut(..bytes.len()));
        target.expect("an option and a receive fit").copy_from_slice(bytes);
        inbox.give_back(buf, bytes.len());
        inbox
    }

    /// What there is, oldest first.
    pub(crate) fn bytes(&self) -> &[u8] {
        let buf = self.buf.as_deref().expect("R2: no receive is under way");
        buf.get(self.start..self.end).expect("R1")
    }

    pub(crate) fn len(&self) -> usize {
        self.end - self.start
    }

    /// Removes bytes from the front.
    pub(crate) fn consume(&mut self, len: usize) {
        assert!(len <= self.len(), "consumed more than there is");
        self.start += len;
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// The buffer and the part of it that is free, for a receive (R2).
    pub(crate) fn lend(&mut self) -> (AlignedBuf, Range<usize>) {
        let mut buf = self.buf.take().expect("R2: one receive at a time");
        if buf.len() - self.end < RECEIVE_BYTES / 2 && self.start > 0 {
            buf.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.len());
        }
        assert!(self.end < buf.len(), "whatever is incomplete fits half the buffer");
        let free = self.end..buf.len();
        (buf, free)
    }

    /// Takes the buffer back with so many more bytes in it.
    pub(crate) fn give_back(&mut self, buf: AlignedBuf, received: usize) {
        self.end += received;
        assert!(self.end <= buf.len(), "R1: received more than was free");
        self.buf = Some(buf);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_survive_compaction() {
        let mut inbox = Inbox::new();
        let mut sent = 0u8;
        let mut seen = 0u8;
        for round in 0..200 {
            let (mut buf, free) = inbox.lend();
            let count = free.len().min(50_000 + round);
            for byte in &mut buf[free.start..free.start + count] {
                *byte = sent;
                sent = sent.wrapping_add(1);
            }
            inbox.give_back(buf, count);
            while inbox.len() > 60_000 {
                for byte in &inbox.bytes()[..1000] {
                    assert_eq!(*byte, seen);
                    seen = seen.wrapping_add(1);
                }
                inbox.consume(1000);
            }
        }
    }
}
