//! A shard that is filled to the brim with random overwrites goes on: it refuses or accepts, and never waits for ever.
//! One that overwrites little leaves the pool's space to the others.
//!
//! Method: shards on a memory disk in the simulated loop, which ends a run in which nothing can happen any more.
//! Segments are as large as on real drives beside the shard, so that every part-filled one counts.

use std::cell::Cell;
use std::rc::Rc;

use crate::pool::{MIB, Shape, disk_for, format, open};
use varve_engine::{BLOCK_BYTES, Error, ReadPart, Shard};
use varve_media::Disk;
use varve_reactor::{Reactor, SimLoop};
use varve_stdx::{AlignedBuf, Rng};
use varve_types::{ByteOffset, ByteRange, Compression, Dedup, Reduction, StreamId};

const BLOCK: u64 = 4096;
const STREAM: StreamId = StreamId::new(1);
const CLIENTS: u64 = 16;

struct Writer {
    reactor: Reactor,
    shard: Rc<Shard>,
    shape: Shape,
}

impl Writer {
    /// Writes at random below `volume` until `bytes` were accepted or `refusals` writes refused; returns the accepted
    /// bytes.
    async fn write(&self, volume: u64, bytes: u64, refusals: u64) -> u64 {
        let (accepted, refused) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
        let blocks_max = self.shape.write_blocks_max;
        let clients = (0..CLIENTS).map(|client| {
            let mut rng = Rng::new(client + 1);
            let shard = Rc::clone(&self.shard);
            let (accepted, refused) = (Rc::clone(&accepted), Rc::clone(&refused));
            self.reactor.spawn_join(async move {
                while accepted.get() < bytes && refused.get() < refusals {
                    let blocks = 1 + rng.below(blocks_max);
                    let first = rng.below(volume / BLOCK - blocks);
                    let len = usize::try_from(blocks * BLOCK).expect("small");
                    let mut data = AlignedBuf::zeroed(len);
                    for block in data.chunks_exact_mut(BLOCK_BYTES) {
                        // With what makes them different, a third of the block: the rest compresses.
                        rng.fill(&mut block[..BLOCK_BYTES / 3]);
                    }
                    match shard.write(STREAM, ByteOffset(first * BLOCK), data.freeze()).await {
                        Ok(()) => accepted.set(accepted.get() + blocks * BLOCK),
                        Err(Error::NoSpace { .. }) => refused.set(refused.get() + 1),
                        Err(error) => panic!("{error}"),
                    }
                }
            })
        });
        for client in clients.collect::<Vec<_>>() {
            client.await;
        }
        accepted.get()
    }
}

/// Overwrites what the shape says, `times` the drive in all, then trims most of it and writes again.
fn overwrite_and_trim(shape: Shape, times: u64, seed: u64) {
    let mut sim = SimLoop::new(seed);
    let reactor = sim.handle();
    let disk = disk_for(shape, 1);
    let drive = disk.size();
    let shard = sim.run_until({
        let reactor = reactor.clone();
        async move { open(&reactor, &disk, shape, 1).await.remove(0) }
    });
    let volume = drive * shape.volume_percent / 100;
    let writer = Writer { reactor: reactor.clone(), shard: Rc::clone(&shard), shape };
    let filled = sim.try_run_until(
        async move {
            writer.write(volume, drive * times, 20_000).await;
            writer
        },
        u64::MAX,
    );
    let Some(writer) = filled else {
        panic!("writes wait for ever: {shape:?} {:?}", shard.stats())
    };
    let stats = shard.stats();
    let written = stats.lane.written_bytes
        + stats.data_segment_bytes
        + stats.metadata_bytes
        + stats.reclaimed_bytes;
    println!(
        "{shape:?}: {} MiB written, {:.2} bytes to media per byte, {} of {} segments free",
        stats.write_bytes / MIB,
        written as f64 / stats.write_bytes as f64,
        stats.space.free,
        stats.space.segments
    );
    let trimmed = sim.try_run_until(
        async move {
            for start in (0..volume * 3 / 4).step_by(64 << 20) {
                // Larger ones leave what they free to a mark pass.
                let range = ByteRange { start, end: start + 64 * MIB };
                writer.shard.trim(STREAM, range).await.expect("trims are never refused");
            }
            let enough = drive / 16;
            for round in 0.. {
                assert!(round < 100, "no room after a trim: {:?}", writer.shard.stats());
                if writer.write(volume / 2, enough, 1).await >= enough {
                    break;
                }
                reactor.sleep(100_000_000).await;
            }
        },
        u64::MAX,
    );
    assert!(trimmed.is_some(), "trims wait for ever: {shape:?} {:?}", shard.stats());
}

const SMALL: Shape = Shape {
    segments: 160,
    segment_bytes: 1 << 20,
    lane_bytes: 4 * MIB,
    memory_bytes: 16 * MIB,
    checkpoint_entries: 1_000,
    write_blocks_max: 1,
    volume_percent: 70,
    reduction: Reduction::OFF,
    index_bytes: 1 << 20,
};

#[test]
fn no_shape_of_a_full_pool_waits_for_ever() {
    let base = SMALL;
    let shapes = [
        base, // Just about full, with many checkpoints: each leaves a segment that holds few pages.
        Shape { volume_percent: 200, write_blocks_max: 64, ..base },
        Shape { segments: 64, checkpoint_entries: 1_000_000, ..base },
        Shape { segments: 60, segment_bytes: 4 << 20, volume_percent: 57, ..base },
        Shape { segment_bytes: 256 << 10, ..base },
    ];
    for shape in shapes {
        overwrite_and_trim(shape, 2, 3);
    }
}

/// The trim may be the first entry of a segment or the last, by the order of what happens.
#[test]
fn a_trim_gives_space_wherever_it_comes_to_stand() {
    for seed in [1, 2, 30, 42, 45] {
        overwrite_and_trim(Shape { segment_bytes: 256 << 10, ..SMALL }, 2, seed);
    }
}

#[test]
fn a_pool_full_of_compressed_blocks_goes_on() {
    let lz4 = Reduction { dedup: Dedup::Off, compression: Compression::Lz4 };
    let base = Shape { reduction: lz4, volume_percent: 300, ..SMALL };
    for shape in [base, Shape { write_blocks_max: 64, segment_bytes: 256 << 10, ..base }] {
        overwrite_and_trim(shape, 6, 3);
    }
}

#[test]
fn overwrites_on_one_shard_leave_the_others_their_share() {
    let shape = Shape { segments: 320, checkpoint_entries: 10_000, volume_percent: 25, ..SMALL };
    let mut sim = SimLoop::new(3);
    let reactor = sim.handle();
    let disk = disk_for(shape, 2);
    let drive = disk.size();
    let volume = drive * shape.volume_percent / 100;
    sim.run_until(async move {
        let shards = open(&reactor, &disk, shape, 2).await;
        for shard in &shards {
            let writer = Writer { reactor: reactor.clone(), shard: Rc::clone(shard), shape };
            let accepted = writer.write(volume, drive * 2, 1).await;
            assert!(accepted >= drive * 2, "refused within its share: {:?}", shard.stats());
            let (taken, zone) = (shard.stats().space.segments, shape.segments / 32);
            assert!(taken <= shape.segments / 2 + zone, "took {taken} of {}", shape.segments);
        }
    });
}

#[test]
fn shards_without_room_for_data_are_refused() {
    let made = async |segments: u64| {
        let shape = Shape { segments, ..SMALL };
        format(&disk_for(shape, 4), shape, 4).await.1
    };
    let (few, enough) = SimLoop::new(3).run_until(async move { (made(44).await, made(160).await) });
    assert!(matches!(few, Err(Error::TooFewSegments { shards: 4, .. })), "{few:?}");
    enough.expect("40 segments a shard are enough");
}

/// Of much that is overwritten often and the rest that is overwritten seldom, the former's segments are emptied: they
/// are the newest, and nothing else would ask for a checkpoint before the others had been moved for little.
#[test]
fn reclaim_does_not_wait_long_for_new_segments() {
    const SHAPE: Shape = Shape {
        segments: 1024,
        segment_bytes: 256 << 10,
        lane_bytes: MIB,
        memory_bytes: 128 * MIB,
        checkpoint_entries: u64::MAX,
        write_blocks_max: 1,
        volume_percent: 65,
        reduction: Reduction::OFF,
        index_bytes: 1 << 10,
    };
    let mut sim = SimLoop::new(3);
    let reactor = sim.handle();
    let disk = disk_for(SHAPE, 1);
    let drive = disk.size();
    sim.run_until(async move {
        let shard = open(&reactor, &disk, SHAPE, 1).await.remove(0);
        let volume = drive * SHAPE.volume_percent / 100 / (64 * BLOCK) * 64;
        for first in (0..volume).step_by(64) {
            let data = AlignedBuf::from_slice(&[1; 64 * BLOCK_BYTES]).freeze();
            shard.write(STREAM, ByteOffset(first * BLOCK), data).await.expect("write");
        }
        let mut rng = Rng::new(1);
        let mut overwrite = async |count: u64| {
            for _ in 0..count {
                let part = if rng.chance(3, 4) { volume / 4 } else { volume };
                let data = AlignedBuf::from_slice(&[2; BLOCK_BYTES]).freeze();
                shard.write(STREAM, ByteOffset(rng.below(part) * BLOCK), data).await.expect("write");
            }
        };
        overwrite(2 * volume).await;
        let before = shard.stats();
        overwrite(2 * volume).await;
        let after = shard.stats();
        let moved = after.moved_bytes - before.moved_bytes;
        let written = after.write_bytes - before.write_bytes;
        let metadata = after.metadata_bytes - before.metadata_bytes;
        let checkpoints = after.checkpoints - before.checkpoints;
        println!("{moved} bytes moved for {written} written, {metadata} of metadata, {checkpoints} checkpoints");
        assert!(moved * 10 < written * 14, "without such checkpoints 1.6 times what is written");
        // Pages are stored twice.
        assert!(checkpoints < 20 && metadata / 2 * 20 < written, "they cost little");
    });
}

/// A trim is advice: on a full shard it clears the blocks that it covers wholly, and leaves those of which it covers a
/// part.
#[test]
fn a_trim_with_ends_inside_blocks_works_on_a_full_shard() {
    let mut sim = SimLoop::new(4);
    let reactor = sim.handle();
    let disk = disk_for(SMALL, 1);
    sim.run_until(async move {
        let shard = open(&reactor, &disk, SMALL, 1).await.remove(0);
        let mut rng = Rng::new(1);
        let mut filled = 0;
        loop {
            let mut data = AlignedBuf::zeroed(BLOCK_BYTES);
            rng.fill(&mut data);
            match shard.write(STREAM, ByteOffset(filled), data.freeze()).await {
                Ok(()) => filled += BLOCK,
                Err(Error::NoSpace { .. }) => break,
                Err(error) => panic!("{error}"),
            }
        }
        for (start, len) in [(MIB + 1024, MIB), (4 * MIB + 512, 512), (6 * MIB, 2 * BLOCK + 512)] {
            let range = ByteRange { start, end: start + len };
            shard.trim(STREAM, range).await.expect("trims are never refused for want of space");
            let (first, end) = (start.next_multiple_of(BLOCK), range.end / BLOCK * BLOCK);
            for block in (first..end).step_by(BLOCK_BYTES) {
                let parts = shard.read(STREAM, ByteOffset(block), BLOCK_BYTES).await.expect("read");
                let is_hole = |part: &ReadPart| match part {
                    ReadPart::Zero(_) => true,
                    ReadPart::Data(data) => data.iter().all(|byte| *byte == 0),
                };
                assert!(parts.iter().all(is_hole), "block at {block} of {start} + {len}");
            }
        }
    });
}
