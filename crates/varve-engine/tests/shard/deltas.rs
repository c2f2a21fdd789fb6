//! Map updates that wait: what is overwritten at random reads as what was written last, wherever it is, costs a page
//! now and then, and is held by cuts and found again after a crash.
//!
//! Method: a volume of 40 pages of its map on a memory disk in the simulated loop, with updates that always wait;
//! dropping the loop is the crash. Every block is read and compared, and the audit recounts, after each opening.

use std::cell::RefCell;
use std::future::poll_fn;
use std::ops::ControlFlow;
use std::pin::pin;
use std::rc::Rc;

use crate::pool::{MIB, Shape, disk_for, format, open_configured};
use crate::versions::{self, index, read, stamp};
use varve_engine::{
    BLOCK_BYTES, CutId, CutPair, ForeignNames, MapItem, ReservationSize, Shard, VerifyEvent,
};
use varve_logstore::format::page::{PageHeader, PageKind};
use varve_logstore::format::reservation::ReservationRecord;
use varve_media::{
    Disk, DiskOperation, Drive, DriveDisks, DriveOptions, Fault, FaultDisk, FaultPlan, FaultRule,
    Media, MemDisk, RootKey,
};
use varve_reactor::{Reactor, SimLoop};
use varve_stdx::{AlignedBuf, Rng};
use varve_types::{BlockIndex, ByteOffset, ByteRange, ChunkId, Reduction, ShardId, StreamId};

const STREAM: StreamId = StreamId::new(1);
const COPY: StreamId = StreamId::new(2);
const BLOCK: u64 = BLOCK_BYTES as u64;
const BLOCKS: u64 = 40 * 512;

const SHAPE: Shape = Shape {
    segments: 480,
    segment_bytes: 256 << 10,
    lane_bytes: 4 * MIB,
    memory_bytes: 16 * MIB,
    checkpoint_entries: 1000,
    write_blocks_max: 1,
    volume_percent: 0,
    reduction: Reduction::OFF,
    index_bytes: 1 << 10,
};

/// The last version of each block that was acknowledged; 0 for a hole.
type Model = Rc<RefCell<Vec<u64>>>;

async fn opened(reactor: &Reactor, media: Vec<Media>, per_mille: u64) -> Rc<Shard> {
    let change = |config: &mut varve_engine::ShardConfig| config.deltas_from_per_mille = per_mille;
    open_configured(reactor, media, SHAPE, |_| None, change).await.remove(0)
}

async fn write(shard: &Shard, model: &Model, block: u64, version: u64) {
    versions::write(shard, STREAM, block, version).await;
    model.borrow_mut()[index(block)] = version;
}

async fn fill(shard: &Shard, model: &Model) {
    for first in (0..BLOCKS).step_by(64) {
        let mut data = AlignedBuf::zeroed(64 * BLOCK_BYTES);
        for (block, out) in (first..).zip(data.chunks_exact_mut(BLOCK_BYTES)) {
            stamp(out, block, block + 1);
            model.borrow_mut()[index(block)] = block + 1;
        }
        shard.write(STREAM, ByteOffset(first * BLOCK), data.freeze()).await.expect("write");
    }
    shard.apply_acknowledged().await.expect("apply");
    shard.checkpoint().await.expect("checkpoint");
}

async fn check(shard: &Shard, stream: StreamId, versions: &[u64]) {
    let report = shard.audit().await.expect("audit");
    assert_eq!(report.differences, Vec::<String>::new());
    for (block, version) in (0..).zip(versions) {
        assert_eq!(read(shard, stream, block).await, *version, "block {block}");
    }
    let range = ByteRange { start: 0, end: BLOCKS * BLOCK };
    let (mut at, mut data) = (0, 0);
    while at < range.end {
        let status = shard.block_status(stream, ByteRange { start: at, ..range }, 50).await;
        for run in status.expect("status") {
            at += run.len;
            data += if run.mapped == varve_engine::BlockMapping::Data { run.len } else { 0 };
        }
    }
    let held = versions.iter().filter(|version| **version > 0).count() as u64;
    assert_eq!(data / BLOCK, held);
    assert_eq!(shard.count_blocks(stream).await.expect("count"), held);
    assert!(walked(shard, stream).await == held_blocks(versions), "blocks in order, each once");
}

/// Blocks with data, as a walk over the map finds them that begins anew behind every hundredth.
async fn walked(shard: &Shard, stream: StreamId) -> Vec<u64> {
    let (mut found, mut from) = (Vec::new(), BlockIndex::ZERO);
    loop {
        let before = found.len();
        let mut visit = |item: MapItem| {
            if let MapItem::Data { block, .. } = item {
                found.push(block.0);
            }
            if found.len() - before < 100 {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        };
        shard.walk_map(stream, from, &mut visit).await.expect("walk");
        if found.len() - before < 100 {
            return found;
        }
        from = BlockIndex(found[found.len() - 1] + 1);
    }
}

fn held_blocks(versions: &[u64]) -> Vec<u64> {
    (0..).zip(versions).filter(|(_, version)| **version > 0).map(|(block, _)| block).collect()
}

/// Overwrites at random, and trims a little now and then.
async fn overwrite(shard: &Shard, model: &Model, rng: &mut Rng, count: u64) {
    for _ in 0..count {
        let version = BLOCKS + 1 + rng.below(1 << 40);
        write(shard, model, rng.below(BLOCKS), version).await;
        if rng.chance(1, 300) {
            let (start, len) = (rng.below(BLOCKS - 100), 1 + rng.below(100));
            let range = ByteRange { start: start * BLOCK, end: (start + len) * BLOCK };
            shard.trim(STREAM, range).await.expect("trim");
            model.borrow_mut()[index(start)..index(start + len)].fill(0);
        }
    }
    shard.apply_acknowledged().await.expect("apply");
}

fn made() -> (Vec<Media>, Model) {
    let disk = disk_for(SHAPE, 1);
    let media = SimLoop::new(1).run_until(async move {
        let (media, made) = format(&disk, SHAPE, 1).await;
        made.expect("format the pool");
        media
    });
    (media, Rc::new(RefCell::new(vec![0; index(BLOCKS)])))
}

#[test]
fn what_waits_outlives_crashes() {
    let (media, model) = made();
    let mut restored_max = 0;
    for life in 1..=5 {
        let mut sim = SimLoop::new(life);
        let reactor = sim.handle();
        let (media, model) = (media.clone(), Rc::clone(&model));
        let restored = sim.run_until(async move {
            // Once nothing waits that is new: what waited goes into the map.
            let per_mille = if life == 4 { u64::MAX } else { 0 };
            let shard = opened(&reactor, media, per_mille).await;
            let restored = shard.stats().waiting_updates;
            if life == 1 {
                fill(&shard, &model).await;
            } else {
                let versions = model.borrow().clone();
                check(&shard, STREAM, &versions).await;
            }
            overwrite(&shard, &model, &mut Rng::new(life), 3000).await;
            restored
        });
        restored_max = restored_max.max(restored);
    }
    assert!(restored_max > 300, "only {restored_max} updates waited through an opening");
}

#[test]
fn pages_are_changed_for_many_blocks_at_a_time() {
    let (media, model) = made();
    let mut sim = SimLoop::new(3);
    let reactor = sim.handle();
    sim.run_until(async move {
        let shard = opened(&reactor, media, 0).await;
        fill(&shard, &model).await;
        let before = shard.stats();
        overwrite(&shard, &model, &mut Rng::new(3), 12_000).await;
        let after = shard.stats();
        let swept = after.swept_pages - before.swept_pages;
        // As many wait as a sixteenth of all chunks, some 32 for a page, and sweeps come before that.
        assert!(swept > 100 && swept < 12_000 / 20, "{swept} pages");
        assert!(after.waiting_updates > 500, "{} wait", after.waiting_updates);
        shard.census(&[vec![STREAM]], &ForeignNames::default()).await.expect("census");
        assert_eq!(shard.stats().waiting_updates, 0, "a census sweeps");
        let versions = model.borrow().clone();
        check(&shard, STREAM, &versions).await;
    });
}

#[test]
fn a_look_at_blocks_among_which_updates_wait_takes_turns() {
    let (media, model) = made();
    let mut sim = SimLoop::new(4);
    let reactor = sim.handle();
    sim.run_until(async move {
        let shard = opened(&reactor, media, 0).await;
        fill(&shard, &model).await;
        shard.census(&[vec![STREAM]], &ForeignNames::default()).await.expect("census"); // It sweeps.
        for block in (0..BLOCKS).step_by(41) {
            write(&shard, &model, block, BLOCKS + 1 + block).await;
        }
        shard.apply_acknowledged().await.expect("apply");
        let waiting = shard.stats().waiting_updates;
        assert!((400..=512).contains(&waiting), "{waiting} wait");
        let range = ByteRange { start: 0, end: BLOCKS * BLOCK };
        let mut polls = [0; 2];
        // The first time pages are read.
        for polls in &mut polls {
            let mut status = pin!(shard.block_status(STREAM, range, 50));
            let runs = poll_fn(|cx| {
                *polls += 1;
                status.as_mut().poll(cx)
            });
            assert_eq!(runs.await.expect("status").len(), 1);
        }
        assert!(polls[1] >= 3, "20480 blocks are more than one turn");
    });
}

#[test]
fn a_cut_holds_what_waited() {
    let (media, model) = made();
    let mut sim = SimLoop::new(5);
    let reactor = sim.handle();
    let (then, now) = sim.run_until({
        let media = media.clone();
        async move {
            let shard = opened(&reactor, media, 0).await;
            fill(&shard, &model).await;
            overwrite(&shard, &model, &mut Rng::new(5), 2000).await;
            assert!(shard.stats().waiting_updates > 500);
            let then = model.borrow().clone();
            let pair = CutPair { source: STREAM, copy: COPY };
            shard.cut(CutId(1), &[pair]).await.expect("cut");
            shard.release_cut(CutId(1));
            overwrite(&shard, &model, &mut Rng::new(6), 500).await;
            assert_eq!(shard.stats().waiting_updates, 0, "nothing waits where copies are");
            check(&shard, COPY, &then).await;
            (then, model.borrow().clone())
        }
    });
    let mut sim = SimLoop::new(6);
    let reactor = sim.handle();
    sim.run_until(async move {
        let shard = opened(&reactor, media, 0).await;
        check(&shard, COPY, &then).await;
        check(&shard, STREAM, &now).await;
    });
}

/// What cuts put into maps has to fit into the page cache, together with that of others in the same segment.
#[test]
fn cuts_that_put_much_into_maps_come_in_segments_of_their_own() {
    const SOURCES: u64 = 4;
    let (media, _) = made();
    let mut sim = SimLoop::new(9);
    let reactor = sim.handle();
    sim.run_until(async move {
        let shard = opened(&reactor, media, 0).await;
        let blocks = BLOCKS / SOURCES;
        let data = |blocks| AlignedBuf::from_slice(&vec![7; blocks * BLOCK_BYTES]).freeze();
        for source in (0..SOURCES).map(|at| StreamId::new(10 + at)) {
            for first in (0..blocks).step_by(64) {
                shard.write(source, ByteOffset(first * BLOCK), data(64)).await.expect("write");
            }
        }
        shard.apply_acknowledged().await.expect("apply");
        shard.checkpoint().await.expect("checkpoint");
        // One segment may put updates into maps for an eighth of the 960 pages that the cache has: those of one source,
        // not of two.
        for source in (0..SOURCES).map(|at| StreamId::new(10 + at)) {
            for step in 0..80 {
                shard
                    .write(source, ByteOffset(step * 7919 % blocks * BLOCK), data(1))
                    .await
                    .expect("write");
            }
        }
        shard.apply_acknowledged().await.expect("apply");
        assert!(shard.stats().waiting_updates >= SOURCES * 80);
        let before = shard.stats();
        let pairs: Vec<CutPair> = (0..SOURCES)
            .map(|at| CutPair { source: StreamId::new(10 + at), copy: StreamId::new(20 + at) })
            .collect();
        shard.cut(CutId(1), &pairs).await.expect("cut");
        shard.release_cut(CutId(1));
        shard.apply_acknowledged().await.expect("apply");
        let after = shard.stats();
        assert_eq!(after.waiting_updates, 0, "nothing waits where copies are");
        assert_eq!(after.data_segments - before.data_segments, SOURCES);
        assert_eq!(shard.audit().await.expect("audit").differences, Vec::<String>::new());
    });
}

/// What replay lets wait is what the shard let wait, whatever it is told since: what that found dead it may have acted
/// upon.
#[test]
fn replay_goes_by_the_root() {
    let (media, model) = made();
    for (life, per_mille) in [(1, u64::MAX), (2, 0)] {
        let mut sim = SimLoop::new(life);
        let reactor = sim.handle();
        let (media, model) = (media.clone(), Rc::clone(&model));
        sim.run_until(async move {
            let shard = opened(&reactor, media, per_mille).await;
            assert_eq!(shard.stats().waiting_updates, 0, "nothing waited in the life before");
            if life == 1 {
                fill(&shard, &model).await;
            }
            for step in 0..1500 {
                // Far and wide: no segment has much for one page.
                write(&shard, &model, step * 7919 % BLOCKS, BLOCKS + life * 10_000 + step).await;
            }
            shard.apply_acknowledged().await.expect("apply");
            assert_eq!(shard.stats().waiting_updates > 0, life == 2);
            let versions = model.borrow().clone();
            check(&shard, STREAM, &versions).await;
        });
    }
}

const PROMISED: StreamId = StreamId::new(3);
const PROMISE: ReservationSize = ReservationSize { blocks: 1234, pages: 5 };

/// The shard of a disk whose operations are subject to `plan`, with updates that always wait.
async fn opened_from(reactor: &Reactor, disk: &MemDisk, plan: Rc<FaultPlan>) -> (Drive, Rc<Shard>) {
    let disk: Rc<dyn Disk> =
        Rc::new(FaultDisk::new(Rc::new(disk.clone()), reactor, Rc::clone(&plan)));
    let disks = vec![DriveDisks::One(disk)];
    let drive = Drive::open(disks, DriveOptions { discard: false }).await.expect("open the drive");
    let media = vec![drive.media(ShardId(0)).expect("a lane")];
    let shape = Shape { checkpoint_entries: 100_000, ..SHAPE };
    let change = |config: &mut varve_engine::ShardConfig| config.deltas_from_per_mille = 0;
    (drive, open_configured(reactor, media, shape, |_| None, change).await.remove(0))
}

/// Where the page of keys lies that says what is promised.
async fn place_of_promise(drive: &Drive, shard: &Shard) -> u64 {
    let media = drive.media(ShardId(0)).expect("a lane");
    let ReservationSize { blocks, pages } = PROMISE;
    let mut record = [0; ReservationRecord::LEN];
    ReservationRecord { blocks, pages, floor: ChunkId::ZERO }.encode(&mut record);
    // Ids of pages of the first opening.
    for page in (0..10_000).map(|page| ChunkId::new((1 << 47) + (1 << 20) + page)) {
        let Some(place) = shard.chunk_place(page).await.expect("read the table") else { continue };
        let segment = drive.segment_place(place.segment.number).expect("a segment of the drive");
        let offset = segment.offset + u64::from(place.offset_512) * 512;
        let unit =
            media.segments.get(place.segment, u32::from(place.offset_512) * 512, place.stored_len);
        let unit = unit.await.expect("read");
        let (header, payload) = PageHeader::decode(&unit).expect("a page");
        let has_record = payload.windows(record.len()).any(|bytes| bytes == record);
        if header.kind == PageKind::Key && header.level == 0 && has_record {
            return offset + 100;
        }
    }
    panic!("no page of keys has the promise")
}

/// Promises that one opening could not read let it see more dead than the shard did, and than the next opening does: it
/// must not have reused anything for that.
#[test]
fn promises_that_cannot_be_read_once_change_nothing() {
    for roots in 1..=3 {
        let disk = disk_for(SHAPE, 1);
        let model: Model = Rc::new(RefCell::new(vec![0; index(BLOCKS)]));
        let in_life =
            |seed, life: &dyn Fn(Reactor) -> std::pin::Pin<Box<dyn Future<Output = u64>>>| {
                let mut sim = SimLoop::new(seed);
                let reactor = sim.handle();
                sim.try_run_until(life(reactor), u64::MAX)
            };
        let damaged = in_life(roots, &|reactor| {
            let (disk, model) = (disk.clone(), Rc::clone(&model));
            Box::pin(async move {
                format(&disk, SHAPE, 1).await.1.expect("format the pool");
                let (drive, shard) = opened_from(&reactor, &disk, FaultPlan::new()).await;
                for key in 0..500_u64 {
                    shard.key_put(&key.to_be_bytes(), &[7; 100]).await.expect("put a key");
                }
                shard.reserve(PROMISED, PROMISE, true).await.expect("there is room");
                fill(&shard, &model).await;
                let place = place_of_promise(&drive, &shard).await;
                // Side by side in segments of the data, far and wide in those that overwrite them.
                for block in (0..100).flat_map(|block| (0..9).map(move |page| page * 2048 + block))
                {
                    write(&shard, &model, block, BLOCKS + 1 + block).await;
                }
                shard.apply_acknowledged().await.expect("apply");
                assert!(shard.stats().waiting_updates > 800, "{:?}", shard.stats());
                for block in (0..100).map(|block| BLOCKS - 1 - block) {
                    write(&shard, &model, block, 2 * BLOCKS + block).await;
                }
                place
            })
        });
        let damaged = damaged.expect("the life ends");
        disk.flip_bit(damaged, 0);
        in_life(10 + roots, &|reactor| {
            let disk = disk.clone();
            Box::pin(async move {
                let plan = FaultPlan::new();
                let whole = opened_sides(&disk).await;
                // The first root only raises the mount.
                let hang = FaultRule::once(DiskOperation::WriteDurable, roots, Fault::Hang);
                plan.add(FaultRule { range: whole, times: u64::MAX, ..hang });
                let (_, shard) = opened_from(&reactor, &disk, plan).await;
                assert!(roots > 2 && shard.reservations().is_empty(), "they are lost");
                0
            })
        });
        disk.flip_bit(damaged, 0);
        in_life(20 + roots, &|reactor| {
            let (disk, model) = (disk.clone(), Rc::clone(&model));
            Box::pin(async move {
                let (_, shard) = opened_from(&reactor, &disk, FaultPlan::new()).await;
                let mut damage = Vec::new();
                let mut observe = |event| {
                    damage.extend(if let VerifyEvent::Damage(found) = event {
                        Some(found)
                    } else {
                        None
                    });
                    ControlFlow::Continue(())
                };
                shard.verify(&mut observe).await.expect("verify");
                assert!(damage.is_empty(), "{damage:?}");
                let versions = model.borrow().clone();
                check(&shard, STREAM, &versions).await;
                0
            })
        })
        .expect("the life ends");
    }
}

/// The bytes of both sides of the shard's root.
async fn opened_sides(disk: &MemDisk) -> std::ops::Range<u64> {
    let disks = vec![DriveDisks::One(Rc::new(disk.clone()) as Rc<dyn Disk>)];
    let drive = Drive::open(disks, DriveOptions { discard: false }).await.expect("open the drive");
    let [one, other] = drive.root_sides(RootKey::Shard(ShardId(0))).await.expect("a root");
    let (first, last) = (one.offset.min(other.offset), one.offset.max(other.offset));
    first..last + 1
}
