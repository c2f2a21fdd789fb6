//! Map updates that wait: what is overwritten at random reads as what was written last, wherever it is, costs a page now and then, and is
//! held by cuts and found again after a crash.
//!
//! Method: a volume of 40 pages of its map on a memory disk in the simulated loop, with updates that always wait; dropping the loop is the
//! crash. Every block is read and compared, and the audit recounts, after each opening.

use std::cell::RefCell;
use std::rc::Rc;

use crate::pool::{MIB, Shape, disk_for, format, open_configured};
use varve_engine::{BLOCK_BYTES, CutId, CutPair, ForeignNames, ReadPart, Shard};
use varve_media::Media;
use varve_reactor::{Reactor, SimLoop};
use varve_stdx::{AlignedBuf, Rng};
use varve_types::{ByteRange, Reduction, StreamId};

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

fn index(block: u64) -> usize {
    usize::try_from(block).expect("few blocks")
}

async fn opened(reactor: &Reactor, media: Vec<Media>, per_mille: u64) -> Rc<Shard> {
    let change = |config: &mut varve_engine::ShardConfig| config.deltas_from_per_mille = per_mille;
    open_configured(reactor, media, SHAPE, |_| None, change).await.remove(0)
}

async fn write(shard: &Shard, model: &Model, block: u64, version: u64) {
    let mut data = AlignedBuf::zeroed(BLOCK_BYTES);
    data[..8].copy_from_slice(&version.to_le_bytes());
    data[8..16].copy_from_slice(&block.to_le_bytes());
    shard.write(STREAM, block * BLOCK, data.freeze()).await.expect("write");
    model.borrow_mut()[index(block)] = version;
}

async fn fill(shard: &Shard, model: &Model) {
    for first in (0..BLOCKS).step_by(64) {
        let mut data = AlignedBuf::zeroed(64 * BLOCK_BYTES);
        for (block, out) in (first..).zip(data.chunks_exact_mut(BLOCK_BYTES)) {
            out[..8].copy_from_slice(&(block + 1).to_le_bytes());
            out[8..16].copy_from_slice(&block.to_le_bytes());
            model.borrow_mut()[index(block)] = block + 1;
        }
        shard.write(STREAM, first * BLOCK, data.freeze()).await.expect("write");
    }
    shard.apply_acknowledged().await.expect("apply");
    shard.checkpoint().await.expect("checkpoint");
}

async fn read(shard: &Shard, stream: StreamId, block: u64) -> u64 {
    let parts = shard.read(stream, block * BLOCK, BLOCK_BYTES).await.expect("read");
    match &parts[..] {
        [ReadPart::Zero(_)] => 0,
        [ReadPart::Data(data)] => {
            let word = |at: usize| u64::from_le_bytes(*data[at..].first_chunk().expect("8 bytes"));
            assert_eq!(word(8), block, "another block's bytes");
            word(0)
        }
        parts => panic!("{parts:?}"),
    }
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
            data += if run.mapped == varve_engine::Mapped::Data { run.len } else { 0 };
        }
    }
    let held = versions.iter().filter(|version| **version > 0).count() as u64;
    assert_eq!(data / BLOCK, held);
    assert_eq!(shard.count_blocks(stream).await.expect("count"), held);
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

/// What replay lets wait is what the shard let wait, whatever it is told since: what that found dead it may have acted upon.
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
