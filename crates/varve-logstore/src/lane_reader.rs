//! Reads a lane back: which frames are there, and the records that follow a point.
//!
//! LANE-READER-1. Replay stops at the first frame that is not the verified successor of the one before: nothing behind
//!     it was acknowledged, as acknowledgements are in frame order.
//! LANE-READER-2. At most [`FRAMES_IN_FLIGHT_MAX`] frames can have been under way at a crash, so a frame that far
//!     behind the stop proves that the stop was acknowledged and is damaged. That is an error, never a shorter log.
//! LANE-READER-3. What replay finds is durable before anything follows from it: a frame of a process that was killed
//!     may lie in the drive's cache only. Were it lost by a power cut while it is drained, segments would hold the
//!     first part of a transaction, and nothing the rest.
//! LANE-READER-4. One of the frames right before a replay point is there, or a newer one (LANE-5). Where none is, the
//!     lane was lost or is an older copy. A copy that begins right at the point proves by its `since` that the lane
//!     came to it.
//! LANE-READER-5. From the second lap on a lane has no room that was never written: behind the stop and what was in
//!     flight stand frames of the lap before. Where none is found, what followed the stop was lost. Only copies that
//!     were written for a lap then can be judged so.
//! LANE-READER-6. A copy proves nothing of positions before its `since`: what stands there is of an earlier use of its
//!     place. Nor does one from its `until` on, but for the frames that are there: it was not written any more. Of the
//!     others, the lane ends where none that can be read has the next frame.
//! JOURNAL-COPIES-3. The last frames that replay found are on all copies before anything of the lane is drained: only
//!     some of these may have them, as they were under way at the crash. Were one lost with its copy while it is
//!     drained, segments would hold the first part of a transaction, and nothing the rest.

mod copies;

use std::ops::Range;
use std::rc::Rc;

use varve_media::JournalStore;
use varve_stdx::BufSlice;

use crate::format::frame::{FRAME_ALIGN, Frame, FrameHeader, LogPosition, chain_seed};
use crate::lane::{FRAMES_IN_FLIGHT_MAX, FRAMES_KEPT, JournalOwner, frame_bytes_max};
use crate::planted::{Bug, planted};
use crate::{Error, Result};
use copies::UnreadParts;

/// Bytes read at a time.
const WINDOW_BYTES: u32 = 2 << 20;

/// Frames of the largest size that may lie between the stop and a frame of the lap before: those in flight, one that
/// they cut, and one more.
const TORN_FRAMES_MAX: u64 = FRAMES_IN_FLIGHT_MAX as u64 + 2;

const _: () = assert!(WINDOW_BYTES.is_multiple_of(FRAME_ALIGN));
const _: () = assert!(WINDOW_BYTES as u64 >= frame_bytes_max(u64::MAX), "a frame is read at once");
const _: () = assert!(TORN_FRAMES_MAX > FRAMES_IN_FLIGHT_MAX as u64); // LANE-READER-5

/// Reads frames of one mount.
pub struct JournalReader {
    journal: Rc<dyn JournalStore>,
    owner: JournalOwner,
    copies: Vec<LaneCopy>,
    /// The copy that had the last frame.
    at: usize,
}

/// What is known of a copy of the lane.
#[derive(Default)]
struct LaneCopy {
    /// Bytes that were read ahead, and where they begin.
    window: Option<BufSlice>,
    window_start: u64,
    /// Some of this cannot be read: there nothing is read ahead.
    damaged: Range<u64>,
}

/// A frame as read from the lane, verified.
pub struct ReadFrame {
    /// Its bytes.
    pub bytes: BufSlice,
    /// Where the next frame begins.
    pub end: LogPosition,
}

/// What stands in a lane, whatever its order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalScan {
    /// Highest frame number of the mount; `None` when it wrote no frame that is still there.
    pub frame_seq_max: Option<u64>,
    /// Highest witness for the data chain.
    pub data_witness: u64,
    /// Highest witness for the reclaimed chain.
    pub reclaim_witness: u64,
}

impl JournalReader {
    /// A reader of the frames that `owner` wrote.
    #[must_use]
    pub fn new(journal: Rc<dyn JournalStore>, owner: JournalOwner) -> Self {
        assert!(
            journal.capacity().is_multiple_of(u64::from(FRAME_ALIGN)),
            "a lap ends where a frame may begin"
        );
        let copies = (0..journal.copies().max(1)).map(|_| LaneCopy::default()).collect();
        Self { journal, owner, copies, at: 0 }
    }

    /// Looks at the whole ring of each copy once, and makes durable what is there (LANE-READER-3). Costs one sequential
    /// read of each, and a flush.
    ///
    /// # Errors
    /// When the media fail: a part of the ring can be read in no copy.
    pub async fn census(&mut self) -> Result<JournalScan> {
        let mut census = JournalScan::default();
        if self.copies.len() == 1 {
            self.scan_copy(0, &mut census, None).await?;
        } else {
            self.scan_copies(&mut census).await?;
        }
        if !planted(Bug::UnsettledFrameBelieved) {
            self.journal.settle().await?;
        }
        Ok(census)
    }

    /// Adds what stands in a copy to the census. Parts that cannot be read are left out and told, if the caller wants
    /// to know.
    async fn scan_copy(
        &mut self,
        copy: usize,
        census: &mut JournalScan,
        mut unread: Option<&mut UnreadParts>,
    ) -> Result<()> {
        let (mount, since) = (self.owner.mount, self.journal.copy_since(copy));
        let capacity = self.journal.capacity();
        let mut position = 0;
        while position < capacity {
            let header =
                match (self.any_header(copy, position, |of| of == mount).await, &mut unread) {
                    (Ok(header), _) => header,
                    (Err(error), Some(unread)) => {
                        position = unread.add(position..capacity, error);
                        continue;
                    }
                    (Err(error), None) => return Err(error),
                };
            let Some(header) = header else {
                position += u64::from(FRAME_ALIGN);
                continue;
            };
            position += u64::from(header.header_bytes().next_multiple_of(FRAME_ALIGN));
            if header.position < since {
                continue; // LANE-READER-6
            }
            census.frame_seq_max = census.frame_seq_max.max(Some(header.frame_seq));
            census.data_witness = census.data_witness.max(header.data_witness);
            census.reclaim_witness = census.reclaim_witness.max(header.reclaim_witness);
        }
        Ok(())
    }

    /// The header of a frame of this shard, of a mount that `is_wanted`, at ring position `position`, on whatever lap
    /// it was written.
    async fn any_header(
        &mut self,
        copy: usize,
        position: u64,
        is_wanted: impl Fn(u64) -> bool,
    ) -> Result<Option<FrameHeader>> {
        assert!(position < self.journal.capacity(), "a place in the ring, of no lap");
        let bytes = self.window(copy, position, FRAME_ALIGN).await?;
        let Ok(header) = FrameHeader::decode(&bytes) else { return Ok(None) };
        let ours = header.pool == self.owner.pool
            && header.shard == self.owner.shard
            && is_wanted(header.mount)
            && header.position % self.journal.capacity() == position;
        let left = self.journal.capacity() - position;
        if !ours || u64::from(header.frame_bytes) > left {
            return Ok(None);
        }
        let bytes = self.window(copy, position, header.frame_bytes).await?;
        Ok(Frame::decode(&bytes).ok().map(|frame| frame.header))
    }

    /// Compares the replay point with what the lane holds (LANE-READER-4): a shard must not be opened at a point that
    /// its lane never came to.
    ///
    /// # Errors
    /// [`Error::LaneLost`] when neither one of the frames before it nor a newer one is there.
    pub fn check_start(&self, point: LogPosition, census: &JournalScan) -> Result<()> {
        let JournalOwner { pool, shard, mount } = self.owner;
        let is_first = point.chain == chain_seed(pool, shard, mount); // By a version that wrote no first frame.
        let oldest = point.frame_seq.saturating_sub(FRAMES_KEPT as u64);
        let is_there = census.frame_seq_max.is_some_and(|newest| newest >= oldest);
        let is_proven = self.begins_at(point.position);
        if is_first || is_there || is_proven || planted(Bug::LostLaneBelieved) {
            return Ok(());
        }
        let frame_seq = point.frame_seq.saturating_sub(1);
        Err(Error::LaneLost { frame_seq, newest: census.frame_seq_max })
    }

    /// Whether a copy that is written was begun where a frame at `position` goes, if not from the beginning on.
    fn begins_at(&self, position: u64) -> bool {
        let capacity = self.journal.capacity();
        let next_lap = (position / capacity + 1).saturating_mul(capacity);
        (0..self.copies.len()).any(|copy| {
            let since = self.journal.copy_since(copy);
            let is_written = self.journal.copy_until(copy) == u64::MAX;
            is_written && since > 0 && (since == position || since == next_lap)
        })
    }

    /// Looks behind the place where replay stopped (LANE-READER-5). Short lanes are not judged: a few frames fill them.
    ///
    /// # Errors
    /// [`Error::LaneEndLost`] when nothing was ever written there, or only long before. When the media fail.
    pub async fn check_end(&mut self, stop: LogPosition) -> Result<()> {
        let capacity = self.journal.capacity();
        if !self.reaches(stop.position) {
            return Err(Error::LaneEndLost { frame_seq: stop.frame_seq, position: stop.position });
        }
        let torn_max = TORN_FRAMES_MAX * frame_bytes_max(capacity);
        if 2 * torn_max > capacity {
            return Ok(());
        }
        let (mut lap, mut position) = (stop.position / capacity, stop.position % capacity);
        if position + torn_max > capacity {
            (lap, position) = (lap + 1, 0); // The rest of the lap may be too short for a frame.
        }
        if lap == 0 {
            return Ok(());
        }
        let end = position + torn_max;
        assert!(end <= capacity, "what may be torn stands on one lap"); // LANE-READER-5
        let begin = lap * capacity + position;
        let (mut judged, mut failed) = (false, None);
        for copy in 0..self.copies.len() {
            if self.journal.copy_since(copy).saturating_add(capacity) > begin {
                continue; // LANE-READER-5
            }
            if self.journal.copy_until(copy) <= begin {
                continue; // LANE-READER-6: frames of the lap before stand there in any case.
            }
            match self.has_older_frame(copy, position..end, lap).await {
                Ok(true) => return Ok(()),
                Ok(false) => judged = true,
                Err(error) => failed = Some(error),
            }
        }
        match failed {
            _ if judged => {
                Err(Error::LaneEndLost { frame_seq: stop.frame_seq, position: stop.position })
            }
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Whether a copy has what follows a position, or begins with the next lap: were all of them begun later, or ended
    /// before, something may have been written in between (LANE-READER-6).
    fn reaches(&self, position: u64) -> bool {
        let capacity = self.journal.capacity();
        let next_lap = (position / capacity + 1).saturating_mul(capacity);
        (0..self.copies.len()).any(|copy| {
            let since = self.journal.copy_since(copy);
            let has_next = since <= position && position < self.journal.copy_until(copy);
            has_next || since == next_lap
        })
    }

    /// Whether a frame of lap `lap`, or the one before, stands in a range of a copy's ring.
    async fn has_older_frame(&mut self, copy: usize, range: Range<u64>, lap: u64) -> Result<bool> {
        let mut position = range.start;
        while position < range.end {
            if let Some(header) = self.any_header(copy, position, |_| true).await?
                && header.position / self.journal.capacity() + 1 >= lap
            {
                return Ok(true);
            }
            position += u64::from(FRAME_ALIGN);
        }
        Ok(false)
    }

    /// The frame at `point`, or at the next lap's start when the rest of this lap was too short for it (LANE-READER-1).
    ///
    /// # Errors
    /// When the media fail.
    pub async fn frame_at(&mut self, point: LogPosition) -> Result<Option<ReadFrame>> {
        if let Some(frame) = self.try_copies(point).await? {
            return Ok(Some(frame));
        }
        let capacity = self.journal.capacity();
        let left = capacity - point.position % capacity;
        if left == capacity {
            return Ok(None);
        }
        self.try_copies(LogPosition { position: point.position + left, ..point }).await
    }

    async fn try_frame(&mut self, copy: usize, point: LogPosition) -> Result<Option<ReadFrame>> {
        let bytes = self.window(copy, point.position, FRAME_ALIGN).await?;
        let Ok(header) = FrameHeader::decode(&bytes) else { return Ok(None) };
        let follows = header.check_place(self.owner.pool, self.owner.shard, point.position).is_ok()
            && header.frame_seq == point.frame_seq
            && (header.mount == self.owner.mount && header.previous_chain == point.chain
                || planted(Bug::ChainUnchecked));
        let left = self.journal.capacity() - point.position % self.journal.capacity();
        if !follows || u64::from(header.frame_bytes) > left {
            return Ok(None);
        }
        let bytes = self.window(copy, point.position, header.frame_bytes).await?;
        let Ok(frame) = Frame::decode(&bytes) else { return Ok(None) };
        if frame.verify_payloads().is_err() {
            return Ok(None);
        }
        let end = LogPosition {
            position: point.position + u64::from(header.frame_bytes),
            frame_seq: point.frame_seq + 1,
            chain: frame.chain,
        };
        Ok(Some(ReadFrame { bytes, end }))
    }

    /// `len` bytes at `position` of a copy, out of a window read ahead.
    async fn window(&mut self, copy: usize, position: u64, len: u32) -> Result<BufSlice> {
        let capacity = self.journal.capacity();
        let left = capacity - position % capacity;
        assert!(u64::from(len) <= left, "reads stay within a lap");
        let held = &self.copies[copy];
        let window = held.window.as_ref().filter(|window| {
            position >= held.window_start
                && position + u64::from(len) <= held.window_start + window.len() as u64
        });
        if let Some(window) = window {
            let start = usize::try_from(position - held.window_start).expect("inside the window");
            return Ok(window.slice(start..start + len as usize));
        }
        if held.damaged.contains(&position) {
            return Ok(self.journal.read_copy(position, len, copy).await?);
        }
        let ahead = u32::try_from(left.min(u64::from(WINDOW_BYTES.max(len))));
        let ahead = ahead.expect("bounded by a u32");
        assert!(ahead >= len);
        let bytes = match self.journal.read_copy(position, ahead, copy).await {
            Err(_) if ahead > len && self.copies.len() > 1 => {
                // What lies behind may be what cannot be read.
                self.copies[copy].damaged = position..position + u64::from(ahead);
                return Ok(self.journal.read_copy(position, len, copy).await?);
            }
            read => read?,
        };
        let wanted = bytes.slice(0..len as usize);
        let held = &mut self.copies[copy];
        (held.window, held.window_start) = (Some(bytes), position);
        Ok(wanted)
    }
}

/// Whether a replay that stopped before frame `stopped_at` lost acknowledged frames (LANE-READER-2).
///
/// # Errors
/// [`Error::LaneDamaged`] when it did.
pub fn check_stop(stopped_at: u64, census: &JournalScan) -> Result<()> {
    match census.frame_seq_max {
        Some(newest) if newest >= stopped_at + FRAMES_IN_FLIGHT_MAX as u64 => {
            Err(Error::LaneDamaged { frame_seq: stopped_at, newest })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::future::ready;

    use futures_util::FutureExt;
    use varve_media::{Fence, IoFuture};
    use varve_stdx::AlignedBuf;
    use varve_types::{PoolId, ShardId};

    use super::*;
    use crate::lane::Journal;

    const OWNER: JournalOwner = JournalOwner { pool: PoolId([1; 16]), shard: ShardId(3), mount: 7 };

    /// Long enough for its end to be judged.
    const LANE_LEN: usize = 16 << 20;
    const LANE_BYTES: u64 = LANE_LEN as u64;

    /// A lane in memory, whose fence never falls.
    struct Ring(RefCell<Vec<u8>>);

    impl JournalStore for Ring {
        fn capacity(&self) -> u64 {
            LANE_BYTES
        }

        fn append(&self, position: u64, bytes: BufSlice) -> IoFuture<'_, ()> {
            let start = usize::try_from(position % LANE_BYTES).expect("a small ring");
            self.0.borrow_mut()[start..start + bytes.len()].copy_from_slice(&bytes);
            Box::pin(ready(Ok(())))
        }

        fn read(&self, position: u64, len: u32) -> IoFuture<'_, BufSlice> {
            let start = usize::try_from(position % LANE_BYTES).expect("a small ring");
            let bytes = BufSlice::copy_from(&self.0.borrow()[start..start + len as usize]);
            Box::pin(ready(Ok(bytes)))
        }

        fn settle(&self) -> IoFuture<'_, ()> {
            Box::pin(ready(Ok(())))
        }
    }

    impl Fence for Ring {
        fn check(&self) -> varve_media::Result<()> {
            Ok(())
        }
    }

    fn now<T>(work: impl Future<Output = T>) -> T {
        work.now_or_never().expect("memory never waits")
    }

    /// A lane with frames up to a position, and the point behind the last one.
    fn written_to(end: u64) -> (Rc<Ring>, LogPosition) {
        let ring = Rc::new(Ring(RefCell::new(vec![0; LANE_LEN])));
        let (journal, fence): (Rc<dyn JournalStore>, Rc<dyn Fence>) = (ring.clone(), ring.clone());
        let chain = chain_seed(OWNER.pool, OWNER.shard, OWNER.mount);
        let mut point = LogPosition { position: 0, frame_seq: 1, chain };
        while point.position < end {
            point =
                now(Journal::begin(&journal, &fence, OWNER, point)).expect("memory never fails");
        }
        (ring, point)
    }

    fn erase(ring: &Rc<Ring>, from: u64, len: usize) {
        now(ring.append(from, AlignedBuf::zeroed(len).freeze())).expect("memory never fails");
    }

    fn judge(ring: &Rc<Ring>, start: LogPosition) -> Result<()> {
        let mut reader = JournalReader::new(ring.clone(), OWNER);
        let census = now(reader.census())?;
        reader.check_start(start, &census)?;
        let mut stop = start;
        while let Some(frame) = now(reader.frame_at(stop))? {
            stop = frame.end;
        }
        check_stop(stop.frame_seq, &census)?;
        now(reader.check_end(stop))
    }

    #[test]
    fn a_lane_without_the_frames_before_its_replay_point_was_lost() {
        let (ring, point) = written_to(40 << 10);
        judge(&ring, point).expect("nothing was lost");
        let copy = ring.0.borrow().clone();
        erase(&ring, 36 << 10, 4 << 10);
        judge(&ring, point).expect("one block may decay");
        erase(&ring, 32 << 10, 8 << 10);
        assert!(matches!(judge(&ring, point), Err(Error::LaneLost { newest: Some(8), .. })));
        erase(&ring, 0, 40 << 10);
        assert!(matches!(judge(&ring, point), Err(Error::LaneLost { newest: None, .. })));
        // An earlier copy.
        let (_, later) = written_to(80 << 10);
        ring.0.borrow_mut().copy_from_slice(&copy);
        assert!(matches!(judge(&ring, later), Err(Error::LaneLost { newest: Some(10), .. })));
        // A root of a version that wrote no first frames.
        let (mount, chain) = (9, chain_seed(OWNER.pool, OWNER.shard, 9));
        let reader = JournalReader::new(ring, JournalOwner { mount, ..OWNER });
        let first = LogPosition { chain, ..point };
        reader.check_start(first, &JournalScan::default()).expect("nothing has to be there");
    }

    #[test]
    fn the_end_of_a_lane_that_lost_its_rest_is_no_end() {
        // On the first lap nothing was written behind the end.
        let (ring, point) = written_to(LANE_BYTES / 4);
        judge(&ring, point).expect("nothing was lost");
        for end in [0, LANE_BYTES / 4, LANE_BYTES / 2, LANE_BYTES - 4096] {
            let (ring, point) = written_to(LANE_BYTES + end);
            judge(&ring, point).expect("nothing was lost");
            let rest = (LANE_BYTES - point.position % LANE_BYTES).min(LANE_BYTES / 2);
            let bytes = |len: u64| usize::try_from(len).expect("a small ring");
            erase(&ring, point.position, bytes(rest.min(64 << 10))); // Frames in flight that were cut off.
            judge(&ring, point).expect("nothing was lost");
            erase(&ring, point.position, bytes(rest));
            let lost = matches!(judge(&ring, point), Err(Error::LaneEndLost { .. }));
            assert_eq!(lost, rest == LANE_BYTES / 2, "{end}: the rest of a lap may be too short");
        }
        // The replay point stands on the lap before, and the first half of the ring is gone.
        let (ring, point) = written_to(2 * LANE_BYTES - (64 << 10));
        let (later, _) = written_to(2 * LANE_BYTES + (4 << 20));
        ring.0.borrow_mut().copy_from_slice(&later.0.borrow());
        erase(&ring, 2 * LANE_BYTES, LANE_LEN / 2);
        assert!(matches!(judge(&ring, point), Err(Error::LaneEndLost { .. })));
        // The same with what stood there two laps before.
        let (older, _) = written_to(LANE_BYTES / 2);
        let half = older.0.borrow()[..LANE_LEN / 2].to_vec();
        ring.0.borrow_mut()[..half.len()].copy_from_slice(&half);
        assert!(matches!(judge(&ring, point), Err(Error::LaneEndLost { .. })));
    }
}
