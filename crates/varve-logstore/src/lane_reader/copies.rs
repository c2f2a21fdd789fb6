//! Lanes of which there are several copies: a frame is read from the first that has it, and what replay found last is
//! given to those that lack it.

use std::collections::VecDeque;
use std::ops::Range;

use varve_stdx::BufSlice;

use super::{FRAME_ALIGN, JournalReader, JournalScan, ReadFrame};
use crate::format::frame::LogPosition;
use crate::lane::FRAMES_IN_FLIGHT_MAX;
use crate::planted::{Bug, planted};
use crate::{Error, Result};

/// Parts of a copy's ring that cannot be read before the rest of it is taken for unreadable too: each may take as long
/// as media are waited for.
const UNREAD_MAX: usize = 16;

/// Ring positions of a copy at which nobody knows whether a frame begins, as they cannot be read.
#[derive(Default)]
pub(super) struct UnreadParts {
    parts: Vec<Range<u64>>,
    error: Option<Error>,
}

impl UnreadParts {
    /// What begins at the first position of `rest`, which ends with the ring, cannot be read; returns where to go on.
    pub(super) fn add(&mut self, rest: Range<u64>, error: Error) -> u64 {
        assert!(self.parts.len() < UNREAD_MAX, "the last part reaches to the end");
        let is_last = self.parts.len() + 1 == UNREAD_MAX;
        let end = if is_last { rest.end } else { rest.start + u64::from(FRAME_ALIGN) };
        self.parts.push(rest.start..end);
        self.error = Some(error);
        end
    }

    /// Keeps what another copy cannot tell either.
    fn intersect(&mut self, other: &Self) {
        let mut common = Vec::new();
        for part in &self.parts {
            let both = other.parts.iter().map(|of| part.start.max(of.start)..part.end.min(of.end));
            common.extend(both.filter(|range| !range.is_empty()));
        }
        self.parts = common;
    }
}

impl JournalReader {
    /// Adds what stands in each copy to the census (LANE-READER-2).
    pub(super) async fn scan_copies(&mut self, census: &mut JournalScan) -> Result<()> {
        let mut nowhere: Option<UnreadParts> = None;
        for copy in 0..self.copies.len() {
            let mut unread = UnreadParts::default();
            self.scan_copy(copy, census, Some(&mut unread)).await?;
            if self.journal.copy_until(copy) < u64::MAX {
                continue; // LANE-READER-6: it cannot tell what others have that were written later.
            }
            match &mut nowhere {
                None => nowhere = Some(unread),
                Some(nowhere) => nowhere.intersect(&unread),
            }
        }
        match nowhere {
            Some(UnreadParts { parts, error: Some(error) }) if !parts.is_empty() => Err(error),
            _ => Ok(()),
        }
    }

    /// The frame at `point`, from the first copy that has it (LANE-READER-6).
    pub(super) async fn try_copies(&mut self, point: LogPosition) -> Result<Option<ReadFrame>> {
        let (count, first) = (self.copies.len(), self.at);
        let (mut answered, mut failed) = (false, None);
        for copy in (first..count).chain(0..first) {
            if self.journal.copy_since(copy) > point.position {
                continue; // LANE-READER-6
            }
            match self.try_frame(copy, point).await {
                Ok(Some(frame)) => {
                    self.at = copy;
                    return Ok(Some(frame));
                }
                // LANE-READER-6
                Ok(None) => answered |= point.position < self.journal.copy_until(copy),
                Err(error) => failed = Some(error),
            }
        }
        match failed {
            Some(error) if !answered => Err(error),
            _ => Ok(None),
        }
    }

    /// Gives the last frames from `point` on to each copy that lacks them, and makes them durable (JOURNAL-COPIES-3).
    /// Costs a read of what replay reads again; nothing where there is one copy.
    ///
    /// # Errors
    /// When the media fail.
    pub async fn restore_end(&mut self, mut point: LogPosition) -> Result<()> {
        if self.copies.len() == 1 || planted(Bug::FrameNotRestored) {
            return Ok(());
        }
        let mut last = VecDeque::new();
        while let Some(frame) = self.frame_at(point).await? {
            point = frame.end;
            if last.len() == FRAMES_IN_FLIGHT_MAX {
                last.pop_front();
            }
            last.push_back(frame);
        }
        let mut any = false;
        for frame in &last {
            for copy in 0..self.copies.len() {
                any |= self.restore_frame(copy, frame).await?;
            }
        }
        if any {
            self.copies.iter_mut().for_each(|copy| copy.window = None);
        }
        self.journal.settle().await?;
        Ok(())
    }

    /// Gives a frame to a copy that lacks it; whether it did.
    async fn restore_frame(&mut self, copy: usize, frame: &ReadFrame) -> Result<bool> {
        let start = frame.end.position - frame.bytes.len() as u64;
        if self.journal.copy_since(copy) > start {
            return Ok(false); // LANE-READER-6: it would prove nothing there.
        }
        let len = u32::try_from(frame.bytes.len()).expect("bounded by FRAME_BYTES_MAX");
        let is_there = match self.window(copy, start, len).await {
            Ok(bytes) => bytes[..] == frame.bytes[..],
            Err(_) => false,
        };
        if is_there {
            return Ok(false);
        }
        self.journal.restore(start, BufSlice::copy_from(&frame.bytes), copy).await?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
