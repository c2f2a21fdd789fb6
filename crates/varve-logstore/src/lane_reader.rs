//! Reads a lane back: which frames are there, and the records that follow a point.
//!
//! P1. Replay stops at the first frame that is not the verified successor of the one before: nothing behind it was acknowledged,
//!     as acknowledgements are in frame order.
//! P2. At most [`FRAMES_IN_FLIGHT_MAX`] frames can have been under way at a crash, so a frame that far behind the stop proves that
//!     the stop was acknowledged and is damaged. That is an error, never a shorter log.
//! P3. What replay finds is durable before anything follows from it: a frame of a process that was killed may lie in the drive's cache only. Were it
//!     lost by a power cut while it is drained, segments would hold the first part of a transaction, and nothing the rest.

use std::rc::Rc;

use varve_media::JournalStore;
use varve_stdx::BufSlice;

use crate::format::frame::{FRAME_ALIGN, Frame, FrameHeader, LanePoint};
use crate::lane::{FRAMES_IN_FLIGHT_MAX, LaneOwner};
use crate::planted::{Bug, planted};
use crate::{Error, Result};

/// Bytes read at a time.
const WINDOW_BYTES: u32 = 2 << 20;

/// Reads frames of one mount.
pub struct LaneReader {
    journal: Rc<dyn JournalStore>,
    owner: LaneOwner,
    window: Option<BufSlice>,
    window_start: u64,
}

/// A frame as read from the lane, verified.
pub struct ReadFrame {
    /// Its bytes.
    pub bytes: BufSlice,
    /// Where the next frame begins.
    pub end: LanePoint,
}

/// What stands in a lane, whatever its order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Highest frame number of the mount; `None` when it wrote no frame that is still there.
    pub frame_seq_max: Option<u64>,
    /// Highest witness for the data chain.
    pub data_witness: u64,
    /// Highest witness for the reclaimed chain.
    pub reclaim_witness: u64,
}

impl LaneReader {
    /// A reader of the frames that `owner` wrote.
    #[must_use]
    pub fn new(journal: Rc<dyn JournalStore>, owner: LaneOwner) -> Self {
        Self { journal, owner, window: None, window_start: 0 }
    }

    /// Looks at the whole ring once, and makes durable what is there (P3). Costs one sequential read of the lane, and a flush.
    ///
    /// # Errors
    /// When the media fail.
    pub async fn census(&mut self) -> Result<Census> {
        let mut census = Census::default();
        let mut position = 0;
        while position < self.journal.capacity() {
            let Some(header) = self.any_header(position).await? else {
                position += u64::from(FRAME_ALIGN);
                continue;
            };
            census.frame_seq_max = census.frame_seq_max.max(Some(header.frame_seq));
            census.data_witness = census.data_witness.max(header.data_witness);
            census.reclaim_witness = census.reclaim_witness.max(header.reclaim_witness);
            position += u64::from(header.header_bytes().next_multiple_of(FRAME_ALIGN));
        }
        if !planted(Bug::UnsettledFrameBelieved) {
            self.journal.settle().await?;
        }
        Ok(census)
    }

    /// The header of a frame of this mount at ring position `position`, on whatever lap it was written.
    async fn any_header(&mut self, position: u64) -> Result<Option<FrameHeader>> {
        let bytes = self.window(position, FRAME_ALIGN).await?;
        let Ok(header) = FrameHeader::decode(&bytes) else { return Ok(None) };
        let ours = header.pool == self.owner.pool
            && header.shard == self.owner.shard
            && header.mount == self.owner.mount
            && header.position % self.journal.capacity() == position;
        let left = self.journal.capacity() - position;
        if !ours || u64::from(header.frame_bytes) > left {
            return Ok(None);
        }
        let bytes = self.window(position, header.frame_bytes).await?;
        Ok(Frame::decode(&bytes).ok().map(|frame| frame.header))
    }

    /// The frame at `point`, or at the next lap's start when the rest of this lap was too short for it (P1).
    ///
    /// # Errors
    /// When the media fail.
    pub async fn frame_at(&mut self, point: LanePoint) -> Result<Option<ReadFrame>> {
        if let Some(frame) = self.try_frame(point).await? {
            return Ok(Some(frame));
        }
        let capacity = self.journal.capacity();
        let left = capacity - point.position % capacity;
        if left == capacity {
            return Ok(None);
        }
        self.try_frame(LanePoint { position: point.position + left, ..point }).await
    }

    async fn try_frame(&mut self, point: LanePoint) -> Result<Option<ReadFrame>> {
        let bytes = self.window(point.position, FRAME_ALIGN).await?;
        let Ok(header) = FrameHeader::decode(&bytes) else { return Ok(None) };
        let follows = header.check_place(self.owner.pool, self.owner.shard, point.position).is_ok()
            && header.frame_seq == point.frame_seq
            && (header.mount == self.owner.mount && header.previous_chain == point.chain
                || planted(Bug::ChainUnchecked));
        let left = self.journal.capacity() - point.position % self.journal.capacity();
        if !follows || u64::from(header.frame_bytes) > left {
            return Ok(None);
        }
        let bytes = self.window(point.position, header.frame_bytes).await?;
        let Ok(frame) = Frame::decode(&bytes) else { return Ok(None) };
        if frame.verify_payloads().is_err() {
            return Ok(None);
        }
        let end = LanePoint {
            position: point.position + u64::from(header.frame_bytes),
            frame_seq: point.frame_seq + 1,
            chain: frame.chain,
        };
        Ok(Some(ReadFrame { bytes, end }))
    }

    /// `len` bytes at `position`, out of a window read ahead.
    async fn window(&mut self, position: u64, len: u32) -> Result<BufSlice> {
        let capacity = self.journal.capacity();
        let left = capacity - position % capacity;
        assert!(u64::from(len) <= left, "reads stay within a lap");
        let held = self.window.as_ref().filter(|window| {
            position >= self.window_start
                && position + u64::from(len) <= self.window_start + window.len() as u64
        });
        let window = match held {
            Some(window) => window.clone(),
            None => {
                let ahead = u32::try_from(left.min(u64::from(WINDOW_BYTES.max(len))));
                let bytes = self.journal.read(position, ahead.expect("bounded by a u32")).await?;
                self.window_start = position;
                self.window = Some(bytes.clone());
                bytes
            }
        };
        let start = usize::try_from(position - self.window_start).expect("inside the window");
        Ok(window.slice(start..start + len as usize))
    }
}

/// Whether a replay that stopped before frame `stopped_at` lost acknowledged frames (P2).
///
/// # Errors
/// [`Error::LaneDamaged`] when it did.
pub fn check_stop(stopped_at: u64, census: &Census) -> Result<()> {
    match census.frame_seq_max {
        Some(newest) if newest >= stopped_at + FRAMES_IN_FLIGHT_MAX as u64 => {
            Err(Error::LaneDamaged { frame_seq: stopped_at, newest })
        }
        _ => Ok(()),
    }
}
