//! One shard's journal lane: records become durable here before anything else happens to them.
//!
//! The engine appends records; they join the frame that is forming. A frame leaves when no other is under way, or when
//! it is full enough to be worth a second one, so there is no timer: what arrives while frames are in flight forms the
//! next.
//!
//! ```text
//!  forming --submit--> submitted --complete--> durable --drain--> attached to a data segment --release--> gone
//! ```
//!
//! LANE-1. Frames become durable in order: a frame is durable once it and all earlier frames are on media.
//! LANE-2. Records stand in frames in the order of their write sequence numbers.
//! LANE-3. Frames are released in order, and only when a durable data segment covers all their records; until then no
//!     other frame is written over them.
//! LANE-4. After a failed append nothing more is written: every unfinished frame fails.
//! LANE-5. A mount begins with [`FRAMES_KEPT`] frames without records, and as many frames before the first one that is
//!     not released are never overwritten. So frames stand before every replay point, and a lane in which there are
//!     none was lost (LANE-READER-4).

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::pin::pin;
use std::rc::Rc;

use futures_util::future::{Either, select};
use varve_media::{Fence, IoFuture, JournalStore};
use varve_reactor::{Nanos, Notify, Reactor};
use varve_stdx::{AlignedBuf, BufSlice};
use varve_types::{PoolId, ShardId};

use crate::format::UNIT_BYTES;
use crate::format::frame::{
    FRAME_ALIGN, FRAME_BYTES_MAX, FrameHeader, LogPosition, descriptor_offset, frame_bytes,
    header_bytes, payload_bytes,
};
use crate::format::record::{PIECE_BYTES, RecordHeader};
use crate::planted::{Bug, planted};
use crate::{Error, Result};

/// A frame alone in flight may be joined by another once that many records wait: then a frame's header costs 1/8 of its
/// blocks.
const RECORDS_WORTH_A_FRAME: usize = 8;

/// Frames in flight at most; more would only split the same records over more headers.
pub const FRAMES_IN_FLIGHT_MAX: usize = 4;

/// Payload bytes after which a frame takes no more records: one device write of about a millisecond.
const FRAME_PAYLOAD_MAX: usize = 1 << 20;

/// A frame's payload is at most that part of the ring, so that what is lost at the end of a lap stays small.
const FRAMES_PER_LAP_MIN: u64 = 8;

/// Frames before a replay point that are there: were it one, a single block that decays would look like a lane that was
/// lost.
pub const FRAMES_KEPT: usize = 2;

const _: () = assert!(
    LANE_BYTES_MIN >= (FRAMES_KEPT as u64 + 3) * frame_bytes_max(LANE_BYTES_MIN),
    "the frames that are kept (LANE-5), the rest of a lap and two more frames fit"
);

/// Bytes of a lane at least: smaller ones hold too few frames to overlap writing and draining.
pub const LANE_BYTES_MIN: u64 = 256 << 10;

/// Records after which a frame takes no more: four header blocks.
pub const FRAME_RECORDS_MAX: usize = FRAME_RECORDS as usize;

const FRAME_RECORDS: u32 = 250;

const _: () = assert!(FRAMES_KEPT > 1); // LANE-5
const _: () = assert!(LANE_BYTES_MIN.is_multiple_of(FRAME_ALIGN as u64));
const _: () = assert!(FRAME_RECORDS <= crate::format::frame::FRAME_RECORDS_MAX);
const _: () = assert!(header_bytes(FRAME_RECORDS) <= 4 * FRAME_ALIGN, "four header blocks");
const _: () = assert!(RECORDS_WORTH_A_FRAME <= FRAME_RECORDS_MAX);
const _: () = assert!(FRAME_PAYLOAD_MAX.is_multiple_of(UNIT_BYTES as usize));
const _: () = assert!(frame_bytes_max(u64::MAX) <= FRAME_BYTES_MAX as u64);

/// A record on its way: header, payload and the checksums of the payload's 4 KiB pieces.
#[derive(Debug)]
pub struct JournalRecord {
    /// What is recorded.
    pub header: RecordHeader,
    /// Its bytes; empty for trims and the like.
    pub payload: BufSlice,
    /// Checksum of each 4 KiB piece of the payload; empty when there is at most one, whose checksum is the header's.
    pub piece_checksums: Vec<u64>,
    /// Whether the credits that it holds until its frame is released are those kept for what takes no space.
    pub is_reserved: bool,
}

impl JournalRecord {
    /// Checksum of piece `index` of the payload.
    ///
    /// # Panics
    /// When there is no such piece.
    #[must_use]
    pub fn piece_checksum(&self, index: usize) -> u64 {
        if self.piece_checksums.is_empty() {
            assert_eq!(index, 0, "a payload of one piece has one checksum");
            return self.header.payload_checksum;
        }
        self.piece_checksums[index]
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FrameState {
    Forming,
    Submitted,
    Durable,
    Failed,
}

/// Records that become durable together.
pub struct JournalFrame {
    state: Cell<FrameState>,
    written: Cell<bool>,
    start: Cell<LogPosition>,
    end: Cell<LogPosition>,
    records: RefCell<Vec<Rc<JournalRecord>>>,
    payload_bytes: Cell<usize>,
    changed: Notify,
}

impl JournalFrame {
    fn new() -> Rc<Self> {
        Rc::new(Self {
            state: Cell::new(FrameState::Forming),
            written: Cell::new(false),
            start: Cell::default(),
            end: Cell::default(),
            records: RefCell::default(),
            payload_bytes: Cell::new(0),
            changed: Notify::new(),
        })
    }

    /// Whether the frame, and with it every earlier one, survives power loss (LANE-1).
    #[must_use]
    pub fn is_durable(&self) -> bool {
        self.state.get() == FrameState::Durable
    }

    /// Waits until the frame is durable.
    ///
    /// # Errors
    /// [`Error::LaneFailed`] when it never will be.
    pub async fn durable(&self) -> Result<()> {
        loop {
            match self.state.get() {
                FrameState::Durable => return Ok(()),
                FrameState::Failed => return Err(Error::LaneFailed),
                FrameState::Forming | FrameState::Submitted => self.changed.notified().await,
            }
        }
    }

    /// The frame's records, in order (LANE-2).
    #[must_use]
    pub fn records(&self) -> std::cell::Ref<'_, Vec<Rc<JournalRecord>>> {
        self.records.borrow()
    }

    /// Where the frame begins.
    #[must_use]
    pub fn start(&self) -> LogPosition {
        self.start.get()
    }

    /// Where the next frame begins.
    #[must_use]
    pub fn end(&self) -> LogPosition {
        self.end.get()
    }

    fn fits(&self, records: &[Rc<JournalRecord>], payload_max: usize) -> bool {
        let before = self.records.borrow().len();
        let payload = self.payload_bytes.get() + padded_payloads(records);
        before == 0 || before + records.len() <= FRAME_RECORDS_MAX && payload <= payload_max
    }

    fn encoded_bytes(&self) -> u32 {
        let records = self.records.borrow();
        let payload = records.iter().map(|record| payload_bytes(record.header.payload_len)).sum();
        let count = u32::try_from(records.len()).expect("bounded by FRAME_RECORDS_MAX");
        frame_bytes(header_bytes(count), payload)
    }

    fn set(&self, state: FrameState) {
        assert_ne!(state, FrameState::Forming, "no frame forms again");
        self.state.set(state);
        self.changed.notify_all();
    }
}

/// Identity of a lane and of the mount that writes it.
#[derive(Clone, Copy, Debug)]
pub struct JournalOwner {
    /// The pool.
    pub pool: PoolId,
    /// The shard.
    pub shard: ShardId,
    /// The mount: raised durably before the first frame.
    pub mount: u64,
}

/// The writer of a lane.
pub struct Journal {
    reactor: Reactor,
    journal: Rc<dyn JournalStore>,
    fence: Rc<dyn Fence>,
    owner: JournalOwner,
    state: RefCell<State>,
    witness: Cell<(u64, u64)>,
    appends: Cell<usize>,
    work: Notify,
    drainable: Notify,
    failed: Notify,
}

struct State {
    forming: Rc<JournalFrame>,
    /// Full frames that wait for their turn.
    full: VecDeque<Rc<JournalFrame>>,
    /// Submitted frames that are not durable yet, in order.
    in_flight: VecDeque<Rc<JournalFrame>>,
    /// Durable frames that the drain has not taken, in order.
    durable: VecDeque<Rc<JournalFrame>>,
    /// Where the next frame begins.
    head: LogPosition,
    /// Where the first frame begins that is not released.
    tail: LogPosition,
    /// Where the frames before it begin, which are not overwritten either, the oldest first (LANE-5).
    kept: [u64; FRAMES_KEPT],
    failure: Option<Error>,
    spare: Vec<AlignedBuf>,
    bytes_written: u64,
    frames_written: u64,
    records_written: u64,
}

/// Counters of a lane since it was opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct JournalStats {
    /// Where the first frame begins that is not released.
    pub tail: u64,
    /// Bytes between the tail and the head.
    pub used_bytes: u64,
    /// Bytes of the ring.
    pub capacity_bytes: u64,
    /// Bytes appended, headers and padding included.
    pub written_bytes: u64,
    /// Frames appended.
    pub frames: u64,
    /// Records in them.
    pub records: u64,
}

impl Journal {
    /// Writes a frame without records to `head`, as a mount begins with (LANE-5). Durable on return; the next frame
    /// goes to the point that is returned. The caller knows that nothing needs the [`FRAME_ALIGN`] bytes at `head`.
    ///
    /// # Errors
    /// When the media fail, or the owner is fenced.
    pub async fn begin(
        journal: &Rc<dyn JournalStore>,
        fence: &Rc<dyn Fence>,
        owner: JournalOwner,
        head: LogPosition,
    ) -> Result<LogPosition> {
        let mut bytes = AlignedBuf::zeroed(frame_bytes(header_bytes(0), 0) as usize);
        assert_eq!(bytes.len(), FRAME_ALIGN as usize, "a frame without records fits any lap");
        let chain = FrameHeader {
            record_count: 0,
            frame_bytes: FRAME_ALIGN,
            pool: owner.pool,
            shard: owner.shard,
            mount: owner.mount,
            position: head.position,
            frame_seq: head.frame_seq,
            tail: head,
            data_witness: 0,
            reclaim_witness: 0,
            previous_chain: head.chain,
        }
        .encode(&mut bytes);
        fence.check()?;
        journal.append(head.position, bytes.freeze()).await?;
        let position = head.position + u64::from(FRAME_ALIGN);
        Ok(LogPosition { position, frame_seq: head.frame_seq + 1, chain })
    }

    /// A lane whose next frame goes to `head`; everything before the frames that end there may be overwritten, and
    /// those are taken for frames of [`Self::begin`]. The caller runs [`Self::run`].
    #[must_use]
    pub fn new(
        reactor: Reactor,
        journal: Rc<dyn JournalStore>,
        fence: Rc<dyn Fence>,
        owner: JournalOwner,
        head: LogPosition,
    ) -> Rc<Self> {
        assert!(head.position.is_multiple_of(u64::from(FRAME_ALIGN)), "frames are aligned");
        assert!(
            journal.capacity() >= LANE_BYTES_MIN,
            "a lane is large enough for frames to overlap"
        );
        assert!(
            journal.capacity().is_multiple_of(u64::from(FRAME_ALIGN)),
            "a lap ends where a frame may begin"
        );
        let state = State {
            forming: JournalFrame::new(),
            full: VecDeque::new(),
            in_flight: VecDeque::new(),
            durable: VecDeque::new(),
            head,
            tail: head,
            kept: std::array::from_fn(|index| {
                let frames = (FRAMES_KEPT - index) as u64;
                head.position.saturating_sub(frames * u64::from(FRAME_ALIGN))
            }),
            failure: None,
            spare: Vec::new(),
            bytes_written: 0,
            frames_written: 0,
            records_written: 0,
        };
        journal.note_tail(head.position, head.position);
        Rc::new(Self {
            reactor,
            journal,
            fence,
            owner,
            state: RefCell::new(state),
            witness: Cell::new((0, 0)),
            appends: Cell::new(0),
            work: Notify::new(),
            drainable: Notify::new(),
            failed: Notify::new(),
        })
    }

    /// Most payload bytes of a frame, and of a record.
    #[must_use]
    pub fn payload_max(&self) -> usize {
        usize::try_from(payload_max(self.journal.capacity())).unwrap_or(FRAME_PAYLOAD_MAX)
    }

    /// Adds a record to the forming frame and returns the frame, to wait for. The frame leaves after the tasks that are
    /// ready now have run, so that requests that arrived together share it.
    pub fn append(&self, record: Rc<JournalRecord>) -> Rc<JournalFrame> {
        self.append_together(&[record])
    }

    /// The same for several records, which become durable together or not at all.
    ///
    /// # Panics
    /// When they are more than fit a frame: [`FRAME_RECORDS_MAX`] records and [`Self::payload_max`] bytes. When they do
    /// not follow what was appended before (LANE-2), or a payload is not as long as its header says.
    pub fn append_together(&self, records: &[Rc<JournalRecord>]) -> Rc<JournalFrame> {
        let mut state = self.state.borrow_mut();
        if !state.forming.fits(records, self.payload_max()) {
            let full = std::mem::replace(&mut state.forming, JournalFrame::new());
            state.full.push_back(full);
        }
        let before = state.full.back().and_then(|full| full.records.borrow().last().cloned());
        if let (Some(before), Some(first)) = (before, records.first()) {
            assert!(before.header.wseq < first.header.wseq, "frames are filled in order"); // LANE-2
        }
        let frame = Rc::clone(&state.forming);
        assert!(frame.fits(records, self.payload_max()) && records.len() <= FRAME_RECORDS_MAX);
        let is_forming = frame.state.get() == FrameState::Forming;
        assert!(is_forming || state.failure.is_some()); // LANE-4
        frame.payload_bytes.set(frame.payload_bytes.get() + padded_payloads(records));
        let mut in_frame = frame.records.borrow_mut();
        for record in records {
            let (payload_len, pieces) = (record.payload.len(), record.piece_checksums.len());
            assert_eq!(payload_len, record.header.payload_len as usize);
            assert!(pieces == 0 || pieces == payload_len.div_ceil(PIECE_BYTES));
            if let Some(last) = in_frame.last() {
                assert!(last.header.wseq < record.header.wseq, "records are appended in order"); // LANE-2
            }
            in_frame.push(Rc::clone(record));
        }
        drop(in_frame);
        if state.failure.is_some() {
            frame.set(FrameState::Failed); // LANE-4
        }
        drop(state);
        self.work.notify_one();
        frame
    }

    /// Submits frames until the lane fails or the task is dropped.
    pub async fn run(self: Rc<Self>) {
        loop {
            while let Some((frame, position, bytes)) = self.next_submission() {
                let lane = Rc::clone(&self);
                self.appends.set(self.appends.get() + 1);
                assert!(self.appends.get() <= FRAMES_IN_FLIGHT_MAX); // LANE-READER-2
                self.reactor.spawn(async move {
                    let append = lane.journal.append(position, bytes.clone());
                    let outcome = if planted(Bug::StuckIsDurable) {
                        lose_patience(&lane.reactor, append).await
                    } else {
                        append.await
                    };
                    lane.complete(&frame, bytes, outcome.map_err(Error::from));
                });
            }
            self.work.notified().await;
        }
    }

    /// Encodes the next frame, if one may leave now.
    fn next_submission(&self) -> Option<(Rc<JournalFrame>, u64, BufSlice)> {
        let mut state = self.state.borrow_mut();
        if state.failure.is_some() {
            return None;
        }
        let forming = state.forming.records.borrow().len();
        let may_leave = match state.in_flight.len() {
            0 => forming > 0 || !state.full.is_empty(),
            n if n < self.journal.appends_at_once().min(FRAMES_IN_FLIGHT_MAX) => {
                !state.full.is_empty() || forming >= RECORDS_WORTH_A_FRAME
            }
            _ => false,
        };
        if !may_leave {
            return None;
        }
        let frame = state.full.front().unwrap_or(&state.forming);
        let bytes = frame.encoded_bytes() as usize;
        let start = LogPosition { position: self.place(state.head.position, bytes), ..state.head };
        let end_position = start.position + bytes as u64;
        if end_position > state.kept[0] + self.journal.capacity() {
            return None; // LANE-3, LANE-5: release() calls again
        }
        if let Err(error) = self.fence.check() {
            drop(state);
            self.fail(Error::from(error));
            return None;
        }
        let frame = match state.full.pop_front() {
            Some(frame) => frame,
            None => std::mem::replace(&mut state.forming, JournalFrame::new()),
        };
        assert_eq!(frame.state.get(), FrameState::Forming, "a frame is submitted once");
        assert!(!frame.records.borrow().is_empty(), "nothing waits for an empty frame");
        assert!(state.in_flight.back().is_none_or(|last| last.end.get() == state.head)); // LANE-1
        assert!(state.tail.frame_seq <= start.frame_seq); // LANE-3
        let mut buf = state.take_buffer(bytes);
        let chain = self.encode(&frame, start, state.tail, &mut buf);
        frame.start.set(start);
        frame.end.set(LogPosition {
            position: end_position,
            frame_seq: start.frame_seq + 1,
            chain,
        });
        frame.set(FrameState::Submitted);
        state.head = frame.end.get();
        state.bytes_written += bytes as u64;
        state.frames_written += 1;
        state.records_written += frame.records.borrow().len() as u64;
        state.in_flight.push_back(Rc::clone(&frame));
        assert!(state.in_flight.len() <= FRAMES_IN_FLIGHT_MAX); // LANE-READER-2
        assert!(end_position - state.tail.position <= self.journal.capacity()); // LANE-3
        if planted(Bug::AckBeforeDurable) {
            frame.set(FrameState::Durable);
        }
        Some((frame, start.position, buf.freeze()))
    }

    /// Where a frame of `bytes` goes: at `head`, or at the next lap when the rest of this one is too short.
    fn place(&self, head: u64, bytes: usize) -> u64 {
        place_frame(head, bytes as u64, self.journal.capacity())
    }

    fn encode(
        &self,
        frame: &JournalFrame,
        start: LogPosition,
        tail: LogPosition,
        buf: &mut [u8],
    ) -> u64 {
        debug_assert_eq!(buf.len(), frame.encoded_bytes() as usize); // FRAME-3
        let records = frame.records.borrow();
        let record_count = u32::try_from(records.len()).expect("bounded by FRAME_RECORDS_MAX");
        let mut offset = header_bytes(record_count) as usize;
        for (index, record) in records.iter().enumerate() {
            record.header.encode(&mut buf[descriptor_offset(index)..]);
            let end = offset + record.payload.len();
            buf[offset..end].copy_from_slice(&record.payload);
            let padded = offset + payload_bytes(record.header.payload_len) as usize;
            buf[end..padded].fill(0);
            offset = padded;
        }
        buf[offset..].fill(0);
        let (data_witness, reclaim_witness) = self.witness.get();
        let header = FrameHeader {
            record_count,
            frame_bytes: u32::try_from(buf.len()).expect("bounded by FRAME_PAYLOAD_MAX"),
            pool: self.owner.pool,
            shard: self.owner.shard,
            mount: self.owner.mount,
            position: start.position,
            frame_seq: start.frame_seq,
            tail,
            data_witness,
            reclaim_witness,
            previous_chain: start.chain,
        };
        header.encode(buf)
    }

    /// Tells up to which segment of the data and the reclaimed chain all are durable; every later frame says so.
    ///
    /// # Panics
    /// When it is less than before.
    pub fn set_witness(&self, data: u64, reclaimed: u64) {
        let (data_before, reclaimed_before) = self.witness.get();
        assert!(data >= data_before, "what is durable stays durable");
        assert!(reclaimed >= reclaimed_before, "what is durable stays durable");
        self.witness.set((data, reclaimed));
    }

    fn complete(&self, frame: &Rc<JournalFrame>, bytes: BufSlice, outcome: Result<()>) {
        assert!(self.appends.get() > 0, "an append ends once");
        self.appends.set(self.appends.get() - 1);
        if self.appends.get() == 0 {
            self.failed.notify_all();
        }
        if let Err(error) = outcome {
            self.fail(error);
            return;
        }
        assert!(!frame.written.get(), "a frame is written once");
        frame.written.set(true);
        let mut state = self.state.borrow_mut();
        if let Ok(buf) = bytes.try_into_buf() {
            state.give_buffer(buf);
        }
        if state.failure.is_some() {
            return;
        }
        while state.in_flight.front().is_some_and(|first| first.written.get()) {
            // LANE-1: only a written prefix becomes durable.
            if let Some(first) = state.in_flight.pop_front() {
                let before = state.durable.back().map(|last| last.end.get().frame_seq);
                assert!(before.is_none_or(|end| end == first.start.get().frame_seq)); // LANE-1
                assert_ne!(first.state.get(), FrameState::Failed, "the lane did not fail"); // LANE-4
                first.set(FrameState::Durable);
                state.durable.push_back(first);
            }
        }
        drop(state);
        self.drainable.notify_one();
        self.work.notify_one();
    }

    /// Fails every unfinished frame and refuses all later ones (LANE-4).
    pub fn fail(&self, error: Error) {
        let mut state = self.state.borrow_mut();
        if state.failure.is_none() {
            state.failure = Some(error);
        }
        for frame in state.in_flight.iter().chain(&state.full).chain([&state.forming]) {
            frame.set(FrameState::Failed);
        }
        drop(state);
        self.failed.notify_all();
        self.drainable.notify_all();
    }

    /// Waits until no append is under way.
    pub async fn quiesced(&self) {
        while self.appends.get() > 0 {
            self.failed.notified().await;
        }
    }

    /// Waits for a failure of the lane and returns it.
    pub async fn failure(&self) -> Error {
        loop {
            if let Some(error) = &self.state.borrow().failure {
                return error.clone();
            }
            self.failed.notified().await;
        }
    }

    /// Waits for a durable frame to drain. False once the lane failed and there is none.
    pub async fn durable(&self) -> bool {
        loop {
            if self.has_undrained() {
                return true;
            }
            if self.state.borrow().failure.is_some() {
                return false;
            }
            self.drainable.notified().await;
        }
    }

    /// The next durable frame to drain, if there is one now.
    pub fn take_durable(&self) -> Option<Rc<JournalFrame>> {
        let frame = self.state.borrow_mut().durable.pop_front()?;
        assert!(frame.is_durable(), "durable frames never fail");
        Some(frame)
    }

    /// Whether a durable frame waits for the drain.
    #[must_use]
    pub fn has_undrained(&self) -> bool {
        !self.state.borrow().durable.is_empty()
    }

    /// Whether every appended record is durable and taken by the drain.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        let state = self.state.borrow();
        state.durable.is_empty()
            && state.in_flight.is_empty()
            && state.full.is_empty()
            && state.forming.records.borrow().is_empty()
    }

    /// Lets the bytes of `frame` be overwritten (LANE-3).
    ///
    /// # Panics
    /// When the frame is not durable, or not the one behind the last that was released.
    pub fn release(&self, frame: &JournalFrame) {
        assert!(frame.is_durable(), "only durable frames are released");
        assert!(frame.written.get(), "only written frames are released");
        let mut state = self.state.borrow_mut();
        let (start, end) = (frame.start.get(), frame.end.get());
        assert!(end.position > state.tail.position, "frames are released in order"); // LANE-3
        assert_eq!(start.frame_seq, state.tail.frame_seq, "no frame is left out"); // LANE-3
        assert!(start.position >= state.tail.position); // LANE-3
        assert!(end.position <= state.head.position, "a released frame was submitted");
        state.tail = end;
        state.kept.rotate_left(1);
        state.kept[FRAMES_KEPT - 1] = start.position;
        assert!(state.kept.is_sorted()); // LANE-5
        assert!(state.kept[FRAMES_KEPT - 1] < state.tail.position); // LANE-5
        let head = state.head.position;
        drop(state);
        self.journal.note_tail(end.position, head);
        self.work.notify_one();
    }

    /// Whether frames should be released: half of the lane is taken, or a next frame might not fit beside what is kept
    /// (LANE-5).
    #[must_use]
    pub fn is_half_taken(&self) -> bool {
        let (state, capacity) = (self.state.borrow(), self.journal.capacity());
        let (head, next_max) = (state.head.position, 2 * frame_bytes_max(capacity)); // With the rest of a lap.
        head - state.tail.position >= capacity / 2 || head + next_max > state.kept[0] + capacity
    }

    /// Where the next frame will begin.
    #[must_use]
    pub fn head(&self) -> LogPosition {
        self.state.borrow().head
    }

    /// Counters.
    #[must_use]
    pub fn stats(&self) -> JournalStats {
        let state = self.state.borrow();
        JournalStats {
            tail: state.tail.position,
            used_bytes: state.head.position - state.tail.position,
            capacity_bytes: self.journal.capacity(),
            written_bytes: state.bytes_written,
            frames: state.frames_written,
            records: state.records_written,
        }
    }
}

impl State {
    /// A buffer of `bytes`; contents are whatever was in it before.
    fn take_buffer(&mut self, bytes: usize) -> AlignedBuf {
        let fitting = self.spare.iter().position(|buf| buf.capacity() >= bytes);
        let mut buf = match fitting {
            Some(index) => self.spare.swap_remove(index),
            None => AlignedBuf::zeroed(bytes.next_power_of_two()),
        };
        buf.set_len(bytes);
        buf
    }

    fn give_buffer(&mut self, mut buf: AlignedBuf) {
        if self.spare.len() < FRAMES_IN_FLIGHT_MAX {
            buf.set_len(buf.capacity());
            self.spare.push(buf);
        }
    }
}

/// Most payload bytes of a frame in a ring of `capacity` bytes.
const fn payload_max(capacity: u64) -> u64 {
    let share = capacity / FRAMES_PER_LAP_MIN;
    if share < FRAME_PAYLOAD_MAX as u64 { share } else { FRAME_PAYLOAD_MAX as u64 }
}

/// Most bytes of a frame in a ring of `capacity` bytes.
pub(crate) const fn frame_bytes_max(capacity: u64) -> u64 {
    let header = header_bytes(FRAME_RECORDS) as u64;
    (header + payload_max(capacity)).next_multiple_of(FRAME_ALIGN as u64)
}

/// Bytes that the payloads of records take in a frame.
fn padded_payloads(records: &[Rc<JournalRecord>]) -> usize {
    records.iter().map(|record| payload_bytes(record.header.payload_len) as usize).sum()
}

/// Position of a frame of `bytes` when the last one ended at `head`, in a ring of `capacity` bytes.
///
/// # Panics
/// When the frame is larger than the ring.
#[must_use]
pub fn place_frame(head: u64, bytes: u64, capacity: u64) -> u64 {
    assert!(bytes <= capacity, "a frame fits its lane");
    let left = capacity - head % capacity;
    let place = if bytes <= left { head } else { head + left };
    assert!(place >= head, "lanes only grow");
    assert!(place % capacity + bytes <= capacity, "a frame ends on the lap on which it begins");
    place
}

/// Waits for an append for a second ([`Bug::StuckIsDurable`]).
async fn lose_patience(reactor: &Reactor, append: IoFuture<'_, ()>) -> varve_media::Result<()> {
    match select(append, pin!(reactor.sleep(Nanos::seconds(1)))).await {
        Either::Left((outcome, _)) => outcome,
        Either::Right(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use varve_reactor::SimLoop;
    use varve_stdx::Rng;
    use varve_types::{CutNumber, StreamId, WriteSeq};

    use super::*;
    use crate::format::record::{RecordKind, RecordOrigin, payload_checksum};

    /// A lane that is written and never read.
    struct Nowhere;

    impl JournalStore for Nowhere {
        fn capacity(&self) -> u64 {
            LANE_BYTES_MIN
        }

        fn append(&self, _position: u64, _bytes: BufSlice) -> IoFuture<'_, ()> {
            Box::pin(ready(Ok(())))
        }

        fn read(&self, _position: u64, len: u32) -> IoFuture<'_, BufSlice> {
            Box::pin(ready(Ok(AlignedBuf::zeroed(len as usize).freeze())))
        }

        fn settle(&self) -> IoFuture<'_, ()> {
            Box::pin(ready(Ok(())))
        }
    }

    impl Fence for Nowhere {
        fn check(&self) -> varve_media::Result<()> {
            Ok(())
        }
    }

    /// Records of one block each, which share a frame.
    fn records(first: u64, count: u64) -> Vec<Rc<JournalRecord>> {
        let payload = AlignedBuf::zeroed(4096).freeze();
        let record = |wseq| {
            let header = RecordHeader {
                kind: RecordKind::Write,
                class: 0,
                origin: RecordOrigin::default(),
                payload_len: 4096,
                stream: StreamId::new(1),
                wseq: WriteSeq::new(wseq),
                offset_512: 0,
                len_512: 8,
                payload_checksum: payload_checksum(&payload),
                cut: CutNumber(0),
                connection: 0,
                request: 0,
            };
            let (payload, piece_checksums) = (payload.clone(), Vec::new());
            Rc::new(JournalRecord { header, payload, piece_checksums, is_reserved: false })
        };
        (first..first + count).map(record).collect()
    }

    #[test]
    fn a_frame_never_waits_while_less_than_half_is_taken() {
        let mut sim = SimLoop::new(1);
        let reactor = sim.handle();
        let (pool, shard) = (PoolId([1; 16]), ShardId(0));
        let owner = JournalOwner { pool, shard, mount: 1 };
        let ended = sim.try_run_until(
            async move {
                let (journal, fence) = (Rc::new(Nowhere), Rc::new(Nowhere));
                let head = LogPosition { position: 8192, frame_seq: 3, chain: 0 };
                let lane = Journal::new(reactor.clone(), journal, fence, owner, head);
                reactor.spawn(Rc::clone(&lane).run());
                let (mut rng, mut taken, mut wseq) = (Rng::new(1), VecDeque::<Rc<_>>::new(), 1);
                let most = lane.payload_max() as u64 / 4096;
                for _ in 0..4000 {
                    while lane.is_half_taken()
                        && let Some(frame) = taken.pop_front()
                    {
                        lane.release(&frame);
                    }
                    let count = if rng.chance(1, 3) { most } else { 1 + rng.below(most) };
                    lane.append_together(&records(wseq, count)).durable().await.expect("no fault");
                    wseq += count;
                    taken.push_back(lane.take_durable().expect("it is durable"));
                }
                assert!(lane.head().position > 100 * LANE_BYTES_MIN);
                taken.iter().for_each(|frame| lane.release(frame));
            },
            1_000_000,
        );
        assert!(ended.is_some(), "a frame waits for room that nobody knows to make");
    }
}
