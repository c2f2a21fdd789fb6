//! Lanes in memory of which there are several copies, each of which lacks something else.

use std::cell::{Cell, RefCell};
use std::future::ready;
use std::rc::Rc;

use futures_util::FutureExt;
use varve_media::{Fence, IoFuture, JournalStore};
use varve_types::{PoolId, ShardId};

use super::super::check_stop;
use super::*;
use crate::format::frame::chain_seed;
use crate::lane::{Journal, JournalOwner};

const OWNER: JournalOwner = JournalOwner { pool: PoolId([1; 16]), shard: ShardId(3), mount: 7 };

const BLOCK: u64 = FRAME_ALIGN as u64;

/// Long enough for its end to be judged.
const LANE_BYTES: u64 = 16 << 20;

/// A copy of a lane.
struct Ring {
    bytes: RefCell<Vec<u8>>,
    since: Cell<u64>,
    until: Cell<u64>,
    /// Blocks of the ring that cannot be read.
    unreadable: RefCell<Vec<u64>>,
}

/// A lane whose fence never falls.
struct Copies {
    all: Vec<Ring>,
    /// Copies and positions of frames that were restored.
    restored: RefCell<Vec<(usize, u64)>>,
    settled: Cell<u32>,
}

impl Copies {
    fn new(count: usize) -> Rc<Self> {
        let len = usize::try_from(LANE_BYTES).expect("a small ring");
        let copy = || Ring {
            bytes: RefCell::new(vec![0; len]),
            since: Cell::new(0),
            until: Cell::new(u64::MAX),
            unreadable: RefCell::default(),
        };
        let all = (0..count).map(|_| copy()).collect();
        Rc::new(Self { all, restored: RefCell::default(), settled: Cell::new(0) })
    }

    /// The only copies that are left.
    fn with(&self, kept: &[usize]) -> Rc<Self> {
        let left = Self::new(kept.len());
        for (copy, kept) in left.all.iter().zip(kept) {
            copy.bytes.borrow_mut().copy_from_slice(&self.all[*kept].bytes.borrow());
            copy.since.set(self.all[*kept].since.get());
            copy.until.set(self.all[*kept].until.get());
        }
        left
    }

    fn write(&self, copy: usize, position: u64, bytes: &[u8]) {
        let start = usize::try_from(position % LANE_BYTES).expect("a small ring");
        self.all[copy].bytes.borrow_mut()[start..start + bytes.len()].copy_from_slice(bytes);
    }

    /// Takes a frame, numbered from 1, from a copy of a lane on its first lap.
    fn erase(&self, copy: usize, frame_seq: u64) {
        self.write(copy, (frame_seq - 1) * BLOCK, &[0; FRAME_ALIGN as usize]);
    }

    fn make_unreadable(&self, copy: usize, frame_seq: u64) {
        self.all[copy].unreadable.borrow_mut().push(frame_seq - 1);
    }

    fn reader(self: &Rc<Self>) -> JournalReader {
        JournalReader::new(self.clone(), OWNER)
    }
}

impl JournalStore for Copies {
    fn capacity(&self) -> u64 {
        LANE_BYTES
    }

    fn append(&self, position: u64, bytes: BufSlice) -> IoFuture<'_, ()> {
        (0..self.all.len()).for_each(|copy| self.write(copy, position, &bytes));
        Box::pin(ready(Ok(())))
    }

    fn read(&self, position: u64, len: u32) -> IoFuture<'_, BufSlice> {
        self.read_copy(position, len, 0)
    }

    fn settle(&self) -> IoFuture<'_, ()> {
        self.settled.set(self.settled.get() + 1);
        Box::pin(ready(Ok(())))
    }

    fn copies(&self) -> usize {
        self.all.len()
    }

    fn copy_since(&self, copy: usize) -> u64 {
        self.all[copy].since.get()
    }

    fn copy_until(&self, copy: usize) -> u64 {
        self.all[copy].until.get()
    }

    fn read_copy(&self, position: u64, len: u32, copy: usize) -> IoFuture<'_, BufSlice> {
        let start = position % LANE_BYTES;
        let blocks = start / BLOCK..(start + u64::from(len)).div_ceil(BLOCK);
        let fails = self.all[copy].unreadable.borrow().iter().any(|bad| blocks.contains(bad));
        if fails {
            return Box::pin(ready(Err(varve_media::Error::Fenced)));
        }
        let start = usize::try_from(start).expect("a small ring");
        let ring = self.all[copy].bytes.borrow();
        Box::pin(ready(Ok(BufSlice::copy_from(&ring[start..start + len as usize]))))
    }

    fn restore(&self, position: u64, bytes: BufSlice, copy: usize) -> IoFuture<'_, ()> {
        self.restored.borrow_mut().push((copy, position));
        self.write(copy, position, &bytes);
        Box::pin(ready(Ok(())))
    }
}

impl Fence for Copies {
    fn check(&self) -> varve_media::Result<()> {
        Ok(())
    }
}

fn now<T>(work: impl Future<Output = T>) -> T {
    work.now_or_never().expect("memory never waits")
}

/// Where a lane of the mount begins.
fn start() -> LogPosition {
    let chain = chain_seed(OWNER.pool, OWNER.shard, OWNER.mount);
    LogPosition { position: 0, frame_seq: 1, chain }
}

/// Copies with so many frames of a block each, and the point behind them.
fn written(copies: usize, frames: u64) -> (Rc<Copies>, LogPosition) {
    let copies = Copies::new(copies);
    let (journal, fence): (Rc<dyn JournalStore>, Rc<dyn Fence>) = (copies.clone(), copies.clone());
    let mut point = start();
    for _ in 0..frames {
        point = now(Journal::begin(&journal, &fence, OWNER, point)).expect("memory never fails");
    }
    (copies, point)
}

/// The point at which a replay from the beginning ends.
fn replayed(copies: &Rc<Copies>) -> Result<LogPosition> {
    let mut reader = copies.reader();
    let mut point = start();
    while let Some(frame) = now(reader.frame_at(point))? {
        point = frame.end;
    }
    Ok(point)
}

#[test]
fn a_frame_is_read_from_whichever_copy_has_it() {
    let (copies, end) = written(3, 60);
    for frame_seq in 1..=60 {
        let kept = usize::try_from(frame_seq % 3).expect("one of three");
        (0..3).filter(|copy| *copy != kept).for_each(|copy| copies.erase(copy, frame_seq));
    }
    assert_eq!(replayed(&copies).expect("each is somewhere"), end);
    let census = now(copies.reader().census()).expect("all are read");
    assert_eq!(census.frame_seq_max, Some(60));
    for alone in 0..3 {
        assert_ne!(replayed(&copies.with(&[alone])).expect("it is readable"), end);
    }

    copies.erase(40 % 3, 40);
    let stop = replayed(&copies).expect("they are readable");
    assert_eq!(stop.frame_seq, 40, "no copy has it");
    let damaged = check_stop(stop.frame_seq, &census);
    assert!(matches!(damaged, Err(Error::LaneDamaged { frame_seq: 40, newest: 60 })));
}

/// Copies that lack the last frames in turn, an earlier one aside, after replay has given them what it found.
fn restored() -> Rc<Copies> {
    let (copies, _) = written(2, 20);
    copies.erase(0, 5);
    copies.erase(0, 18);
    copies.erase(1, 19);
    copies.erase(0, 20);
    now(copies.reader().restore_end(start())).expect("memory never fails");
    copies
}

#[test]
fn the_last_frames_are_on_all_copies_before_they_are_drained() {
    let copies = restored();
    let position = |frame_seq: u64| (frame_seq - 1) * BLOCK;
    let expected = [(0, position(18)), (1, position(19)), (0, position(20))];
    assert_eq!(*copies.restored.borrow(), expected); // JOURNAL-COPIES-3
    assert_eq!(copies.settled.get(), 1);
    assert_eq!(replayed(&copies.with(&[1])).expect("it is readable").frame_seq, 21);

    let alone = copies.with(&[1]);
    alone.erase(0, 20);
    now(alone.reader().restore_end(start())).expect("nothing to do");
    assert_eq!((alone.restored.borrow().len(), alone.settled.get()), (0, 0), "nor any I/O");
}

#[cfg(feature = "planted-bugs")]
#[test]
fn frame_not_restored() {
    let last = || replayed(&restored().with(&[1])).map(|point| point.frame_seq);
    crate::planted::plant(Some(Bug::FrameNotRestored));
    let stopped = std::panic::catch_unwind(last);
    crate::planted::plant(None);
    assert_eq!(stopped.expect("no panic").expect("it is readable"), 19, "the bug shows");
    assert_eq!(last().expect("it is readable"), 21);
}

#[test]
fn a_copy_that_begins_at_the_replay_point_proves_that_the_lane_came_to_it() {
    let (copies, end) = written(2, 20);
    for frame_seq in 1..=20 {
        copies.erase(1, frame_seq);
    }
    let judged = |since: u64, until: u64| {
        let alone = copies.with(&[1]);
        alone.all[0].since.set(since);
        alone.all[0].until.set(until);
        let mut reader = alone.reader();
        let census = now(reader.census()).expect("it is readable");
        reader.check_start(end, &census).is_ok()
    };
    assert!(judged(end.position, u64::MAX) && judged(LANE_BYTES, u64::MAX));
    for since in [0, end.position - BLOCK, end.position + BLOCK] {
        assert!(!judged(since, u64::MAX), "LANE-READER-4: {since}");
    }
    assert!(!judged(end.position, end.position), "it is not written");
}

#[test]
fn a_copy_proves_nothing_before_it_was_written() {
    let (copies, end) = written(2, 20);
    copies.erase(0, 7);
    copies.all[1].since.set(10 * BLOCK);
    let stop = replayed(&copies).expect("they are readable");
    assert_eq!(stop.frame_seq, 7, "what the second has there is of an earlier use"); // LANE-READER-6
    copies.all[1].since.set(6 * BLOCK);
    assert_eq!(replayed(&copies).expect("they are readable"), end);

    // Nor is a frame given to it that it was not there for.
    copies.all[1].since.set(18 * BLOCK);
    (18..=20).for_each(|frame_seq| copies.erase(1, frame_seq));
    copies.write(0, 6 * BLOCK, &copies.all[1].bytes.borrow()[6 * FRAME_ALIGN as usize..][..4096]);
    now(copies.reader().restore_end(start())).expect("memory never fails");
    assert_eq!(*copies.restored.borrow(), [(1, 18 * BLOCK), (1, 19 * BLOCK)]);

    // What stands in it from earlier is not counted.
    (1..=20).for_each(|frame_seq| copies.erase(0, frame_seq));
    copies.all[1].since.set(20 * BLOCK);
    let census = now(copies.reader().census()).expect("both are read");
    assert_eq!(census, JournalScan::default());
}

#[test]
fn a_former_copy_proves_no_end() {
    let (copies, end) = written(2, 20);
    (11..=20).for_each(|frame_seq| copies.erase(1, frame_seq));
    copies.all[1].until.set(10 * BLOCK);
    assert_eq!(replayed(&copies).expect("they are readable"), end);

    // Where the current one cannot be read, the lane does not end: what follows was acknowledged.
    copies.make_unreadable(0, 11);
    assert!(matches!(replayed(&copies), Err(Error::Media(_)))); // LANE-READER-6
    assert!(matches!(now(copies.reader().census()), Err(Error::Media(_))), "nor is it counted");
    copies.all[0].unreadable.borrow_mut().clear();
    copies.make_unreadable(0, 5);
    assert_eq!(replayed(&copies).expect("the former one has it"), end);
    // Before its end it does prove that nothing is there.
    copies.all[0].unreadable.borrow_mut().clear();
    copies.make_unreadable(0, 8);
    copies.erase(1, 8);
    assert_eq!(replayed(&copies).expect("one of them answers").frame_seq, 8);

    // Of a lane that only former copies are left of, nobody knows the end.
    let alone = copies.with(&[1, 1]);
    let stop = replayed(&alone).expect("it is readable");
    let judged = now(alone.reader().check_end(LogPosition { position: 10 * BLOCK, ..stop }));
    assert!(matches!(judged, Err(Error::LaneEndLost { .. })));
}

#[test]
fn a_former_copy_does_not_judge_the_end() {
    let (copies, end) = written(2, LANE_BYTES / BLOCK + 100);
    let rest = vec![0_u8; usize::try_from(LANE_BYTES / 2).expect("a small ring")];
    copies.write(0, end.position, &rest);
    let judge = || now(copies.reader().check_end(end));
    judge().expect("the second has what stood there");
    copies.all[1].until.set(end.position - BLOCK);
    assert!(matches!(judge(), Err(Error::LaneEndLost { .. })), "it would have it in any case");
}

#[test]
fn what_one_copy_cannot_read_another_can() {
    let (copies, end) = written(2, 700);
    for frame_seq in [3, 5, 690] {
        copies.make_unreadable(0, frame_seq);
        copies.make_unreadable(1, frame_seq + 1);
    }
    let census = now(copies.reader().census()).expect("each block is read somewhere");
    assert_eq!(census.frame_seq_max, Some(700));
    assert_eq!(replayed(&copies).expect("each frame is read somewhere"), end);

    // A copy that cannot be read at all.
    copies.all[1].unreadable.borrow_mut().clear();
    *copies.all[0].unreadable.borrow_mut() = (0..LANE_BYTES / BLOCK).collect();
    let census = now(copies.reader().census()).expect("one copy is read");
    assert_eq!(census.frame_seq_max, Some(700));
    assert_eq!(replayed(&copies).expect("one copy is read"), end);

    // What no copy can read is an error, and never the end.
    copies.make_unreadable(1, 600);
    assert!(matches!(now(copies.reader().census()), Err(Error::Media(_))));
    assert!(matches!(replayed(&copies), Err(Error::Media(_))));
}

#[test]
fn the_end_is_judged_by_copies_that_were_there_a_lap_before() {
    let frames = LANE_BYTES / BLOCK + 100;
    let (copies, end) = written(2, frames);
    let erase_rest = |copy: usize| {
        let rest = vec![0_u8; usize::try_from(LANE_BYTES / 2).expect("a small ring")];
        copies.write(copy, end.position, &rest);
    };
    let judge = || now(copies.reader().check_end(end));
    erase_rest(1);
    judge().expect("the first has what stood there");
    copies.all[0].since.set(end.position - BLOCK);
    assert!(matches!(judge(), Err(Error::LaneEndLost { .. }))); // LANE-READER-5
    copies.all[1].since.set(end.position - BLOCK);
    judge().expect("neither has been there for a lap");

    // Copies that begin behind the end show that there was more.
    copies.all.iter().for_each(|copy| copy.since.set(end.position + BLOCK));
    assert!(matches!(judge(), Err(Error::LaneEndLost { .. })));
    copies.all[1].since.set(2 * LANE_BYTES);
    judge().expect("the next frame may have had no room on this lap");
}
