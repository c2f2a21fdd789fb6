//! Shards on media that keep two copies of everything: whatever is wrong with one, the bytes of the other are found by
//! their checksums, and what is damaged is moved. What media that move contents by themselves are told.
//!
//! Method: a drive in memory, and a second copy of its segments and of the lane beside it. Between two lives, or when
//! the shard is open, the first copy of every slot is damaged in one way, until something else is put there.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::{Future, ready};
use std::ops::ControlFlow;
use std::pin::Pin;
use std::rc::Rc;

use crate::pool::{CROWDED, POOL, Shape, disk_for, format, open_media};
use crate::versions::{index, read, stamp, write};
use varve_engine::{
    BLOCK_BYTES, Damage, OpenPool, Shard, ShardConfig, VerifyEvent, Zone, verify_slot,
};
use varve_logstore::format::segment::StripHeader;
use varve_media::{
    Error, IoFuture, JournalStore, Media, SegmentGeometry, SegmentId, SegmentStore, ZoneContents,
};
use varve_reactor::{Notify, Reactor, SimLoop};
use varve_stdx::{AlignedBuf, BufSlice, Rng};
use varve_types::{ByteOffset, Generation, SegmentNumber, ShardId, StreamId};

const STREAM: StreamId = StreamId::new(1);
const BLOCKS: u64 = 1000;

/// From one block to the next: there are pages of maps for few of them.
const APART: u64 = 128;

/// Frames of the lane that can have been under way at a crash.
const FRAMES_IN_FLIGHT: usize = varve_logstore::lane::FRAMES_IN_FLIGHT_MAX;

const ROOMY: Shape = Shape { segments: 200, segment_bytes: 128 << 10, ..CROWDED };

/// What is wrong with the first copy of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Harm {
    /// Every byte is another one.
    Flipped,
    /// All of it is zeros.
    Zeroed,
    /// Only units behind the header are damaged.
    BehindHeader,
    /// It cannot be read.
    Unreadable,
    /// It is damaged, and so is what is decoded first in its place.
    DecodedWrong,
}

const HARMS: [Harm; 5] =
    [Harm::Flipped, Harm::Zeroed, Harm::BehindHeader, Harm::Unreadable, Harm::DecodedWrong];

/// Segments with a second copy.
struct TwoCopies {
    first: Rc<dyn SegmentStore>,
    second: RefCell<BTreeMap<SegmentNumber, Vec<u8>>>,
    harmed: RefCell<BTreeMap<SegmentNumber, Harm>>,
    /// Reads of damaged slots that another way answered.
    read_again: Cell<u64>,
    completed: RefCell<Vec<SegmentId>>,
    contents: RefCell<Option<Rc<dyn ZoneContents>>>,
}

impl TwoCopies {
    fn new(first: Rc<dyn SegmentStore>) -> Rc<Self> {
        Rc::new(Self {
            first,
            second: RefCell::default(),
            harmed: RefCell::default(),
            read_again: Cell::new(0),
            completed: RefCell::default(),
            contents: RefCell::default(),
        })
    }

    /// Damages the first copy of everything that was put.
    fn harm_all(&self, harm: Harm) {
        let slots: Vec<_> = self.second.borrow().keys().copied().collect();
        *self.harmed.borrow_mut() = slots.into_iter().map(|slot| (slot, harm)).collect();
    }

    fn heal(&self) {
        self.harmed.borrow_mut().clear();
    }

    fn harm_of(&self, number: SegmentNumber) -> Option<Harm> {
        self.harmed.borrow().get(&number).copied()
    }

    fn second_bytes(&self, number: SegmentNumber, offset: u32, len: u32) -> Vec<u8> {
        let slots = self.second.borrow();
        let (start, end) = (offset as usize, (offset + len) as usize);
        slots.get(&number).map_or_else(|| vec![0; len as usize], |slot| slot[start..end].to_vec())
    }

    fn contents(&self) -> Rc<dyn ZoneContents> {
        self.contents.borrow().clone().expect("a shard has opened")
    }
}

impl SegmentStore for TwoCopies {
    fn geometry(&self) -> SegmentGeometry {
        self.first.geometry()
    }

    fn allocate(&self, first: SegmentNumber, count: u32) -> IoFuture<'_, ()> {
        self.first.allocate(first, count)
    }

    fn put(&self, id: SegmentId, bytes: BufSlice) -> IoFuture<'_, ()> {
        let empty = || vec![0; self.geometry().segment_bytes as usize];
        let mut second = self.second.borrow_mut();
        second.entry(id.number).or_insert_with(empty)[..bytes.len()].copy_from_slice(&bytes);
        drop(second);
        self.harmed.borrow_mut().remove(&id.number);
        self.first.put(id, bytes)
    }

    fn get(&self, id: SegmentId, offset: u32, len: u32) -> IoFuture<'_, BufSlice> {
        let harm = self.harm_of(id.number);
        if harm == Some(Harm::Unreadable) && id.generation == Generation::ZERO {
            // Who does not know what is there is given what any copy has.
            let bytes = self.second_bytes(id.number, offset, len);
            return Box::pin(ready(Ok(BufSlice::copy_from(&bytes))));
        }
        if harm == Some(Harm::Unreadable) {
            return Box::pin(ready(Err(Error::Io {
                operation: "read",
                path: "first copy".to_owned(),
                offset: u64::from(offset),
                len: u64::from(len),
                reason: "it is damaged".to_owned(),
            })));
        }
        Box::pin(async move {
            let read = self.first.get(id, offset, len).await?;
            let mut bytes = AlignedBuf::from_slice(&read);
            match harm {
                Some(Harm::Flipped | Harm::DecodedWrong) => {
                    bytes.iter_mut().for_each(|byte| *byte ^= 0x5A);
                }
                Some(Harm::Zeroed) => bytes.fill(0),
                Some(Harm::BehindHeader) => {
                    let header = 4096_usize.saturating_sub(offset as usize).min(bytes.len());
                    bytes[header..].iter_mut().for_each(|byte| *byte ^= 0x5A);
                }
                Some(Harm::Unreadable) | None => return Ok(read),
            }
            Ok(bytes.freeze())
        })
    }

    fn get_again(
        &self,
        id: SegmentId,
        offset: u32,
        len: u32,
        attempt: u32,
    ) -> IoFuture<'_, Option<BufSlice>> {
        let mut bytes = self.second_bytes(id.number, offset, len);
        let is_wrong = self.harm_of(id.number) == Some(Harm::DecodedWrong) && attempt == 1;
        if is_wrong {
            bytes.iter_mut().for_each(|byte| *byte ^= 0xA5);
        }
        let attempts = if self.harm_of(id.number) == Some(Harm::DecodedWrong) { 2 } else { 1 };
        if attempt > attempts {
            return Box::pin(ready(Ok(None)));
        }
        let is_harmed = self.harm_of(id.number).is_some();
        self.read_again.set(self.read_again.get() + u64::from(is_harmed));
        Box::pin(ready(Ok(Some(BufSlice::copy_from(&bytes)))))
    }

    fn complete(&self, id: SegmentId, bytes: BufSlice) -> IoFuture<'_, ()> {
        let len = u32::try_from(bytes.len()).expect("a segment");
        assert!(self.second_bytes(id.number, 0, len) == bytes[..], "what was put is completed");
        self.completed.borrow_mut().push(id);
        Box::pin(ready(Ok(())))
    }

    fn set_contents(&self, contents: Rc<dyn ZoneContents>) {
        *self.contents.borrow_mut() = Some(contents);
    }

    fn settle(&self) -> IoFuture<'_, ()> {
        self.first.settle()
    }

    fn delete(&self, id: SegmentId) -> IoFuture<'_, ()> {
        self.first.delete(id)
    }
}

/// A lane with a second copy.
struct TwoLanes {
    first: Rc<dyn JournalStore>,
    second: RefCell<Vec<u8>>,
    /// Positions and lengths of frames, in order.
    appended: RefCell<Vec<(u64, usize)>>,
    /// Frames that one copy does not have: which copy, and where in the ring.
    lacking: RefCell<BTreeSet<(usize, u64)>>,
    restored: RefCell<Vec<(usize, u64)>>,
    is_failing: Cell<bool>,
    exposed: Notify,
}

impl TwoLanes {
    fn new(first: Rc<dyn JournalStore>) -> Rc<Self> {
        let len = usize::try_from(first.capacity()).expect("a small lane");
        Rc::new(Self {
            first,
            second: RefCell::new(vec![0; len]),
            appended: RefCell::default(),
            lacking: RefCell::default(),
            restored: RefCell::default(),
            is_failing: Cell::new(false),
            exposed: Notify::new(),
        })
    }

    fn place(&self, position: u64) -> usize {
        usize::try_from(position % self.capacity()).expect("a small lane")
    }

    fn keep_second(&self, position: u64, bytes: &[u8]) {
        let start = self.place(position);
        self.second.borrow_mut()[start..start + bytes.len()].copy_from_slice(bytes);
    }

    /// The header block of each frame that a copy lacks, made zeros in what was read of it.
    fn without_lacking(&self, copy: usize, position: u64, bytes: &mut [u8]) {
        let start = position % self.capacity();
        for (_, at) in self.lacking.borrow().iter().filter(|(of, _)| *of == copy) {
            if let Some(offset) = at.checked_sub(start).and_then(|it| usize::try_from(it).ok())
                && offset + 4096 <= bytes.len()
            {
                bytes[offset..offset + 4096].fill(0);
            }
        }
    }
}

impl JournalStore for TwoLanes {
    fn capacity(&self) -> u64 {
        self.first.capacity()
    }

    fn append(&self, position: u64, bytes: BufSlice) -> IoFuture<'_, ()> {
        if self.is_failing.get() {
            return Box::pin(ready(Err(Error::Fenced)));
        }
        self.keep_second(position, &bytes);
        self.appended.borrow_mut().push((position, bytes.len()));
        self.first.append(position, bytes)
    }

    fn read(&self, position: u64, len: u32) -> IoFuture<'_, BufSlice> {
        self.read_copy(position, len, 0)
    }

    fn settle(&self) -> IoFuture<'_, ()> {
        self.first.settle()
    }

    fn copies(&self) -> usize {
        2
    }

    fn read_copy(&self, position: u64, len: u32, copy: usize) -> IoFuture<'_, BufSlice> {
        Box::pin(async move {
            let read = if copy == 0 {
                self.first.read(position, len).await?
            } else {
                let start = self.place(position);
                BufSlice::copy_from(&self.second.borrow()[start..start + len as usize])
            };
            let mut bytes = AlignedBuf::from_slice(&read);
            self.without_lacking(copy, position, &mut bytes);
            Ok(bytes.freeze())
        })
    }

    fn restore(&self, position: u64, bytes: BufSlice, copy: usize) -> IoFuture<'_, ()> {
        self.restored.borrow_mut().push((copy, position));
        self.lacking.borrow_mut().remove(&(copy, position % self.capacity()));
        if copy == 0 {
            return self.first.append(position, bytes);
        }
        self.keep_second(position, &bytes);
        Box::pin(ready(Ok(())))
    }

    fn exposed(&self) -> Pin<Box<dyn Future<Output = ()> + '_>> {
        Box::pin(self.exposed.notified())
    }
}

/// A pool of a shard on media that keep two copies.
struct Pool {
    media: Media,
    segments: Rc<TwoCopies>,
    lane: Rc<TwoLanes>,
}

impl Pool {
    async fn new() -> Self {
        let (mut media, made) = format(&disk_for(ROOMY, 1), ROOMY, 1).await;
        made.expect("format the pool");
        let mut media = media.remove(0);
        let segments = TwoCopies::new(Rc::clone(&media.segments));
        let lane = TwoLanes::new(Rc::clone(&media.journal));
        media.segments = segments.clone();
        media.journal = lane.clone();
        Self { media, segments, lane }
    }

    async fn open(&self, reactor: &Reactor) -> Rc<Shard> {
        open_media(reactor, vec![self.media.clone()], ROOMY).await.remove(0)
    }

    /// Ends a shard as a crash would: what is in the lane stays there.
    async fn crash(&self, shard: Rc<Shard>) {
        self.lane.is_failing.set(true);
        let mut data = AlignedBuf::zeroed(BLOCK_BYTES);
        stamp(&mut data, 0, u64::MAX);
        shard
            .write(StreamId::new(9), ByteOffset(0), data.freeze())
            .await
            .expect_err("the lane fails");
        shard.stopped().await;
        shard.quiesced().await;
        self.lane.is_failing.set(false);
    }

    /// The shard's zones.
    async fn zones(&self) -> Vec<Zone> {
        let pool = OpenPool::open(&self.media).await.expect("open the pool");
        pool.zones_of(ShardId(0)).await.expect("read the root")
    }
}

/// Fills the volume, and overwrites some of it at random.
async fn fill(shard: &Shard) -> Vec<u64> {
    let mut versions = vec![0; index(BLOCKS)];
    let mut rng = Rng::new(3);
    for step in 0..2 * BLOCKS {
        let block = if step < BLOCKS { step } else { rng.below(BLOCKS) };
        versions[index(block)] = step + 1;
        write(shard, STREAM, block * APART, step + 1).await;
    }
    versions
}

async fn check(shard: &Shard, versions: &[u64]) {
    for (block, version) in (0..).zip(versions) {
        assert_eq!(read(shard, STREAM, block * APART).await, *version, "block {block}");
    }
    let report = shard.audit().await.expect("audit");
    assert_eq!(report.differences, Vec::<String>::new());
}

/// What a verification finds.
async fn verified(shard: &Shard) -> Vec<Damage> {
    let mut found = Vec::new();
    let mut observe = |event| {
        if let VerifyEvent::Damage(damage) = event {
            found.push(damage);
        }
        ControlFlow::Continue(())
    };
    shard.verify(&mut observe).await.expect("verify");
    found
}

#[test]
fn whatever_is_damaged_in_one_copy_is_read_from_the_other() {
    for (seed, harm) in (1..).zip(HARMS) {
        let mut sim = SimLoop::new(seed);
        let reactor = sim.handle();
        sim.run_until(async move {
            let pool = Pool::new().await;
            let shard = pool.open(&reactor).await;
            let versions = fill(&shard).await;
            shard.close().await.expect("close");
            assert_eq!(pool.segments.read_again.get(), 0, "nothing was damaged");

            pool.segments.harm_all(harm);
            let shard = pool.open(&reactor).await;
            check(&shard, &versions).await;
            assert!(pool.segments.read_again.get() > 0, "{harm:?}");

            // While it is open, and what is in caches is read once more by who verifies.
            pool.segments.harm_all(harm);
            let found = verified(&shard).await;
            let lost: Vec<_> = found.iter().filter(|damage| damage.is_needed).collect();
            assert!(lost.is_empty(), "{harm:?}: {lost:?}");
            assert!(found.iter().any(|damage| damage.is_copied), "{harm:?}: {found:?}");
            check(&shard, &versions).await;
            shard.close().await.expect("close");
        });
    }
}

#[test]
fn what_is_damaged_is_moved_where_it_is_whole() {
    for (seed, harm) in (1..).zip(HARMS) {
        let mut sim = SimLoop::new(seed);
        let reactor = sim.handle();
        sim.run_until(async move {
            let pool = Pool::new().await;
            let shard = pool.open(&reactor).await;
            let versions = fill(&shard).await;
            shard.checkpoint().await.expect("checkpoint");
            pool.segments.harm_all(harm);
            let mut rounds = 0;
            while verified(&shard).await.iter().any(|damage| damage.is_copied) {
                rounds += 1;
                assert!(rounds < 1000, "{harm:?}: never moved");
                reactor.sleep(10_000_000).await;
            }
            assert!(rounds > 0, "{harm:?}");
            assert!(shard.stats().reclaim_read_bytes > 0, "what is moved is read");
            let before = pool.segments.read_again.get();
            check(&shard, &versions).await;
            assert_eq!(pool.segments.read_again.get(), before, "nothing damaged is in use");
            shard.close().await.expect("close");
        });
    }
}

/// However few segments are free: more are to be had.
#[test]
fn what_is_damaged_is_moved_while_nobody_writes() {
    for more in (0..400).step_by(25) {
        let mut sim = SimLoop::new(more + 1);
        let reactor = sim.handle();
        sim.run_until(async move {
            let pool = Pool::new().await;
            let shard = pool.open(&reactor).await;
            let mut versions = fill(&shard).await;
            for block in BLOCKS..BLOCKS + more {
                versions.push(block + 1);
                write(&shard, STREAM, block * APART, block + 1).await;
            }
            shard.checkpoint().await.expect("checkpoint");
            pool.segments.harm_all(Harm::Flipped);
            let mut rounds = 0;
            while verified(&shard).await.iter().any(|damage| damage.is_copied) {
                rounds += 1;
                assert!(rounds < 2000, "{more} blocks more: never moved");
                reactor.sleep(10_000_000).await;
            }
            check(&shard, &versions).await;
            shard.close().await.expect("close");
        });
    }
}

#[test]
fn a_crash_is_recovered_from_with_either_copy() {
    for (seed, harm) in (1..).zip(HARMS) {
        let mut sim = SimLoop::new(seed);
        let reactor = sim.handle();
        sim.run_until(async move {
            let pool = Pool::new().await;
            let shard = pool.open(&reactor).await;
            let mut versions = fill(&shard).await;
            shard.apply_acknowledged().await.expect("seal"); // Above what any frame says.
            write(&shard, STREAM, 0, 9000).await;
            versions[0] = 9000;
            pool.crash(shard).await;

            pool.segments.harm_all(harm);
            pool.segments.completed.borrow_mut().clear();
            let shard = pool.open(&reactor).await;
            check(&shard, &versions).await;
            pool.crash(shard).await;

            // A slot is judged without a shard.
            let config = ShardConfig::with_memory(POOL, ShardId(0), 0);
            pool.segments.harm_all(harm);
            for slot in 0..pool.media.segments.geometry().segment_count {
                let found = verify_slot(&pool.media, &config, SegmentNumber(slot)).await;
                let found = found.expect("another way answers");
                assert!(found.iter().all(|damage| !damage.is_needed), "{harm:?}: {found:?}");
            }
            pool.segments.heal();
            let shard = pool.open(&reactor).await;
            check(&shard, &versions).await;
        });
    }
}

#[test]
fn segments_above_the_witness_are_completed() {
    let mut sim = SimLoop::new(1);
    let reactor = sim.handle();
    sim.run_until(async move {
        let pool = Pool::new().await;
        let shard = pool.open(&reactor).await;
        for block in 0..40 {
            write(&shard, STREAM, block * APART, block + 1).await;
        }
        shard.apply_acknowledged().await.expect("seal");
        pool.crash(shard).await;
        assert!(pool.segments.completed.borrow().is_empty());
        pool.open(&reactor).await;
        let completed = pool.segments.completed.borrow().clone();
        assert!(!completed.is_empty(), "no frame says that the last segment is durable");
        for id in completed {
            let bytes = pool.segments.second_bytes(id.number, 0, 4096);
            let (header, _) = StripHeader::decode(&bytes).expect("a segment");
            assert_eq!(header.segment(), id);
        }
    });
}

#[test]
fn the_lane_is_replayed_from_copies_that_each_lack_frames() {
    let mut sim = SimLoop::new(1);
    let reactor = sim.handle();
    sim.run_until(async move {
        let pool = Pool::new().await;
        let shard = pool.open(&reactor).await;
        for block in 0..40 {
            write(&shard, STREAM, block * APART, block + 1).await;
        }
        pool.crash(shard).await;
        let appended = pool.lane.appended.borrow().clone();
        let last: Vec<u64> =
            appended.iter().rev().take(12).map(|(position, _)| *position).collect();
        let capacity = pool.lane.capacity();
        for (copy, position) in [0, 1].into_iter().cycle().zip(&last) {
            pool.lane.lacking.borrow_mut().insert((copy, position % capacity));
        }
        let shard = pool.open(&reactor).await;
        for block in 0..40 {
            assert_eq!(read(&shard, STREAM, block * APART).await, block + 1);
        }
        let restored = pool.lane.restored.borrow().clone();
        let mut positions: Vec<u64> = restored.iter().map(|(_, position)| *position).collect();
        positions.reverse();
        assert_eq!(positions, last[..FRAMES_IN_FLIGHT], "{restored:?}"); // JOURNAL-COPIES-3
        shard.close().await.expect("close");
    });
}

#[test]
fn a_lane_that_lost_a_copy_is_emptied_at_once() {
    let mut sim = SimLoop::new(1);
    let reactor = sim.handle();
    sim.run_until(async move {
        let pool = Pool::new().await;
        let shard = pool.open(&reactor).await;
        for round in 0..3 {
            write(&shard, STREAM, round, round + 1).await;
            reactor.sleep(200_000_000).await;
            assert!(shard.stats().lane.used_bytes > 0, "it lingers");
            pool.lane.exposed.notify_one();
            reactor.sleep(200_000_000).await;
            assert_eq!(shard.stats().lane.used_bytes, 0, "round {round}"); // DRAIN-8
            assert_eq!(read(&shard, STREAM, round).await, round + 1);
        }
        shard.close().await.expect("close");
    });
}

#[test]
fn media_are_told_what_a_zone_holds() {
    let mut sim = SimLoop::new(1);
    let reactor = sim.handle();
    sim.run_until(async move {
        let pool = Pool::new().await;
        let shard = pool.open(&reactor).await;
        fill(&shard).await;
        shard.checkpoint().await.expect("checkpoint");
        let contents = pool.segments.contents();
        let mut held = BTreeMap::new();
        for zone in pool.zones().await {
            for segment in contents.held(zone.first, zone.count).expect("the shard's own") {
                assert!((zone.first.0..zone.first.0 + zone.count).contains(&segment.id.number.0));
                held.insert(segment.id.number, segment);
            }
        }
        assert!(held.values().any(|segment| segment.has_pages));
        let live = shard.segments_to_verify();
        assert!(live.iter().all(|id| held[&id.number].id == *id), "what is live is held");

        let count = pool.media.segments.geometry().segment_count;
        assert!(contents.held(SegmentNumber(count), 1).is_none(), "no zone has it");
        assert!(contents.held(SegmentNumber(0), count + 1).is_none());
        assert!(contents.held(SegmentNumber(u32::MAX), 2).is_none());

        for id in &live {
            let bytes = pool.segments.second_bytes(id.number, 0, ROOMY.segment_bytes);
            let whole = BufSlice::copy_from(&bytes);
            assert!(contents.is_whole(*id, &whole), "{id:?}");
            let other = SegmentId { number: SegmentNumber(id.number.0 + 1), ..*id };
            assert!(!contents.is_whole(other, &whole));
            assert!(!contents.is_whole(*id, &whole.slice(0..4096)), "it is longer");
            let mut torn = bytes.clone();
            torn[4096] ^= 1;
            assert!(!contents.is_whole(*id, &BufSlice::copy_from(&torn)));
        }
        shard.close().await.expect("close");
        assert!(contents.held(live[0].number, 1).is_none(), "another may have it"); // HELD-1
        assert!(contents.pin(live[0]).is_none());
    });
}

#[test]
fn what_is_pinned_stays_and_what_is_to_go_goes() {
    let mut sim = SimLoop::new(1);
    let reactor = sim.handle();
    sim.run_until(async move {
        let pool = Pool::new().await;
        let shard = pool.open(&reactor).await;
        let versions = fill(&shard).await;
        shard.checkpoint().await.expect("checkpoint");
        let contents = pool.segments.contents();
        let id = shard.segments_to_verify()[0];
        let is_held = || {
            let held = contents.held(id.number, 1).expect("the shard's own");
            held.iter().any(|segment| segment.id == id)
        };
        assert!(contents.pin(SegmentId { generation: Generation::new(1 << 40), ..id }).is_none());
        let pin = contents.pin(id).expect("it is there");
        contents.relocate(id, "it is damaged");
        for _ in 0..20 {
            reactor.sleep(100_000_000).await;
            shard.checkpoint().await.expect("checkpoint");
        }
        assert!(!shard.segments_to_verify().contains(&id), "what was live in it is elsewhere");
        assert!(is_held(), "it is pinned"); // HELD-3
        drop(pin);
        shard.checkpoint().await.expect("checkpoint");
        assert!(!is_held(), "nobody needs it");
        check(&shard, &versions).await;
        shard.close().await.expect("close");
    });
}
