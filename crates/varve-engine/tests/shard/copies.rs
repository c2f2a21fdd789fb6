//! Segments with metadata pages are stored twice: what is damaged is read from the copy and written anew, and copies
//! cost no room.
//!
//! Method: a volume on a memory disk in the simulated loop. Between two lives, segments that the root names are
//! overwritten. Every block is read and compared, and the audit recounts, after each opening.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::rc::Rc;

use crate::pool::{CROWDED, POOL, Shape, disk_for, format, format_on, open_configured, open_media};
use crate::versions::{index, read, write};
use varve_engine::{BLOCK_BYTES, Damage, Error, Shard, ShardConfig, VerifyEvent};
use varve_logstore::chain_reader::decode_summary;
use varve_logstore::format::chunk::ChunkEntry;
use varve_logstore::format::page::{PageHeader, PageKind};
use varve_logstore::format::root::ShardRoot;
use varve_logstore::format::segment::{STRIP_HEADER_BYTES, SegmentKind, StripHeader};
use varve_logstore::format::summary::SummaryEntry;
use varve_logstore::format::usage::UsageEntry;
use varve_media::{
    Disk, DiskOperation, Drive, DriveDisks, DriveOptions, Fault, FaultDisk, FaultPlan, FaultRule,
    IoFuture, Media, RootKey, SegmentGeometry, SegmentId, SegmentStore,
};
use varve_reactor::{Reactor, SimLoop};
use varve_stdx::{AlignedBuf, BufSlice, Rng};
use varve_types::{ByteOffset, ChunkId, ErrorKind, Generation, SegmentNumber, ShardId, StreamId};

const STREAM: StreamId = StreamId::new(1);
const BLOCKS: u64 = 1500;

/// From one block to the next: there are pages of maps for few of them.
const APART: u64 = 128;

/// A pool with room beside what it holds.
const ROOMY: Shape = Shape { segments: 200, segment_bytes: 128 << 10, ..CROWDED };

/// A segment and its copy, as a root names them.
type Pair = (SegmentNumber, SegmentNumber);

async fn made(shape: Shape) -> Media {
    let (mut media, made) = format(&disk_for(shape, 1), shape, 1).await;
    made.expect("format the pool");
    media.remove(0)
}

async fn opened(reactor: &Reactor, media: &Media) -> Rc<Shard> {
    open_media(reactor, vec![media.clone()], ROOMY).await.remove(0)
}

/// A shard of somebody who looks only.
async fn opened_to_look(reactor: &Reactor, media: &Media) -> Rc<Shard> {
    let change = |config: &mut ShardConfig| config.mends_pages = false;
    open_configured(reactor, vec![media.clone()], ROOMY, |_| None, change).await.remove(0)
}

/// Fills the volume, overwrites some of it at random, and closes the shard.
async fn filled(reactor: &Reactor) -> (Media, Vec<u64>) {
    let media = made(ROOMY).await;
    let versions = fill(reactor, &media).await;
    (media, versions)
}

async fn fill(reactor: &Reactor, media: &Media) -> Vec<u64> {
    let shard = opened(reactor, media).await;
    let mut versions = vec![0; usize::try_from(BLOCKS).expect("few")];
    let mut rng = Rng::new(3);
    for step in 0..2 * BLOCKS {
        let block = if step < BLOCKS { step } else { rng.below(BLOCKS) };
        versions[usize::try_from(block).expect("few")] = step + 1;
        write(&shard, STREAM, block * APART, step + 1).await;
    }
    shard.close().await.expect("close");
    versions
}

async fn root(media: &Media) -> ShardRoot {
    let (_, bytes) = media.roots.read(RootKey::Shard(ShardId(0))).await.expect("read the root");
    ShardRoot::decode(&bytes).expect("a root")
}

/// Copies of segments that hold metadata alone.
async fn copies(media: &Media) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for (of, slot) in root(media).await.copies {
        let original = slot_bytes(media, of).await;
        let header = match StripHeader::decode(&original) {
            Ok((header, _)) => header,
            Err(_) => StripHeader::decode(&slot_bytes(media, slot).await).expect("a copy").0,
        };
        if header.kind == SegmentKind::Metadata {
            pairs.push((of, slot));
        }
    }
    assert!(pairs.len() > 1, "{pairs:?}");
    pairs
}

async fn slot_bytes(media: &Media, number: SegmentNumber) -> Vec<u8> {
    let id = SegmentId { number, generation: Generation::ZERO };
    let read = media.segments.get(id, 0, ROOMY.segment_bytes).await;
    read.expect("read a segment").to_vec()
}

async fn overwrite(media: &Media, number: SegmentNumber, bytes: &[u8]) {
    let id = SegmentId { number, generation: Generation::ZERO };
    let put = media.segments.put(id, AlignedBuf::from_slice(bytes).freeze()).await;
    put.expect("overwrite a segment");
}

/// Overwrites a segment from byte `from` on.
async fn spoil(media: &Media, number: SegmentNumber, from: usize) {
    let mut bytes = slot_bytes(media, number).await;
    bytes[from..].fill(0xA5);
    overwrite(media, number, &bytes).await;
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

/// Where that is, and whether it is needed.
async fn damage(shard: &Shard) -> Vec<(SegmentNumber, bool)> {
    let found = verified(shard).await.into_iter();
    found.map(|damage| (damage.segment.number, damage.is_needed)).collect()
}

/// Waits until nothing is damaged any more.
async fn wait_for_repair(reactor: &Reactor, shard: &Shard) {
    for _ in 0..100 {
        if damage(shard).await.is_empty() {
            return;
        }
        reactor.sleep(10_000_000).await;
    }
    panic!("not repaired: {:?}", damage(shard).await);
}

#[test]
fn a_root_names_a_copy_of_every_segment_with_pages() {
    let mut sim = SimLoop::new(1);
    let reactor = sim.handle();
    sim.run_until(async move {
        let (media, _) = filled(&reactor).await;
        let root = root(&media).await;
        let blobs = root.usage.iter().chain(&root.deaths).chain(&root.deltas);
        let named: Vec<_> = blobs.map(|blob| blob.segment.number).collect();
        assert!(root.copies.len() > 1 && !named.is_empty());
        for number in named {
            assert!(root.copies.iter().any(|(of, _)| *of == number), "segment {number}");
        }
        for (of, slot) in &root.copies {
            let original = slot_bytes(&media, *of).await;
            let (header, _) = StripHeader::decode(&original).expect("a segment");
            let used = usize::try_from(header.used_bytes).expect("a segment's");
            assert_eq!((header.slot, header.pool), (*of, POOL));
            assert!(slot_bytes(&media, *slot).await[..used] == original[..used], "segment {of}");
        }
    });
}

#[test]
fn every_page_is_read_from_its_copy() {
    // All of the segment; all but its header, as units alone; one of its units.
    for (seed, from) in [0, STRIP_HEADER_BYTES as usize, 40_960].into_iter().enumerate() {
        let mut sim = SimLoop::new(seed as u64 + 1);
        let reactor = sim.handle();
        sim.run_until(async move {
            let (media, versions) = filled(&reactor).await;
            for _ in 0..3 {
                let pairs = copies(&media).await;
                for (of, _) in &pairs {
                    spoil(&media, *of, from).await;
                }
                let shard = opened(&reactor, &media).await;
                check(&shard, &versions).await;
                shard.close().await.expect("close");
            }
        });
    }
}

#[test]
fn both_copies_damaged_is_corrupt() {
    let mut sim = SimLoop::new(1);
    let reactor = sim.handle();
    sim.run_until(async move {
        let (media, _) = filled(&reactor).await;
        for (of, slot) in copies(&media).await {
            spoil(&media, of, 0).await;
            spoil(&media, slot, 0).await;
        }
        let pool = varve_engine::OpenPool::open(&media).await.expect("open the pool");
        let opening =
            crate::pool::try_open(&reactor, &pool, media, ROOMY, ShardId(0), None, |_| {});
        let error = opening.await.err().expect("nothing of the trees can be read");
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    });
}

fn place(at: u32) -> usize {
    usize::try_from(at).expect("in a segment")
}

fn entries(segment: &[u8]) -> Vec<SummaryEntry> {
    let (header, _) = StripHeader::decode(segment).expect("a segment");
    let start = place(header.summary_offset);
    let summary = &segment[start..start + place(header.summary_bytes())];
    decode_summary(&header, summary).expect("a summary")
}

/// Changes a byte of a segment at each of these offsets, or changes it back.
async fn flip(media: &Media, number: SegmentNumber, offsets: &[u32]) {
    let mut bytes = slot_bytes(media, number).await;
    for offset in offsets {
        bytes[place(*offset)] ^= 0x10;
    }
    overwrite(media, number, &bytes).await;
}

/// A segment with a copy, and where pages in it are that are needed: first a leaf of the map, and then others.
async fn needed_pages(reactor: &Reactor, media: &Media) -> (Pair, Vec<u32>) {
    let shard = opened(reactor, media).await;
    assert_eq!(damage(&shard).await, []);
    let mut found = None;
    for pair in copies(media).await {
        let segment = slot_bytes(media, pair.0).await;
        let units = entries(&segment).into_iter().filter_map(|entry| match entry {
            SummaryEntry::Page { unit, .. } => Some((unit.offset(), place(unit.stored_len))),
            _ => None,
        });
        let units: BTreeMap<u32, usize> = units.collect();
        let pages: Vec<u32> = units.keys().copied().collect();
        let is_leaf = |offset: u32| {
            let unit = &segment[place(offset)..][..units[&offset]];
            let (page, _) = PageHeader::decode(unit).expect("a page");
            page.kind == PageKind::Map && page.level == 0
        };
        flip(media, pair.0, &pages).await;
        flip(media, pair.1, &pages).await;
        let needed = verified(&shard).await.into_iter().filter(|damage| damage.is_needed);
        let needed = needed.filter(|damage| damage.segment.number == pair.0);
        let mut needed: Vec<u32> = needed.map(|damage| damage.offset).collect();
        flip(media, pair.0, &pages).await;
        flip(media, pair.1, &pages).await;
        needed.sort_unstable();
        needed.dedup();
        let first = needed.iter().position(|offset| is_leaf(*offset));
        if let Some(first) = first.filter(|first| first + 1 < needed.len()) {
            found = Some((pair, needed.split_off(first)));
        }
    }
    shard.close().await.expect("close");
    let (pair, pages) = found.expect("a segment with pages of the map");
    assert!(copies(media).await.contains(&pair), "{pair:?}");
    (pair, pages)
}

/// Waits until no copy holds what its original does not; returns where things are lost.
async fn lost_places(reactor: &Reactor, shard: &Shard) -> Vec<(SegmentNumber, u32)> {
    for _ in 0..100 {
        let found = verified(shard).await;
        if found.iter().all(|damage| !damage.is_copied) {
            let needed = found.iter().filter(|damage| damage.is_needed);
            return needed.map(|damage| (damage.segment.number, damage.offset)).collect();
        }
        reactor.sleep(10_000_000).await;
    }
    panic!("not mended: {:?}", verified(shard).await);
}

/// How many blocks cannot be read, as a page is lost. All others are compared.
async fn unreadable(shard: &Shard, versions: &[u64]) -> usize {
    let mut count = 0;
    for (block, version) in (0..).zip(versions) {
        let at = block * APART * BLOCK_BYTES as u64;
        match shard.read(STREAM, ByteOffset(at), BLOCK_BYTES).await {
            Ok(_) => assert_eq!(read(shard, STREAM, block * APART).await, *version, "{block}"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
                count += 1;
            }
        }
    }
    count
}

#[test]
fn a_lost_page_keeps_nothing_else_on_one_copy() {
    let mut sim = SimLoop::new(1);
    let reactor = sim.handle();
    sim.run_until(async move {
        let (media, versions) = filled(&reactor).await;
        let ((of, slot), pages) = needed_pages(&reactor, &media).await;
        flip(&media, of, &pages).await;
        flip(&media, slot, &pages[..1]).await;
        let lost = vec![(of, pages[0])];
        for life in 0..2 {
            let shard = opened(&reactor, &media).await;
            assert_eq!(lost_places(&reactor, &shard).await, lost, "life {life}");
            for _ in 0..2 {
                shard.checkpoint().await.expect("checkpoint");
            }
            assert_eq!(lost_places(&reactor, &shard).await, lost, "it is never called empty");
            let count = unreadable(&shard, &versions).await;
            assert!(count > 0 && count < versions.len(), "{count} blocks cannot be read");
            shard.close().await.expect("close");
        }
    });
}

#[test]
fn a_segment_with_a_lost_page_is_tried_ever_more_rarely() {
    let mut sim = SimLoop::new(1);
    let reactor = sim.handle();
    sim.run_until(async move {
        let (media, _) = filled(&reactor).await;
        let ((of, slot), pages) = needed_pages(&reactor, &media).await;
        // With its header damaged too, each verification notices that the segment should be emptied.
        flip(&media, of, &[0, pages[0]]).await;
        flip(&media, slot, &pages[..1]).await;
        let shard = opened(&reactor, &media).await;
        assert!(!damage(&shard).await.is_empty());
        reactor.sleep(1_000_000_000).await;
        let once = shard.stats().reclaim_read_bytes;
        assert!(once > 0, "it was tried");
        for _ in 0..60 {
            damage(&shard).await;
            reactor.sleep(10_000_000_000).await;
        }
        let read = shard.stats().reclaim_read_bytes;
        assert!(read > once && read < 12 * once, "{once} bytes for once, {read} in ten minutes");
    });
}

/// A filled pool on a drive that fails to read some of its sectors.
struct FaultyDrive {
    media: Media,
    versions: Vec<u64>,
    plan: Rc<FaultPlan>,
    /// Where the first segment begins.
    start: u64,
}

impl FaultyDrive {
    async fn filled(reactor: &Reactor) -> Self {
        let plan = FaultPlan::new();
        let disk: Rc<dyn Disk> = Rc::new(disk_for(ROOMY, 1));
        let disk: Rc<dyn Disk> = Rc::new(FaultDisk::new(disk, reactor, Rc::clone(&plan)));
        format_on(&disk, ROOMY, 1).await.1.expect("format the pool");
        let disks = vec![DriveDisks::One(disk)];
        let drive =
            Drive::open(disks, DriveOptions { discard: false }).await.expect("open the drive");
        let media = drive.media(ShardId(0)).expect("a lane");
        let versions = fill(reactor, &media).await;
        let start = drive.segment_place(SegmentNumber(0)).expect("a segment").offset;
        Self { media, versions, plan, start }
    }

    /// Has the drive fail to read a byte of a segment, and what stands in a sector with it.
    fn lose(&self, number: SegmentNumber, offset: u32) {
        let segment = u64::from(number.0) * u64::from(ROOMY.segment_bytes);
        let at = self.start + segment + u64::from(offset);
        let fail = FaultRule::always(DiskOperation::Read, Fault::Fail);
        self.plan.add(FaultRule { range: at..at + 1, ..fail });
    }
}

async fn header(media: &Media, number: SegmentNumber) -> StripHeader {
    StripHeader::decode(&slot_bytes(media, number).await).expect("a segment").0
}

#[test]
fn sectors_that_cannot_be_read_in_both_copies_lose_nothing() {
    for case in 0..4 {
        let mut sim = SimLoop::new(case);
        let reactor = sim.handle();
        sim.run_until(async move {
            let drive = FaultyDrive::filled(&reactor).await;
            let FaultyDrive { media, versions, .. } = &drive;
            let ((of, slot), pages) = needed_pages(&reactor, media).await;
            let found = header(media, of).await;
            let (page, summary) = (pages[0], found.summary_offset);
            let (in_segment, in_copy) =
                [(page, 0), (0, page), (0, summary), (summary, 0)][index(case)];
            drive.lose(of, in_segment);
            drive.lose(slot, in_copy);
            let shard = opened(&reactor, media).await;
            check(&shard, versions).await;
            let is_there = || shard.segments_to_verify().contains(&found.segment());
            for _ in 0..100 {
                let found = damage(&shard).await;
                assert!(found.iter().all(|(_, is_needed)| !is_needed), "case {case}: {found:?}");
                reactor.sleep(10_000_000).await;
                if !is_there() {
                    break;
                }
            }
            assert!(!is_there(), "case {case}: all of it was moved");
            drive.plan.clear(); // What is written next is put elsewhere by the drive.
            assert_eq!(damage(&shard).await, []);
            shard.close().await.expect("close");
            let shard = opened(&reactor, media).await;
            check(&shard, versions).await;
        });
    }
}

#[test]
fn a_lost_page_stays_alone_where_sectors_cannot_be_read() {
    let mut sim = SimLoop::new(1);
    let reactor = sim.handle();
    sim.run_until(async move {
        let drive = FaultyDrive::filled(&reactor).await;
        let FaultyDrive { media, versions, .. } = &drive;
        let (pair, pages) = needed_pages(&reactor, media).await;
        let (of, slot) = pair;
        let summary = header(media, of).await.summary_offset;
        flip(media, of, &pages[..1]).await;
        flip(media, slot, &pages[..1]).await;
        drive.lose(of, 0);
        drive.lose(slot, summary);
        let shard = opened(&reactor, media).await;
        let lost = unreadable(&shard, versions).await;
        assert!(lost > 0 && lost < versions.len(), "{lost} blocks cannot be read");
        assert!(!damage(&shard).await.is_empty(), "it is noticed");
        reactor.sleep(1_000_000_000).await;
        shard.close().await.expect("close");
        drive.plan.clear();
        assert!(root(media).await.copies.contains(&pair), "the page is never called dead");
        spoil(media, of, 0).await;
        spoil(media, slot, 0).await;
        let shard = opened(&reactor, media).await;
        assert_eq!(unreadable(&shard, versions).await, lost, "nothing else was left in either");
    });
}

#[test]
fn a_segment_counts_as_given_back_once_nothing_in_it_is_lost() {
    let mut sim = SimLoop::new(1);
    let reactor = sim.handle();
    sim.run_until(async move {
        let (media, versions) = filled(&reactor).await;
        let ((of, slot), pages) = needed_pages(&reactor, &media).await;
        flip(&media, of, &[0, pages[0]]).await;
        flip(&media, slot, &pages[..1]).await;
        let shard = opened(&reactor, &media).await;
        assert!(!damage(&shard).await.is_empty());
        reactor.sleep(1_000_000_000).await;
        let stats = shard.stats();
        assert!(stats.reclaim_read_bytes > 0, "it was tried");
        assert_eq!(stats.reclaimed_segments, 0, "and stays");
        flip(&media, of, &pages[..1]).await;
        flip(&media, slot, &pages[..1]).await;
        reactor.sleep(10_000_000_000).await;
        wait_for_repair(&reactor, &shard).await;
        assert_eq!(shard.stats().reclaimed_segments, 1);
        check(&shard, &versions).await;
    });
}

/// The units of a segment for which `pick` gives something.
async fn units_of<T>(
    media: &Media,
    number: SegmentNumber,
    pick: impl Fn(SummaryEntry) -> Option<T>,
) -> Vec<T> {
    entries(&slot_bytes(media, number).await).into_iter().filter_map(pick).collect()
}

/// Changes a byte of each leaf of the chunk table in both of its places, or changes it back; returns where they are.
async fn flip_table(media: &Media) -> Vec<(Pair, u32)> {
    let mut leaves = Vec::new();
    for pair in copies(media).await {
        let leaf = |entry: SummaryEntry| match entry {
            SummaryEntry::TablePage { level: 0, unit } => Some(unit.offset()),
            _ => None,
        };
        leaves.extend(units_of(media, pair.0, leaf).await.into_iter().map(|offset| (pair, offset)));
    }
    for leaf in &leaves {
        flip_both(media, leaf).await;
    }
    leaves
}

async fn flip_both(media: &Media, page: &(Pair, u32)) {
    let ((of, slot), offset) = *page;
    flip(media, of, &[offset]).await;
    flip(media, slot, &[offset]).await;
}

/// Has a leaf of the chunk table be lost that the shard has not read yet; returns where it is, and a segment with a
/// live page of which it tells.
async fn lose_leaf(
    media: &Media,
    shard: &Shard,
    live: &[(SegmentNumber, ChunkId)],
) -> ((Pair, u32), SegmentNumber) {
    let leaves = flip_table(media).await;
    let mut found = None;
    for (number, chunk) in live {
        if let Err(Error::PageCorrupt { page, .. }) = shard.chunk_place(*chunk).await {
            let names = |((of, _), offset): &(Pair, u32)| {
                page.ends_with(&format!(" in segment {of} at {offset}"))
            };
            found = leaves.iter().copied().find(names).map(|leaf| (leaf, *number));
            break;
        }
    }
    let (lost, number) = found.expect("a leaf that was not read");
    for leaf in leaves.iter().filter(|leaf| **leaf != lost) {
        flip_both(media, leaf).await;
    }
    (lost, number)
}

#[test]
fn a_lost_page_of_the_table_keeps_what_it_tells_of_where_it_is() {
    let mut sim = SimLoop::new(1);
    let reactor = sim.handle();
    sim.run_until(async move {
        let (media, versions) = filled(&reactor).await;
        let shard = opened(&reactor, &media).await;
        let mut live = Vec::new();
        for (of, _) in copies(&media).await {
            let page = |entry: SummaryEntry| match entry {
                SummaryEntry::Page { chunk, unit } => Some((chunk, unit.offset_512)),
                _ => None,
            };
            for (chunk, offset_512) in units_of(&media, of, page).await {
                let place = shard.chunk_place(chunk).await.expect("read the table");
                let here = |place: ChunkEntry| {
                    (place.segment.number, place.offset_512) == (of, offset_512)
                };
                if place.is_some_and(here) {
                    live.push((of, chunk));
                }
            }
        }
        shard.close().await.expect("close");
        let shard = opened(&reactor, &media).await;
        let pairs = copies(&media).await;
        live.retain(|(number, _)| pairs.iter().any(|(of, _)| of == number));
        let (leaf, of) = lose_leaf(&media, &shard, &live).await;
        flip(&media, of, &[0]).await; // It is to be emptied.
        assert!(!damage(&shard).await.is_empty());
        reactor.sleep(1_000_000_000).await;
        assert!(shard.stats().reclaim_read_bytes > 0, "it was tried");
        shard.checkpoint().await.expect("the shard goes on");
        let is_there = || shard.segments_to_verify().iter().any(|id| id.number == of);
        assert!(is_there(), "it is not given back");
        flip_both(&media, &leaf).await;
        reactor.sleep(10_000_000_000).await;
        wait_for_repair(&reactor, &shard).await;
        assert!(shard.stats().reclaimed_segments > 0, "it is, once the table tells what is live");
        check(&shard, &versions).await;
    });
}

/// A segment whose accounts of segments are others, each sound by itself.
fn with_other_accounts(segment: &[u8]) -> Vec<u8> {
    let mut changed = segment.to_vec();
    for entry in entries(segment) {
        let SummaryEntry::UsageBlob { unit } = entry else { continue };
        let blob = &mut changed[place(unit.offset())..place(unit.offset() + unit.stored_len)];
        let (page, _) = PageHeader::decode(blob).expect("a blob");
        let last = blob.len() - UsageEntry::LEN;
        blob.copy_within(PageHeader::LEN..PageHeader::LEN + UsageEntry::LEN, last);
        page.encode(blob);
    }
    changed
}

#[test]
fn a_copy_is_believed_by_its_checksum_only() {
    let mut sim = SimLoop::new(1);
    let reactor = sim.handle();
    sim.run_until(async move {
        let (media, _) = filled(&reactor).await;
        for (of, slot) in copies(&media).await {
            overwrite(&media, slot, &with_other_accounts(&slot_bytes(&media, slot).await)).await;
            spoil(&media, of, 0).await;
        }
        let pool = varve_engine::OpenPool::open(&media).await.expect("open the pool");
        let opening =
            crate::pool::try_open(&reactor, &pool, media, ROOMY, ShardId(0), None, |_| {});
        let error = opening.await.err().expect("the accounts are not those of the root");
        assert!(error.to_string().contains("checksum mismatch"), "{error}");
    });
}

#[test]
fn what_was_damaged_has_two_copies_again() {
    let mut sim = SimLoop::new(1);
    let reactor = sim.handle();
    sim.run_until(async move {
        let (media, versions) = filled(&reactor).await;
        let pairs = copies(&media).await;
        for (of, _) in &pairs {
            spoil(&media, *of, 0).await;
        }
        let shard = opened(&reactor, &media).await;
        check(&shard, &versions).await;
        assert!(damage(&shard).await.iter().all(|(_, is_needed)| !is_needed), "copies hold it");
        wait_for_repair(&reactor, &shard).await;
        shard.close().await.expect("close");
        // The copies of what was written anew are needed now.
        for (of, _) in copies(&media).await {
            spoil(&media, of, 0).await;
        }
        let shard = opened(&reactor, &media).await;
        check(&shard, &versions).await;
    });
}

#[test]
fn a_damaged_copy_is_found_and_made_anew() {
    let mut sim = SimLoop::new(1);
    let reactor = sim.handle();
    sim.run_until(async move {
        let (media, versions) = filled(&reactor).await;
        let pairs = copies(&media).await;
        let shard = opened(&reactor, &media).await;
        for (_, slot) in &pairs {
            spoil(&media, *slot, 0).await;
        }
        let found = damage(&shard).await;
        assert!(!found.is_empty() && found.iter().all(|(_, is_needed)| !is_needed), "{found:?}");
        for _ in 0..pairs.len() {
            shard.checkpoint().await.expect("checkpoint");
        }
        assert_eq!(damage(&shard).await, []);
        shard.close().await.expect("close");
        let pairs = copies(&media).await;
        for (of, _) in pairs {
            spoil(&media, of, 0).await;
        }
        let shard = opened(&reactor, &media).await;
        check(&shard, &versions).await;
    });
}

#[test]
fn who_only_looks_reads_copies_and_mends_nothing() {
    let mut sim = SimLoop::new(1);
    let reactor = sim.handle();
    sim.run_until(async move {
        let (media, versions) = filled(&reactor).await;
        let pairs = copies(&media).await;
        for (of, _) in &pairs {
            spoil(&media, *of, 0).await;
        }
        let shard = opened_to_look(&reactor, &media).await;
        check(&shard, &versions).await;
        let found = damage(&shard).await;
        assert!(!found.is_empty() && found.iter().all(|(_, is_needed)| !is_needed), "{found:?}");
        let named = root(&media).await.copies;
        shard.checkpoint().await.expect("checkpoint");
        reactor.sleep(60_000_000_000).await;
        let left: Vec<_> = damage(&shard).await.into_iter().map(|(number, _)| number).collect();
        assert!(pairs.iter().any(|(of, _)| left.contains(of)), "{left:?} of {pairs:?}");
        let copies = root(&media).await.copies;
        let fresh: Vec<_> = copies.iter().filter(|pair| !named.contains(pair)).collect();
        assert_eq!((fresh, shard.stats().reclaim_read_bytes), (Vec::new(), 0));
    });
}

#[test]
fn comparing_copies_is_no_read_of_reclaim() {
    let mut sim = SimLoop::new(1);
    let reactor = sim.handle();
    sim.run_until(async move {
        let (media, _) = filled(&reactor).await;
        let shard = opened(&reactor, &media).await;
        shard.checkpoint().await.expect("checkpoint"); // It looks at copies that were found.
        assert_eq!(damage(&shard).await, []);
        assert_eq!(shard.stats().reclaim_read_bytes, 0);
        for (of, _) in copies(&media).await {
            spoil(&media, of, 0).await;
        }
        wait_for_repair(&reactor, &shard).await;
        assert!(shard.stats().reclaim_read_bytes > 0, "what is moved is read");
    });
}

/// Segments of which the media keep more than one copy themselves.
struct Redundant(Rc<dyn SegmentStore>);

impl SegmentStore for Redundant {
    fn geometry(&self) -> SegmentGeometry {
        self.0.geometry()
    }

    fn allocate(&self, first: SegmentNumber, count: u32) -> IoFuture<'_, ()> {
        self.0.allocate(first, count)
    }

    fn put(&self, id: SegmentId, bytes: BufSlice) -> IoFuture<'_, ()> {
        self.0.put(id, bytes)
    }

    fn get(&self, id: SegmentId, offset: u32, len: u32) -> IoFuture<'_, BufSlice> {
        self.0.get(id, offset, len)
    }

    fn settle(&self) -> IoFuture<'_, ()> {
        self.0.settle()
    }

    fn delete(&self, id: SegmentId) -> IoFuture<'_, ()> {
        self.0.delete(id)
    }
}

/// How many blocks of a volume as large as the pool are taken before one is refused, and the copies that are left then.
fn blocks_taken(is_redundant: bool) -> (u64, usize) {
    let mut sim = SimLoop::new(1);
    let reactor = sim.handle();
    sim.run_until(async move {
        let mut media = made(ROOMY).await;
        if is_redundant {
            media.segments = Rc::new(Redundant(Rc::clone(&media.segments)));
        }
        let shard = opened(&reactor, &media).await;
        for block in 0.. {
            let mut data = AlignedBuf::zeroed(BLOCK_BYTES);
            data[..8].copy_from_slice(&(block + 1_u64).to_le_bytes());
            data[8..16].copy_from_slice(&block.to_le_bytes());
            match shard.write(STREAM, ByteOffset(block * BLOCK_BYTES as u64), data.freeze()).await {
                Ok(()) => {}
                Err(Error::NoSpace { .. }) => {
                    shard.checkpoint().await.expect("checkpoint");
                    for block in 0..block {
                        assert_eq!(read(&shard, STREAM, block).await, block + 1);
                    }
                    return (block, root(&media).await.copies.len());
                }
                Err(error) => panic!("{error}"),
            }
        }
        unreachable!("a pool has an end")
    })
}

#[test]
fn a_full_shard_takes_as_much_as_without_copies() {
    let (with, _) = blocks_taken(false);
    let (without, copies) = blocks_taken(true);
    assert_eq!((with, copies), (without, 0), "what media store twice has no copies");
}
