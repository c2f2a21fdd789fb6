//! Bytes received and not yet consumed, in one buffer that is also what receives go into.
//!
//! INBOX-1. `start <= end <= capacity`; the bytes between are what the peer sent and nobody has taken.
//! INBOX-2. While a receive is under way the buffer is away, and the inbox is not looked at.

use std::ops::Range;

use varve_stdx::AlignedBuf;

use crate::limits::{IDLE_RECEIVE_BYTES, IDLE_RECEIVES, RECEIVE_BYTES};

/// The receive buffer of a connection.
pub(crate) struct Inbox {
    buf: Option<AlignedBuf>,
    start: usize,
    end: usize, // INBOX-1
    /// The last receive filled the buffer.
    was_filled: bool,
    /// Receives in a row that would have fitted the small buffer.
    small_receives: u32,
}

impl Inbox {
    pub(crate) fn new() -> Self {
        let buf = Some(AlignedBuf::zeroed(IDLE_RECEIVE_BYTES));
        Self { buf, start: 0, end: 0, was_filled: false, small_receives: 0 }
    }

    /// With what was received before, which fits.
    pub(crate) fn holding(bytes: &[u8]) -> Self {
        let mut inbox = Self { was_filled: true, ..Self::new() };
        let (mut buf, free) = inbox.lend();
        let target = buf.get_mut(free).and_then(|free| free.get_mut(..bytes.len()));
        target.expect("an option and a receive fit").copy_from_slice(bytes);
        inbox.give_back(buf, bytes.len());
        inbox
    }

    /// What there is, oldest first.
    pub(crate) fn bytes(&self) -> &[u8] {
        let buf = self.buf.as_deref().expect("INBOX-2: no receive is under way");
        buf.get(self.start..self.end).expect("INBOX-1")
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

    /// The buffer and the part of it that is free, for a receive (INBOX-2).
    pub(crate) fn lend(&mut self) -> (AlignedBuf, Range<usize>) {
        let mut buf = self.buf.take().expect("INBOX-2: one receive at a time");
        let is_large = buf.len() == RECEIVE_BYTES;
        if !is_large && (self.was_filled || self.end > 0) {
            buf = self.moved_to(&buf, RECEIVE_BYTES);
        } else if is_large && self.end == 0 && self.small_receives >= IDLE_RECEIVES {
            buf = self.moved_to(&buf, IDLE_RECEIVE_BYTES);
        }
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
        self.was_filled = self.end + received == buf.len();
        let small = self.end == 0 && received < IDLE_RECEIVE_BYTES;
        self.small_receives = if small { self.small_receives.saturating_add(1) } else { 0 };
        self.end += received;
        assert!(self.end <= buf.len(), "INBOX-1: received more than was free");
        self.buf = Some(buf);
    }

    /// A buffer of another size with the same bytes, which fit.
    fn moved_to(&mut self, buf: &AlignedBuf, size: usize) -> AlignedBuf {
        let mut moved = AlignedBuf::zeroed(size);
        let bytes = buf.get(self.start..self.end).expect("INBOX-1");
        moved.get_mut(..bytes.len()).expect("they fit").copy_from_slice(bytes);
        (self.start, self.end) = (0, bytes.len());
        self.small_receives = 0;
        moved
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

    #[test]
    fn the_buffer_is_large_only_while_much_arrives() {
        let mut inbox = Inbox::new();
        let mut receive = |count: usize| {
            let (buf, free) = inbox.lend();
            let size = buf.len();
            inbox.give_back(buf, count.min(free.len()));
            inbox.consume(inbox.len());
            size
        };
        assert_eq!(receive(4124), IDLE_RECEIVE_BYTES);
        assert_eq!(receive(100_000), IDLE_RECEIVE_BYTES);
        assert_eq!(receive(100_000), RECEIVE_BYTES);
        for _ in 0..IDLE_RECEIVES {
            assert_eq!(receive(28), RECEIVE_BYTES);
        }
        assert_eq!(receive(28), IDLE_RECEIVE_BYTES);
    }
}
