//! Chains and units in memory: torn ones, damaged ones, and some of which there are several copies.

use std::cell::{Cell, RefCell};
use std::future::ready;

use futures_util::FutureExt;
use varve_media::{IoFuture, SegmentGeometry};
use varve_stdx::{DecodeError, checksum64};
use varve_types::{ChunkId, PoolId, SegmentNumber, ShardId, WriteSeq};

use super::*;
use crate::format::frame::LogPosition;
use crate::format::summary::Codec;
use crate::segment_writer::{SealSpec, SealedSegment, SegmentWriter};

const SEGMENT_BYTES: u32 = 32 << 10;
const OWNER: SegmentOwner = SegmentOwner { pool: PoolId([1; 16]), shard: ShardId(0), mount: 3 };

/// Four segments in memory.
struct Slots(RefCell<Vec<Vec<u8>>>);

impl Slots {
    fn empty() -> Rc<Self> {
        Rc::new(Self(RefCell::new(vec![vec![0; SEGMENT_BYTES as usize]; 4])))
    }
}

impl SegmentStore for Slots {
    fn geometry(&self) -> SegmentGeometry {
        SegmentGeometry { segment_bytes: SEGMENT_BYTES, segment_count: 4 }
    }

    fn allocate(&self, _: SegmentNumber, _: u32) -> IoFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }

    fn put(&self, id: SegmentId, bytes: BufSlice) -> IoFuture<'_, ()> {
        self.0.borrow_mut()[id.number.0 as usize][..bytes.len()].copy_from_slice(&bytes);
        Box::pin(ready(Ok(())))
    }

    fn get(&self, id: SegmentId, offset: u32, len: u32) -> IoFuture<'_, BufSlice> {
        let slot = &self.0.borrow()[id.number.0 as usize];
        let bytes = BufSlice::copy_from(&slot[offset as usize..(offset + len) as usize]);
        Box::pin(ready(Ok(bytes)))
    }

    fn settle(&self) -> IoFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }

    fn delete(&self, _: SegmentId) -> IoFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }
}

/// A first segment of a chain that frees some chunks.
fn sealed(generation: u64, next_slot: u32) -> SealedSegment {
    let mut writer =
        SegmentWriter::new(OWNER, SegmentKind::Data, SEGMENT_BYTES, ChainHead::default());
    let entry = SummaryEntry::FreedIds { first: ChunkId::new(7), count: 2 };
    writer.push_entry(entry, WriteSeq::ZERO);
    writer.seal(SealSpec {
        generation: Generation::new(generation),
        next_slot: SegmentNumber(next_slot),
        lane: LogPosition::default(),
        lane_mount: 3,
        witness: 0,
    })
}

fn read(segments: &Rc<dyn SegmentStore>) -> Chain {
    let head = ChainHead::default();
    let chain = read_chain(segments, &OWNER, SegmentKind::Data, head, 0);
    chain.now_or_never().expect("memory never waits").expect("the chain is read")
}

#[test]
fn a_whole_segment_of_another_version_is_not_torn() {
    let mut bytes = sealed(1, 2).bytes.to_vec();
    let (mut header, _) = StripHeader::decode(&bytes).expect("a header");
    let (start, len) = (header.summary_offset as usize, header.summary_bytes() as usize);
    let slots = Slots::empty();
    let segments: Rc<dyn SegmentStore> = slots.clone();
    let read = |bytes: &[u8]| {
        slots.0.borrow_mut()[0][..bytes.len()].copy_from_slice(bytes);
        let head = ChainHead::default();
        let chain = read_chain(&segments, &OWNER, SegmentKind::Data, head, 0);
        chain.now_or_never().expect("memory never waits")
    };

    bytes[start] = 200; // The kind of its entry.
    assert!(read(&bytes).expect("the chain ends").links.is_empty(), "CHAIN-READER-2");
    header.summary_checksum = checksum64(&bytes[start..start + len]);
    header.encode(&mut bytes);
    assert!(
        matches!(read(&bytes), Err(Error::Decode(DecodeError::UnknownKind { kind: 200, .. }))),
        "CHAIN-READER-5"
    );
}

#[test]
fn equal_contents_behind_the_header_of_a_torn_segment_do_not_revive_it() {
    let slots = Slots::empty();
    let segments: Rc<dyn SegmentStore> = slots.clone();
    let (first, again) = (sealed(1, 2), sealed(2, 3));
    let behind = STRIP_HEADER_BYTES as usize;
    assert_eq!(first.bytes[behind..], again.bytes[behind..]);

    // Only the header landed.
    slots.0.borrow_mut()[0][..behind].copy_from_slice(&first.bytes[..behind]);
    let chain = read(&segments);
    assert!(chain.links.is_empty());
    erase(&segments, first.id.number).now_or_never().expect("memory never waits").expect("erased"); // CHAIN-READER-4

    // And of the next one, only what is behind the header.
    slots.0.borrow_mut()[0][behind..again.bytes.len()].copy_from_slice(&again.bytes[behind..]);
    assert!(read(&segments).links.is_empty());
}

/// Segments of which there are several copies: the first way to read is the first of them.
struct Copies {
    copies: Vec<Rc<Slots>>,
    /// Whether the first copy cannot be read.
    fails: Cell<bool>,
    completed: RefCell<Vec<(SegmentId, Vec<u8>)>>,
}

impl Copies {
    fn new(count: usize) -> Rc<Self> {
        let copies = (0..count).map(|_| Slots::empty()).collect();
        Rc::new(Self { copies, fails: Cell::new(false), completed: RefCell::default() })
    }

    /// Changes a byte of a copy of slot 0.
    fn damage(&self, copy: usize, at: usize) {
        self.copies[copy].0.borrow_mut()[0][at] ^= 0xFF;
    }
}

impl SegmentStore for Copies {
    fn geometry(&self) -> SegmentGeometry {
        self.copies[0].geometry()
    }

    fn allocate(&self, first: SegmentNumber, count: u32) -> IoFuture<'_, ()> {
        self.copies[0].allocate(first, count)
    }

    fn put(&self, id: SegmentId, bytes: BufSlice) -> IoFuture<'_, ()> {
        for copy in &self.copies {
            copy.put(id, bytes.clone()).now_or_never().expect("memory never waits").expect("put");
        }
        Box::pin(ready(Ok(())))
    }

    fn get(&self, id: SegmentId, offset: u32, len: u32) -> IoFuture<'_, BufSlice> {
        // Slot 0 holds all that was put.
        if self.fails.get() && id.number == SegmentNumber(0) {
            return Box::pin(ready(Err(varve_media::Error::Fenced)));
        }
        self.copies[0].get(id, offset, len)
    }

    fn get_again(
        &self,
        id: SegmentId,
        offset: u32,
        len: u32,
        attempt: u32,
    ) -> IoFuture<'_, Option<BufSlice>> {
        assert!(attempt > 0, "attempts count from 1");
        let Some(copy) = self.copies.get(attempt as usize) else {
            return Box::pin(ready(Ok(None)));
        };
        let bytes = copy.get(id, offset, len);
        Box::pin(async move { Ok(Some(bytes.await?)) })
    }

    fn complete(&self, id: SegmentId, bytes: BufSlice) -> IoFuture<'_, ()> {
        self.completed.borrow_mut().push((id, bytes.to_vec()));
        Box::pin(ready(Ok(())))
    }

    fn settle(&self) -> IoFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }

    fn delete(&self, id: SegmentId) -> IoFuture<'_, ()> {
        self.copies[0].delete(id)
    }
}

/// A segment with a unit of data, in all copies of slot 0.
fn put_one(copies: &Rc<Copies>) -> (SealedSegment, Unit) {
    let mut writer =
        SegmentWriter::new(OWNER, SegmentKind::Data, SEGMENT_BYTES, ChainHead::default());
    let bytes = [7; 4096];
    let offset = writer.push_unit(&bytes, 4096);
    let unit = Unit {
        offset_512: u16::try_from(offset / 512).expect("a small segment"),
        stored_len: 4096,
        logical_512: 8,
        codec: Codec::Raw,
        checksum: unit_checksum(&bytes),
    };
    writer.push_entry(SummaryEntry::Page { chunk: ChunkId::new(9), unit }, WriteSeq::ZERO);
    let sealed = writer.seal(SealSpec {
        generation: Generation::new(5),
        next_slot: SegmentNumber(2),
        lane: LogPosition::default(),
        lane_mount: 3,
        witness: 0,
    });
    now(copies.put(sealed.id, sealed.bytes.clone())).expect("put");
    (sealed, unit)
}

fn now<T>(work: impl Future<Output = T>) -> T {
    work.now_or_never().expect("memory never waits")
}

/// The chain as far as segments up to `witness` are known to be whole.
fn chain_of(copies: &Rc<Copies>, witness: u64) -> Result<Chain> {
    let segments: Rc<dyn SegmentStore> = copies.clone();
    now(read_chain(&segments, &OWNER, SegmentKind::Data, ChainHead::default(), witness))
}

/// Where header, unit and summary of the segment of [`put_one`] are.
fn places(unit: &Unit, sealed: &SealedSegment) -> [usize; 3] {
    let (header, _) = StripHeader::decode(&sealed.bytes).expect("a header");
    [16, unit.offset() as usize + 8, header.summary_offset as usize + 4]
}

/// Of which no way to read gives an answer.
struct Unreadable {
    slots: Rc<Slots>,
    attempts: Cell<u32>,
}

impl SegmentStore for Unreadable {
    fn geometry(&self) -> SegmentGeometry {
        self.slots.geometry()
    }

    fn allocate(&self, first: SegmentNumber, count: u32) -> IoFuture<'_, ()> {
        self.slots.allocate(first, count)
    }

    fn put(&self, id: SegmentId, bytes: BufSlice) -> IoFuture<'_, ()> {
        self.slots.put(id, bytes)
    }

    fn get(&self, _: SegmentId, _: u32, _: u32) -> IoFuture<'_, BufSlice> {
        Box::pin(ready(Err(varve_media::Error::Fenced)))
    }

    fn get_again(
        &self,
        _: SegmentId,
        _: u32,
        _: u32,
        attempt: u32,
    ) -> IoFuture<'_, Option<BufSlice>> {
        self.attempts.set(attempt);
        Box::pin(ready(Err(varve_media::Error::Fenced)))
    }

    fn settle(&self) -> IoFuture<'_, ()> {
        self.slots.settle()
    }

    fn delete(&self, id: SegmentId) -> IoFuture<'_, ()> {
        self.slots.delete(id)
    }
}

#[test]
fn what_cannot_be_read_from_all_strips_is_not_read_over_and_over() {
    let store = Rc::new(Unreadable { slots: Slots::empty(), attempts: Cell::new(0) });
    let segments: Rc<dyn SegmentStore> = store.clone();
    let id = SegmentId { number: SegmentNumber(0), generation: Generation::new(1) };
    let read = now(read_whole(&segments, id, 0, 4096, |_| true));
    assert!(matches!(read, Err(varve_media::Error::Fenced)));
    assert_eq!(store.attempts.get(), 2);
}

#[test]
fn what_is_damaged_where_it_is_read_first_is_read_in_another_way() {
    for witness in [0, 1] {
        for part in 0..3 {
            let copies = Copies::new(2);
            let (sealed, unit) = put_one(&copies);
            copies.damage(0, places(&unit, &sealed)[part]);
            let chain = chain_of(&copies, witness).expect("the chain is read");
            let [link] = &chain.links[..] else { panic!("part {part} ends the chain") };
            let is_read = witness == 0 || part != 1;
            assert_eq!(link.is_damaged, is_read, "what is known to be whole is not read");
            assert_eq!(link.entries.len(), 1);

            // With a single copy it ends the chain, or is an error.
            let alone = Copies::new(1);
            put_one(&alone);
            alone.damage(0, places(&unit, &sealed)[part]);
            match chain_of(&alone, witness) {
                Ok(chain) => assert_eq!(chain.links.len(), usize::from(!is_read)),
                Err(_) => assert!(is_read && witness == 1),
            }
        }
    }
}

#[test]
fn what_cannot_be_read_first_is_read_in_another_way() {
    let copies = Copies::new(2);
    let (_, unit) = put_one(&copies);
    copies.fails.set(true);
    assert_eq!(chain_of(&copies, 1).expect("the chain is read").links.len(), 1);
    let segments: Rc<dyn SegmentStore> = copies.clone();
    let id = SegmentId { number: SegmentNumber(0), generation: Generation::new(5) };
    let read = now(read_units(&segments, id, &[unit])).expect("the other copy is whole");
    assert!(read.is_damaged && read.bytes[0][..] == [7; 4096]);

    let alone = Copies::new(1);
    alone.fails.set(true);
    let failed = chain_of(&alone, 0).map(|chain| chain.links.len());
    assert!(matches!(failed, Err(Error::Media(varve_media::Error::Fenced))), "its own error");
}

#[test]
fn an_error_names_what_was_read_first() {
    let copies = Copies::new(3);
    let (_, unit) = put_one(&copies);
    (0..3).for_each(|copy| copies.damage(copy, unit.offset() as usize + copy));
    let first = copies.copies[0].0.borrow()[0].clone();
    let found = u64::from(unit_checksum(unit_bytes(&first, &unit).expect("inside")));
    let segments: Rc<dyn SegmentStore> = copies.clone();
    let id = SegmentId { number: SegmentNumber(0), generation: Generation::new(5) };
    let read = now(read_units(&segments, id, &[unit])).map(|read| read.bytes.len());
    assert!(matches!(read, Err(Error::BadChecksum { found: it, .. }) if it == found), "{read:?}");
}

#[test]
fn what_stands_above_the_witness_is_completed_with_what_was_put() {
    let copies = Copies::new(2);
    let (sealed, unit) = put_one(&copies);
    copies.damage(0, unit.offset() as usize);
    chain_of(&copies, 0).expect("the chain is read");
    assert_eq!(*copies.completed.borrow(), [(sealed.id, sealed.bytes.to_vec())]); // CHAIN-READER-6
    chain_of(&copies, 1).expect("the chain is read");
    assert_eq!(copies.completed.borrow().len(), 1, "what is known to be durable lacks nothing");
    copies.damage(1, unit.offset() as usize);
    assert!(chain_of(&copies, 0).expect("the chain ends").links.is_empty());
    assert_eq!(copies.completed.borrow().len(), 1, "what is not whole is not completed");
}

/// Reads a unit of which only the third copy is whole.
fn read_third() -> Vec<u8> {
    let copies = Copies::new(3);
    let (_, unit) = put_one(&copies);
    (0..2).for_each(|copy| copies.damage(copy, unit.offset() as usize));
    let segments: Rc<dyn SegmentStore> = copies;
    let id = SegmentId { number: SegmentNumber(0), generation: Generation::new(5) };
    now(read_units(&segments, id, &[unit])).expect("the third copy is whole").bytes[0].to_vec()
}

#[test]
fn what_is_decoded_counts_by_the_checksum_of_its_parent() {
    assert_eq!(read_third(), [7; 4096]); // DECODE-5
}

#[cfg(feature = "planted-bugs")]
#[test]
fn decoded_unchecked() {
    crate::planted::plant(Some(Bug::DecodedUnchecked));
    let read = std::panic::catch_unwind(read_third);
    crate::planted::plant(None);
    assert_ne!(read.expect("no panic"), [7; 4096], "the bug shows");
    assert_eq!(read_third(), [7; 4096]);
}
