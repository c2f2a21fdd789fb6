//! Doubly linked queues of cache frames; a frame is in exactly one, by its state.

use super::cache::{CacheFrame, FrameId};

const NONE: FrameId = FrameId(u32::MAX);

/// Neighbours of a frame in its queue.
#[derive(Clone, Copy)]
pub(super) struct Links {
    before: FrameId,
    after: FrameId,
}

impl Default for Links {
    fn default() -> Self {
        Self { before: NONE, after: NONE }
    }
}

/// A queue: pushed at the end, looked at from the start.
pub(super) struct Ring {
    first: FrameId,
    last: FrameId,
    len: usize,
}

impl Default for Ring {
    fn default() -> Self {
        Self { first: NONE, last: NONE, len: 0 }
    }
}

impl Ring {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn first(&self) -> Option<FrameId> {
        (self.first != NONE).then_some(self.first)
    }

    pub(super) fn iter<'a>(&self, frames: &'a [CacheFrame]) -> impl Iterator<Item = FrameId> + 'a {
        let after = |frame: FrameId| (frame != NONE).then_some(frame);
        std::iter::successors(self.first(), move |frame| after(frames[frame.index()].links.after))
    }

    pub(super) fn push(&mut self, frames: &mut [CacheFrame], frame: FrameId) {
        assert_ne!(self.last, frame, "a frame is in one ring, once");
        assert_eq!(self.len == 0, self.last == NONE, "an empty ring has no end");
        frames[frame.index()].links = Links { before: self.last, after: NONE };
        if self.last == NONE {
            self.first = frame;
        } else {
            frames[self.last.index()].links.after = frame;
        }
        self.last = frame;
        self.len += 1;
    }

    pub(super) fn unlink(&mut self, frames: &mut [CacheFrame], frame: FrameId) {
        assert!(self.len > 0, "the frame is in this ring");
        let Links { before, after } = std::mem::take(&mut frames[frame.index()].links);
        if before == NONE {
            assert_eq!(self.first, frame);
            self.first = after;
        } else {
            frames[before.index()].links.after = after;
        }
        if after == NONE {
            assert_eq!(self.last, frame);
            self.last = before;
        } else {
            frames[after.index()].links.before = before;
        }
        self.len -= 1;
        assert_eq!(self.len == 0, self.first == NONE, "an empty ring has no start");
    }
}
